"""What the agent takes for granted of Placement is what Placement has, whatever happens between."""

from typing import Any

import pytest

from agent.state.saved_root import root_path
from drivers.api import ReshapeNeeded
from reportclient import errors
from tests.ownership.world import (
    NODE,
    ROOT,
    SOON,
    Host,
    aggregates,
    both,
    child,
    inventory,
    settled_host,
    traits,
)

POOL = "eeeeeeee-0000-4000-8000-000000000001"
RACK = "aaaaaaaa-0000-4000-8000-000000000001"
DISABLED = "COMPUTE_STATUS_DISABLED"


# -- a provider is read in three GETs, and somebody writes between them


def writes_trait(host: Host) -> Any:
    return lambda: host.stranger.add_trait(ROOT, "CUSTOM_STRANGE")


def writes_inventory(host: Host) -> Any:
    return lambda: host.stranger.set_inventory(ROOT, {"VCPU": {"total": 99}})


def writes_aggregate(host: Host) -> Any:
    return lambda: host.stranger.set_aggregates(ROOT, [RACK])


TEARS = [
    ("/traits", writes_inventory),
    ("/aggregates", writes_inventory),
    ("/aggregates", writes_trait),
]
"""Before which GET somebody writes what was already read: inventory, traits, aggregates."""


@pytest.mark.parametrize(("before", "writes"), TEARS)
def test_a_torn_read_is_not_taken_for_what_is_there(placement, before: str, writes: Any) -> None:
    host = settled_host(placement, {"a": both(inventory(VCPU=8), traits("CUSTOM_A"))})
    host.stranger.set_traits(ROOT, host.traits() - {"CUSTOM_A"})  # so that it is read again
    host.between("GET", before, writes(host)).period()
    host.settled()
    assert host.totals() == {"VCPU": 8}
    assert "CUSTOM_A" in host.traits()
    if writes is writes_trait:
        assert "CUSTOM_STRANGE" in host.traits(), "written while it was read, and not wiped out"


def test_a_torn_read_is_read_again_before_it_is_built_upon(placement) -> None:
    """The oldest of the three generations is the one that holds for all three."""
    host = settled_host(placement, {"a": inventory(VCPU=8)})
    host.stranger.add_trait(ROOT, "CUSTOM_BEFORE")
    host.between("GET", "/aggregates", writes_trait(host)).period()
    host.says(a=both(inventory(VCPU=8), traits("CUSTOM_A"))).period(SOON)
    assert {"CUSTOM_A", "CUSTOM_BEFORE", "CUSTOM_STRANGE"} <= host.traits()


def test_a_torn_read_that_needs_no_write_is_seen_by_the_next_verification(placement) -> None:
    host = settled_host(placement, {"a": inventory(VCPU=8)})
    host.stranger.add_trait(ROOT, "CUSTOM_BEFORE")
    host.between("GET", "/aggregates", writes_inventory(host)).period()
    host.period()
    assert host.totals() == {"VCPU": 8}


def test_aggregates_that_somebody_sets_while_they_are_read_stay(placement) -> None:
    host = settled_host(placement, {"a": inventory(VCPU=8)})
    host.stranger.add_trait(ROOT, "CUSTOM_BEFORE")
    host.between("GET", "/traits", writes_aggregate(host))
    host.says(a=both(inventory(VCPU=9), traits("CUSTOM_A"))).period()
    host.period()
    assert host.aggregates() == {RACK}
    assert {"CUSTOM_A", "CUSTOM_BEFORE"} <= host.traits()


def test_a_provider_that_vanishes_while_it_is_read_is_made_again(placement) -> None:
    host = settled_host(placement, {"a": child("card", CUSTOM_SLOT=4)})
    card = host.uuid("card")
    host.stranger.add_trait(card, "CUSTOM_STRANGE")
    host.between("GET", f"{card}/traits", lambda: host.stranger.delete_provider(card)).period()
    host.settled()
    assert host.totals("card") == {"CUSTOM_SLOT": 4}


# -- something unexpected


@pytest.mark.parametrize("error", [RuntimeError("garbled"), errors.Unreachable("no reply")])
def test_after_a_reply_that_was_lost_nothing_is_believed_before_it_is_read(
    placement, error: Exception
) -> None:
    """The write was done; the driver goes back to what it said before, and that is true again."""
    host = settled_host(placement, {"a": inventory(VCPU=8)})
    host.says(a=inventory(VCPU=16))
    placement.fail_next("PUT", "/inventories$", error, after=True)  # type: ignore[arg-type]
    assert not host.period(SOON).ok
    assert host.totals() == {"VCPU": 16}
    assert host.says(a=inventory(VCPU=8)).period(SOON).ok
    assert host.totals() == {"VCPU": 8}


# -- the switch


def test_a_switch_after_a_lost_reply_reads_first_and_takes_nothing_along(placement) -> None:
    host = settled_host(placement, {"a": both(inventory(VCPU=8), traits("CUSTOM_A"))})
    host.says(a=both(inventory(VCPU=8), traits("CUSTOM_A", "CUSTOM_B")))
    placement.fail_next("PUT", f"{ROOT}/traits$", errors.Unreachable("no reply"), after=True)
    assert not host.period(SOON).ok
    mark = placement.mark()
    assert host.switch(disabled=True).ok
    assert placement.since(mark)[0].path == f"/resource_providers?in_tree={ROOT}"
    assert sum(one.is_write for one in placement.since(mark)) == 1, "no write that had to fail"
    assert {DISABLED, "CUSTOM_A", "CUSTOM_B"} <= host.traits()


@pytest.mark.parametrize("disabled", [True, False])
def test_a_switch_whose_own_reply_was_lost_can_be_turned_back(placement, disabled: bool) -> None:
    host = Host(placement, {"a": inventory(VCPU=8)})
    host.settled(disabled=not disabled)
    placement.fail_next("PUT", f"{ROOT}/traits$", errors.Unreachable("no reply"), after=True)
    assert not host.switch(disabled=disabled).ok
    assert host.switch(disabled=not disabled).ok
    assert (DISABLED in host.traits()) is not disabled


def test_a_switch_beside_somebody_who_writes_traits_takes_none_of_his(placement) -> None:
    host = Host(placement, {"a": inventory(VCPU=8)})
    host.settled(disabled=False)
    host.stranger.add_trait(ROOT, "CUSTOM_STRANGE")
    assert host.switch(disabled=True).ok
    assert {DISABLED, "CUSTOM_STRANGE"} <= host.traits()
    host.between("PUT", f"{ROOT}/traits", lambda: host.stranger.add_trait(ROOT, "CUSTOM_LATER"))
    assert host.switch(disabled=False).ok
    assert DISABLED not in host.traits()
    assert {"CUSTOM_STRANGE", "CUSTOM_LATER"} <= host.traits()


def test_a_switch_of_a_host_that_is_right_already_looks_and_writes_nothing(placement) -> None:
    host = Host(placement, {"a": inventory(VCPU=8)})
    host.settled(disabled=True)
    report = host.switch(disabled=True)
    assert report.calls <= 1 and not report.done
    assert host.switch(disabled=False).calls == 1


# -- a Placement that fails, or is away


def test_retry_after_holds_as_long_as_it_says_and_until_an_answer(placement) -> None:
    host = settled_host(placement, {"a": inventory(VCPU=8)})
    busy = errors.Unreachable("503", retry_after=100.0)
    placement.fail_next("GET", "in_tree", busy)
    assert not host.period().ok
    assert host.period(50).calls == 0 and host.switch(disabled=True).calls == 0
    assert host.period(200).ok
    placement.fail_next("GET", "in_tree", errors.Unreachable("503"))
    assert not host.period().ok
    assert host.period(100).ok, "who did not ask to be left alone is asked within two periods"


def test_a_placement_that_answers_once_in_between_is_not_given_up(placement) -> None:
    """Failures in a row count, not failures of a life."""
    host = settled_host(placement, {"a": inventory(VCPU=8)}, nodes_at_once=2)
    for _ in range(6):
        placement.fail_next("GET", "in_tree", errors.Unreachable("away"))
        report = host.period()
        assert report.calls == 1, "asked, each time"
    assert host.period().ok


# -- allocations


def splits(tree: Any, allocations: Any) -> None:
    """Moves the root's VGPU, with who uses it, to a child."""
    if "VGPU" not in tree.data(NODE).inventory:
        return
    if allocations is None:
        raise ReshapeNeeded
    gpu = tree.data("gpu").uuid if tree.exists("gpu") else tree.new_child("gpu", NODE)
    tree.update_inventory(gpu, {"VGPU": {"total": 8}})
    tree.update_inventory(NODE, {"VCPU": {"total": 8}})
    splits.seen = dict(allocations)  # type: ignore[attr-defined]
    for held in allocations.values():
        part = held["allocations"].get(ROOT, {}).get("resources", {})
        if "VGPU" in part:
            held["allocations"][gpu] = {"resources": {"VGPU": part.pop("VGPU")}}
            if not part:
                del held["allocations"][ROOT]


def test_allocations_on_a_strangers_pool_are_neither_shown_nor_moved(placement, tmp_path) -> None:
    """Thousands of guests of other hosts may use it: they are not even asked for."""
    says = both(inventory(VCPU=8, VGPU=8), aggregates(RACK))
    host = Host(placement, {"a": says}, state=tmp_path)
    stranger = host.stranger
    stranger.create_provider("pool", POOL)
    stranger.set_inventory(POOL, {"DISK_GB": {"total": 900}})
    stranger.add_trait(POOL, "MISC_SHARES_VIA_AGGREGATE")
    stranger.set_aggregates(POOL, [RACK])
    host.settled()
    elsewhere = stranger.put_allocation({POOL: {"DISK_GB": 10}})
    here = stranger.put_allocation({ROOT: {"VCPU": 1, "VGPU": 2}, POOL: {"DISK_GB": 20}})
    host.restart(a=splits)
    asked = host.calls_of(host.period)
    assert f"GET /resource_providers/{POOL}/allocations" not in asked
    assert set(splits.seen) == {here}  # type: ignore[attr-defined]
    found = stranger.allocation(here)["allocations"]
    assert {uuid: part["resources"] for uuid, part in found.items()} == {
        ROOT: {"VCPU": 1},
        host.uuid("gpu"): {"VGPU": 2},
        POOL: {"DISK_GB": 20},
    }
    assert stranger.allocation(elsewhere)["allocations"][POOL]["resources"] == {"DISK_GB": 10}
    host.settled()


def test_nothing_new_is_claimed_while_no_ledger_can_be_written(placement, tmp_path) -> None:
    """What is there is kept right, and what it would add waits."""
    host = settled_host(
        placement, {"a": both(inventory(VCPU=8), child("card", VGPU=7))}, state=tmp_path
    )
    host.stranger.set_inventory(ROOT, {"VCPU": {"total": 5}})
    journal = root_path(tmp_path, host.root)
    kept = journal.read_bytes()
    journal.unlink()
    journal.mkdir()
    more = both(inventory(VCPU=8, MEMORY_MB=9), child("card", VGPU=7), child("new", FPGA=1))
    host.says(a=both(more, traits("CUSTOM_NEW")))
    for _ in range(2):
        (condition,) = host.period().conditions
        assert str(journal) in condition.text and "nothing new is reported" in condition.next_step
    assert host.totals() == {"VCPU": 8} and host.totals("card") == {"VGPU": 7}
    assert not host.is_there("new") and host.custom() == set()
    journal.rmdir()
    journal.write_bytes(kept)
    host.settled()
    assert host.is_there("new") and host.custom() == {"CUSTOM_NEW"}
    assert host.period().conditions == ()
