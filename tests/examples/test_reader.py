"""``refresh`` reads a tree: one request if nothing moved, else only what did.

Placement counts each provider's changes in its ``generation``.  One listing shows them
all, so that most of the time nothing else has to be asked.
"""

from __future__ import annotations

import pytest

from reportclient import errors
from reportclient.reader import provider_by_name, refresh, with_lone_root
from reportclient.view import View
from tests.stranger import FakePlacement

HOST = "c0ffee00-0000-4000-8000-000000000001"
CARD = "c0ffee00-0000-4000-8000-000000000002"
POOL = "c0ffee00-0000-4000-8000-000000000003"
RACK = "aaaaaaaa-0000-4000-8000-000000000001"


@pytest.fixture
def placement() -> FakePlacement:
    """A Placement in memory, by the rules of a real one, in which somebody has made a host."""
    placement = FakePlacement()
    somebody = placement.stranger
    somebody.create_provider("host1", HOST)
    somebody.set_inventory(HOST, {"VCPU": {"total": 8}})
    somebody.create_child(HOST, "card", CARD)
    somebody.set_inventory(CARD, {"VGPU": {"total": 4}})
    return placement


def asked(placement: FakePlacement, mark: int) -> list[str]:
    return [request.path for request in placement.since(mark)]


def test_when_nothing_moved_one_request_gives_the_same_snapshot(placement) -> None:
    view = refresh(View(), HOST, placement)
    mark = placement.mark()
    again = refresh(view, HOST, placement)
    assert asked(placement, mark) == [f"/resource_providers?in_tree={HOST}"]
    assert again.snapshot is view.snapshot


def test_only_the_provider_that_moved_is_read_again(placement) -> None:
    view = refresh(View(), HOST, placement)
    placement.stranger.add_trait(CARD, "HW_NIC_SRIOV")
    mark = placement.mark()
    again = refresh(view, HOST, placement)
    assert again.snapshot.providers[CARD].traits == {"HW_NIC_SRIOV"}
    assert asked(placement, mark)[1:] == [
        f"/resource_providers/{CARD}/{part}" for part in ("inventories", "traits", "aggregates")
    ]


def test_a_write_between_two_of_its_requests_is_noticed_the_next_time(placement) -> None:
    """Inventory, traits and aggregates come one by one; the oldest generation holds for all."""

    class Meddled:
        """Somebody writes the inventory right after it was read."""

        def request(self, method: str, path: str, **options):
            reply = placement.request(method, path, **options)
            if path == f"/resource_providers/{CARD}/inventories":
                placement.stranger.set_inventory(CARD, {"VGPU": {"total": 5}})
            return reply

    view = refresh(View(), HOST, Meddled())
    assert view.snapshot.providers[CARD].inventory["VGPU"].total == 4, "torn, and not known yet"
    again = refresh(view, HOST, placement)
    assert again.snapshot.providers[CARD].inventory["VGPU"].total == 5


def test_a_root_outside_the_tree_is_added_as_a_refresh_would_read_it(placement) -> None:
    view = refresh(View(), HOST, placement)
    placement.stranger.create_provider("pool", POOL)
    placement.stranger.add_trait(POOL, "CUSTOM_POOL")
    assert with_lone_root(view, POOL, placement) == refresh(view, HOST, placement, ours=[POOL])


def test_what_is_no_root_or_not_there_or_has_a_known_name_is_not_added(placement) -> None:
    view = refresh(View(), HOST, placement)
    assert with_lone_root(view, CARD, placement) is None
    assert with_lone_root(view, POOL, placement) is None
    placement.stranger.create_provider("pool", POOL)
    placement.fail_next("GET", f"{POOL}/traits", errors.NotFound("deleted meanwhile"))
    assert with_lone_root(view, POOL, placement) is None
    placement.stranger.rename(CARD, "another")
    placement.stranger.rename(POOL, "card")
    assert with_lone_root(view, POOL, placement) is None


def test_nobody_has_an_empty_name(placement) -> None:
    """Placement would ignore it, and list all providers."""
    assert provider_by_name("", placement) is None and placement.calls == 0
    assert provider_by_name("card", placement)["uuid"] == CARD
