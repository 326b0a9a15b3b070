"""An answer in another form than Placement's is refused where it is read, and never saved."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reportclient.apply import Outcome
from reportclient.candidates.asking import allocation_candidates
from reportclient.candidates.text import read_request
from reportclient.errors import WrongForm
from reportclient.forms import sealed, unsealed
from reportclient.model import Inventory
from reportclient.one_provider import OneProvider
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    EnsureTrait,
    Operation,
    Plan,
    Reshape,
    SetInventory,
    SetTraits,
    UpdateProvider,
)
from reportclient.reader import allocations_of, allocations_on, part_of, provider_by_uuid, refresh
from reportclient.root import Counting, Root
from reportclient.saved_view import FileStore, UnusableView, load_view
from reportclient.schedule import Times
from reportclient.view import View
from tests.stranger import FakePlacement

ROOT, CHILD, NEW, CONSUMER = (f"c0ffee00-0000-4000-8000-00000000000{n}" for n in range(1, 5))
LISTING = f"/resource_providers?in_tree={ROOT}"


@pytest.fixture
def placement() -> FakePlacement:
    placement = FakePlacement()
    placement.stranger.create_provider("host1", ROOT)
    placement.stranger.create_child(ROOT, "card", CHILD)
    placement.stranger.set_inventory(ROOT, {"VCPU": {"total": 8}})
    placement.stranger.set_traits(ROOT, {"COMPUTE_NODE"})
    placement.stranger.put_allocation({ROOT: {"VCPU": 2}}, CONSUMER)
    return placement


DELETED = object()


def changed(body: Any, way: str, value: Any) -> Any:
    """The body with a value at a way such as ``traits.0``; ``DELETED`` removes it."""
    if not way:
        return value
    key, _, rest = way.partition(".")
    index: Any = int(key) if key.isdecimal() else key
    copy = body[:] if isinstance(body, list) else dict(body)
    if value is DELETED and not rest:
        del copy[index]
    else:
        copy[index] = changed(
            copy.get(index) if isinstance(copy, dict) else copy[index], rest, value
        )
    return copy


@dataclass
class Between:
    """Changes the answer to the first request with such a path; ``way`` as for :func:`changed`."""

    placement: FakePlacement
    where: str
    way: str
    value: Any
    used: bool = False

    def request(self, method: str, path: str, *, json: Any = None, needs: str | None = None) -> Any:
        if "allocation_candidates" in path or "needed" in path:
            answer: Any = CANDIDATES
        else:
            answer = self.placement.request(method, path, json=json, needs=needs)
        if self.used or not re.search(self.where, f"{method} {path}"):
            return answer
        self.used = True
        return changed(answer, self.way, self.value)


def table(rows: str) -> list[tuple[str, ...]]:
    """Rows of columns that ``|`` divides."""
    return [tuple(map(str.strip, row.split("|"))) for row in rows.strip().splitlines()]


def parsed(value: str) -> Any:
    """A value as JSON; ``-``: none at all."""
    return DELETED if value == "-" else json.loads(value)


ITEM = "resource_providers.0"
READ = table(
    f"""
    in_tree     | resource_providers              | -       | resource_providers is missing
    in_tree     | resource_providers              | {{}}    | resource_providers is {{}}, not a list
    in_tree     | resource_providers              | null    | resource_providers is None, not a list
    in_tree     | {ITEM}                          | "host1" | [0] is 'host1', not a JSON object
    in_tree     | {ITEM}.uuid                     | -       | [0].uuid is missing
    in_tree     | {ITEM}.uuid                     | 5       | [0].uuid is 5, not a text
    in_tree     | {ITEM}.uuid                     | "host1" | [0].uuid is 'host1', not a UUID
    in_tree     | {ITEM}.root_provider_uuid       | "{CHILD}" | its root is {CHILD}, its parent None
    in_tree     | resource_providers.1.parent_provider_uuid | null | its root is {ROOT}, its parent None
    in_tree     | {ITEM}.generation               | -1      | [0].generation is -1, below 0
    in_tree     | {ITEM}.name                     | null    | [0].name is None, not a text
    in_tree     | {ITEM}.parent_provider_uuid     | -       | [0].parent_provider_uuid is missing
    in_tree     | {ITEM}.generation               | "one"   | is 'one', not a whole number
    in_tree     | {ITEM}.generation               | true    | is True, not a whole number
    in_tree     | {ITEM}.generation               | 1.5     | is 1.5, not a whole number
    in_tree     | resource_providers.1.parent_provider_uuid | "{CHILD}" | the parents form a cycle
    in_tree     | resource_providers.1.name       | "host1" | duplicate provider host1 ({CHILD})
    inventories | inventories                     | []      | inventories is [], not a JSON object
    inventories | inventories.VCPU                | "8"     | .VCPU is '8', not a JSON object
    inventories | inventories.VCPU.total          | "8"     | has to be a whole number, not '8'
    inventories | inventories.VCPU.allocation_ratio | 1e999 | .allocation_ratio is inf, not a number
    traits      | traits                          | ["A",5] | traits[1] is 5, not a text
    traits      | traits.0                        | null    | traits[0] is None, not a text
    traits      | traits.0                        | ""      | is '', not the name of a trait or resource class
    traits      | traits                          | "A"     | traits is 'A', not a list
    traits      | resource_provider_generation    | -       | resource_provider_generation is missing
    traits      | resource_provider_generation    | false   | is False, not a whole number
    aggregates  | aggregates                      | [[]]    | aggregates[0] is [], not a text
    aggregates  | aggregates                      | ["one"] | aggregates[0] is 'one', not a UUID
    aggregates  |                                 | []      | is [], not a JSON object
    """
)


@pytest.mark.parametrize(("where", "way", "value", "why"), READ)
def test_a_tree_in_a_wrong_form_is_read_again_and_never_saved(
    placement: FakePlacement, tmp_path: Path, where: str, way: str, value: str, why: str
) -> None:
    store = FileStore(tmp_path)
    root = Root(ROOT, Between(placement, where, way, parsed(value)), store=store)

    def read(api: Counting) -> bool:
        return root.refresh(api, 0.0)

    err, _ = root.attempt(0.0, read)
    assert isinstance(err, WrongForm)
    request, found = str(err).split(": the answer is not in Placement's format: ")
    assert request.startswith("GET /resource_providers") and where in request
    assert found.endswith(f"{why}; see what answers at Placement's address")
    assert not root.view.certain and not list(tmp_path.iterdir())
    result, _ = root.attempt(60.0, read)
    assert result is True
    assert store.load(ROOT) == refresh(View(), ROOT, placement).stale()


def test_a_view_that_was_true_is_read_again_after_a_wrong_answer(placement, tmp_path) -> None:
    root = Root(ROOT, placement, Times(verify_every=0.0), store=FileStore(tmp_path))
    root.attempt(0.0, lambda api: root.refresh(api, 0.0))
    before = root.view
    root.api = Between(placement, "in_tree", f"{ITEM}.generation", "one")
    err, _ = root.attempt(60.0, lambda api: root.refresh(api, 60.0))
    assert isinstance(err, WrongForm) and root.view == before.stale()
    assert FileStore(tmp_path).load(ROOT) == before.stale()
    assert root.attempt(120.0, lambda api: root.refresh(api, 120.0))[0] is True
    assert root.view == before


GENERATION = "resource_provider_generation"
TRAITS, INVENTORY = SetTraits(ROOT, frozenset()), SetInventory(ROOT, {"VCPU": Inventory(9)})
WRITTEN: dict[str, tuple[Operation, str, Any]] = {
    "no generation": (TRAITS, GENERATION, DELETED),
    "a generation that is a text": (INVENTORY, GENERATION, "9"),
    "a generation that is a bool": (TRAITS, GENERATION, True),
    "a created provider without generation": (
        *(CreateProvider(NEW, "new", ROOT), "generation", DELETED),
    ),
    "a parent that is a number": (UpdateProvider(CHILD, "c", ROOT), "parent_provider_uuid", 5),
    "a body where none belongs": (EnsureTrait("CUSTOM_A"), "errors", []),
    "a list": (DeleteProvider(CHILD), "", ["gone"]),
    "a reshape whose listing has no generation": (
        *(Reshape({ROOT: {"VCPU": Inventory(9)}}, {}), f"{ITEM}.generation", None),
    ),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_a_write_answered_in_a_wrong_form_may_have_been_done(placement, case: str) -> None:
    operation, way, value = WRITTEN[case]
    root = Root(ROOT, placement)
    root.attempt(0.0, lambda api: root.refresh(api, 0.0))
    known = root.view
    where = "in_tree" if isinstance(operation, Reshape) else "^(PUT|POST|DELETE)"
    root.api = Between(placement, where, way, value)

    def write(api: Counting) -> Outcome:
        return root.write(Plan((operation,)), api)

    outcome, _ = root.attempt(1.0, write)
    assert isinstance(outcome, Outcome) and isinstance(outcome.stopped_by, WrongForm)
    assert "the answer is not in Placement's format: " in str(outcome.stopped_by)
    assert root.view.generations == known.generations
    assert root.view.certain == isinstance(operation, EnsureTrait), "a trait moves no generation"
    root.attempt(600.0, lambda api: root.refresh(api, 600.0), urgent=True)
    assert root.view.generations == refresh(View(), ROOT, placement).generations


CANDIDATES = {
    "allocation_requests": [
        {"allocations": {ROOT: {"resources": {"VCPU": 1}}}, "mappings": {"": [ROOT]}}
    ],
    "provider_summaries": {
        ROOT: {
            "parent_provider_uuid": None,
            "root_provider_uuid": ROOT,
            "resources": {"VCPU": {"capacity": 8, "used": 2}},
            "traits": ["COMPUTE_NODE"],
        }
    },
}
SUMMARY = f"provider_summaries.{ROOT}"


QUESTIONS: dict[str, Callable[[Between], object]] = {
    "consumers": lambda api: allocations_on(ROOT, api),
    "allocations": lambda api: allocations_of(CONSUMER, api),
    "usages": lambda api: OneProvider(ROOT, api, Times()).usages(),
    "traits": lambda api: part_of("/traits", "traits", api),
    "classes": lambda api: part_of("/resource_classes", "resource_classes", api),
    "provider": lambda api: provider_by_uuid(ROOT, api),
    "candidates": lambda api: allocation_candidates(read_request("resources=VCPU:1"), api),
}
CANDIDATE = "allocation_requests.0"
ASKED = table(
    f"""
    consumers   | allocations.{CONSUMER}.resources        | -    | .resources is missing
    consumers   | allocations                             | []   | is [], not a JSON object
    allocations | allocations.{ROOT}.resources.VCPU       | true | is True, not a whole number
    allocations | consumer_generation                     | null | is None, not a whole number
    allocations | project_id                              | -    | project_id is missing
    usages      | usages                                  | []   | usages is [], not a JSON object
    usages      | usages.VCPU                             | "2"  | .VCPU is '2', not a whole number
    usages      | usages.VCPU                             | -2   | .VCPU is -2, below 0
    traits      | traits                                  | [{{}}] | traits[0] is {{}}, not a text
    classes     | resource_classes.0                      | {{}} | resource_classes[0].name is missing
    provider    | {ITEM}.parent_provider_uuid             | -    | .parent_provider_uuid is missing
    provider    | {ITEM}.root_provider_uuid               | 5    | is 5, not a text
    candidates  | allocation_requests                     | -    | allocation_requests is missing
    candidates  | allocation_requests                     | {{}} | is {{}}, not a list
    candidates  | {CANDIDATE}                             | {{}} | allocations is missing
    candidates  | provider_summaries                      | []   | is [], not a JSON object
    candidates  | {CANDIDATE}.allocations.{ROOT}          | {{}} | .resources is missing
    candidates  | {CANDIDATE}.mappings                    | []   | mappings is [], not a JSON object
    candidates  | provider_summaries                      | {{}} | provider_summaries.{ROOT} is missing
    candidates  | {SUMMARY}.resources.VCPU.capacity       | "8"  | is '8', not a whole number
    candidates  | {SUMMARY}.root_provider_uuid            | null | is None, not a text
    """
)


@pytest.mark.parametrize(("question", "way", "value", "why"), ASKED)
def test_an_answer_to_a_question_in_a_wrong_form_is_refused(
    placement: FakePlacement, question: str, way: str, value: str, why: str
) -> None:
    with pytest.raises(WrongForm, match="^GET /.*: the answer is not in Placement's format") as no:
        QUESTIONS[question](Between(placement, "", way, parsed(value)))
    assert f"{why}; see what answers" in str(no.value)


def test_what_a_later_placement_says_beyond_is_left_out(placement: FakePlacement) -> None:
    more = Between(placement, "inventories", "inventories.VCPU.provenance", "a later version")
    assert refresh(View(), ROOT, more).snapshot.providers[ROOT].inventory["VCPU"].total == 8


SAVED = table(
    f"""
    generations.{ROOT}  | "3"
    generations.{ROOT}  | true
    providers           | {{}}
    providers.0         | ["{ROOT}", "host1"]
    providers.0.1       | null
    providers.0.3       | []
    providers.0.4       | [5]
    traits              | {{}}
    drained             | {{"{ROOT}": {{"VCPU": "1"}}}}
    sharing             | -
    """
)


@pytest.mark.parametrize(("way", "value"), SAVED)
def test_a_saved_view_in_a_wrong_form_is_damaged(
    placement: FakePlacement, tmp_path: Path, caplog: Any, way: str, value: str
) -> None:
    root = Root(ROOT, placement, store=FileStore(tmp_path))
    root.attempt(0.0, lambda api: root.refresh(api, 0.0))
    [file] = tmp_path.iterdir()
    data = sealed(changed(unsealed(file.read_bytes()), way, parsed(value)))
    with pytest.raises(UnusableView, match=ROOT):
        load_view(data, ROOT)
    file.write_bytes(data)
    again = Root(ROOT, placement, store=FileStore(tmp_path))
    again.load_saved_view()
    assert again.view == View() and "Placement is read instead" in caplog.text
