"""The tracker's period: what is asked of Placement, what is written, what is left alone."""

from pathlib import Path
from typing import Any

import pytest

from drivers.api import DriverNotReady
from tests.agents import (
    NODE,
    OWNER,
    ROOT,
    Agent,
    Idle,
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
DEVICE = f"{NODE}_dev1"
DISABLED = "COMPUTE_STATUS_DISABLED"


def totals(any_placement: Any, uuid: str = ROOT) -> dict[str, int]:
    return {
        name: record["total"] for name, record in any_placement.stranger.inventory(uuid).items()
    }


def names(any_placement: Any, root: str = ROOT) -> set[str]:
    listed = any_placement.request("GET", f"/resource_providers?in_tree={root}")
    return {item["name"] for item in listed["resource_providers"]}


# -- verified


@pytest.mark.parametrize(("rules", "calls"), [({}, 4), ({"audit_every": None}, 0)])
def test_verification_can_be_switched_off_with_or_without_audits(
    any_placement: Any, rules: dict[str, None], calls: int
) -> None:
    agent = Agent(any_placement, Small(inventory()), verify_every=None, **rules)
    assert agent.period().ok
    assert agent.calls_of(lambda: agent.period(after=600.0)) == []
    assert len(agent.calls_of(lambda: agent.period(after=400_000.0))) == calls


# -- what is a stranger's


@pytest.mark.parametrize("who", [NODE, DEVICE])
def test_own_traits_and_aggregates_come_and_go_beside_foreign_ones(any_placement, who: str) -> None:
    """Others' traits and aggregates stay, even those set since the last verification."""
    driver, stranger = Small(devices(DEVICE)), any_placement.stranger
    agent = Agent(any_placement, driver).settle()
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


def test_what_another_client_did_and_the_agent_undid_is_named(any_placement, tmp_path) -> None:
    """Also what was done while the agent did not run; what is left as it is is not named."""

    def body(tree, nodename, allocations=None):
        devices(DEVICE)(tree, nodename, allocations)
        tree.add_traits(DEVICE, "CUSTOM_A", "CUSTOM_B")
        tree.add_aggregates(DEVICE, AGG)

    agent, stranger = Agent(any_placement, Small(body), state=tmp_path), any_placement.stranger
    agent.settle()
    uuid = child_uuid(DEVICE)
    stranger.set_traits(uuid, [])
    stranger.set_aggregates(uuid, [FOREIGN_AGG])
    stranger.set_inventory(uuid, {"CUSTOM_DEVICE": {"total": 5}, "CUSTOM_FOREIGN": {"total": 1}})
    stranger.rename(uuid, "other")
    stranger.add_trait(ROOT, DISABLED)
    report = agent.restart().period(disabled=False)
    assert report.undone == (
        f"set traits of {NODE}: {DISABLED}",
        f"set the name of {DEVICE}: other",
        f"removed traits of {DEVICE}: CUSTOM_A, CUSTOM_B",
        f"removed aggregates of {DEVICE}: {AGG}",
        f"set inventory of {DEVICE}: CUSTOM_DEVICE (total 5)",
    )
    assert f"renamed 1 provider (other → {DEVICE})" in report.sentence()
    assert "to Placement; undid what another client had done: set traits" in report.sentence()
    stranger.delete_provider(uuid)
    assert agent.period(disabled=False).undone == (f"deleted provider {DEVICE}",)
    assert not agent.period(disabled=False).undone


def test_a_driver_is_shown_what_others_did_once_it_was_verified(any_placement: Any) -> None:
    driver, stranger = Small(devices(DEVICE)), any_placement.stranger
    agent = Agent(any_placement, driver).settle()
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
def test_a_driver_that_raises_is_named_and_stops_no_other(
    error: BaseException, any_placement: Any
) -> None:
    first, second = Small(inventory(8)), Small(devices(DEVICE))
    agent = Agent(any_placement, first, second).settle()
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


def test_nothing_is_written_for_a_new_host_whose_drivers_can_say_nothing(any_placement) -> None:
    agent = Agent(any_placement, Small(fails(DriverNotReady("starting"))))
    report = agent.period(disabled=True)
    assert report.driver_errors and not report.done
    assert names(any_placement) == set()


def test_the_status_is_written_even_while_no_driver_is_ready(any_placement: Any) -> None:
    driver = Small(inventory())
    agent = Agent(any_placement, driver).settle()
    driver.body = fails(DriverNotReady("reconnecting"))
    agent.period(disabled=True)
    assert "COMPUTE_STATUS_DISABLED" in any_placement.stranger.traits(ROOT)
    assert totals(any_placement) == {"VCPU": 8}


# -- identity and capability traits


def test_capabilities_come_and_go_and_those_not_named_are_left_alone(any_placement: Any) -> None:
    driver = Small(inventory(), supports_multiattach=True, supports_extend_volume=False)
    agent = Agent(any_placement, driver).settle()
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


def test_a_host_that_starts_disabled_says_so_before_it_has_any_inventory(any_placement) -> None:
    agent = Agent(any_placement, Small(inventory()))
    calls = agent.calls_of(lambda: agent.period(disabled=True))
    path = f"/resource_providers/{ROOT}"
    assert calls.count(f"PUT {path}/traits") == 1
    assert calls.index(f"PUT {path}/traits") < calls.index(f"PUT {path}/inventories")
    assert "COMPUTE_STATUS_DISABLED" in any_placement.stranger.traits(ROOT)


# -- names that Placement does not know, and records that it refuses


@pytest.mark.parametrize("restarted", [False, True])
def test_unknown_names_are_sent_within_an_hour_of_an_upgrade_or_a_restart(
    tmp_path: Path, restarted: bool
) -> None:
    def ahead_of_its_time(tree, nodename, allocations=None):
        tree.update_inventory(nodename, {"VCPU": {"total": 8}, "FUTURE_THING": {"total": 1}})
        tree.add_traits(nodename, "HW_OF_THE_FUTURE")

    placement = FakePlacement()
    agent = Agent(placement, Small(ahead_of_its_time), state=tmp_path)
    report = agent.period()
    told = " ".join([*map(str, report.plan.problems), *report.texts()])
    assert report.error is None and "HW_OF_THE_FUTURE" in told
    assert agent.calls_of(lambda: agent.period(after=10.0)) == []
    placement.store.traits.add("HW_OF_THE_FUTURE")
    placement.store.classes.add("FUTURE_THING")
    if restarted:
        agent.restart().period()
    else:
        calls = [agent.period().calls for _ in range(6)]
        assert calls[:5] == [1] * 5, "a verification alone asks for no name"
    assert totals(placement) == {"VCPU": 8, "FUTURE_THING": 1}
    assert "HW_OF_THE_FUTURE" in placement.stranger.traits(ROOT)


def test_a_bad_inventory_is_told_every_period_and_costs_no_call(any_placement: Any) -> None:
    first, second = Small(inventory()), Small(devices(DEVICE))
    agent = Agent(any_placement, first, second).settle()
    first.body = inventory(0)
    for _ in range(2):
        report = agent.period(after=10.0)
        assert report.calls == 0
        assert any(NODE in text and "total is 0" in text for text in report.texts())
    assert totals(any_placement) == {"VCPU": 8}


def test_a_renamed_host_keeps_its_provider(any_placement: Any) -> None:
    driver = Small(inventory())
    agent = Agent(any_placement, driver).settle()
    driver.nodes = ["host1-renamed"]
    assert agent.period().ok and agent.period().ok
    assert names(any_placement) == {"host1-renamed"}


def test_nodes_that_exchange_their_names_are_reported_with_the_old_ones(fake_placement) -> None:
    first, second = child_uuid("first"), child_uuid("second")
    driver = Idle(["n1", "n2"])
    driver.get_nodenames_by_uuid = lambda refresh=False: {first: "n1", second: "n2"}  # type: ignore[method-assign]
    agent = Agent(fake_placement, driver)
    agent.periods()
    driver.get_nodenames_by_uuid = lambda refresh=False: {first: "n2", second: "n1"}  # type: ignore[method-assign]
    texts = {report.node: report.sentence() for report in agent.periods()}
    assert {node: text.partition(" in ")[0] for node, text in texts.items()} == {
        "n2": "renamed 1 provider (n1 → n2)",
        "n1": "renamed 1 provider (n2 → n1)",
    }
