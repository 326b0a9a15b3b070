"""What one period of one root does at its edges, by the calls that it makes."""

from typing import Any

import pytest

from agent.ownership.policy import DISABLED
from agent.period.attach import RootAwaited
from drivers.api import DriverNotReady, ReshapeFailed, ReshapeNeeded
from reportclient.errors import Conflict, Rejected, Unreachable
from reportclient.plan import Reshape, SetTraits
from tests.agents import (
    NODE,
    OWNER,
    ROOT,
    VERIFY,
    Agent,
    Away,
    Small,
    both,
    fails,
    inventory,
    whole_root,
)
from tests.ownership.test_attach import AGGREGATE, cards, own_root
from tests.ownership.test_attach import Agent as AttachedAgent
from tests.ownership.world import AUDIT, SOON, child, pool
from tests.stranger import FakePlacement

POOL, GUEST_CLASS = "eeeeeeee-0000-4000-8000-000000000001", "VGPU"
CONTESTED = "HW_CPU_X86_AVX"


def writes(placement: FakePlacement, mark: int) -> list[str]:
    return [f"{one.method} {one.path}" for one in placement.since(mark) if one.is_write]


def test_a_new_host_is_written_as_soon_as_one_driver_can_say_something(fake_placement) -> None:
    agent = Agent(fake_placement, Small(fails(DriverNotReady("not yet"))), Small(inventory()))
    agent.period()
    assert fake_placement.stranger.inventory(ROOT).keys() == {"VCPU"}


def test_drivers_are_asked_while_placement_is_away_once_it_was_read(fake_placement) -> None:
    agent = Agent(fake_placement, Small(inventory())).settle()
    agent.tracker.root.api = Away()
    agent.drivers[0].body = fails(DriverNotReady("not now"))
    report = agent.period()
    assert isinstance(report.error, Unreachable)
    assert [str(err) for err in report.driver_errors.values()] == ["not now"]


def moves_to_child(tree: Any, nodename: str, allocations: Any) -> None:
    """From the root, where a guest has one."""
    moves = GUEST_CLASS in tree.data(nodename).inventory
    if moves and allocations is None:
        raise ReshapeNeeded
    if not tree.exists("gpu"):
        tree.new_child("gpu", nodename)
    tree.update_inventory(nodename, {"VCPU": {"total": 8}})
    tree.update_inventory("gpu", {GUEST_CLASS: {"total": 4}})
    for held in (allocations or {}).values():
        parts = held["allocations"]
        if GUEST_CLASS in parts.get(ROOT, {"resources": {}})["resources"]:
            parts[ROOT]["resources"].pop(GUEST_CLASS)
            parts[tree.data("gpu").uuid] = {"resources": {GUEST_CLASS: 1}}


def on_the_root(tree: Any, nodename: str, allocations: Any = None) -> None:
    tree.update_inventory(nodename, {"VCPU": {"total": 8}, GUEST_CLASS: {"total": 4}})


def test_reshape_needed_although_allocations_were_passed_is_an_error(fake_placement) -> None:
    def never_moves(_tree: Any, _nodename: str, _allocations: Any) -> None:
        raise ReshapeNeeded

    agent = Agent(fake_placement, Small(never_moves), Small(on_the_root), reshape_when_running=True)
    errors = [str(error) for error in agent.period().driver_errors.values()]
    assert errors == ["raised ReshapeNeeded although the allocations were passed"]


@pytest.fixture
def guest_on_root(fake_placement) -> Agent:
    agent = Agent(fake_placement, Small(on_the_root), reshape_when_running=True).settle()
    fake_placement.stranger.put_allocation({ROOT: {GUEST_CLASS: 1, "VCPU": 1}})
    return agent


def breaks(tree: Any, nodename: str, allocations: Any) -> None:
    moves_to_child(tree, nodename, allocations)
    if allocations is not None:
        raise RuntimeError("a bug after the allocations were edited")


def loses(tree: Any, nodename: str, allocations: Any) -> None:
    moves_to_child(tree, nodename, allocations)
    for held in (allocations or {}).values():
        held["allocations"].clear()


@pytest.mark.parametrize("body", [breaks, loses])
def test_a_driver_that_breaks_in_a_reshape_is_named_and_moves_nothing(
    fake_placement, guest_on_root: Agent, body: Any
) -> None:
    before = fake_placement.stranger.inventory(ROOT)
    agent = Agent(fake_placement, Small(body))
    report = agent.period()
    if body is loses:
        assert isinstance(report.error, ReshapeFailed) and report.fatal
        (consumer,) = fake_placement.store.consumers
        assert str(report.error).startswith("driver ") and consumer in str(report.error)
    else:
        assert "driver1" in report.driver_errors and not report.fatal
    assert fake_placement.stranger.inventory(ROOT) == before


def test_a_reshape_that_placement_refused_waits_for_the_next_verification(
    fake_placement, guest_on_root: Agent
) -> None:
    guest_on_root.drivers[0].body = moves_to_child
    fake_placement.fail_next("POST", "/reshaper", Rejected("no"))
    assert not guest_on_root.period().ok
    mark = fake_placement.mark()
    assert not guest_on_root.period(SOON).ok
    assert [one.path for one in fake_placement.since(mark) if "allocations" in one.path] == []
    assert writes(fake_placement, mark) == []
    assert guest_on_root.period(AUDIT).ok
    assert GUEST_CLASS not in fake_placement.stranger.inventory(ROOT)


def test_a_forecast_has_what_the_next_period_writes_and_writes_nothing(
    fake_placement, guest_on_root: Agent
) -> None:
    guest_on_root.drivers[0].body = moves_to_child
    mark = fake_placement.mark()
    plan = guest_on_root.tracker.forecast(guest_on_root.now + AUDIT, disabled=True).plan
    assert any(isinstance(each, Reshape) for each in plan)
    assert any(isinstance(each, SetTraits) and DISABLED in each.traits for each in plan)
    assert writes(fake_placement, mark) == []


def test_a_forecast_leaves_a_contested_trait_until_its_time(fake_placement) -> None:
    def denies(tree: Any, nodename: str, allocations: Any = None) -> None:
        tree.remove_traits(nodename, CONTESTED)

    agent = Agent(fake_placement, Small(denies)).settle()
    for _ in range(3):
        fake_placement.stranger.add_trait(ROOT, CONTESTED)
        assert agent.period().done
    fake_placement.stranger.add_trait(ROOT, CONTESTED)
    for after, removed in ((2 * VERIFY, False), (8 * VERIFY, True)):
        plan = agent.tracker.forecast(agent.now + after).plan
        assert any(isinstance(each, SetTraits) for each in plan) is removed


def test_a_forecast_names_the_root_that_its_owner_has_not_created(fake_placement) -> None:
    own_root(fake_placement)
    agent = AttachedAgent(fake_placement, cards()).settle()
    for provider in reversed([*agent.view.walk()]):
        fake_placement.stranger.delete_provider(provider.uuid)
    with pytest.raises(RootAwaited, match=f"root provider {agent.tracker.node}:"):
        agent.tracker.forecast(agent.now + AUDIT)


def test_a_reshape_leaves_a_provider_that_goes_while_its_guests_stay(
    fake_placement, guest_on_root: Agent
) -> None:
    (driver,) = guest_on_root.drivers
    driver.body = both(lambda tree: on_the_root(tree, NODE), child("old", FPGA=2))
    guest_on_root.settle()
    (old,) = (u for u, row in fake_placement.store.providers.items() if row.name == "old")
    guest = fake_placement.stranger.put_allocation({old: {"FPGA": 1}})

    def without_old(tree: Any, nodename: str, allocations: Any) -> None:
        moves_to_child(tree, nodename, allocations)
        if tree.exists("old"):
            tree.remove("old")

    driver.body = without_old
    mark = fake_placement.mark()
    guest_on_root.period()
    assert "POST /reshaper" in writes(fake_placement, mark)
    assert driver.shown[-2] == driver.shown[-1], "a new tree for the second call"
    assert GUEST_CLASS not in fake_placement.stranger.inventory(ROOT)
    assert fake_placement.stranger.allocation(guest)["allocations"].keys() == {old}
    record = fake_placement.stranger.inventory(old)["FPGA"]
    assert record["reserved"] == record["total"] == 2


@pytest.mark.parametrize(("theirs", "ours"), [("OWNER_NOVA", False), ("CUSTOM_OWNER_X", True)])
def test_another_root_is_ours_by_the_operators_own_trait(
    fake_placement, theirs: str, ours: bool
) -> None:
    owners = ("OWNER_NOVA", "CUSTOM_OWNER_X")
    agent = Agent(fake_placement, Small(inventory()), owner_traits=owners).settle()
    stranger = fake_placement.stranger
    stranger.create_provider("storage", POOL)
    stranger.set_traits(POOL, {"MISC_SHARES_VIA_AGGREGATE", theirs})
    for uuid in (POOL, ROOT):
        stranger.set_aggregates(uuid, [AGGREGATE])
    agent.period(AUDIT)
    assert (stranger.traits(POOL) >= set(owners)) is ours


# -- what a report and the tracker say


def test_a_report_has_its_node_with_an_error_and_the_number_of_tries(fake_placement) -> None:
    assert Agent(Away(), Small(on_the_root)).period().node == NODE
    agent = Agent(fake_placement, Small(on_the_root)).settle()
    fake_placement.stranger.add_trait(ROOT, CONTESTED)
    agent.drivers[0].body = whole_root(VCPU=9)
    fake_placement.fail_next("PUT", "inventories", Conflict("another client wrote"))
    assert agent.period().tries == 2
    assert agent.period().tries == 1


def test_a_period_that_is_to_stop_writes_nothing_more(fake_placement) -> None:
    agent = Agent(fake_placement, Small(on_the_root)).settle()
    agent.drivers[0].body = whole_root(VCPU=9)
    mark = fake_placement.mark()
    assert not agent.tracker.period(agent.now + 1, stop=lambda: True).done
    assert not writes(fake_placement, mark)
    assert agent.period().done


def test_a_report_has_the_time_of_each_source(fake_placement) -> None:
    class Timed(Small):
        def took(self) -> dict[str, float]:
            return {"disks": 0.5}

    assert Agent(fake_placement, Timed(on_the_root)).period().took == {"disks": 0.5}


def test_a_driver_sees_the_generations_of_placement(fake_placement) -> None:
    seen: list[int | None] = []

    def looks(tree: Any, nodename: str, _allocations: Any = None) -> None:
        seen.append(tree.data(nodename).generation)

    Agent(fake_placement, Small(looks)).settle()
    assert seen[-1] == fake_placement.stranger.provider(ROOT)["generation"]


def test_the_service_status_is_written_although_a_reshape_is_broken(
    fake_placement, guest_on_root: Agent
) -> None:
    guest_on_root.drivers[0].body = loses
    assert guest_on_root.period(disabled=True).reshape_pending
    assert DISABLED in fake_placement.stranger.traits(ROOT)


def test_what_a_driver_leaves_out_stays_while_its_reshape_may_not_be_done(fake_placement) -> None:
    def needs(tree: Any, nodename: str, _allocations: Any) -> None:
        tree.update_inventory(nodename, {"VCPU": {"total": 8}})
        raise ReshapeNeeded

    agent = Agent(fake_placement, Small(on_the_root)).settle()
    agent.drivers[0].body = needs
    mark = fake_placement.mark()
    report = agent.period()
    assert not any("allocations" in request.path for request in fake_placement.since(mark))
    assert report.reshape_pending and not report.done and not report.driver_errors
    assert agent.view.providers[ROOT].inventory.keys() == {"VCPU", GUEST_CLASS}


def test_a_driver_removes_no_trait_that_is_the_agents(fake_placement) -> None:
    traits = ("COMPUTE_NODE", OWNER, DISABLED)

    def removes(tree: Any, nodename: str, _allocations: Any = None) -> None:
        tree.remove_traits(nodename, *traits)

    agent = Agent(fake_placement, Small(removes)).settle()
    fake_placement.stranger.add_trait(ROOT, DISABLED)
    for _ in range(3):
        assert agent.period().ok
    assert {*traits} <= fake_placement.stranger.traits(ROOT)


def test_an_owner_trait_on_a_child_is_removed_by_no_driver(fake_placement) -> None:
    def removes(tree: Any, nodename: str, _allocations: Any = None) -> None:
        child(tree, nodename)
        tree.remove_traits("card", OWNER)

    def child(tree: Any, nodename: str) -> None:
        if not tree.exists("card"):
            tree.new_child("card", nodename)

    agent = Agent(fake_placement, Small(removes)).settle()
    card = agent.view.named("card")
    fake_placement.stranger.add_trait(card.uuid, OWNER)
    assert agent.period().ok
    assert OWNER in fake_placement.stranger.traits(card.uuid)


def test_a_reshape_that_failed_at_the_start_is_done_later(fake_placement, tmp_path) -> None:
    agent = Agent(fake_placement, Small(on_the_root), state=tmp_path).settle()
    fake_placement.stranger.put_allocation({ROOT: {GUEST_CLASS: 1, "VCPU": 1}})
    agent.drivers[0].body = moves_to_child
    agent.restart()
    fake_placement.fail_next("POST", "reshaper", Rejected("not now"))
    reports = [agent.period(SOON) for _ in range(40)]
    assert not reports[0].ok
    assert any(isinstance(each, Reshape) for report in reports for each in report.done)


def test_an_own_pool_without_its_owner_trait_is_still_the_agents(fake_placement) -> None:
    agent = Agent(fake_placement, Small(pool("pool", POOL, AGGREGATE, DISK_GB=10))).settle()
    assert OWNER in fake_placement.stranger.traits(POOL)
    fake_placement.stranger.remove_trait(POOL, OWNER)
    agent.drivers[0].body = pool("pool", POOL, AGGREGATE, DISK_GB=20)
    assert agent.period().ok
    assert OWNER in fake_placement.stranger.traits(POOL)
    assert fake_placement.stranger.inventory(POOL)["DISK_GB"]["total"] == 20


def test_only_a_root_beside_nova_compute_hides_children_that_are_to_leave(fake_placement) -> None:
    seen: list[bool] = []

    def looks(tree: Any, _nodename: str, _allocations: Any = None) -> None:
        seen.append(tree.exists(POOL))

    agent = Agent(fake_placement, Small(looks)).settle()
    fake_placement.stranger.create_child(ROOT, f"disk_removed_{POOL}", POOL)
    agent.period()
    assert seen[-1]
