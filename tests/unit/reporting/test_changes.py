"""What was written is described in words: what matters first, and which providers."""

from typing import Any

import pytest

from agent.reporting.changes import kind, summary
from agent.reporting.reports import Occasion, Report
from reportclient.model import Inventory
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    Operation,
    Plan,
    Reshape,
    SetAggregates,
    SetInventories,
    SetInventory,
    SetTraits,
    UpdateProvider,
)
from tests.reports import report_with

NAMES = {uuid: f"host1_{uuid}" for uuid in "abcdef"}
STOCK = {"VGPU": Inventory(4)}
FAILED = {"a": OSError("x")}


def create(*uuids: str) -> list[Operation]:
    return [CreateProvider(uuid, NAMES[uuid], None) for uuid in uuids]


def set_inventory(*uuids: str) -> list[Operation]:
    return [SetInventory(uuid, STOCK) for uuid in uuids]


def set_traits(*uuids: str) -> list[Operation]:
    return [SetTraits(uuid, frozenset()) for uuid in uuids]


@pytest.mark.parametrize(
    ("done", "text"),
    [
        ([], ""),
        (set_inventory("a"), "set 1 inventory (host1_a)"),
        (set_inventory("a", "a"), "set 1 inventory (host1_a)"),
        (set_traits("a"), "set the traits of 1 provider (host1_a)"),
        (set_traits("a", "b"), "set the traits of 2 providers (host1_a, host1_b)"),
        (
            [*set_traits("a"), SetAggregates("b", frozenset()), *set_inventory("a", "c")],
            "set 2 inventories, the traits of 1 and the aggregates of 1 (host1_a, host1_b, host1_c)",
        ),
        ([SetInventories({"a": STOCK, "b": STOCK})], "set 2 inventories (host1_a, host1_b)"),
        (
            [UpdateProvider("a", "host1_a", None), UpdateProvider("b", "host1_b", "c", moved=True)],
            "moved 1 provider (host1_b), renamed 1 provider (host1_a)",
        ),
        (  # freed by its UUID, since names are exchanged
            [
                UpdateProvider("a", "a", None, old_name="old"),
                UpdateProvider("a", "host1_a", None, old_name="a"),
            ],
            "renamed 1 provider (old → host1_a)",
        ),
        (
            [*create("a"), Reshape({"a": STOCK, "b": {}}, {})],
            "created 1 provider (host1_a), reshaped 2 providers (host1_b and 1 new)",
        ),
        (
            [EnsureTrait("CUSTOM_A"), *create(*"abc"), *set_traits(*"ab"), *set_inventory(*"abc")],
            "created 3 providers (host1_a, host1_b, host1_c), set 3 inventories and the traits of "
            "2, created 1 trait",
        ),
        (
            [*create("a"), *set_traits("a", "d")],
            "created 1 provider (host1_a), set the traits of 2 (host1_d and 1 new)",
        ),
        (create(*NAMES), "created 6 providers (host1_a, host1_b, host1_c and 3 more)"),
        ([DeleteProvider("unnamed")], "deleted 1 provider (unnamed)"),
        (
            [EnsureTrait("CUSTOM_A"), EnsureTrait("CUSTOM_B"), EnsureClass("CUSTOM_C")],
            "created 1 resource class and 2 traits",
        ),
    ],
)
def test_a_change_is_said_in_words(done: list[Operation], text: str) -> None:
    assert summary(done, NAMES) == text


def test_a_plan_says_the_same_as_what_will_be_done() -> None:
    planned = summary([*create("a"), *set_inventory("b")], NAMES, planned=True)
    assert planned == "create 1 provider (host1_a), set 1 inventory (host1_b)"


def test_a_report_is_one_sentence() -> None:
    plan, done = Plan(names=NAMES), tuple(set_inventory("a"))
    written = Report("host1", plan=plan, done=done, calls=2)
    assert written.sentence() == "set 1 inventory (host1_a) in 2 calls to Placement"
    assert Report("host1", calls=1).sentence() == "nothing to change, 1 call to Placement"


@pytest.mark.parametrize(
    ("report", "text"),
    [
        ({"driver_errors": FAILED}, "nothing was reported by driver a, 1 call to Placement"),
        (
            {"driver_errors": FAILED, "done": tuple(create("a"))},
            "created 1 provider (host1_a) in 1 call to Placement; nothing was reported by driver a",
        ),
        ({"error": OSError("x")}, "nothing was reported, 1 call to Placement"),
        (
            {"error": OSError("x"), "done": tuple(create("a"))},
            "created 1 provider (host1_a) in 1 call to Placement; then an error ended the period",
        ),
        # Such a driver has reported, though not what it would move.
        (
            {"driver_errors": FAILED, "reshape_pending": ("a",)},
            "nothing was changed, 1 call to Placement",
        ),
        ({"failed": {"a": OSError("x")}}, "nothing was changed, 1 call to Placement"),
        (
            {"draining": {"a": OSError("x")}},
            "nothing to change, 1 call to Placement",
        ),
        # A switch calls no driver; it has the conditions of the last period.
        (
            {"driver_errors": FAILED, "occasion": Occasion.SWITCH},
            "nothing was changed, 1 call to Placement",
        ),
    ],
)
def test_nothing_to_change_is_said_only_if_all_was_reported(
    report: dict[str, Any], text: str
) -> None:
    assert report_with(plan=Plan(names=NAMES), calls=1, **report).sentence() == text


def test_programs_get_a_kind_in_the_form_of_other_labels() -> None:
    assert kind(SetTraits("a", frozenset())) == "set_traits"
