"""The tracker's specification: the driver's tree is what Placement says afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from reportclient.provider_tree import ProviderTree
from tests.agents import NODE, ROOT, Agent, Small, child_uuid
from tests.servers.placement import RealPlacement

OURS = "aaaaaaaa-0000-4000-8000-000000000001"
THEIRS = "aaaaaaaa-0000-4000-8000-000000000002"
CHILDREN = ("numa0", "numa1")


def two_children(tree: ProviderTree, nodename: str, allocations: Any = None) -> None:
    tree.update_inventory(nodename, {"DISK_GB": {"total": 100}})
    for name in CHILDREN:
        if not tree.exists(name):
            tree.new_child(name, nodename)
        tree.update_inventory(name, {"VCPU": {"total": 4}})
        tree.add_traits(name, "HW_NUMA_ROOT")


@pytest.fixture
def host(placement: RealPlacement) -> tuple[RealPlacement, Agent, Small]:
    driver = Small(two_children)
    agent = Agent(placement, driver)
    agent.settle()
    return placement, agent, driver


Host = tuple[RealPlacement, Agent, Small]


def also(driver: Small, change: Any) -> None:
    """The same driver, and one thing more."""

    def body(tree: ProviderTree, nodename: str, allocations: Any = None) -> None:
        two_children(tree, nodename)
        change(tree)

    driver.body = body


def names(placement: RealPlacement) -> set[str]:
    listed = placement.request("GET", f"/resource_providers?in_tree={ROOT}")
    return {item["name"] for item in listed["resource_providers"]}


# -- three points: removed, added, changed


def test_providers_that_the_driver_removed_are_removed_from_placement(host: Host) -> None:
    placement, agent, driver = host
    also(driver, lambda tree: tree.remove("numa1"))
    assert agent.calls_of(lambda: agent.period(after=10.0)) == [
        f"DELETE /resource_providers/{child_uuid('numa1')}"
    ]
    assert names(placement) == {NODE, "numa0"}


def test_a_removed_subtree_goes_with_all_below_it(host: Host) -> None:
    placement, agent, driver = host
    also(driver, lambda tree: tree.new_child("core", "numa1"))
    agent.period()
    assert "core" in names(placement)
    also(driver, lambda tree: tree.remove("numa1"))
    assert agent.period().ok
    assert names(placement) == {NODE, "numa0"}


def test_providers_that_the_driver_added_are_created_in_placement(host: Host) -> None:
    placement, agent, driver = host

    def nested(tree: ProviderTree) -> None:
        if not tree.exists("pf"):
            tree.new_child("pf", "numa1")
        tree.update_inventory("pf", {"SRIOV_NET_VF": {"total": 8}})
        tree.add_traits("pf", "HW_NIC_SRIOV")

    also(driver, nested)
    report = agent.period(after=10.0)
    assert report.ok and report.calls == 3, "the provider, its traits, its inventory"
    made = placement.stranger.provider(child_uuid("pf"))
    assert made["parent_provider_uuid"] == child_uuid("numa1")
    assert made["root_provider_uuid"] == ROOT
    assert placement.stranger.traits(child_uuid("pf")) == {"HW_NIC_SRIOV"}


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda tree: tree.update_inventory("numa1", {"VCPU": {"total": 6}}), "inventories"),
        (lambda tree: tree.update_inventory("numa1", {}), "inventories"),
        (lambda tree: tree.add_traits("numa1", "HW_CPU_X86_AVX"), "traits"),
        (lambda tree: tree.remove_traits("numa1", "HW_NUMA_ROOT"), "traits"),
        (lambda tree: tree.add_aggregates("numa1", OURS), "aggregates"),
    ],
)
def test_what_the_driver_changed_is_flushed_and_nothing_else(
    change: Any, part: str, host: Host
) -> None:
    placement, agent, driver = host
    also(driver, change)
    assert agent.calls_of(lambda: agent.period(after=10.0)) == [
        f"PUT /resource_providers/{child_uuid('numa1')}/{part}"
    ]
    wished = ProviderTree(agent.nodes.trackers[ROOT].view.snapshot)
    data = wished.data("numa1")
    stranger = placement.stranger
    assert stranger.inventory(data.uuid) == data.inventory
    assert stranger.traits(data.uuid) == data.traits
    assert stranger.aggregates(data.uuid) == data.aggregates


# -- what outsiders set


@pytest.mark.parametrize("who", [NODE, "numa1"])
def test_adding_and_removing_traits_leaves_outsiders_traits_alone(who: str, host: Host) -> None:
    placement, agent, driver = host
    uuid = ROOT if who == NODE else child_uuid(who)
    stranger = placement.stranger
    stranger.add_trait(uuid, "CUSTOM_OPERATORS")
    stranger.add_trait(uuid, "HW_CPU_X86_VMX")
    before = stranger.traits(uuid)
    also(driver, lambda tree: tree.add_traits(who, "CUSTOM_A", "CUSTOM_B"))
    assert agent.period().ok
    assert stranger.traits(uuid) == before | {"CUSTOM_A", "CUSTOM_B"}
    also(driver, lambda tree: tree.remove_traits(who, "CUSTOM_A", "CUSTOM_NEVER_THERE"))
    assert agent.period().ok
    assert stranger.traits(uuid) == before | {"CUSTOM_B"}


@pytest.mark.parametrize("who", [NODE, "numa1"])
def test_adding_and_removing_aggregates_leaves_outsiders_aggregates_alone(
    who: str, host: Host
) -> None:
    placement, agent, driver = host
    uuid = ROOT if who == NODE else child_uuid(who)
    stranger = placement.stranger
    stranger.set_aggregates(uuid, [THEIRS])
    also(driver, lambda tree: tree.add_aggregates(who, OURS))
    assert agent.period().ok
    assert stranger.aggregates(uuid) == {OURS, THEIRS}
    also(driver, lambda tree: tree.remove_aggregates(who, OURS))
    assert agent.period().ok
    assert stranger.aggregates(uuid) == {THEIRS}


def test_an_outsider_who_writes_between_two_periods_loses_nothing(host: Host) -> None:
    """Not even before the next verification, when his change has not been seen yet."""
    placement, agent, driver = host
    stranger = placement.stranger
    for uuid in (ROOT, child_uuid("numa0"), child_uuid("numa1")):
        stranger.add_trait(uuid, "CUSTOM_OPERATORS")
        stranger.set_aggregates(uuid, [THEIRS])

    def everything(tree: ProviderTree) -> None:
        for name in (NODE, *CHILDREN):
            tree.add_traits(name, "CUSTOM_OURS")
            tree.add_aggregates(name, OURS)

    also(driver, everything)
    assert agent.period(after=1.0).ok
    for uuid in (ROOT, child_uuid("numa0"), child_uuid("numa1")):
        assert {"CUSTOM_OPERATORS", "CUSTOM_OURS"} <= stranger.traits(uuid)
        assert stranger.aggregates(uuid) == {OURS, THEIRS}


# -- the tree that is handed over is what Placement knows


def test_the_driver_sees_what_outsiders_did_at_the_next_verification(host: Host) -> None:
    placement, agent, driver = host
    stranger = placement.stranger
    stranger.add_trait(ROOT, "CUSTOM_OPERATORS")
    stranger.create_child(child_uuid("numa0"), "theirs", "bbbbbbbb-0000-4000-8000-000000000001")
    stranger.rename(child_uuid("numa1"), "renamed by them")
    agent.period(after=1.0)
    assert "CUSTOM_OPERATORS" not in driver.shown[-1][ROOT].traits
    driver.body = lambda tree, nodename, allocations=None: None
    agent.period()
    shown = {data.name: data for data in driver.shown[-1].values()}
    assert "CUSTOM_OPERATORS" in shown[NODE].traits
    assert shown["theirs"].parent_uuid == child_uuid("numa0")
    assert shown["renamed by them"].uuid == child_uuid("numa1")


def test_a_driver_that_changes_nothing_changes_nothing(host: Host) -> None:
    placement, agent, driver = host
    before = [placement.stranger.provider(u) for u in (ROOT, *map(child_uuid, CHILDREN))]
    driver.body = lambda tree, nodename, allocations=None: None
    for _ in range(3):
        report = agent.period()
        assert report.ok and not report.done
    after = [placement.stranger.provider(u) for u in (ROOT, *map(child_uuid, CHILDREN))]
    assert after == before
