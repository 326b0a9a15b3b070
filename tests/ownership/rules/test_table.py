"""The table at the top of agent/ownership/reconcile.py, row by row, and the problems that settling reports."""

from dataclasses import dataclass, replace

import pytest

from agent.ownership.answers import Answer, Answers
from agent.ownership.ledger import FILES, Ledger
from agent.ownership.policy import Policy
from agent.ownership.reconcile import Reconciled, reconcile
from reportclient.model import Inventory, Provider
from reportclient.snapshot import Snapshot
from tests.ownership.rules.small import (
    ATTACHED,
    DEVICE,
    ONE,
    OWN,
    ROOT,
    TWO,
    claim,
    device,
    kept,
    root,
    said_by,
    says,
    there,
)

SHARED = "CUSTOM_SHARED"
OWNERS = "CUSTOM_OWNERS"
MINE = (ONE, ROOT, claim(provider=True))
HELD = (ONE, DEVICE, claim("VCPU", SHARED, provider=True))
HELD_TOO = (TWO, DEVICE, claim(traits=SHARED))
FULL = there(root(), device(8, SHARED))
EMPTY = there(root())


def kept_for(sake: str, uuid: str) -> str:
    text = f"not reported any more, emptied and kept: another service {sake}; to remove it: "
    return f"{text}openstack resource provider delete {uuid}"


def with_fpga(provider: Provider) -> Provider:
    return replace(
        provider, inventory={**provider.inventory, "FPGA": Inventory(2).with_defaults(None)}
    )


@dataclass(frozen=True)
class Case:
    observed: Snapshot
    ledger: Ledger
    said: Answers
    expected: Provider | None
    """The device as it shall be."""
    holders: frozenset[str] = frozenset()
    """Who holds anything of it afterwards."""
    told: str = ""


CASES = {
    "in nobody's ledger and asserted by nobody: foreign": Case(
        FULL, kept(MINE), said_by(says(ONE, root())), device(8, SHARED)
    ),
    "there and asserted now: adopted, with the values that are said": Case(
        there(root(), device(4)),
        kept(MINE, (ONE, DEVICE, claim(provider=True))),
        said_by(says(ONE, root(), device(8, SHARED))),
        device(8, SHARED),
        frozenset({ONE}),
    ),
    "not there and asserted: made": Case(
        EMPTY, kept(MINE), said_by(says(ONE, root(), device(8))), device(8), frozenset({ONE})
    ),
    "held, asserted, and changed by somebody: kept right": Case(
        there(root(), device(4)),
        kept(MINE, HELD),
        said_by(says(ONE, root(), device(8, SHARED))),
        device(8, SHARED),
        frozenset({ONE}),
    ),
    "held, asserted, and taken away by somebody: made again": Case(
        EMPTY,
        kept(MINE, HELD),
        said_by(says(ONE, root(), device(8, SHARED))),
        device(8, SHARED),
        frozenset({ONE}),
    ),
    "held by one who is unanswered: stays": Case(
        FULL, kept(MINE, HELD), said_by(unanswered=[ONE]), device(8, SHARED), frozenset({ONE})
    ),
    "held, and not asserted any more: released, and held until it is gone": Case(
        FULL, kept(MINE, HELD), said_by(says(ONE, root())), None, frozenset({ONE})
    ),
    "released by its owner, and one who is unanswered holds a class of it: stays with that": Case(
        there(root(), with_fpga(device(8, SHARED))),
        kept(MINE, HELD, (TWO, DEVICE, claim("FPGA"))),
        said_by(says(ONE, root()), unanswered=[TWO]),
        with_fpga(device(0)),
        frozenset({ONE, TWO}),
    ),
    "released by its owner, and the other one answers again: gone": Case(
        there(root(), with_fpga(device(0))),
        kept(MINE, (ONE, DEVICE, claim(provider=True)), (TWO, DEVICE, claim("FPGA"))),
        said_by(says(ONE, root()), says(TWO)),
        None,
        frozenset({ONE, TWO}),
    ),
    "released, and seen to be gone: nobody's": Case(
        EMPTY, kept(MINE, HELD), said_by(says(ONE, root())), None
    ),
    "held by one who left, and all others answered: released": Case(
        FULL,
        kept((TWO, ROOT, claim(provider=True)), HELD),
        said_by(says(TWO, root())),
        None,
        frozenset({ONE}),
    ),
    "held by one who left, and another is unanswered: stays": Case(
        FULL,
        kept(HELD, HELD_TOO),
        said_by(unanswered=[TWO]),
        device(8, SHARED),
        frozenset({ONE, TWO}),
    ),
    "exclusive and asserted by two: the first in order, and told": Case(
        FULL,
        kept(MINE, HELD),
        said_by(says(ONE, root(), device(8, SHARED)), says(TWO, device(5), places=False)),
        device(8, SHARED),
        frozenset({ONE}),
        "VCPU of driver two ignored: driver one",
    ),
    "shared, and asserted by one of the two who held it: stays": Case(
        FULL,
        kept(MINE, HELD, HELD_TOO),
        said_by(says(ONE, root(), device(8)), says(TWO, device(0, SHARED), places=False)),
        device(8, SHARED),
        frozenset({ONE, TWO}),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_each_row_of_the_table(case: Case) -> None:
    reconciled = reconcile(case.observed, case.ledger, case.said, OWN)
    assert reconciled.desired.get(DEVICE) == case.expected
    assert reconciled.ledger.claims_on(DEVICE).keys() == case.holders
    assert case.told in " ".join(one.text for one in reconciled.problems)
    assert bool(case.told) == bool(reconciled.problems)


def on_the_root(said: Answers, ledger: Ledger, policy: Policy) -> Reconciled:
    return reconcile(there(root()), ledger, said, policy)


def test_what_the_owner_of_an_attached_root_took_away_is_given_up_and_told() -> None:
    ledger = Ledger({ROOT: {ONE: claim(traits=SHARED)}}, frozenset({SHARED}), known=True)
    said = said_by(says(ONE, root(0, SHARED), places=False))
    reconciled = on_the_root(said, ledger, ATTACHED)
    assert reconciled.desired.providers[ROOT].traits == frozenset()
    (told,) = reconciled.problems
    assert "not set again: the owner of this root removed it" in told.text


def test_what_was_never_seen_on_an_attached_root_is_tried_again() -> None:
    said = said_by(says(ONE, root(0, SHARED), places=False))
    reconciled = on_the_root(said, kept((ONE, ROOT, claim(traits=SHARED))), ATTACHED)
    assert reconciled.desired.providers[ROOT].traits == {SHARED}
    assert not reconciled.problems


@pytest.mark.parametrize("takes_over", [True, False])
def test_without_a_ledger_a_device_of_nobodys_stays(takes_over: bool) -> None:
    policy = replace(OWN, takes_over=takes_over)
    reconciled = reconcile(FULL, Ledger(), said_by(says(ONE, root())), policy)
    assert reconciled.desired is FULL


def test_all_that_is_above_what_is_foreign_stays_empty() -> None:
    second, third = (f"c0ffee00-0000-4000-8000-00000000000{n}" for n in (4, 5))
    below = Provider(second, "second", DEVICE, device(4).inventory)
    foreign = Provider(third, "third", second)
    ledger = kept(MINE, HELD, (ONE, second, claim("VCPU", provider=True)))
    reconciled = reconcile(
        FULL.with_changes({second: below, third: foreign}), ledger, SILENT_ON_ALL, OWN
    )
    assert reconciled.desired.providers.keys() == {ROOT, DEVICE, second, third}
    assert not reconciled.desired.providers[DEVICE].inventory
    assert not reconciled.desired.providers[second].inventory
    assert f"created provider third ({third}) below it" in reconciled.problems[0].text


def test_a_provider_goes_together_with_all_below_it() -> None:
    second = "c0ffee00-0000-4000-8000-000000000004"
    below = Provider(second, "second", DEVICE)
    ledger = kept(MINE, HELD, (ONE, second, claim(provider=True)))
    reconciled = reconcile(FULL.with_changes({second: below}), ledger, SILENT_ON_ALL, OWN)
    assert reconciled.desired.providers.keys() == {ROOT} and not reconciled.problems


def test_the_name_of_a_provider_that_has_to_stay_is_not_free() -> None:
    third, fourth = (f"c0ffee00-0000-4000-8000-00000000000{n}" for n in (5, 6))
    observed = FULL.with_changes({third: Provider(third, "third", DEVICE)})
    wanted = Provider(fourth, "device", ROOT)
    reconciled = reconcile(observed, kept(MINE, HELD), said_by(says(ONE, root(), wanted)), OWN)
    assert reconciled.desired.providers.keys() == {ROOT, DEVICE, third}


SILENT_ON_ALL = said_by(says(ONE, root()))


@pytest.mark.parametrize(
    ("says_it", "unanswered", "seen"),
    [(True, (), {SHARED}), (False, (ONE,), {SHARED}), (False, (), set())],
    ids=["repeated", "its driver is unanswered", "left out"],
)
def test_a_claimed_trait_of_an_attached_root_counts_as_seen(
    says_it: bool, unanswered: tuple[str, ...], seen: set[str]
) -> None:
    """Of those that its owner has set, which a driver reports as well, none is."""
    ledger = Ledger({ROOT: {ONE: claim(traits=SHARED)}}, known=True)
    answers = (
        []
        if unanswered
        else [says(ONE, root(0, f"{SHARED} {OWNERS}" if says_it else OWNERS), places=False)]
    )
    said = said_by(*answers, unanswered=unanswered)
    observed = there(root(0, f"{SHARED} {OWNERS}"))
    assert reconcile(observed, ledger, said, ATTACHED).ledger.accepted == seen
    assert not reconcile(observed, ledger, said, OWN).ledger.accepted, "on an own root none does"


# -- the problems: of which provider, and in which words

THIRD, OTHER = (f"c0ffee00-0000-4000-8000-00000000000{n}" for n in (3, 9))
OURS = ((ONE, ROOT, claim(provider=True)), (ONE, DEVICE, claim("VCPU", provider=True)))


def told(reconciled: Reconciled) -> list[tuple[str, str, str]]:
    return [(one.uuid, one.provider, one.text) for one in reconciled.problems]


def settled(
    observed: Snapshot, *answers: Answer, ledger: Ledger | None = None, policy: Policy = OWN
) -> Reconciled:
    return reconcile(observed, kept(*OURS) if ledger is None else ledger, said_by(*answers), policy)


def test_a_provider_that_may_not_move_stays_and_gets_all_else_that_is_said() -> None:
    pool = Provider(OTHER, "pool", None)
    moved = replace(device(8, "CUSTOM_A", "renamed"), parent_uuid=OTHER)
    done = settled(there(root(), device(4), pool), says(ONE, root(), moved))
    assert done.desired.get(DEVICE) == device(8, "CUSTOM_A")
    text = "not moved: the new parent is in the tree of another root"
    assert told(done) == [(DEVICE, "renamed", text)]


def test_a_provider_keeps_its_name_where_the_new_one_is_somebody_elses() -> None:
    strange = Provider(THIRD, "taken", ROOT)
    done = settled(there(root(), device(4), strange), says(ONE, root(), device(8, name="taken")))
    assert done.desired.get(DEVICE) == device(8)
    text = f"not created or renamed: provider {THIRD} of another owner has its name"
    assert told(done) == [(DEVICE, "taken", text)]


def test_what_is_below_a_provider_that_is_not_made_is_not_made_either() -> None:
    strange = Provider(THIRD, "taken", ROOT)
    card, port = Provider(DEVICE, "taken", ROOT), Provider(OTHER, "port", DEVICE)
    done = settled(there(root(), strange), says(ONE, root(), card, port))
    assert DEVICE not in done.desired and OTHER not in done.desired
    text = f"not created or renamed: provider {THIRD} of another owner has its name"
    below = "not created: its parent was not created"
    assert told(done) == [(DEVICE, "taken", text), (OTHER, "port", below)]


def test_providers_below_each_other_are_not_made() -> None:
    card, port = Provider(DEVICE, "card", OTHER), Provider(OTHER, "port", DEVICE)
    done = settled(there(root()), says(ONE, root(), card, port), ledger=kept(*OURS[:1]))
    assert done.desired == there(root())
    text = "not created: its parent was not created"
    assert told(done) == [(DEVICE, "card", text), (OTHER, "port", text)]


def test_nothing_is_made_below_another_services_provider() -> None:
    pool = Provider(OTHER, "pool", None)
    done = settled(
        there(root(), pool),
        says(ONE, root(), Provider(THIRD, "below", OTHER)),
        policy=replace(OWN, foreign=frozenset({OTHER})),
    )
    text = "not created: its parent is owned by another service"
    assert THIRD not in done.desired and told(done) == [(THIRD, "below", text)]


@pytest.mark.parametrize(("rows", "why"), [
    ((), (DEVICE, "device", kept_for(f"created provider below ({THIRD}) below it", THIRD))),
    (
        ((TWO, THIRD, claim(provider=True)),),
        (
            THIRD,
            "below",
            "not removed, nor its parent, which a driver removed: driver two still reports it",
        ),
    ),
])  # fmt: skip
def test_what_goes_stays_while_something_is_below_it(rows: tuple, why: tuple) -> None:
    below = Provider(THIRD, "below", DEVICE)
    answers = [says(ONE, root())] + ([says(TWO, below)] if rows else [])
    done = settled(there(root(), device(4), below), *answers, ledger=kept(*OURS, *rows))
    assert done.desired.get(DEVICE) == device() and THIRD in done.desired
    assert told(done) == [why]


@pytest.mark.parametrize(("others", "sake"), [
    ({"traits": frozenset({"CUSTOM_T"})}, "set trait CUSTOM_T"),
    ({"aggregates": frozenset({THIRD})}, f"set aggregate {THIRD}"),
    ({"inventory": device(4).inventory | {"PCPU": Inventory(1)}}, "set inventory of PCPU"),
])  # fmt: skip
@pytest.mark.parametrize("keeps", [True, False])
def test_what_goes_is_emptied_and_stays_with_what_others_set(others, sake, keeps) -> None:
    """Capacity first, then the rest; ``computectl retire`` takes all."""
    theirs = replace(device(4), **others)
    ours = claim("VCPU", "CUSTOM_OURS", provider=True)
    now = replace(theirs, traits=theirs.traits | {"CUSTOM_OURS"})
    left = {name: each for name, each in theirs.inventory.items() if name != "VCPU"}
    steps = [replace(now, inventory=left), replace(theirs, inventory=left)] if keeps else [None]
    for after in [*steps, steps[-1]]:
        done = settled(
            there(root(), *[now] * (now is not None)),
            says(ONE, root()),
            ledger=kept(*OURS[:1], (ONE, DEVICE, ours)),
            policy=replace(OWN, keeps=keeps),
        )
        assert done.desired.get(DEVICE) == after
        why = [(DEVICE, "device", kept_for(sake, DEVICE))]
        assert told(done) == (why if keeps else []) and all(each.kept for each in done.problems)
        assert done.ledger.leaving == (set() if now is None else {DEVICE})
        now = after


@pytest.mark.parametrize("missed", [True, False])
def test_the_name_of_what_leaves_is_free_for_another(missed: bool) -> None:
    new = Provider(OTHER, "device", ROOT)
    says_missing = replace(says(ONE, root(), new), missing=frozenset({DEVICE}))
    policy = replace(OWN, missed=frozenset({DEVICE} if missed else ()))
    done = settled(there(root(), device(4)), says_missing, ledger=kept(*OURS), policy=policy)
    outside = replace(device(4), name=f"device_removed_{DEVICE}", inventory={})
    assert done.desired.get(OTHER) == new
    assert done.desired.get(DEVICE) == (None if missed else outside)


def test_of_two_records_of_a_class_the_first_drivers_counts() -> None:
    done = settled(there(root(), device(4)), says(ONE, root(), device(8)), says(TWO, device(9)))
    assert done.desired.get(DEVICE) == device(8)
    text = (
        "VCPU of driver two ignored: driver one, which is before it in compute_driver, "
        "reports another inventory"
    )
    assert told(done) == [(DEVICE, "device", text)]


@pytest.mark.parametrize("same", [Inventory(8), Inventory(8, reserved=2)])
def test_what_the_second_driver_leaves_unsaid_is_no_difference(same: Inventory) -> None:
    full = replace(device(), inventory={"VCPU": Inventory(8, reserved=2).with_defaults(None)})
    second = replace(device(), inventory={"VCPU": same})
    done = settled(there(root(), full), says(ONE, root(), full), says(TWO, second))
    assert done.desired.get(DEVICE) == full and told(done) == []


def test_two_drivers_that_place_a_provider_differently_are_named() -> None:
    done = settled(
        there(root(), device(4)), says(ONE, root(), device(4)), says(TWO, device(name="other"))
    )
    assert done.desired.get(DEVICE) == device(4)
    text = "name and parent of driver two ignored: driver one reports this provider"
    assert told(done) == [(DEVICE, "device", text)]


@pytest.mark.parametrize(
    ("places", "place"), [({(DEVICE, "VCPU"): "a.yaml:3"}, "a.yaml:3"), ({}, "files")]
)
def test_a_class_of_a_file_that_a_driver_reports_is_told_with_its_line(
    places: dict[tuple[str, str], str], place: str
) -> None:
    file = replace(says(FILES, device(9), places=False), places=places)
    done = settled(there(root(), device(4)), says(ONE, root(), device(8)), file)
    assert done.desired.get(DEVICE) == device(8)
    text = (
        f"{place}: VCPU of the file ignored: the provider has it without the file; remove it from "
        "the file, or from Placement if it is a leftover"
    )
    assert told(done) == [(DEVICE, "device", text)]


def test_what_is_told_twice_is_told_once() -> None:
    pool = replace(OWN, foreign=frozenset({OTHER}))
    edited = Provider(OTHER, "pool", None, {}, frozenset({"CUSTOM_A"}))
    done = settled(
        there(root(), Provider(OTHER, "pool", None)),
        says(ONE, root(), edited),
        says(TWO, edited),
        policy=pool,
    )
    assert len(told(done)) == len(set(told(done)))


def test_removal_of_another_services_provider_is_refused_with_a_next_step() -> None:
    taken = replace(says(ONE, root()), removed=frozenset({THIRD}))
    done = settled(there(root(), Provider(THIRD, "strange", ROOT)), taken)
    assert THIRD in done.desired
    text = (
        "removal by driver one ignored: created by another service "
        f"(to take it over: computectl adopt {THIRD})"
    )
    assert told(done) == [(THIRD, "strange", text)]
