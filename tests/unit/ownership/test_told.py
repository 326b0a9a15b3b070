"""Whatever settling leaves out or undoes it tells: of which provider, and in which words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.ownership.ledger import FILES, Ledger
from agent.ownership.policy import Policy
from agent.ownership.settle import Settled, settle
from agent.ownership.statement import Statement
from reportclient.model import Inventory, Provider
from reportclient.snapshot import Snapshot
from tests.unit.ownership.small import (
    DEVICE,
    ONE,
    OWN,
    ROOT,
    TWO,
    answers,
    device,
    holding,
    kept,
    root,
    says,
    there,
)

THIRD, OTHER = (f"c0ffee00-0000-4000-8000-00000000000{n}" for n in (3, 9))
OURS = (
    (ONE, ROOT, holding(provider=True)),
    (ONE, DEVICE, holding("VCPU", provider=True)),
)


def told(settled: Settled) -> list[tuple[str, str, str]]:
    return [(one.uuid, one.provider, one.text) for one in settled.problems]


def settled(
    observed: Snapshot, *statements: Statement, ledger: Ledger | None = None, policy: Policy = OWN
) -> Settled:
    return settle(observed, kept(*OURS) if ledger is None else ledger, answers(*statements), policy)


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
    ((), "not removed, nor its parent, which a driver removed: created by another service"),
    (
        ((TWO, THIRD, holding(provider=True)),),
        "not removed, nor its parent, which a driver removed: driver two still reports it",
    ),
])  # fmt: skip
def test_what_goes_stays_while_something_is_below_it(rows: tuple, why: str) -> None:
    below = Provider(THIRD, "below", DEVICE)
    statements = [says(ONE, root())] + ([says(TWO, below)] if rows else [])
    done = settled(there(root(), device(4), below), *statements, ledger=kept(*OURS, *rows))
    assert done.desired.get(DEVICE) == device() and THIRD in done.desired
    assert told(done) == [(THIRD, "below", why)]


def test_two_drivers_that_report_a_class_differently_are_named_and_the_first_counts() -> None:
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
        f"{place}: VCPU of the file ignored: a driver reports it, or another service has set it; "
        "remove it from the file, or from Placement"
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


def test_a_driver_that_took_away_what_is_not_ours_is_told_how_to_make_it_ours() -> None:
    taken = replace(says(ONE, root()), removed=frozenset({THIRD}))
    done = settled(there(root(), Provider(THIRD, "strange", ROOT)), taken)
    assert THIRD in done.desired
    text = (
        "removal by driver one ignored: created by another service "
        f"(to take it over: computectl adopt {THIRD})"
    )
    assert told(done) == [(THIRD, "strange", text)]
