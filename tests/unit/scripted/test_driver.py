"""What the scripted driver reports, and when it reads its script again."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

from driverkit.scripted import FakeDriver
from driverkit.scripted.script import ScriptError
from drivers import api
from reportclient.provider_tree import ProviderTree

ROOT = "11111111-1111-4111-8111-111111111111"
AGG = "6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01"


class Bench:
    """A driver with its script, and the tree of its first node."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "demo.yaml"
        conf = SimpleNamespace(fake=SimpleNamespace(script=str(self.path)))
        self.driver = FakeDriver(api.DriverContext("h1", folder, conf))

    def start(self, text: str) -> Bench:
        self.path.write_text(dedent(text))
        self.driver.init_host("h1")
        return self

    def period(self) -> ProviderTree:
        tree = ProviderTree()
        tree.new_root("h1", ROOT)
        self.driver.update_provider_tree(tree, "h1")
        return tree

    def vcpus(self) -> int:
        return self.period().data("h1").inventory["VCPU"]["total"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


NESTED = f"""
nodes:
  h1:
    inventory: {{VCPU: 8}}
    traits: [CUSTOM_HOST]
    children:
      numa0:
        children:
          pf0: {{inventory: {{SRIOV_NET_VF: 4}}, traits: [CUSTOM_NET]}}
    sharing:
      nfs: {{inventory: {{DISK_GB: 100}}, aggregates: [{AGG}]}}
"""


def test_the_tree_says_what_the_script_says(bench):
    tree = bench.start(NESTED).period()
    assert tree.data("h1").inventory["VCPU"]["total"] == 8
    assert tree.data("h1").traits == {"CUSTOM_HOST"}
    assert tree.data("h1_numa0_pf0").parent_uuid == tree.data("h1_numa0").uuid
    assert tree.data("h1_numa0_pf0").inventory["SRIOV_NET_VF"]["total"] == 4
    assert tree.data("h1_nfs").parent_uuid is None
    assert tree.data("h1_nfs").aggregates == tree.data("h1").aggregates == {AGG}
    assert tree.has_sharing_provider("DISK_GB")


def test_nodes_and_their_uuids(bench):
    uuid = "0a0f3a7e-6f0b-4c11-9d0a-1c7e5bb1f001"
    bench.start(f"nodes: {{a: {{uuid: {uuid}}}, b: }}")
    assert bench.driver.get_available_nodes() == ["a", "b"]
    assert bench.driver.get_nodenames_by_uuid() == {uuid: "a"}


def test_a_node_that_left_the_script_is_not_ready(bench):
    bench.start("nodes: {h1: }").period()
    bench.start("nodes: {h2: }")
    with pytest.raises(api.DriverNotReady, match="no node 'h1' any more"):
        bench.period()


def test_without_a_script_there_is_a_believable_host(tmp_path):
    driver = FakeDriver(api.DriverContext("h1", tmp_path))
    assert driver.get_available_nodes() == ["h1"]
    tree = ProviderTree()
    tree.new_root("h1", ROOT)
    driver.update_provider_tree(tree, "h1")
    assert len(tree.get_provider_uuids()) == 8
    assert [tree.has_traits(f"h1_numa{n}", ["HW_NUMA_ROOT"]) for n in (0, 1)] == [True, True]
    assert tree.data("h1_numa1_pf0").inventory["SRIOV_NET_VF"]["total"] == 8
    assert tree.has_sharing_provider("DISK_GB") and not tree.data("h1").inventory


def test_a_bad_script_at_start_is_an_error_with_its_place(bench):
    with pytest.raises(ScriptError, match=r"demo\.yaml:2: nodes\.h1\.x: unknown key"):
        bench.start("nodes:\n  h1: {x: }")


def test_a_missing_script_or_one_that_is_no_text_is_an_error_at_start(bench):
    with pytest.raises(ScriptError, match=r"demo\.yaml: can't be read: .*No such file"):
        bench.driver.init_host("h1")
    bench.path.write_bytes(b"nodes: {h\xff1: }")
    with pytest.raises(ScriptError, match=r"demo\.yaml: can't be read: .*utf-8"):
        bench.driver.init_host("h1")


def test_a_script_mended_after_a_bad_start_is_taken(bench):
    with pytest.raises(ScriptError):
        bench.start("nodes: [")
    with pytest.raises(ScriptError):
        bench.driver.get_available_nodes()
    bench.start("nodes: {h1: }")
    assert bench.driver.get_available_nodes() == ["h1"]
    assert bench.driver.degraded("h1") == {}


def test_a_bad_edit_keeps_the_last_good_script_and_is_logged_once(bench, caplog):
    bench.start("nodes: {h1: {inventory: {VCPU: 8}}}")
    bench.start("nodes: {h1: {inventory: {VCPU: eight}}}")
    assert [bench.vcpus() for _ in range(3)] == [8, 8, 8]
    assert "demo.yaml:1: nodes.h1.inventory.VCPU" in bench.driver.degraded("h1")["script"]
    bench.path.unlink()
    assert [bench.vcpus() for _ in range(3)] == [8, 8, 8]
    assert "can't be read" in bench.driver.degraded("h1")["script"]
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 2
    bench.start("nodes: {h1: {inventory: {VCPU: 9}}}")
    assert bench.vcpus() == 9
    assert bench.driver.degraded("h1") == {}
