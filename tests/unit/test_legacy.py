"""Drivers that say what they have by Nova's older methods."""

import copy
import logging
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg
from stevedore.extension import Extension

from drivers.api import ComputeDriver, DriverContext
from drivers.errors import DriverError, DriverFault, DriverLoadFailed
from drivers.loaded import LoadedDriver
from drivers.loader import driver_from
from reportclient.model import Inventory, Provider
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot
from tests.agents import OWNER, Agent
from tests.stranger import FakePlacement

ROOT = "11111111-1111-4111-8111-111111111111"
RESOURCES = {
    "vcpus": 8,
    "memory_mb": 4096,
    "local_gb": 100,
    "vcpus_used": 0,
    "hypervisor_type": "mine",
    "cpu_info": "{}",
}


class Nodes(ComputeDriver):
    def get_available_nodes(self):
        return ["node"]


class Inventories(Nodes):
    def get_inventory(self, nodename):
        return {"VCPU": {"total": 16}, "CUSTOM_FPGA": {"total": 2}}


class Traits(Nodes):
    traits = ["HW_CPU_X86_AVX", "CUSTOM_GOLD"]

    def get_traits(self, nodename):
        return self.traits


class Resources(Nodes):
    resources: Any = RESOURCES

    def get_available_resource(self, nodename):
        return self.resources


class InventoriesAndTraits(Inventories, Traits):
    pass


class ResourcesAndTraits(Resources, Traits):
    pass


class All(Inventories, Traits, Resources):
    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        provider_tree.update_inventory(nodename, {"VCPU": {"total": 1}})


class Declines(Inventories, Traits, Resources):
    """As a class of Nova's does that has a method only to say that it has none."""

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        raise NotImplementedError

    def get_inventory(self, nodename):
        raise NotImplementedError


def conf(tmp_path: Path, text: str = "") -> cfg.ConfigOpts:
    path = tmp_path / "agent.conf"
    path.write_text(text)
    made = cfg.ConfigOpts()
    made(["--config-file", str(path)])
    return made


def load(kind: type, context: DriverContext) -> LoadedDriver:
    return driver_from(Extension(kind.__name__, None, kind, None), context, "a test")


@pytest.fixture
def context(tmp_path: Path) -> DriverContext:
    return DriverContext("host1", tmp_path, conf(tmp_path))


def tree_of(**root: Any) -> ProviderTree:
    return ProviderTree(Snapshot.build([Provider(ROOT, "node", **root)]))


def asked(loaded: LoadedDriver, tree: ProviderTree | None = None) -> Any:
    tree = tree or tree_of()
    loaded.update_provider_tree(tree, "node", None)
    return tree.data("node")


@pytest.mark.parametrize(
    ("kind", "inventory", "traits"),
    [
        (Inventories, {"VCPU": 16, "CUSTOM_FPGA": 2}, set()),
        (Traits, {"VCPU": 4}, {"CUSTOM_GOLD"}),
        (InventoriesAndTraits, {"VCPU": 16, "CUSTOM_FPGA": 2}, {"CUSTOM_GOLD"}),
        (ResourcesAndTraits, {"VCPU": 8, "MEMORY_MB": 4096, "DISK_GB": 100}, {"CUSTOM_GOLD"}),
        (Declines, {"VCPU": 8, "MEMORY_MB": 4096, "DISK_GB": 100}, {"CUSTOM_GOLD"}),
        (All, {"VCPU": 1}, set()),
    ],
)
def test_the_newest_methods_that_are_implemented_report(context, kind, inventory, traits) -> None:
    ours = {"VCPU": Inventory(4, allocation_ratio=9.0)}
    found = asked(load(kind, context), tree_of(inventory=ours))
    assert {name: record["total"] for name, record in found.inventory.items()} == inventory
    assert found.traits - {"HW_CPU_X86_AVX"} == traits
    if kind is Inventories:
        assert found.inventory["VCPU"]["allocation_ratio"] == 9.0, "as Placement has it"


def test_what_the_inventory_leaves_open_about_cpus_is_the_operators(tmp_path) -> None:
    text = "[DEFAULT]\ncpu_allocation_ratio = 3.0\nreserved_host_cpus = 2\n"
    context = DriverContext("host1", tmp_path, conf(tmp_path, text))
    found = asked(load(Inventories, context)).inventory
    assert found["VCPU"] == {"total": 16, "allocation_ratio": 3.0, "reserved": 2}
    own = {"VCPU": {"total": 16, "allocation_ratio": 2.0, "reserved": 1}}
    assert asked(load(returns("get_inventory", own), context)).inventory == own


def test_the_available_resource_is_three_classes_with_the_operators_policy(context) -> None:
    found = asked(load(Resources, context)).inventory
    amounts = {
        name: (r["total"], r["reserved"], r["allocation_ratio"]) for name, r in found.items()
    }
    assert amounts == {"VCPU": (8, 0, 4.0), "MEMORY_MB": (4096, 512, 1.0), "DISK_GB": (100, 0, 1.0)}
    assert found["VCPU"]["max_unit"] == 8


def test_disk_that_is_shared_is_not_the_roots_as_well(context) -> None:
    share = Provider(
        "eeeeeeee-0000-4000-8000-000000000001",
        "nfs",
        inventory={"DISK_GB": Inventory(1000)},
        traits=frozenset({"MISC_SHARES_VIA_AGGREGATE"}),
    )
    tree = ProviderTree(Snapshot.build([Provider(ROOT, "node"), share]))
    assert set(asked(load(Resources, context), tree).inventory) == {"VCPU", "MEMORY_MB"}


def test_traits_are_added_beside_foreign_ones_and_removed_when_dropped(context, tmp_path) -> None:
    driver = load(Traits, context).driver
    agent = Agent(FakePlacement(), driver, state=tmp_path)
    agent.settled()
    agent.placement.stranger.add_trait(agent.tracker.uuid, "CUSTOM_OPERATORS")
    driver.traits = ["HW_CPU_X86_AVX"]
    agent.restart()  # and what was told before is known in a fresh process
    agent.settled()
    now = agent.placement.stranger.traits(agent.tracker.uuid)
    assert now == {"CUSTOM_OPERATORS", "HW_CPU_X86_AVX", "COMPUTE_NODE", OWNER}


@pytest.mark.parametrize("held", [None, {"consumer": {"allocations": {}}}])
def test_edits_before_not_implemented_are_undone(context, held) -> None:
    class Late(InventoriesAndTraits):
        def update_provider_tree(self, provider_tree, nodename, allocations=None):
            with provider_tree.source("cards"):
                provider_tree.update_inventory(
                    provider_tree.new_child("node_card", nodename), {"VGPU": {"total": 1}}
                )
            provider_tree.update_aggregates(nodename, ["6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01"])
            if allocations:
                allocations.clear()
            raise NotImplementedError

    tree, moved = tree_of(), copy.deepcopy(held)
    load(Late, context).update_provider_tree(tree, "node", moved)
    root = tree.data("node")
    assert "CUSTOM_FPGA" in root.inventory and not root.aggregates
    assert not tree.exists("node_card") and set(tree.claims) == {""}
    assert moved == held
    with pytest.raises(ValueError, match="closed"):
        tree.remove("node")


def test_not_implemented_with_nothing_older_is_the_drivers_error(context) -> None:
    class Nothing(Nodes):
        def update_provider_tree(self, provider_tree, nodename, allocations=None):
            raise NotImplementedError("later")

    with pytest.raises(DriverFault, match="NotImplementedError: later"):
        asked(load(Nothing, context))


def test_a_second_period_says_nothing_new(context) -> None:
    loaded = load(ResourcesAndTraits, context)
    tree = tree_of()
    asked(loaded, tree)
    first = tree.freeze()
    again = ProviderTree(first)
    asked(loaded, again)
    assert again.freeze() is first


def test_a_constructor_that_calls_nobody_is_no_hindrance(tmp_path) -> None:
    class Own(ResourcesAndTraits):
        def __init__(self, context):
            """Nothing."""

    found = asked(load(Own, DriverContext("host1", tmp_path)))
    assert found.inventory["MEMORY_MB"]["reserved"] == 0 and "CUSTOM_GOLD" in found.traits


@pytest.mark.parametrize("kind", [Inventories, Traits, ResourcesAndTraits])
def test_the_deprecation_is_said_at_load_and_not_again(context, caplog, kind) -> None:
    with caplog.at_level(logging.WARNING):
        loaded = load(kind, context)
        asked(loaded)
        asked(loaded)
    (record,) = [r for r in caplog.records if "deprecated" in r.message]
    assert kind.__name__ in record.message and "docs/porting.rst" in record.message


def test_nothing_is_deprecated_where_the_newest_way_is_there(context, caplog) -> None:
    with caplog.at_level(logging.WARNING):
        asked(load(All, context))
    assert not caplog.records


def returns(method: str, answer: Any) -> type:
    return type("Returns", (Nodes,), {method: lambda self, nodename: answer})


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("get_inventory", None, "returned None: {resource class"),
        ("get_inventory", {"VCPU": 8}, "returned 8 for VCPU"),
        ("get_traits", "CUSTOM_GOLD", "returned 'CUSTOM_GOLD': a list of names"),
        ("get_traits", None, "returned None: a list of names"),
        ("get_traits", [8], "returned 8, which is not a name"),
        ("get_available_resource", None, "returned None: {'vcpus'"),
        ("get_available_resource", {"vcpus": 1, "memory_mb": 2}, "returned no 'local_gb'"),
        ("get_available_resource", {**RESOURCES, "vcpus": "8"}, "'vcpus': '8': a number"),
        ("get_available_resource", {**RESOURCES, "vcpus": -1}, "'vcpus': -1: a number"),
        ("get_available_resource", {**RESOURCES, "vcpus": True}, "'vcpus': True: a number"),
        ("get_available_resource", {**RESOURCES, "vcpus": float("nan")}, "a number"),
        ("get_available_resource", {**RESOURCES, "vcpus": float("inf")}, "'vcpus': inf: a number"),
    ],
)
def test_an_unusable_answer_names_the_method_and_changes_nothing(
    context, method: str, answer: Any, said: str
) -> None:
    tree = tree_of(inventory={"VCPU": Inventory(4)}, traits=frozenset({"CUSTOM_OLD"}))
    before = tree.freeze()
    with pytest.raises(DriverError) as caught:
        asked(load(returns(method, answer), context), tree)
    assert str(caught.value).startswith(f"{method}('node') returned ")
    assert said in str(caught.value)
    assert tree.freeze() is before


def test_options_that_contradict_are_found_at_load(tmp_path) -> None:
    text = "[DEFAULT]\nreserved_host_cpus = 2\n[compute]\ncpu_shared_set = 0-3\n"
    with pytest.raises(DriverLoadFailed, match="reserved_host_cpus can't be used with"):
        load(Resources, DriverContext("host1", tmp_path, conf(tmp_path, text)))
