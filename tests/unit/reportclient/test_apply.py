"""apply: what becomes of a plan when Placement refuses, fails or changes in between."""

import pytest

from reportclient.apply import FAULTS, Outcome, apply, batches, send
from reportclient.errors import (
    AlreadyThere,
    Conflict,
    Forbidden,
    InUse,
    NotFound,
    NotSent,
    PlacementError,
    Rejected,
    ServerFault,
    TooOld,
    UnknownNames,
    Unreachable,
)
from reportclient.model import Inventory
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    Operation,
    Plan,
    Reshape,
    SetInventories,
    SetInventory,
    SetTraits,
    UpdateProvider,
    subject_of,
)
from reportclient.reader import refresh
from reportclient.refusals import Refusals
from reportclient.view import View
from tests.stranger import FakePlacement

ROOT, CHILD, BELOW, OTHER, CONSUMER = (
    f"c0ffee00-0000-4000-8000-00000000000{number}" for number in range(5)
)
TOTAL = {"VCPU": Inventory(8).with_defaults(None)}
NO_TRAITS, INVENTORY = SetTraits(ROOT, frozenset()), SetInventory(OTHER, TOTAL)
DEEP = Plan((CreateProvider(CHILD, "child", ROOT), CreateProvider(BELOW, "below", CHILD)))


@pytest.fixture
def placement(fake_placement: FakePlacement) -> FakePlacement:
    """With a root that somebody else has made, and one child."""
    fake_placement.stranger.create_provider("host", ROOT)
    fake_placement.stranger.create_child(ROOT, "other", OTHER)
    return fake_placement


def applied(placement: FakePlacement, *operations: Operation, **how: object) -> Outcome:
    """What becomes of a plan; ``how``: options of apply, and what failed before as ``refusals``."""
    view = refresh(View(), ROOT, placement)
    return apply(Plan(operations), view, placement, **how)  # type: ignore[arg-type]


def sent(placement: FakePlacement) -> list[str]:
    return [f"{one.method} {one.path}" for one in placement.writes]


@pytest.mark.parametrize(
    "error",
    [AlreadyThere("x"), Conflict("x"), NotFound("x"), Unreachable("x")],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_only_a_read_explains_ends_the_plan(placement, error: PlacementError) -> None:
    placement.fail_next("PUT", "traits$", error)
    outcome = applied(placement, NO_TRAITS, INVENTORY)
    assert outcome.stopped_by is error
    assert not outcome.view.certain
    assert len(sent(placement)) == 1


@pytest.mark.parametrize(
    "error", [Rejected("x"), InUse("x"), Forbidden("x")], ids=lambda error: type(error).__name__
)
def test_a_refused_operation_is_remembered_and_the_others_are_sent(
    placement: FakePlacement, error: PlacementError
) -> None:
    placement.fail_next("PUT", "traits$", error)
    outcome = applied(placement, NO_TRAITS, INVENTORY)
    assert outcome.failed == {ROOT: error}
    assert outcome.done == (INVENTORY,) and outcome.stopped_by is None
    assert outcome.view.certain


@pytest.mark.parametrize("failed", [False, True])
def test_an_operation_that_placement_failed_at_is_sent_once_more(
    placement: FakePlacement, failed: bool
) -> None:
    """Unless another one has failed before."""
    refusals = Refusals()
    if failed:
        refusals.add(INVENTORY, ServerFault("x"))
    placement.fail_next("PUT", "traits$", ServerFault("x"))
    outcome = applied(placement, NO_TRAITS, refusals=refusals)
    assert outcome.done == (() if failed else (NO_TRAITS,))
    assert outcome.view.certain is not failed
    assert len(sent(placement)) == 2 - failed


def faults(placement: FakePlacement, number: int) -> None:
    for _ in range(2 * number):
        placement.fail_next("PUT", "traits$", ServerFault("x"))


def test_a_provider_that_placement_fails_at_leaves_the_view_uncertain(placement) -> None:
    faults(placement, 1)
    outcome = applied(placement, NO_TRAITS, INVENTORY)
    assert isinstance(outcome.failed[ROOT], ServerFault)
    assert outcome.done == (INVENTORY,)
    assert outcome.stopped_by is None and not outcome.view.certain


def test_after_as_many_failures_as_allowed_the_rest_waits(placement: FakePlacement) -> None:
    uuids = [f"c0ffee00-0000-4000-8000-0000000001{number:02}" for number in range(FAULTS + 2)]
    for number, uuid in enumerate(uuids):
        placement.stranger.create_child(ROOT, f"c{number}", uuid)
    faults(placement, FAULTS)
    refusals = Refusals()
    outcome = applied(
        placement, *(SetTraits(uuid, frozenset()) for uuid in uuids), refusals=refusals
    )
    assert list(outcome.failed) == list(refusals.by_subject) == uuids
    sent_at = [each.at for each in refusals.by_subject.values()]
    assert sent_at == [0.0] * FAULTS + [-1.0] * 2, "the rest was not sent"
    assert outcome.stopped_by is None
    assert len(sent(placement)) == 2 * FAULTS
    faults(placement, FAULTS - 1)
    outcome = applied(placement, NO_TRAITS, *(SetTraits(uuid, frozenset()) for uuid in uuids))
    assert len(outcome.done) == len(uuids) - FAULTS + 2, "not in a row"


def test_providers_that_exist_already_are_listed_and_the_rest_is_sent(placement) -> None:
    """However many they are, they are read together."""
    other = CreateProvider(BELOW, "another", ROOT)
    for create in (DEEP.operations[0], other):
        placement.stranger.create_child(ROOT, create.name, create.uuid)
    plan = Plan((DEEP.operations[0], other, EnsureTrait("CUSTOM_A")))
    outcome = apply(plan, View(), placement)
    assert outcome.existing == [DEEP.operations[0], other]
    assert outcome.done == (EnsureTrait("CUSTOM_A"),) and outcome.stopped_by is None


def test_nothing_is_created_below_a_provider_that_could_not_be(placement: FakePlacement) -> None:
    placement.fail_next("POST", "/resource_providers$", Rejected("x"))
    refusals = Refusals()
    traits = SetTraits(BELOW, frozenset({"COMPUTE_NODE"}))
    outcome = applied(placement, *DEEP, traits, refusals=refusals)
    assert outcome.failed.keys() == {CHILD, BELOW} and list(refusals.by_subject) == [CHILD]
    assert len(sent(placement)) == 1


def test_a_parent_stays_while_its_child_could_not_be_deleted(placement: FakePlacement) -> None:
    placement.stranger.create_child(OTHER, "below", BELOW)
    placement.fail_next("DELETE", BELOW, InUse("guests"))
    refusals = Refusals()
    plan = DeleteProvider(BELOW), DeleteProvider(OTHER)
    outcome = applied(placement, *plan, refusals=refusals)
    assert outcome.failed.keys() == {BELOW, OTHER} and list(refusals.by_subject) == [BELOW]
    assert outcome.failed[OTHER] is outcome.failed[BELOW]
    assert sent(placement) == [f"DELETE /resource_providers/{BELOW}"]


def test_a_provider_is_deleted_though_one_beside_it_could_not_be(placement: FakePlacement) -> None:
    placement.stranger.create_child(ROOT, "beside", CHILD)
    placement.fail_next("DELETE", CHILD, InUse("guests"))
    outcome = applied(placement, DeleteProvider(CHILD), DeleteProvider(OTHER))
    assert outcome.failed.keys() == {CHILD} and OTHER not in outcome.view.snapshot


def test_traits_wait_for_a_name_that_could_not_be_made(placement: FakePlacement) -> None:
    placement.fail_next("PUT", "/traits/CUSTOM_A", Forbidden("x"))
    outcome = applied(placement, EnsureTrait("CUSTOM_A"), SetTraits(ROOT, frozenset({"CUSTOM_A"})))
    assert outcome.failed.keys() == {"trait CUSTOM_A", ROOT} and len(sent(placement)) == 1


def test_a_trait_that_was_refused_holds_up_no_class_of_the_same_name(placement) -> None:
    placement.fail_next("PUT", "/traits/CUSTOM_A", Forbidden("x"))
    of_one_name = SetInventory(OTHER, {"CUSTOM_A": Inventory(1)})
    outcome = applied(placement, EnsureTrait("CUSTOM_A"), EnsureClass("CUSTOM_A"), of_one_name)
    assert outcome.failed.keys() == {"trait CUSTOM_A"}
    assert outcome.done == (EnsureClass("CUSTOM_A"), of_one_name)


HELD = {CONSUMER: {"allocations": {CHILD: {"resources": {"VCPU": 1}}}}}


def test_a_reshape_waits_for_providers_that_its_allocations_need(placement: FakePlacement) -> None:
    """Also where it sets no inventory of theirs."""
    bad = Rejected("name is bad", request_id="req-1")
    placement.fail_next("POST", "/resource_providers$", bad)
    reshape = Reshape({ROOT: TOTAL}, HELD)
    refusals = Refusals()
    create = CreateProvider(CHILD, "child", ROOT)
    outcome = applied(placement, create, reshape, refusals=refusals)
    missing = f"provider child ({CHILD}) could not be created: name is bad"
    expected = str(NotSent(f"reshape not sent: {missing}", request_id="req-1"))
    assert isinstance(outcome.failed["reshape"], NotSent)
    assert str(outcome.failed["reshape"]) == expected
    assert refusals.earlier(reshape) is not None
    assert sent(placement) == ["POST /resource_providers"]


def test_a_reshape_waits_for_a_provider_that_was_refused_before(placement: FakePlacement) -> None:
    failed, refusals = {CHILD: Unreachable("x")}, Refusals()
    reshape = Reshape({ROOT: TOTAL}, HELD)
    outcome = applied(placement, reshape, failed=failed, refusals=refusals)
    assert f"{CHILD} could not be created: x" in str(outcome.failed["reshape"])
    assert not refusals.by_subject and not sent(placement)


def test_a_reshape_is_sent_where_the_provider_was_there_all_along(placement: FakePlacement) -> None:
    placement.fail_next("PUT", f"{OTHER}/traits", Rejected("x"))
    traits, reshape = SetTraits(OTHER, frozenset()), Reshape({OTHER: TOTAL}, {})
    assert applied(placement, traits, reshape).done == (reshape,)


BULK = SetInventories({ROOT: TOTAL, OTHER: TOTAL})
SINGLY = [f"PUT /resource_providers/{uuid}/inventories" for uuid in (ROOT, OTHER)]


@pytest.mark.parametrize("error", [Conflict("x"), Unreachable("x")])
def test_a_conflict_of_a_bulk_write_ends_the_plan(placement, error: PlacementError) -> None:
    placement.fail_next("POST", "/reshaper", error)
    outcome = applied(placement, BULK)
    assert outcome.stopped_by is error and sent(placement) == ["POST /reshaper"]


@pytest.mark.parametrize(
    ("error", "forever"),
    [(Rejected("x"), False), (Forbidden("x"), True), (NotFound("x"), True), (TooOld("x"), True)],
)
def test_a_refused_bulk_write_is_sent_singly(
    placement: FakePlacement, error: PlacementError, forever: bool
) -> None:
    placement.fail_next("POST", "/reshaper", error)
    outcome = applied(placement, BULK, BULK)
    assert sent(placement)[:3] == ["POST /reshaper", *SINGLY]
    assert sent(placement)[3:] == (SINGLY if forever else ["POST /reshaper"])
    assert outcome.bulk_refused is forever and not outcome.failed


def test_a_bulk_write_leaves_out_what_failed_before(placement: FakePlacement) -> None:
    applied(placement, BULK, failed={ROOT: Rejected("x")})
    assert list(placement.writes[-1].body["inventories"]) == [OTHER]
    before = len(placement.writes)
    applied(placement, BULK, failed={ROOT: Rejected("x"), OTHER: Rejected("x")})
    assert len(placement.writes) == before


@pytest.mark.parametrize(
    ("operation", "needed"),
    [
        (UpdateProvider(OTHER, "other", CHILD, moved=True), CHILD),
        (SetInventory(OTHER, {"CUSTOM_A": Inventory(1)}), "resource class CUSTOM_A"),
        (CreateProvider(BELOW, "below", CHILD), CHILD),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_needs_something_that_could_not_be_made_is_not_sent(
    placement: FakePlacement, operation: Operation, needed: str
) -> None:
    why = Rejected("x")
    outcome = applied(placement, operation, failed={needed: why})
    assert outcome.failed == {needed: why, subject_of(operation): why} and not sent(placement)


def test_a_rename_needs_no_parent_and_a_create_no_class(placement: FakePlacement) -> None:
    failed = {ROOT: Rejected("x"), "CUSTOM_A": Rejected("x")}
    renamed = UpdateProvider(OTHER, "renamed", ROOT)
    assert applied(placement, renamed, failed=failed).done == (renamed,)


def test_the_agent_stops_between_two_writes(placement: FakePlacement) -> None:
    asked: list[bool] = []

    def after_the_first() -> bool:
        asked.append(True)
        return len(asked) > 1

    outcome = applied(placement, NO_TRAITS, INVENTORY, stop=after_the_first)
    assert outcome.done == (NO_TRAITS,) and outcome.stopped_by is None


def test_names_that_placement_does_not_know_are_left_out_from_then_on(placement) -> None:
    names = frozenset({"HW_NEW"})
    placement.fail_next("PUT", "traits$", UnknownNames("x", names=names))
    outcome = applied(placement, SetTraits(ROOT, names))
    assert outcome.view.names.absent_traits == names
    assert isinstance(outcome.stopped_by, UnknownNames)


def test_what_is_sent_together_needs_nothing_of_each_other() -> None:
    side = CreateProvider(OTHER, "side", ROOT)
    deep = (side, *DEEP, SetTraits(CHILD, frozenset()), SetTraits(BELOW, frozenset()))
    assert [[type(one).__name__ for one in batch] for batch in batches(deep, 8)] == [
        ["CreateProvider", "CreateProvider"],
        ["CreateProvider"],
        ["SetTraits", "SetTraits"],
    ]
    assert [len(batch) for batch in batches([DeleteProvider(CHILD)] * 3, 8)] == [1, 1, 1]
    assert [len(batch) for batch in batches(deep[-2:], 1)] == [1, 1]


@pytest.mark.parametrize(
    "operation",
    [SetTraits(BELOW, frozenset()), SetInventory(BELOW, TOTAL), Reshape({BELOW: TOTAL}, {}), BULK],
    ids=lambda operation: type(operation).__name__,
)
def test_nothing_is_written_over_what_was_not_read(placement, operation: Operation) -> None:
    with pytest.raises(Conflict, match="must be read first"):
        send(operation, {}, placement)
    assert not placement.requests


CHANGES: list[tuple[Operation, str, str]] = [
    (EnsureTrait("CUSTOM_A"), "PUT", "/traits/CUSTOM_A$"),
    (CreateProvider(CHILD, "child", ROOT), "POST", "/resource_providers$"),
    (SetTraits(CHILD, frozenset({"CUSTOM_A"})), "PUT", f"{CHILD}/traits$"),
    (SetInventory(CHILD, TOTAL), "PUT", "inventories$"),
    (DeleteProvider(OTHER), "DELETE", OTHER),
]


@pytest.mark.parametrize("when", range(len(CHANGES)))
@pytest.mark.parametrize("lost", [False, True])
def test_the_view_is_what_was_acknowledged_after_any_prefix(
    placement: FakePlacement, when: int, lost: bool
) -> None:
    """A fault at any write, before it was done or with its reply lost; a read mends the rest."""
    plan = tuple(operation for operation, _, _ in CHANGES)
    placement.fail_next(*CHANGES[when][1:], Unreachable("gone"), after=lost)
    outcome = applied(placement, *plan)
    assert outcome.done == plan[:when]
    assert outcome.view.certain == (when == 0), "no provider is uncertain for want of a trait"
    now = refresh(outcome.view, ROOT, placement)
    fresh = refresh(View(), ROOT, placement)
    assert now.snapshot == fresh.snapshot and now.generations == fresh.generations
