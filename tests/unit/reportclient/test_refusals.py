"""What Placement refused is not sent again every period; what is in use is drained."""

from __future__ import annotations

import pytest

from reportclient.errors import (
    AlreadyThere,
    Conflict,
    InUse,
    PlacementError,
    Rejected,
    ServerFault,
    Unreachable,
)
from reportclient.model import Inventory, Provider
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    Operation,
    Plan,
    Reshape,
    SetInventory,
    SetTraits,
)
from reportclient.refusals import RESHAPE, Refusals, nothing_foreign
from reportclient.snapshot import Snapshot

ROOT, CARD, BELOW = (f"c0ffee00-0000-4000-8000-00000000000{number}" for number in range(3))
TRAITS, OTHER = SetTraits(ROOT, frozenset({"HW_A"})), SetTraits(CARD, frozenset())


def refusing(*refused: tuple[str, Operation, PlacementError]) -> Refusals:
    found = Refusals()
    found.remember({s: one for s, one, _ in refused}, {s: err for s, _, err in refused})
    return found


def test_a_refused_operation_is_left_out_as_long_as_it_is_wanted() -> None:
    refusals = refusing((ROOT, TRAITS, Rejected("bad")))
    for _ in range(2):
        assert refusals.suppress(Plan((TRAITS, OTHER))).operations == (OTHER,)
    assert refusals.errors().keys() == {ROOT}


def test_it_is_forgotten_once_the_drivers_want_something_else() -> None:
    refusals = refusing((ROOT, TRAITS, Rejected("bad")))
    assert refusals.suppress(Plan((OTHER,))).operations == (OTHER,)
    assert refusals.suppress(Plan((TRAITS,))).operations == (TRAITS,)


def test_it_is_sent_again_after_a_verification() -> None:
    refusals = refusing((ROOT, TRAITS, Rejected("bad")))
    refusals.failed_reshape = ValueError("not now")
    refusals.forget()
    assert refusals.suppress(Plan((TRAITS,))).operations == (TRAITS,)
    assert refusals.reshape() is None


def test_a_refused_reshape_is_known_though_nobody_plans_it() -> None:
    error = Rejected("no room")
    refusals = refusing((RESHAPE, Reshape({}, {}), error))
    refusals.suppress(Plan((OTHER,)))
    assert refusals.reshape() is error


def test_what_is_already_there_is_not_remembered_as_refused() -> None:
    made = CreateProvider(CARD, "card", ROOT)
    assert not refusing((CARD, made, AlreadyThere("x"))).errors()


def test_errors_that_pass_are_forgotten_earlier_than_refusals() -> None:
    refusals = refusing((ROOT, TRAITS, Conflict("x")), (CARD, OTHER, Rejected("y")))
    refusals.by_subject[BELOW] = SetTraits(BELOW, frozenset()), ServerFault("z")
    refusals.by_subject[RESHAPE] = Reshape({}, {}), ServerFault("z")
    refusals.forget_faults()
    assert refusals.errors().keys() == {CARD, RESHAPE}


@pytest.mark.parametrize(
    ("operation", "blocks"),
    [
        (CreateProvider(CARD, "card", ROOT), True),
        (DeleteProvider(CARD), True),
        (SetTraits(CARD, frozenset()), True),
        (SetInventory(CARD, {}), False),
    ],
)
def test_what_needs_a_refused_operation_is_left_out(operation: Operation, blocks: bool) -> None:
    refusals = refusing((CARD, operation, Rejected("x")))
    assert refusals.blocking().keys() == ({CARD} if blocks else set())


def records(**reserved: int) -> dict[str, Inventory]:
    return {
        name: Inventory(8, reserved=number).with_defaults(None) for name, number in reserved.items()
    }


HOST = Snapshot.build(
    [
        Provider(ROOT, "host", None, records(VCPU=0)),
        Provider(CARD, "card", ROOT, records(VGPU=1)),
        Provider(BELOW, "below", CARD, records(CUSTOM_A=2, CUSTOM_B=0)),
    ]
)


def test_a_provider_in_use_is_reserved_whole_with_what_goes_above_it() -> None:
    refusals = refusing((BELOW, DeleteProvider(BELOW), InUse("guests")))
    leaving = [DeleteProvider(BELOW), DeleteProvider(CARD)]
    drains = {one.uuid: one for one in refusals.drains(HOST, leaving, nothing_foreign)}
    assert drains.keys() == {BELOW, CARD}, "and not the root, which stays"
    assert {name: r.reserved for name, r in drains[BELOW].inventory.items()} == {
        "CUSTOM_A": 8,
        "CUSTOM_B": 8,
    }
    assert drains[BELOW].drains == {"CUSTOM_A": 2, "CUSTOM_B": 0}, "what was reserved before"
    assert refusals.draining() == {BELOW}


def test_other_services_classes_on_it_are_left_as_they_are() -> None:
    refusals = refusing((BELOW, DeleteProvider(BELOW), InUse("guests")))
    (drain,) = refusals.drains(HOST, [DeleteProvider(BELOW)], lambda _: {"CUSTOM_B"})
    assert drain.inventory["CUSTOM_B"] == HOST.providers[BELOW].inventory["CUSTOM_B"]
    assert drain.drains == {"CUSTOM_A": 2}


def test_a_class_in_use_that_is_left_out_is_reserved_and_the_others_are_as_wanted() -> None:
    wanted = {"CUSTOM_A": Inventory(3).with_defaults(None)}
    refusals = refusing((BELOW, SetInventory(BELOW, wanted), InUse("guests")))
    (drain,) = refusals.drains(HOST, [], nothing_foreign)
    assert drain.inventory["CUSTOM_A"] == wanted["CUSTOM_A"]
    assert (drain.inventory["CUSTOM_B"].reserved, drain.drains) == (8, {"CUSTOM_B": 0})


def test_what_is_drained_already_is_not_written_again() -> None:
    full = records(VGPU=8)
    there = HOST.with_changes({CARD: Provider(CARD, "card", ROOT, full)})
    refusals = refusing((CARD, DeleteProvider(CARD), InUse("guests")))
    assert not list(refusals.drains(there, [DeleteProvider(CARD)], nothing_foreign))


def test_only_what_is_in_use_is_drained() -> None:
    refusals = refusing((CARD, DeleteProvider(CARD), Rejected("x")))
    assert not list(refusals.drains(HOST, [DeleteProvider(CARD)], nothing_foreign))
    assert not refusals.draining()


def test_each_cause_is_told_once() -> None:
    cause = Unreachable("x")
    refusals = refusing((ROOT, TRAITS, Rejected("bad")))
    own = refusals.errors()[ROOT]
    told = refusals.causes({CARD: cause, BELOW: own, ROOT: own})
    assert told == {CARD: cause, ROOT: own}
