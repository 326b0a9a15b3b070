"""``with_root`` adds a root outside of a tree, as a refresh would read it."""

import pytest

from reportclient import errors
from reportclient.reader import provider_by_name, refresh, with_root
from reportclient.view import View
from tests.stranger import FakePlacement

HOST = "c0ffee00-0000-4000-8000-000000000001"
CARD = "c0ffee00-0000-4000-8000-000000000002"
POOL = "c0ffee00-0000-4000-8000-000000000003"


@pytest.fixture
def placement() -> FakePlacement:
    placement = FakePlacement()
    placement.stranger.create_provider("host1", HOST)
    placement.stranger.create_child(HOST, "card", CARD)
    return placement


def test_a_root_outside_the_tree_is_added_as_a_refresh_would_read_it(placement) -> None:
    view = refresh(View(), HOST, placement)
    placement.stranger.create_provider("pool", POOL)
    placement.stranger.add_trait(POOL, "CUSTOM_POOL")
    assert with_root(view, POOL, placement) == refresh(view, HOST, placement, own=[POOL])


def test_what_is_no_root_or_not_there_or_has_a_known_name_is_not_added(placement) -> None:
    view = refresh(View(), HOST, placement)
    assert with_root(view, CARD, placement) is None
    assert with_root(view, POOL, placement) is None
    placement.stranger.create_provider("pool", POOL)
    placement.fail_next("GET", f"{POOL}/traits", errors.NotFound("deleted meanwhile"))
    assert with_root(view, POOL, placement) is None
    placement.stranger.rename(CARD, "another")
    placement.stranger.rename(POOL, "card")
    assert with_root(view, POOL, placement) is None


def test_nobody_has_an_empty_name(placement) -> None:
    """Placement would ignore it, and list all providers."""
    assert provider_by_name("", placement) is None and placement.calls == 0
    assert provider_by_name("card", placement)["uuid"] == CARD
