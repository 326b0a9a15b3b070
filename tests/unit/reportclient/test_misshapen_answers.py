"""Answers that are JSON of nearly Placement's shape: told as not Placement's, and never believed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest

from reportclient.errors import Unreachable
from reportclient.reader import provider_by_uuid, read_part, refresh
from reportclient.testing.fake_placement import FakePlacement
from reportclient.view import View

ROOT = "c0ffee00-0000-4000-8000-000000000001"
Body = dict[str, Any]
NOT_PLACEMENTS = r"^GET /resource_providers.*: the answer is not in Placement's format$"


@pytest.fixture
def placement() -> FakePlacement:
    placement = FakePlacement()
    placement.stranger.create_provider("host1", ROOT)
    placement.stranger.set_inventory(ROOT, {"VCPU": {"total": 8}})
    return placement


@dataclass
class Between:
    """Something that rewrites the answers to the requests whose path has this."""

    placement: FakePlacement
    where: str
    rewrite: Callable[[Body], Any]

    def request(self, method: str, path: str, *, json: Any = None, needs: str | None = None) -> Any:
        answer = self.placement.request(method, path, json=json, needs=needs)
        if self.where not in path:
            return answer
        body = deepcopy(answer)
        self.rewrite(body)
        return body


def listed(**changes: Any) -> Callable[[Body], None]:
    def rewrite(body: Body) -> None:
        for item in body["resource_providers"]:
            item.update(changes)

    return rewrite


def without(key: str) -> Callable[[Body], None]:
    def rewrite(body: Body) -> None:
        for item in body["resource_providers"]:
            del item[key]

    return rewrite


def instead(part: str, value: Any) -> Callable[[Body], None]:
    return lambda body: body.update({part: value})


MISSHAPEN = {
    "no parent": ("in_tree", without("parent_provider_uuid")),
    "no generation": ("in_tree", without("generation")),
    "a generation in words": ("in_tree", listed(generation="one")),
    "no name": ("in_tree", listed(name=None)),
    "a number for a UUID": ("in_tree", listed(uuid=5)),
    "a list of words": ("in_tree", instead("resource_providers", ["host1"])),
    "no list": ("in_tree", instead("resource_providers", None)),
    "no records": ("inventories", instead("inventories", [])),
    "a record of words": ("inventories", instead("inventories", {"VCPU": "8"})),
    "a total in words": ("inventories", instead("inventories", {"VCPU": {"total": "8"}})),
    "no traits": ("traits", instead("traits", None)),
    "aggregates of lists": ("aggregates", instead("aggregates", [[]])),
    "no generation with it": ("traits", instead("resource_provider_generation", None)),
}


@pytest.mark.parametrize("case", MISSHAPEN)
def test_it_is_not_placements_answer(placement: FakePlacement, case: str) -> None:
    with pytest.raises(Unreachable, match=NOT_PLACEMENTS):
        refresh(View(), ROOT, Between(placement, *MISSHAPEN[case]))


def test_nor_is_a_provider_without_a_parent_that_was_asked_for(placement: FakePlacement) -> None:
    with pytest.raises(Unreachable, match=NOT_PLACEMENTS):
        provider_by_uuid(ROOT, Between(placement, "uuid=", without("parent_provider_uuid")))


def test_nor_is_an_answer_without_the_part_that_was_asked_for(placement: FakePlacement) -> None:
    with pytest.raises(Unreachable, match=f"^GET /resource_providers/{ROOT}/traits: the answer"):
        read_part(ROOT, "traits", Between(placement, "traits", lambda body: body.pop("traits")))


def test_what_a_later_placement_says_beyond_is_left_out(placement: FakePlacement) -> None:
    def more(body: Body) -> None:
        body["inventories"]["VCPU"]["provenance"] = "a later version"

    view = refresh(View(), ROOT, Between(placement, "inventories", more))
    assert view.snapshot.providers[ROOT].inventory["VCPU"].total == 8
