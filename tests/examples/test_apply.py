"""``apply`` sends a plan.  It is the only writer, and it believes only what was acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reportclient import errors
from reportclient.apply import Outcome, apply
from reportclient.diff import diff
from reportclient.reader import refresh
from reportclient.view import View
from tests.stranger import FakePlacement

HOST = "c0ffee00-0000-4000-8000-000000000001"


@pytest.fixture
def placement() -> FakePlacement:
    placement = FakePlacement()
    placement.stranger.create_provider("host1", HOST)
    return placement


def wrote(placement: FakePlacement, view: View, change: Callable[[Any], object]) -> Outcome:
    """One round: edit what is there, work out the difference, send it."""
    tree = view.edit()
    change(tree)
    return apply(diff(view.snapshot, tree.freeze(), names=view.names), view, placement)


def vcpus(total: int) -> Callable[[Any], object]:
    return lambda tree: tree.update_inventory("host1", {"VCPU": {"total": total}})


def test_one_change_is_one_request_and_the_view_knows_it(placement) -> None:
    view = refresh(View(), HOST, placement)
    mark = placement.mark()
    outcome = wrote(placement, view, vcpus(8))
    assert [request.method for request in placement.since(mark)] == ["PUT"]
    assert outcome.view.snapshot.providers[HOST].inventory["VCPU"].total == 8
    assert refresh(outcome.view, HOST, placement).snapshot is outcome.view.snapshot


def test_who_wrote_in_between_loses_nothing(placement) -> None:
    """Each write carries the generation it is based on; Placement refuses an older one."""
    view = refresh(View(), HOST, placement)
    placement.stranger.set_inventory(HOST, {"VCPU": {"total": 99}})
    outcome = wrote(placement, view, vcpus(8))
    assert isinstance(outcome.stopped_by, errors.Conflict)
    assert not outcome.view.certain, "read before the next write"
    assert placement.stranger.inventory(HOST)["VCPU"]["total"] == 99


def test_after_a_lost_reply_nothing_is_taken_for_done_nor_for_not_done(placement) -> None:
    view = refresh(View(), HOST, placement)
    placement.fail_next("PUT", "/inventories$", errors.Unreachable("no reply"), after=True)
    outcome = wrote(placement, view, vcpus(8))
    assert outcome.done == () and not outcome.view.certain
    read = refresh(outcome.view, HOST, placement)
    assert read.snapshot.providers[HOST].inventory["VCPU"].total == 8


def test_a_placement_that_is_away_ends_the_plan(placement) -> None:
    def many(tree: Any) -> None:
        for number in range(5):
            tree.new_child(f"card{number}", "host1")

    view = refresh(View(), HOST, placement)
    placement.fail_next("POST", "/resource_providers$", errors.Unreachable("no connection"))
    mark = placement.mark()
    outcome = wrote(placement, view, many)
    assert isinstance(outcome.stopped_by, errors.Unreachable)
    assert len(placement.since(mark)) == 1, "the others would wait for a time-out each"
