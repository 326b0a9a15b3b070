"""A Placement that was restored from a backup has again what this agent had removed."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from agent.reporting.condition import Severity
from tests.ownership.world import (
    NODE,
    ROOT,
    SOON,
    Body,
    Host,
    Scripted,
    aggregates,
    both,
    child,
    inventory,
    removes,
    settled_host,
    traits,
)
from tests.stranger import FakePlacement

RACK = "aaaaaaaa-0000-4000-8000-000000000001"
OTHER_RACK = "aaaaaaaa-0000-4000-8000-000000000002"
DEVICE = "dddddddd-0000-4000-8000-000000000001"
"""A UUID of the driver's own, which says nothing about whose it is."""

ALL = both(
    inventory(VCPU=8, FPGA=1),
    traits("CUSTOM_OLD"),
    aggregates(RACK),
    child("device", uuid=DEVICE, CUSTOM_SLOT=4),
)


def less(tree) -> None:
    """What the driver says later: nothing of what it said before is left but the CPUs."""
    inventory(VCPU=8)(tree)
    tree.remove_traits(NODE, "CUSTOM_OLD")
    tree.remove_aggregates(NODE, RACK)
    if tree.exists("device"):
        tree.remove("device")


def untouched(tree) -> None:
    """As drivers that leave alone what they do not report any more."""
    inventory(VCPU=8)(tree)


@pytest.fixture
def host(tmp_path) -> Host:
    return settled_host(FakePlacement(), {"d": ALL}, tmp_path)


def backed_up(host: Host) -> Callable[[], None]:
    """What brings its state of now back."""
    store = host.placement.store
    kept = copy.deepcopy((store.providers, store.consumers))

    def restore() -> None:
        store.providers, store.consumers = copy.deepcopy(kept)

    return restore


def removed(host: Host) -> None:
    host.says(d=less).settled()
    host.says(d=untouched).settled()


def only_cpus(host: Host) -> bool:
    left = host.totals(), host.custom(), host.aggregates(), host.is_there("device")
    return left == ({"VCPU": 8}, set(), set(), False)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_removed_is_removed_again_as_often_as_it_comes_back(host, restarted) -> None:
    restore = backed_up(host)
    removed(host)
    for _ in range(2):
        restore()
        assert not only_cpus(host)
        if restarted:
            host.restart()
        host.settled()
        assert only_cpus(host)


def test_what_was_removed_in_two_steps_is_removed_again(host) -> None:
    restore = backed_up(host)
    host.says(
        d=both(inventory(VCPU=8, FPGA=1), lambda tree: tree.remove_traits(NODE, "CUSTOM_OLD"))
    )
    host.settled()
    removed(host)
    restore()
    host.settled()
    assert only_cpus(host)


def test_of_several_providers_each_is_as_it_is_reported(host) -> None:
    """One that is made anew on purpose does not end what is remembered of the others."""
    names = [f"port{number}" for number in range(4)]
    host.says(d=both(ALL, *(child(name, CUSTOM_SLOT=1) for name in names))).settled()
    restore = backed_up(host)
    host.says(d=both(less, removes(*names))).settled()
    kept = names[1]
    host.says(
        d=both(less, removes(*(each for each in names if each != kept)), child(kept, CUSTOM_SLOT=1))
    )
    host.settled()
    restore()
    host.settled()
    assert host.names() == {NODE, kept}


def test_what_another_service_sets_after_the_restore_stays(host) -> None:
    host.says(d=untouched).settled()
    host.says(d=both(inventory(VCPU=8), traits("CUSTOM_LATER")))
    restore = backed_up(host)
    for number in range(20):  # generations go on
        host.says(d=both(inventory(VCPU=8 + number), traits("CUSTOM_LATER"))).settled()
    host.says(d=lambda tree: (inventory(VCPU=8)(tree), tree.remove_traits(NODE, "CUSTOM_LATER")))
    host.settled()
    host.says(d=inventory(VCPU=8))  # what is absent by name goes whoever sets it
    restore()
    host.settled()
    host.stranger.add_trait(host.root, "CUSTOM_LATER")
    host.settled()
    assert "CUSTOM_LATER" in host.custom()


def restored_beside_guests(host: Host) -> None:
    """Placement gets back a backup of before the host's last change."""
    host.restart()
    host.settled()
    restore = backed_up(host)
    host.says(d=both(ALL, traits("CUSTOM_NEW")))
    host.settled()
    restore()


@pytest.mark.parametrize(("guests", "is_named"), [("known", True), ("others", False), ("", False)])
def test_guests_without_allocations_are_named_as_long_as_they_have_none(
    host, guests: str, is_named: bool, monkeypatch
) -> None:
    """Consumers that are called otherwise than the guests prove nothing."""
    host.stranger.put_allocation({host.root: {"VCPU": 1}}, OTHER_RACK)
    listed = {"known": [DEVICE, OTHER_RACK], "others": [DEVICE], "": []}[guests]
    monkeypatch.setattr(Scripted, "guests", lambda *_: listed, raising=False)
    restored_beside_guests(host)
    for _ in range(3):
        assert any(DEVICE in text for text in host.period().texts()) is is_named
    host.stranger.put_allocation({host.root: {"VCPU": 1}}, DEVICE)
    host.settled()


def test_a_driver_that_cant_list_its_guests_after_a_restore_is_named(host, monkeypatch) -> None:
    def guests(*_: object) -> list[str]:
        raise OSError("the list is locked")

    monkeypatch.setattr(Scripted, "guests", guests, raising=False)
    restored_beside_guests(host)
    for _ in range(2):
        report = host.period()
        (text,) = report.texts(Severity.DEGRADED)
        assert text.startswith("driver d: guests() failed: OSError: the list is locked (")
    monkeypatch.setattr(Scripted, "guests", lambda *_: [])
    assert not host.period().texts()


# -- on another service's root


def card(name: str, aggregate: str, **totals: int) -> Body:
    def body(tree: Any) -> None:
        child("card", **totals)(tree)
        tree.update_traits("card", {name})
        tree.update_aggregates("card", {aggregate})

    return body


@pytest.fixture
def beside(tmp_path) -> Host:
    placement = FakePlacement()
    placement.stranger.create_provider(NODE, ROOT)
    before = both(card("CUSTOM_OLD", RACK, CUSTOM_SLOT=4), traits("CUSTOM_OLD"))
    return settled_host(placement, {"d": before}, tmp_path, attached=True)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_removed_of_a_child_of_anothers_root_is_removed_again(beside, restarted) -> None:
    restore = backed_up(beside)
    beside.says(d=card("CUSTOM_NEW", OTHER_RACK, CUSTOM_PORT=2)).settled()
    restore()
    if restarted:
        beside.restart()
    beside.settled()
    assert beside.totals("card") == {"CUSTOM_PORT": 2}
    assert beside.custom("card") == {"CUSTOM_NEW"}
    assert beside.aggregates("card") == {OTHER_RACK}


def test_a_root_that_its_owner_made_anew_keeps_what_its_owner_gave_it(beside) -> None:
    """Its generations begin again, as a restored one's do."""
    beside.says(d=lambda tree: (tree.remove("card"), tree.remove_traits(NODE, "CUSTOM_OLD")))
    for _ in range(3):
        beside.period()
    beside.stranger.delete_provider(ROOT)
    beside.stranger.create_provider(NODE, ROOT)
    beside.stranger.add_trait(ROOT, "CUSTOM_OLD")
    beside.says(d=lambda tree: None)
    for _ in range(4):
        beside.period()
    beside.settled()
    assert beside.custom() == {"CUSTOM_OLD"}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_child_that_a_restore_put_below_a_removed_child_is_moved_back(beside, restarted) -> None:
    """The removed one is taken out of the tree, and takes the child along."""
    shelf = child("shelf", CUSTOM_SLOT=1)
    below = both(child("card", CUSTOM_SLOT=4), lambda tree: tree.move("card", "shelf"))
    beside.says(d=both(shelf, below)).settled()
    restore = backed_up(beside)
    above = both(child("card", CUSTOM_PORT=2), lambda tree: tree.move("card", NODE))
    assert beside.says(d=both(above, removes("shelf"))).period(SOON).ok
    restore()
    assert beside.period(SOON).ok
    assert beside.names() == {NODE}, "the card has left with the shelf"
    if restarted:
        beside.restart()
    for _ in range(4):
        assert beside.period().ok
    assert beside.names() == {NODE, "card"} and beside.totals("card") == {"CUSTOM_PORT": 2}
    assert len(beside.placement.store.providers) == 2, "the shelf is deleted"


def test_a_child_below_a_removed_one_that_is_not_reported_either_goes_too(beside) -> None:
    below = both(child("card", CUSTOM_SLOT=4), lambda tree: tree.move("card", "shelf"))
    beside.says(d=both(child("shelf", CUSTOM_SLOT=1), below)).settled()
    restore = backed_up(beside)
    beside.says(d=lambda tree: tree.exists("card") and tree.move("card", NODE))
    assert beside.period(SOON).ok
    assert beside.says(d=removes("shelf")).period(SOON).ok
    restore()
    assert beside.period(SOON).ok
    beside.says(d=removes("card", "shelf"))
    for _ in range(8):
        assert beside.period().ok
    assert len(beside.placement.store.providers) == 1
