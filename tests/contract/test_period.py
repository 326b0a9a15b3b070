"""The tracker's period: what is asked of Placement, what is written, what is left alone."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from drivers.api import DriverNotReady, ReshapeFailed, ReshapeNeeded
from tests.agents import (
    NODE,
    OWNER,
    ROOT,
    VERIFY,
    Agent,
    Small,
    child_uuid,
    devices,
    fails,
    inventory,
)
from tests.stranger import FakePlacement

AGG = "aaaaaaaa-0000-4000-8000-000000000001"
FOREIGN_AGG = "aaaaaaaa-0000-4000-8000-00000000ffff"
FOREIGN_CHILD = "bbbbbbbb-0000-4000-8000-000000000001"
STORAGE = "eeeeeeee-0000-4000-8000-000000000001"
DEVICE = f"{NODE}_dev1"


def totals(any_placement: Any, uuid: str = ROOT) -> dict[str, int]:
    return {
        name: record["total"] for name, record in any_placement.stranger.inventory(uuid).items()
    }


def names(any_placement: Any, root: str = ROOT) -> set[str]:
    listed = any_placement.request("GET", f"/resource_providers?in_tree={root}")
    return {item["name"] for item in listed["resource_providers"]}


# -- verified


def test_verification_can_be_switched_off(any_placement: Any) -> None:
    agent = Agent(any_placement, Small(inventory()), verify_every=None, audit_every=None)
    assert agent.period().ok
    assert agent.calls_of(lambda: agent.period(after=1e9)) == []


def test_audits_go_on_where_verification_is_switched_off(any_placement: Any) -> None:
    agent = Agent(any_placement, Small(inventory()), verify_every=None)
    assert agent.period().ok
    assert agent.calls_of(lambda: agent.period(after=600.0)) == []
    assert len(agent.calls_of(lambda: agent.period(after=400_000.0))) == 4


def test_what_a_stranger_undid_is_done_again_at_the_next_verification(
    any_placement: Any,
) -> None:
    agent = Agent(any_placement, Small(inventory(), supports_multiattach=True))
    agent.settle()
    any_placement.stranger.remove_trait(ROOT, "COMPUTE_VOLUME_MULTI_ATTACH")
    any_placement.stranger.remove_trait(ROOT, "COMPUTE_NODE")
    any_placement.stranger.set_inventory(ROOT, {"VCPU": {"total": 1}})
    agent.settle()
    assert {"COMPUTE_VOLUME_MULTI_ATTACH", "COMPUTE_NODE"} <= any_placement.stranger.traits(ROOT)
    assert totals(any_placement) == {"VCPU": 8}


# -- what is a stranger's


def test_what_strangers_have_stays_over_many_periods_of_change(any_placement: Any) -> None:
    stranger = any_placement.stranger
    one, two = Small(inventory()), Small(devices(DEVICE))

    def associated(tree, nodename, allocations=None):
        inventory(len(one.shown))(tree, nodename)
        tree.add_aggregates(nodename, AGG)

    one.body = associated
    agent = Agent(any_placement, one, two)
    assert agent.period().ok
    stranger.add_trait(ROOT, "CUSTOM_FOREIGN")
    stranger.add_trait(child_uuid(DEVICE), "CUSTOM_FOREIGN")
    stranger.set_aggregates(ROOT, {*stranger.aggregates(ROOT), FOREIGN_AGG})
    stranger.create_child(ROOT, "bandwidth", FOREIGN_CHILD)
    stranger.set_inventory(FOREIGN_CHILD, {"NET_BW_EGR_KILOBIT_PER_SEC": {"total": 100}})
    stranger.add_trait(FOREIGN_CHILD, "CUSTOM_FOREIGN")
    stranger.create_provider("storage", STORAGE)
    stranger.set_aggregates(STORAGE, [FOREIGN_AGG])
    stranger.add_trait(STORAGE, "MISC_SHARES_VIA_AGGREGATE")
    stranger.set_inventory(STORAGE, {"DISK_GB": {"total": 1000}})
    before = {uuid: stranger.provider(uuid) for uuid in (FOREIGN_CHILD, STORAGE)}
    for number in range(1, 8):
        two.body = devices(DEVICE, *(f"{NODE}_dev{n}" for n in range(2, number)), total=number)
        if number == 5:
            one.body = fails(DriverNotReady("a bad moment"))
        if number == 6:
            one.body = associated
        agent.period(disabled=number % 2 == 0)
    assert totals(any_placement)["VCPU"] == len(one.shown)
    assert {"CUSTOM_FOREIGN"} <= stranger.traits(ROOT) & stranger.traits(child_uuid(DEVICE))
    assert stranger.aggregates(ROOT) == {AGG, FOREIGN_AGG}
    assert {uuid: stranger.provider(uuid) for uuid in before} == before, "not even a generation"
    assert "bandwidth" in names(any_placement)
    assert STORAGE in one.shown[-1] and one.shown[-1][STORAGE].parent_uuid is None


def test_a_driver_that_writes_on_a_strangers_provider_is_told_and_it_stays(
    any_placement: Any,
) -> None:
    stranger = any_placement.stranger
    stranger.create_provider("storage", STORAGE)
    stranger.set_aggregates(STORAGE, [AGG])
    stranger.add_trait(STORAGE, "MISC_SHARES_VIA_AGGREGATE")
    before = stranger.provider(STORAGE)

    def greedy(tree, nodename, allocations=None):
        inventory()(tree, nodename)
        tree.add_aggregates(nodename, AGG)
        if tree.exists(STORAGE):
            tree.remove(STORAGE)

    agent = Agent(any_placement, Small(greedy))
    agent.period()
    report = agent.period()
    assert [problem.provider for problem in report.plan.problems] == ["storage"]
    assert not report.ok and not report.done
    assert stranger.provider(STORAGE) == before


@pytest.mark.parametrize("who", [NODE, DEVICE])
def test_own_traits_and_aggregates_come_and_go_beside_those_that_others_set(
    any_placement: Any, who: str
) -> None:
    """Others' traits and aggregates stay, even those set since the last verification."""
    driver, stranger = Small(devices(DEVICE)), any_placement.stranger
    agent = Agent(any_placement, driver)
    agent.settle()
    uuid = ROOT if who == NODE else child_uuid(who)
    stranger.add_trait(uuid, "CUSTOM_FOREIGN")
    stranger.set_aggregates(uuid, [FOREIGN_AGG])
    before = stranger.traits(uuid)

    def adds(tree, nodename, allocations=None):
        tree.add_traits(who, "CUSTOM_OURS")
        tree.add_aggregates(who, AGG)

    def removes(tree, nodename, allocations=None):
        tree.remove_traits(who, "CUSTOM_OURS", "CUSTOM_NEVER_THERE")
        tree.remove_aggregates(who, AGG)

    driver.body = adds
    assert agent.period(after=1.0).ok
    assert stranger.traits(uuid) == before | {"CUSTOM_OURS"}
    assert stranger.aggregates(uuid) == {AGG, FOREIGN_AGG}
    driver.body = removes
    assert agent.period(after=1.0).ok
    assert (stranger.traits(uuid), stranger.aggregates(uuid)) == (before, {FOREIGN_AGG})


def test_a_driver_is_shown_what_others_did_once_it_was_verified(any_placement: Any) -> None:
    driver, stranger = Small(devices(DEVICE)), any_placement.stranger
    agent = Agent(any_placement, driver)
    agent.settle()
    stranger.add_trait(ROOT, "CUSTOM_FOREIGN")
    stranger.create_child(child_uuid(DEVICE), "theirs", FOREIGN_CHILD)
    stranger.rename(child_uuid(DEVICE), "renamed by them")
    agent.period(after=1.0)
    assert "CUSTOM_FOREIGN" not in driver.shown[-1][ROOT].traits
    driver.body = lambda tree, nodename, allocations=None: None
    agent.period()
    shown = {data.name: data for data in driver.shown[-1].values()}
    assert "CUSTOM_FOREIGN" in shown[NODE].traits
    assert shown["theirs"].parent_uuid == child_uuid(DEVICE)
    assert shown["renamed by them"].uuid == child_uuid(DEVICE)


# -- several drivers, and drivers that fail


@pytest.mark.parametrize(
    "error",
    [
        DriverNotReady("the backend is down"),
        ValueError("a bug"),
        KeyError("vcpus"),
        RecursionError("deep"),
        MemoryError(),
        StopIteration(),
        SystemExit(3),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_driver_that_raises_is_named_leaves_nothing_half_done_and_stops_no_other(
    error: BaseException, any_placement: Any
) -> None:
    first, second = Small(inventory(8)), Small(devices(DEVICE))
    agent = Agent(any_placement, first, second)
    agent.settle()
    first.body = fails(error)
    second.body = devices(DEVICE, f"{NODE}_dev2")
    report = agent.period()
    assert type(error).__name__ in str(report.driver_errors["driver1"]) or isinstance(
        error, DriverNotReady
    )
    assert not report.ok and report.error is None
    assert any("driver1" in text for text in report.texts())
    assert totals(any_placement) == {"VCPU": 8}
    assert "CUSTOM_HALF_DONE" not in any_placement.stranger.traits(ROOT)
    assert names(any_placement) == {NODE, DEVICE, f"{NODE}_dev2"}
    first.body = inventory(12)
    assert agent.period().ok
    assert totals(any_placement) == {"VCPU": 12}


def test_nothing_is_written_for_a_new_host_whose_drivers_can_say_nothing(
    any_placement: Any,
) -> None:
    agent = Agent(any_placement, Small(fails(DriverNotReady("starting"))))
    report = agent.period(disabled=True)
    assert report.driver_errors and not report.done
    assert names(any_placement) == set()


def test_the_status_is_written_even_while_no_driver_is_ready(any_placement: Any) -> None:
    driver = Small(inventory())
    agent = Agent(any_placement, driver)
    agent.settle()
    driver.body = fails(DriverNotReady("reconnecting"))
    agent.period(disabled=True)
    assert "COMPUTE_STATUS_DISABLED" in any_placement.stranger.traits(ROOT)
    assert totals(any_placement) == {"VCPU": 8}


def test_nodes_that_can_not_be_named_are_reported_and_nothing_is_taken_away(
    any_placement: Any,
) -> None:
    driver = Small(inventory())
    agent = Agent(any_placement, driver)
    agent.settle()
    driver.get_available_nodes = lambda: (_ for _ in ()).throw(DriverNotReady("no answer"))
    mark = any_placement.mark()
    (report,) = agent.periods()
    assert isinstance(report.driver_errors["driver1"], DriverNotReady)
    assert any_placement.since(mark) == []
    del driver.get_available_nodes
    assert agent.period().ok


def test_what_a_driver_does_to_its_tree_afterwards_has_no_effect(any_placement: Any) -> None:
    kept = []

    def hoarding(tree, nodename, allocations=None):
        inventory()(tree, nodename)
        kept.append(tree)

    agent = Agent(any_placement, Small(hoarding))
    agent.settle()
    for tree in kept:
        with pytest.raises(ValueError, match="this tree is closed"):
            tree.update_inventory(NODE, {"VCPU": {"total": 666}})
    report = agent.period()
    assert report.ok and not report.done and totals(any_placement) == {"VCPU": 8}


# -- identity and capability traits


def test_every_root_is_a_compute_node_with_our_mark_and_what_is_below_needs_none(
    any_placement: Any,
) -> None:
    agent = Agent(any_placement, Small(inventory()), Small(devices(DEVICE)))
    agent.settle()
    assert any_placement.stranger.traits(ROOT) == {"COMPUTE_NODE", OWNER}
    assert any_placement.stranger.traits(child_uuid(DEVICE)) == set()


def test_a_device_that_a_driver_makes_anew_each_period_costs_nothing(
    any_placement: Any,
) -> None:
    def anew(tree, nodename, allocations=None):
        if tree.exists(DEVICE):
            tree.remove(DEVICE)
        devices(DEVICE)(tree, nodename)

    agent = Agent(any_placement, Small(anew))
    assert agent.period().ok
    report = agent.period()
    assert report.ok and not report.done


def test_capabilities_come_and_go_and_those_not_named_are_left_alone(
    any_placement: Any,
) -> None:
    driver = Small(inventory(), supports_multiattach=True, supports_extend_volume=False)
    agent = Agent(any_placement, driver)
    agent.settle()
    stranger = any_placement.stranger
    base = {"COMPUTE_NODE", OWNER}
    assert stranger.traits(ROOT) == base | {"COMPUTE_VOLUME_MULTI_ATTACH"}
    stranger.add_trait(ROOT, "COMPUTE_RESCUE_BFV")
    driver.capabilities = {"supports_multiattach": False, "supports_extend_volume": True}
    agent.settle()
    assert stranger.traits(ROOT) == base | {"COMPUTE_VOLUME_EXTEND", "COMPUTE_RESCUE_BFV"}
    driver.capabilities = {"supports_bfv_rescue": False, "has_no_trait": True}
    agent.settle()
    assert stranger.traits(ROOT) == base | {"COMPUTE_VOLUME_EXTEND"}


def test_the_status_is_set_removed_or_left_as_it_is_when_unknown(any_placement: Any) -> None:
    agent = Agent(any_placement, Small(inventory()))
    disabled = "COMPUTE_STATUS_DISABLED"
    for status, expected in [
        (None, False),
        (True, True),
        (None, True),
        (True, True),
        (False, False),
        (None, False),
    ]:
        assert agent.period(after=10.0, disabled=status).ok
        assert (disabled in any_placement.stranger.traits(ROOT)) is expected
    assert agent.calls_of(lambda: agent.period(after=10.0, disabled=True)) == [
        f"PUT /resource_providers/{ROOT}/traits"
    ]


def test_a_host_that_starts_disabled_says_so_before_it_has_any_inventory(
    any_placement: Any,
) -> None:
    agent = Agent(any_placement, Small(inventory()))
    calls = agent.calls_of(lambda: agent.period(disabled=True))
    path = f"/resource_providers/{ROOT}"
    assert calls.index(f"PUT {path}/traits") < calls.index(f"PUT {path}/inventories")
    assert "COMPUTE_STATUS_DISABLED" in any_placement.stranger.traits(ROOT)


# -- names that Placement does not know, and records that it refuses


def test_unknown_standard_names_are_told_and_left_out_and_everything_else_is_reported(
    any_placement: Any,
) -> None:
    def ahead_of_its_time(tree, nodename, allocations=None):
        tree.update_inventory(nodename, {"VCPU": {"total": 8}, "FUTURE_THING": {"total": 1}})
        tree.add_traits(nodename, "HW_CPU_X86_AVX", "HW_OF_THE_FUTURE")

    agent = Agent(any_placement, Small(ahead_of_its_time))
    report = agent.period()
    assert report.error is None
    assert "HW_OF_THE_FUTURE" in " ".join([*map(str, report.plan.problems), *report.texts()])
    assert totals(any_placement) == {"VCPU": 8}
    assert "HW_CPU_X86_AVX" in any_placement.stranger.traits(ROOT)
    assert agent.calls_of(lambda: agent.period(after=10.0)) == []
    assert len(agent.calls_of(agent.period)) == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_names_that_an_upgraded_placement_knows_are_reported_within_an_hour_or_after_a_restart(
    tmp_path: Path, restarted: bool
) -> None:
    def ahead_of_its_time(tree, nodename, allocations=None):
        tree.update_inventory(nodename, {"VCPU": {"total": 8}, "FUTURE_THING": {"total": 1}})
        tree.add_traits(nodename, "HW_OF_THE_FUTURE")

    placement = FakePlacement()
    agent = Agent(placement, Small(ahead_of_its_time), state=tmp_path)
    agent.period()
    placement.store.traits.add("HW_OF_THE_FUTURE")
    placement.store.classes.add("FUTURE_THING")
    if restarted:
        agent.restart()
        agent.period()
    else:
        calls = [agent.period().calls for _ in range(6)]
        assert calls[:5] == [1] * 5, "a verification alone asks for no name"
    assert totals(placement) == {"VCPU": 8, "FUTURE_THING": 1}
    assert "HW_OF_THE_FUTURE" in placement.stranger.traits(ROOT)


def test_a_bad_inventory_is_told_every_period_and_costs_no_call(any_placement: Any) -> None:
    first, second = Small(inventory()), Small(devices(DEVICE))
    agent = Agent(any_placement, first, second)
    agent.settle()
    first.body = inventory(0)
    for _ in range(2):
        report = agent.period(after=10.0)
        assert report.calls == 0
        assert any(NODE in text and "total is 0" in text for text in report.texts())
    assert totals(any_placement) == {"VCPU": 8}


# -- more roots


def test_every_node_has_a_root_of_its_own(any_placement: Any) -> None:
    by_uuid = "dddddddd-0000-4000-8000-000000000009"
    driver = Small(inventory(), nodes=["bm1", "bm2", by_uuid])
    agent = Agent(any_placement, driver)
    reports = agent.periods()
    assert [report.ok for report in reports] == [True] * 3
    listed = any_placement.request("GET", "/resource_providers")["resource_providers"]
    uuids = {item["name"]: item["uuid"] for item in listed}
    assert uuids == {"bm1": child_uuid("bm1"), "bm2": child_uuid("bm2"), by_uuid: by_uuid}
    driver.nodes = ["bm1", by_uuid]
    agent.periods()
    driver.nodes = ["bm1", "bm2", by_uuid]
    assert all(report.ok and not report.done for report in agent.periods())


def test_one_node_that_fails_stops_no_other(any_placement: Any) -> None:
    def one_is_broken(tree, nodename, allocations=None):
        if nodename == "bm2":
            raise DriverNotReady("bmc does not answer")
        inventory()(tree, nodename)

    agent = Agent(any_placement, Small(one_is_broken, nodes=["bm1", "bm2", "bm3"]))
    reports = {report.node: report for report in agent.periods()}
    assert {name: report.ok for name, report in reports.items()} == {
        "bm1": True,
        "bm2": False,
        "bm3": True,
    }
    listed = any_placement.request("GET", "/resource_providers")["resource_providers"]
    assert {item["name"] for item in listed} == {"bm1", "bm3"}


def second_root(tree: Any, nodename: str, allocations: Any = None) -> None:
    inventory()(tree, nodename)
    if not tree.exists("storage"):
        tree.new_root("storage", STORAGE)
    tree.update_inventory("storage", {"DISK_GB": {"total": 100}})


def test_a_second_root_that_a_driver_adds_is_made_once(any_placement: Any) -> None:
    def shared(tree, nodename, allocations=None):
        second_root(tree, nodename)
        tree.update_traits("storage", ["MISC_SHARES_VIA_AGGREGATE", OWNER])
        tree.update_aggregates("storage", [AGG])
        tree.update_aggregates(nodename, [AGG])

    agent = Agent(any_placement, Small(shared))
    agent.settle()
    assert totals(any_placement, STORAGE) == {"DISK_GB": 100}


def test_a_second_root_that_shares_nothing_is_not_made_and_told(any_placement: Any) -> None:
    agent = Agent(any_placement, Small(second_root))
    assert "a second root provider has to be a sharing provider" in str(agent.period().texts())
    assert names(any_placement) == {NODE}


def test_a_renamed_host_keeps_its_provider(any_placement: Any) -> None:
    driver = Small(inventory())
    agent = Agent(any_placement, driver)
    agent.settle()
    driver.nodes = ["host1-renamed"]
    assert agent.period().ok
    assert names(any_placement) == {"host1-renamed"}


def test_a_name_under_another_uuid_is_explained_with_both(any_placement: Any) -> None:
    any_placement.stranger.create_provider(NODE, STORAGE)
    report = Agent(any_placement, Small(inventory())).period()
    (told,) = report.texts()
    assert NODE in told and ROOT in told and STORAGE in told
    assert any_placement.stranger.provider(STORAGE)["generation"] == 0


# -- reshape, at start


def split(tree, nodename, allocations=None):
    """The devices have moved from the root to a child of their own."""
    if "CUSTOM_DEVICE" in tree.data(nodename).inventory:
        if allocations is None:
            raise ReshapeNeeded
        for held in allocations.values():
            used = held["allocations"].get(ROOT)
            if used and "CUSTOM_DEVICE" in used["resources"]:
                amount = used["resources"].pop("CUSTOM_DEVICE")
                if not used["resources"]:
                    del held["allocations"][ROOT]
                held["allocations"][child_uuid(DEVICE)] = {"resources": {"CUSTOM_DEVICE": amount}}
    inventory()(tree, nodename)
    if not tree.exists(DEVICE):
        tree.new_child(DEVICE, nodename)
    tree.update_inventory(DEVICE, {"CUSTOM_DEVICE": {"total": 4}})


def on_the_root(tree, nodename, allocations=None):
    tree.update_inventory(nodename, {"VCPU": {"total": 8}, "CUSTOM_DEVICE": {"total": 4}})


@pytest.fixture
def guest(any_placement: Any, tmp_path: Path) -> str:
    """Somebody who uses a CPU and two devices, all on the root."""
    Agent(any_placement, Small(on_the_root), state=tmp_path).settle()
    return any_placement.stranger.put_allocation({ROOT: {"VCPU": 1, "CUSTOM_DEVICE": 2}})


def resources_of(any_placement: Any, guest: str) -> dict[str, dict[str, int]]:
    held = any_placement.stranger.allocation(guest)["allocations"]
    return {uuid: entry["resources"] for uuid, entry in held.items()}


def test_a_reshape_at_start_moves_inventory_and_allocations_together(
    any_placement: Any, guest: str, tmp_path: Path
) -> None:
    driver = Small(split)
    agent = Agent(any_placement, driver, state=tmp_path)
    report = agent.period()
    assert report.ok, report.texts()
    assert totals(any_placement) == {"VCPU": 8}
    assert totals(any_placement, child_uuid(DEVICE)) == {"CUSTOM_DEVICE": 4}
    assert resources_of(any_placement, guest) == {
        ROOT: {"VCPU": 1},
        child_uuid(DEVICE): {"CUSTOM_DEVICE": 2},
    }
    agent.settle()
    assert len(driver.shown) > 2 and driver.shown[0] == driver.shown[1], "a fresh tree"


@pytest.mark.parametrize("what", ["lost", "invented", "more", "dropped consumer"])
def test_a_driver_that_loses_or_invents_allocations_is_stopped_and_the_consumer_named(
    what: str, any_placement: Any, guest: str
) -> None:
    def careless(tree, nodename, allocations=None):
        split(tree, nodename, allocations)
        if allocations is None:
            return
        held = allocations[guest]["allocations"]
        if what == "lost":
            del held[child_uuid(DEVICE)]
        elif what == "more":
            held[child_uuid(DEVICE)]["resources"]["CUSTOM_DEVICE"] += 1
        elif what == "dropped consumer":
            del allocations[guest]
        else:
            made_up = copy.deepcopy(allocations[guest])
            allocations["99999999-0000-4000-8000-000000000001"] = made_up

    report = Agent(any_placement, Small(careless)).period()
    assert isinstance(report.error, ReshapeFailed)
    assert str(report.error).startswith("driver "), "the last line before the exit names it"
    named = "99999999" if what == "invented" else guest
    assert named in str(report.error)
    assert resources_of(any_placement, guest) == {ROOT: {"VCPU": 1, "CUSTOM_DEVICE": 2}}


def test_a_driver_that_breaks_in_the_second_phase_of_a_reshape_changes_no_allocation(
    any_placement: Any, guest: str
) -> None:
    def breaking(tree, nodename, allocations=None):
        split(tree, nodename, allocations)
        raise RuntimeError("a bug after the allocations were edited")

    agent = Agent(any_placement, Small(breaking))
    report = agent.period()
    assert not report.ok
    assert "driver1" in report.driver_errors, "the culprit is named"
    assert not report.fatal
    assert resources_of(any_placement, guest) == {ROOT: {"VCPU": 1, "CUSTOM_DEVICE": 2}}
    assert totals(any_placement) == {"VCPU": 8, "CUSTOM_DEVICE": 4}


def test_an_interval_is_kept_between_verifications(any_placement: Any) -> None:
    agent = Agent(any_placement, Small(inventory()))
    agent.settle()
    start = agent.now
    looked = []
    for _ in range(40):
        if agent.calls_of(lambda: agent.period(after=30.0)):
            looked.append(agent.now)
    gaps = [two - one for one, two in zip([start, *looked], looked, strict=False)]
    assert looked and all(0.5 * VERIFY <= gap <= 1.5 * VERIFY + 30 for gap in gaps)
