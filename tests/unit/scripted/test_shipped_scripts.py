"""The scripts that we ship, and those in the documentation, do what they are shown for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from driverkit.scripted import FakeDriver
from driverkit.scripted.driver import DEFAULT_SCRIPT, ScriptedError
from driverkit.scripted.script import CHILD_KEYS, NODE_KEYS, SHARING_KEYS, STATE_KEYS, parse
from drivers.api import DriverContext, DriverNotReady, ReshapeNeeded
from reportclient.provider_tree import ProviderTree
from tests.unit.scripted.test_driver import ROOT, Bench

HERE = Path(__file__).parents[3]
EXAMPLES = HERE / "examples" / "fake"
PAGE = (HERE / "docs" / "fake-driver.rst").read_text()


def snippets() -> Iterator[str]:
    for match in re.finditer(
        r"^\.\. code-block:: yaml\n\n((?:(?: {4}.*)?\n)+)", PAGE, re.MULTILINE
    ):
        yield dedent(match[1])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def example(bench: Bench, name: str) -> Bench:
    bench.path = EXAMPLES / name
    return bench.start()


@pytest.mark.parametrize("path", sorted(EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_every_example_settles_or_fails_as_it_says_for_fifty_periods(bench, path):
    example(bench, path.name)
    for node in bench.driver.get_available_nodes()[:3]:
        for _ in range(50):
            tree = ProviderTree(bench.before(node))
            try:
                bench.driver.update_provider_tree(tree, node)
            except ReshapeNeeded:
                tree = ProviderTree(bench.before(node))
                bench.driver.update_provider_tree(tree, node, {})
            except (DriverNotReady, ScriptedError):
                continue
            bench.snapshots[node] = tree.freeze()
        assert any(provider.inventory for provider in bench.before(node).walk())


def test_the_fleet_has_200_numbered_hosts_on_one_store(bench):
    example(bench, "fleet.yaml")
    assert len(set(bench.driver.get_nodenames_by_uuid())) == 200
    trees = [bench.period(f"host{n:03}.example.org") for n in (0, 1, 199)]
    assert [tree.exists("ceph.example.org") for tree in trees] == [True, False, False]


def test_the_big_host_has_131_providers(bench):
    example(bench, "big-host.yaml").period()
    assert len(bench.before("h1")) == 131
    settled = bench.before("h1")
    bench.period()
    assert bench.before("h1") is settled


def test_the_changing_host_comes_to_its_reshape(bench):
    example(bench, "changing.yaml").periods(4)
    assert bench.names() == ["h1", "h1_pf0", "h1_pf1"]
    bench.period()
    assert bench.names() == ["h1", "h1_pf1"]
    with pytest.raises(ReshapeNeeded):
        bench.period()


def test_without_a_script_there_is_a_believable_host(tmp_path):
    driver = FakeDriver(DriverContext("h1", tmp_path))
    assert driver.get_available_nodes() == ["h1"]
    tree = ProviderTree()
    tree.new_root("h1", ROOT)
    driver.update_provider_tree(tree, "h1")
    assert [tree.has_traits(f"h1_numa{n}", ["HW_NUMA_ROOT"]) for n in (0, 1)] == [True, True]
    assert tree.data("h1_numa1_pf0").inventory["SRIOV_NET_VF"]["total"] == 8
    assert tree.in_aggregates("h1", tree.data("h1_nfs").aggregates)
    assert tree.has_sharing_provider("DISK_GB") and not tree.data("h1").inventory


def test_shipped_scripts_name_only_standard_traits_and_classes():
    os_traits = pytest.importorskip("os_traits")
    classes = pytest.importorskip("os_resource_classes")
    for path in (DEFAULT_SCRIPT, *EXAMPLES.iterdir()):
        states = parse(path.read_text(), path.name, "h1").states
        nodes = [node for state in states for node in state.nodes.values()]
        for provider in [provider for node in nodes for provider in node.providers]:
            for trait in provider.traits:
                assert trait.startswith("CUSTOM_") or trait in os_traits.get_traits()
            for name in provider.inventory:
                assert name.startswith("CUSTOM_") or name in classes.STANDARDS


def test_every_script_in_the_documentation_is_a_good_one():
    found = list(snippets())
    assert len(found) == PAGE.count("code-block:: yaml") == 2
    for text in found:
        assert parse(text, "fake-driver.rst", "h1").states


def test_every_key_is_explained_and_shown():
    shown = "".join(snippets())
    for key in NODE_KEYS | CHILD_KEYS | SHARING_KEYS | STATE_KEYS:
        assert re.search(rf"^``.*\b{key}\b.*``|``{key}``", PAGE, re.MULTILINE), key
        assert re.search(rf"\b{key}:", shown), key
