"""What Nova's drivers say is reported as it is: their bodies, and what these lean on."""

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from oslo_config import cfg

from drivers.api import ComputeDriver, DriverContext, ProviderTree, ReshapeFailed
from reportclient.live_provider import OF_THE_TREE, LiveProvider
from tests.agents import Agent, Small
from tests.servers.process import completed
from tests.servers.reference import REPOSITORY, reference_python
from tests.stranger import FakePlacement

ROOT_UUID = "c0ffee00-0000-4000-8000-00000000000a"
ROOT = {"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 50}
TREES = {
    "libvirt": {
        "compute1": {"VCPU": 4, "PCPU": 2, "DISK_GB": 100, "MEMORY_MB": 4096},
        "compute1_pci_0000_84_00_0": {"VGPU": 2},
        "compute1_amd_sev": {"MEM_ENCRYPTION_CONTEXT": 4},
    },
    "fake": {"compute1": ROOT},
    "ironic": {"compute1": {"CUSTOM_BARE_METAL": 1}},
    "vmware": {"compute1": {"VCPU": 32, "MEMORY_MB": 65536, "DISK_GB": 500}},
    "zvm": {"compute1": {"VCPU": 10, "MEMORY_MB": 2048, "DISK_GB": 40}},
}


def told_by(module: str) -> dict:
    """What a module prints in Nova's environment."""
    words = [str(reference_python()), "-W", "ignore", "-m", module]
    done = completed(*words, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def told() -> dict:
    return told_by("tests.kit.nova_bodies")


@pytest.fixture(scope="module")
def trees() -> dict:
    return told_by("tests.kit.nova_trees")


@pytest.mark.needs("nova")
def test_the_same_calls_on_novas_tree_and_on_ours_give_the_same(trees: dict) -> None:
    assert trees["ours"] == trees["nova"]


@pytest.mark.needs("nova")
def test_what_novas_tree_and_its_live_providers_have_in_public_is_here(trees: dict) -> None:
    assert set(trees["tree"]) <= set(dir(ProviderTree))
    # These are the tree's own hands: a driver says new_child and remove.
    live = OF_THE_TREE.union(["uuid"], dir(LiveProvider))
    assert set(trees["node"]) - live == {"add_child", "from_dict", "remove_child"}


@pytest.mark.needs("nova")
@pytest.mark.parametrize("driver", TREES)
def test_a_body_of_novas_runs_unchanged_and_repeats_itself(told: dict, driver: str) -> None:
    first, *later = told[driver]
    assert first["complaints"] == {} and first["done"]
    assert [(each["complaints"], each["done"]) for each in later] == [({}, 0)] * len(later)
    assert later[-1]["tree"] == TREES[driver]


class Ported(ComputeDriver):
    def get_available_nodes(self) -> list[str]:
        return [self.context.host]


def ported(tmp_path: Path, text: str = "") -> Ported:
    file = tmp_path / "agent.conf"
    file.write_text(text)
    conf = cfg.ConfigOpts()
    conf([], project="x", default_config_files=[str(file)], default_config_dirs=[])
    Ported.__abstractmethods__ = frozenset()
    return Ported(DriverContext("host1", tmp_path, conf))


def test_ratios_are_configured_else_placements_else_initial(tmp_path: Path) -> None:
    text = "[DEFAULT]\ncpu_allocation_ratio = 2\nreserved_host_disk_mb = 1025\n"
    driver = ported(tmp_path, text)
    there = {"VCPU": {"allocation_ratio": 9.0}, "MEMORY_MB": {"allocation_ratio": 1.5}}
    ratios = driver._get_allocation_ratios(there)
    assert ratios == {"VCPU": 2.0, "MEMORY_MB": 1.5, "DISK_GB": 1.0}
    assert driver._get_reserved_host_disk_gb_from_config() == 2, "rounded up"
    driver.context = DriverContext("host1", tmp_path)
    assert driver._get_allocation_ratios({})["MEMORY_MB"] == 1.0
    assert driver._get_reserved_host_disk_gb_from_config() == 0


def test_reshape_failed_is_raised_as_novas_drivers_raise_it() -> None:
    assert str(ReshapeFailed(error="guest1 is not there")) == "guest1 is not there"
    assert str(ReshapeFailed("guest1 is not there")) == "guest1 is not there"
    assert str(ReshapeFailed()) == ""


def test_the_lock_is_one_object_also_after_a_refused_population() -> None:
    tree = ProviderTree()
    lock = tree.lock
    with lock, pytest.raises(ValueError, match="nowhere"):
        tree.populate_from_iterable(
            [{"uuid": ROOT_UUID, "name": "x", "parent_provider_uuid": "nowhere"}]
        )
    assert tree.lock is lock is copy.deepcopy(tree).lock is ProviderTree().lock


def composed(tree: ProviderTree, names: set[str]) -> None:
    """As RSD's driver does it: it walks the roots, and removes the children that are gone."""
    for root in tree.roots:
        for child in list(root.children.values()):
            if child.name not in names:
                tree.remove(child.uuid)
        for name in names:
            if root.find(name) is None:
                tree.new_child(name, root.uuid)


def test_a_live_provider_obeys_its_tree_and_what_it_shows_cant_be_changed() -> None:
    tree = ProviderTree()
    tree.new_root("host1", ROOT_UUID)
    [root] = tree.roots
    root.update_inventory({"VCPU": {"total": 8}})
    for change in (
        lambda: root.inventory.update(VGPU={}),
        lambda: root.inventory["VCPU"].__setitem__("total", 9),
        lambda: root.children.clear(),
        lambda: tree.roots_by_name.pop("host1"),
    ):
        with pytest.raises(TypeError, match="read-only: change the tree with its methods"):
            change()
    with pytest.raises(AttributeError):
        root.traits = set()
    with pytest.raises(AttributeError, match="frobnicate"):
        root.frobnicate()
    tree.close()
    with pytest.raises(ValueError, match="closed"):
        root.update_inventory({})
    with pytest.raises(ValueError, match="closed"):
        root.update_traits(["HW_NUMA"])
    assert root.inventory == {"VCPU": {"total": 8}}


# -- calls that drivers outside of Nova's tree make: each runs, is refused by name, or is told

VCPU = {"VCPU": {"total": 8}}


def walks_children(tree: ProviderTree) -> None:
    composed(tree, {"host1_a", "host1_b"})
    for child in tree.roots_by_name["host1"].children.values():
        if not child.has_inventory():
            child.update_inventory({"VGPU": {"total": 2}})


def asks_what_changed(tree: ProviderTree) -> None:
    [root] = tree.roots
    if root.has_inventory_changed(VCPU) or root.have_traits_changed(["HW_NUMA"]):
        root.update_inventory(VCPU)
        root.update_traits({*root.traits, "HW_NUMA_ROOT"})


def adds_to_what_is_there(tree: ProviderTree) -> None:
    inventory = tree.data("host1").inventory
    inventory.setdefault("VCPU", {"total": 8}).pop("reserved", None)
    tree.update_inventory("host1", inventory)


def names_it_as_the_kernel_does(tree: ProviderTree, node: str = "host1", _: object = None) -> None:
    if not tree.exists("nvme0n1"):
        tree.new_child("nvme0n1", node)
    tree.update_inventory("nvme0n1", {"CUSTOM_DISK": {"total": 1}})


def sets(inventory: object) -> Callable[[ProviderTree], None]:
    return lambda tree: tree.update_inventory("host1", inventory)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "tree"),
    [
        (walks_children, {"host1": {}, "host1_a": {"VGPU": 2}, "host1_b": {"VGPU": 2}}),
        (asks_what_changed, {"host1": {"VCPU": 8}}),
        (adds_to_what_is_there, {"host1": {"VCPU": 8}}),
        (sets({"VCPU": {"total": 8, "reserved": None}}), {"host1": {"VCPU": 8}}),
        (names_it_as_the_kernel_does, {"host1": {}, "nvme0n1": {"CUSTOM_DISK": 1}}),
    ],
)
def test_such_a_body_runs_and_says_the_same_in_the_next_period(body, tree) -> None:
    agent = Agent(FakePlacement(), Small(body))
    agent.settled()
    providers = agent.tracker.view.snapshot.walk()
    shown = {p.name: {name: r.total for name, r in p.inventory.items()} for p in providers}
    assert shown == tree


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (sets({"VCPU": 8}), "provider host1: inventory of VCPU: a record has to be a dict"),
        (sets(None), "inventory of provider host1: a dict like"),
        (lambda tree: tree.remove("eth0"), "no such provider: eth0"),
        (lambda tree: tree.roots[0].inventory.update(VCPU), "this dict is read-only"),
    ],
)
def test_such_a_body_is_refused_by_name_and_nothing_is_written(body, words) -> None:
    agent = Agent(FakePlacement(), Small(body))
    report = agent.period()
    (told,) = report.driver_errors.values()
    assert words in str(told) and not report.done
