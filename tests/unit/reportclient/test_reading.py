"""What ``refresh`` reads again, and with which calls."""

import re
from dataclasses import dataclass, replace
from typing import Any

import pytest

from reportclient.errors import NotFound, Rejected, Unreachable, WrongForm
from reportclient.reader import (
    URL_BYTES,
    members_of,
    provider_by_name,
    provider_by_uuid,
    refresh,
    with_root,
)
from reportclient.replies import Answer
from reportclient.view import View
from tests.stranger import FakePlacement

HOST, CARD, POOL, DISK, PORT = (
    f"c0ffee00-0000-4000-8000-00000000000{number}" for number in range(1, 6)
)
RACK = "aaaaaaaa-0000-4000-8000-000000000001"


@pytest.fixture
def placement() -> FakePlacement:
    """A host with a card, and a pool with a disk."""
    placement = FakePlacement()
    placement.stranger.create_provider("host1", HOST)
    placement.stranger.create_child(HOST, "card", CARD)
    placement.stranger.create_provider("pool", POOL)
    placement.stranger.create_child(POOL, "disk", DISK)
    return placement


def calls_of_refresh(placement: FakePlacement, view: View, **options) -> tuple[View, int]:
    mark = placement.mark()
    return refresh(view, HOST, placement, **options), len(placement.since(mark))


def test_a_provider_that_has_a_parent_is_refused_as_a_root(placement) -> None:
    text = f"provider card ({CARD}) is not a root: it is below {HOST} in Placement. "
    with pytest.raises(Rejected, match=re.escape(text)):
        refresh(View(), CARD, placement)


@dataclass
class Cache:
    """Answers each request with the answer to ``instead``, if that is set."""

    api: FakePlacement
    instead: str = ""

    def request(self, method: str, path: str, **about: Any) -> dict[str, Any]:
        return self.api.request(method, self.instead or path, **about)


@pytest.mark.parametrize("query", ["", f"?in_tree={POOL}"])
def test_an_answer_that_is_not_the_tree_changes_no_view(placement, query: str) -> None:
    cache = Cache(placement)
    view = refresh(View(), HOST, cache)
    cache.instead = f"/resource_providers{query}"
    with pytest.raises(WrongForm, match=f"resource_providers is not the tree of {HOST}"):
        refresh(view, HOST, cache)
    with pytest.raises(WrongForm, match=f"is not the tree of {CARD}"):
        members_of(CARD, cache)
    assert provider_by_name("host2", cache) is provider_by_uuid(PORT, cache) is None


def test_a_provider_is_found_by_its_name_in_any_case_of_letters() -> None:
    placement = FakePlacement(ignores_case=True)
    placement.stranger.create_provider("host1", HOST)
    assert provider_by_name("HOST1", placement) == provider_by_uuid(HOST, placement)


def test_a_lone_root_costs_one_call_and_stays_a_root_if_it_is_moved(placement) -> None:
    view = with_root(refresh(View(), HOST, placement), POOL, placement)
    assert {*view.snapshot.providers} == {HOST, CARD, POOL}
    view, calls = calls_of_refresh(placement, view)
    assert calls == 2 + 3, "the listings of two trees, and the disk"
    assert calls_of_refresh(placement, view) == (view, 2)
    placement.stranger.create_provider("rack", PORT)
    placement.stranger.move(POOL, PORT)
    again, _ = calls_of_refresh(placement, view)
    assert again.snapshot.providers[POOL].parent_uuid is None


def test_an_own_root_outside_the_tree_is_read_by_one_listing(placement) -> None:
    placement.stranger.create_child(HOST, "port", PORT)
    own = [CARD, POOL, DISK, PORT]
    view, calls = calls_of_refresh(placement, View(), own=own)
    assert calls == 2 + 5 * 3, "two listings, and three parts of each provider"
    assert view.snapshot.providers[DISK].parent_uuid == POOL
    assert calls_of_refresh(placement, view, own=own) == (view, 2)


@pytest.mark.parametrize(
    ("older", "read"),
    [({CARD}, 1), ({HOST}, 3), ({HOST, CARD}, 3), ({CARD, PORT}, 3)],
    ids=["one child", "the root", "root and child", "two children"],
)
def test_all_is_read_again_if_placement_was_restored(placement, older, read, caplog) -> None:
    placement.stranger.create_child(HOST, "port", PORT)
    view = refresh(View(), HOST, placement)
    known = {uuid: number + 3 * (uuid in older) for uuid, number in view.generations.items()}
    again, calls = calls_of_refresh(placement, replace(view, generations=known))
    assert (calls, again) == (1 + 3 * read, replace(view, restored=read > 1))
    assert ("generations of 2 providers decreased" in caplog.text) is (len(older) == 2)


@dataclass
class Dated:
    """A Placement whose listings have a ``Last-Modified``."""

    api: FakePlacement
    modified: str = "Mon, 01 Jan 2024 00:00:00 GMT"

    def request(self, method: str, path: str, **about: Any) -> Answer:
        answer = Answer(self.api.request(method, path, **about))
        answer.modified = self.modified
        return answer


def test_all_is_read_again_if_only_the_time_of_the_last_write_differs(placement, caplog) -> None:
    dated = Dated(placement)
    view = refresh(View(), HOST, dated)
    placement.store.providers[CARD].traits.add("HW_CPU_X86_AVX")  # restored, and written since
    assert refresh(view, HOST, dated) == view
    dated.modified = "Tue, 02 Jan 2024 00:00:00 GMT"
    again = refresh(view, HOST, dated)
    assert again.snapshot.providers[CARD].traits == {"HW_CPU_X86_AVX"} and again.restored
    assert again.modified == dated.modified and "Placement was restored" in caplog.text


def test_a_time_that_a_gateway_invents_is_compared_once_an_audit(placement) -> None:
    dated, calls = Dated(placement), []
    view = refresh(View(), HOST, dated)
    for day, everything in enumerate((False, False, False, True, False, False), 2):
        mark, dated.modified = placement.mark(), f"Tue, {day:02} Jan 2024 00:00:00 GMT"
        view = refresh(view, HOST, dated, everything=everything)
        calls.append(len(placement.since(mark)))
    assert calls == [7, 1, 1, 7, 7, 1]


def test_all_is_read_again_if_the_root_was_deleted(placement, caplog) -> None:
    caplog.set_level("INFO")
    view = with_root(refresh(View(), HOST, placement), POOL, placement)
    placement.stranger.delete_provider(CARD)
    placement.stranger.delete_provider(HOST)
    again, calls = calls_of_refresh(placement, view)
    assert calls == 2 + 6 and {*again.snapshot.providers} == {POOL, DISK}
    assert f"Root provider {HOST} was deleted in Placement" in caplog.text


def test_many_aggregates_take_short_urls_and_a_pool_is_read_once(placement) -> None:
    fit = URL_BYTES // len(f"{RACK},")
    aggregates = [f"aaaaaaaa-0000-4000-8000-{number:012}" for number in range(2 * fit)]
    placement.stranger.add_trait(POOL, "MISC_SHARES_VIA_AGGREGATE")
    placement.stranger.set_aggregates(POOL, aggregates)
    placement.stranger.set_aggregates(HOST, aggregates)
    mark = placement.mark()
    assert refresh(View(), HOST, placement).sharing == {POOL}
    paths = [request.path for request in placement.since(mark)]
    queries = [path for path in paths if "member_of" in path]
    assert len(queries) == 2 and len(paths) == 1 + 2 + 3 * 3
    lists = [query.partition("in:")[2].partition("&")[0] for query in queries]
    assert all(len(each) <= URL_BYTES for each in lists)


def test_what_is_below_a_provider_that_was_deleted_meanwhile_is_left_out(placement) -> None:
    placement.stranger.create_child(CARD, "port", PORT)
    placement.fail_next("GET", f"{CARD}/inventories", NotFound("deleted meanwhile"))
    assert {*refresh(View(), HOST, placement).snapshot.providers} == {HOST}


def test_providers_read_in_parallel_are_the_same_with_the_same_requests(placement) -> None:
    placement.stranger.create_child(CARD, "port", PORT)
    alone = placement.mark()
    plain = refresh(View(), HOST, placement)
    together = placement.mark()
    assert refresh(View(), HOST, placement, at_once=4) == plain
    requests = placement.requests
    assert sorted(map(str, requests[together:])) == sorted(map(str, requests[alone:together]))


def test_an_error_of_a_provider_read_in_parallel_is_raised(placement) -> None:
    placement.fail_next("GET", f"{CARD}/traits", Unreachable("no answer"))
    with pytest.raises(Unreachable, match="no answer"):
        refresh(View(), HOST, placement, at_once=4)
