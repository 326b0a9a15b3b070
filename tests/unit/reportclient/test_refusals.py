"""What Placement refused is not sent again every period; what is in use is drained."""

import pytest

from reportclient.errors import (
    AlreadyThere,
    Conflict,
    Forbidden,
    InUse,
    NameTaken,
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
from reportclient.refusals import Refusals, explained
from reportclient.snapshot import EMPTY, Snapshot
from tests.stranger import FakePlacement

ROOT, CARD, BELOW = (f"c0ffee00-0000-4000-8000-00000000000{number}" for number in range(3))
TRAITS, OTHER = SetTraits(ROOT, frozenset({"HW_A"})), SetTraits(CARD, frozenset())
REQUEST = ("PUT", "/traits", None)


def refusing(*refused: tuple[Operation, PlacementError]) -> Refusals:
    found = Refusals()
    for operation, err in refused:
        found.add(operation, err)
    return found


def now(refusals: Refusals, *operations: Operation, at: float = 1.0) -> list[Operation]:
    """What is sent at this time, in its order."""
    refusals.now = at
    return [each for plan in refusals.suppress(Plan(operations), HOST) for each in plan]


def test_a_refused_operation_is_left_out_as_long_as_it_is_desired() -> None:
    refusals = refusing((TRAITS, Rejected("bad")))
    for _ in range(2):
        assert now(refusals, TRAITS, OTHER) == [OTHER]
    assert refusals.errors().keys() == {ROOT}
    assert now(refusals, OTHER) == [OTHER]
    assert now(refusals, TRAITS) == [TRAITS]


def test_refused_operations_are_found_without_comparing_all_with_all() -> None:
    compared: list[str] = []

    class Compared(SetTraits):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            compared.append(self.uuid)
            return isinstance(other, Compared) and self.uuid == other.uuid

    many = [Compared(str(number), frozenset()) for number in range(200)]
    refusals = refusing(*((each, Rejected("bad")) for each in many))
    assert not now(refusals, *many)
    assert len(compared) <= 2 * len(many)


def test_it_is_sent_again_after_a_verification() -> None:
    refusals = refusing((TRAITS, Rejected("bad")))
    refusals.failed_reshape = ValueError("not now")
    refusals.resend()
    assert now(refusals, TRAITS) == [TRAITS]
    assert refusals.reshape() is None and refusals.errors().keys() == {ROOT}, "until it is done"
    refusals.acknowledged(TRAITS)
    assert not refusals.errors()


def test_a_refused_reshape_is_known_though_nobody_plans_it() -> None:
    error = Rejected("no room")
    refusals = refusing((Reshape({}, {}), error))
    now(refusals, OTHER)
    assert refusals.reshape() is error


def test_a_reshape_without_an_answer_is_tried_again_and_races_anew() -> None:
    refusals, reshape, away = Refusals(), Reshape({}, {}), Unreachable("away")
    refusals.add(reshape, away)
    assert refusals.reshape() is None and not refusals.repeats(reshape, REQUEST)
    assert now(refusals, reshape) == [reshape]
    refusals.add(TRAITS, away)
    assert refusals.repeats(TRAITS, REQUEST) and now(refusals, TRAITS, OTHER) == [OTHER, TRAITS]


def test_what_met_a_fault_is_sent_after_a_period_and_last() -> None:
    """With what needs it; what was refused waits for a verification."""
    fault, below = ServerFault("x"), CreateProvider("new", "new", CARD)
    create = CreateProvider(CARD, "card", ROOT)
    refusals = refusing((create, fault), (DeleteProvider(BELOW), Rejected("y")))
    plan = (create, below, DeleteProvider(BELOW), TRAITS)
    assert now(refusals, *plan, at=59.0) == [below, TRAITS], "and below waits in apply"
    assert now(refusals, *plan, at=60.0) == [TRAITS, create, below]
    for at, due in ((60.0, 180.0), (180.0, 420.0)):
        refusals.now = at
        refusals.add(create, fault)
        assert create not in now(refusals, *plan, at=due - 1)
        assert create in now(refusals, *plan, at=due)


def test_a_deleted_provider_and_its_name_wait_for_what_failed() -> None:
    below, taker = DeleteProvider(BELOW), CreateProvider("new", "Below", ROOT)
    refusals = refusing((below, Conflict("x")))
    plan = (below, DeleteProvider(CARD), taker, TRAITS)
    assert now(refusals, *plan, at=60.0) == [TRAITS, below, DeleteProvider(CARD), taker]


def test_what_was_left_out_is_sent_before_what_failed() -> None:
    met, left_out = SetTraits(ROOT, frozenset()), SetTraits(CARD, frozenset())
    refusals, fault = Refusals(), Conflict("x")
    refusals.faulty_until = refusals.add(met, fault).due
    refusals.add(left_out, fault, sent=False)
    assert now(refusals, met, left_out, OTHER, at=60.0)[-2:] == [left_out, met]
    assert refusals.errors() == {ROOT: fault}
    refusals.acknowledged(SetTraits(BELOW, frozenset()))
    assert now(refusals, met, left_out) == [left_out], "Placement works again"


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
    refusals = refusing((operation, Rejected("x")))
    refusals.now = 1.0
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
    refusals = refusing((DeleteProvider(BELOW), InUse("guests")))
    leaving = [DeleteProvider(BELOW), DeleteProvider(CARD)]
    drains = {one.uuid: one for one in refusals.drains(HOST, leaving)}
    assert drains.keys() == {BELOW, CARD}, "and not the root, which stays"
    assert {name: r.reserved for name, r in drains[BELOW].inventory.items()} == {
        "CUSTOM_A": 8,
        "CUSTOM_B": 8,
    }
    assert drains[BELOW].drains == {"CUSTOM_A": 2, "CUSTOM_B": 0}, "what was reserved before"
    assert refusals.draining() == {BELOW}


def test_other_services_classes_on_it_are_left_as_they_are() -> None:
    refusals = refusing((DeleteProvider(BELOW), InUse("guests")))
    (drain,) = refusals.drains(HOST, [DeleteProvider(BELOW)], lambda _: {"CUSTOM_B"})
    assert drain.inventory["CUSTOM_B"] == HOST.providers[BELOW].inventory["CUSTOM_B"]
    assert drain.drains == {"CUSTOM_A": 2}


def test_an_omitted_class_in_use_is_reserved_and_others_are_as_desired() -> None:
    wanted = {"CUSTOM_A": Inventory(3).with_defaults(None)}
    refusals = refusing((SetInventory(BELOW, wanted), InUse("guests")))
    (drain,) = refusals.drains(HOST, [])
    assert drain.inventory["CUSTOM_A"] == wanted["CUSTOM_A"]
    assert (drain.inventory["CUSTOM_B"].reserved, drain.drains) == (8, {"CUSTOM_B": 0})


def test_what_is_drained_already_is_not_written_again() -> None:
    full = records(VGPU=8)
    there = HOST.with_changes({CARD: Provider(CARD, "card", ROOT, full)})
    refusals = refusing((DeleteProvider(CARD), InUse("guests")))
    assert not list(refusals.drains(there, [DeleteProvider(CARD)]))


def test_only_what_is_in_use_is_drained() -> None:
    refusals = refusing((DeleteProvider(CARD), Rejected("x")))
    assert not list(refusals.drains(HOST, [DeleteProvider(CARD)]))
    assert not refusals.draining()
    gone, used = SetInventory("gone", {}), SetInventory(BELOW, {})
    for operation in (gone, used):
        refusals.add(operation, InUse("guests"))
    assert [each.uuid for each in refusals.drains(HOST, [])] == [BELOW]


def test_each_cause_is_told_once() -> None:
    cause = Unreachable("x")
    refusals = refusing((TRAITS, Rejected("bad")))
    own = refusals.errors()[ROOT]
    told = refusals.errors({CARD: cause, BELOW: own, ROOT: own})
    assert told == {CARD: cause, ROOT: own}
    assert refusals.errors({BELOW: own}) == {ROOT: own}


def test_an_error_with_details_is_not_repeated_for_what_depends_on_it() -> None:
    raw, later = AlreadyThere("x"), Unreachable("y")
    refusals = refusing((CreateProvider(CARD, "card", ROOT), NameTaken("in another tree")))
    told = refusals.errors({CARD: raw, ROOT: raw, BELOW: later})
    assert told == {BELOW: later, **refusals.errors()}


# -- details of errors


@pytest.mark.parametrize("used", [True, False])
def test_what_is_in_use_is_told_with_its_consumers(fake_placement, used: bool) -> None:
    fake_placement.stranger.create_provider("host", ROOT)
    fake_placement.stranger.set_inventory(ROOT, {"VCPU": {"total": 8}})
    guest = fake_placement.stranger.put_allocation({ROOT: {"VCPU": 1}})
    if not used:
        fake_placement.stranger.delete_allocation(guest)
    err = InUse("x", request_id="req-1")
    users = guest if used else "consumers that are gone now"
    text = f"draining: it is in use by {users}; removed when its last consumer is gone"
    told = explained(err, DeleteProvider(ROOT), EMPTY, fake_placement)
    assert str(told) == f"{text} (request req-1)" and isinstance(told, InUse)


@pytest.mark.parametrize("kind", [InUse, Forbidden])
def test_a_refused_reshape_moved_nothing(fake_placement, kind: type[PlacementError]) -> None:
    told = explained(kind("x", request_id="req-1"), Reshape({}, {}), EMPTY, fake_placement)
    text = "x; neither inventory nor allocations were moved (request req-1)"
    assert str(told) == text and type(told) is kind


def test_a_taken_name_is_told_with_who_has_it(fake_placement: FakePlacement) -> None:
    err, create = NameTaken("x", request_id="req-1"), CreateProvider(CARD, "card", ROOT)
    assert explained(err, create, EMPTY, fake_placement) is err
    fake_placement.stranger.create_provider("other", CARD)
    there = explained(err, create, EMPTY, fake_placement)
    assert isinstance(there, AlreadyThere) and str(there) == "x (request req-1)"
    fake_placement.stranger.create_provider("card", BELOW)
    told = str(explained(err, create, EMPTY, fake_placement))
    assert f"named card with UUID {BELOW} (root {BELOW}), here its UUID is {CARD}" in told
    assert f"Until then card ({CARD}) is not reported" in told
