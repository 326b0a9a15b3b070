"""Errors of Placement that docs/candidates.rst shows, and how queries get around them.

If a newer Placement makes one of these tests fail, the page and what works around it can go.
"""

from collections.abc import Iterator

import pytest

from reportclient import errors
from reportclient.candidates import AllocationCandidates, read_request
from reportclient.candidates.answers import parse_candidates
from reportclient.candidates.asking import allocation_candidates
from reportclient.http import PlacementAPI, token_adapter
from tests.servers.placement import RealPlacement
from tests.spec.models import Node, build, uuid_of

CELLS = {"host": Node(children={f"cell{n}": Node({"VCPU": 8}) for n in range(3)})}
STORAGE = {
    "host": Node({"VCPU": 8}, ("HW_CPU_X86_AVX",)),
    "filer": Node(
        {"VCPU": 8},
        children={"filer_disks": Node({"DISK_GB": 100}, ("MISC_SHARES_VIA_AGGREGATE",))},
    ),
}
AGGREGATE = "7a0e6a3c-52a5-4a39-8f4b-0d5b5f0c1e77"
TWO = "resources=VCPU:2&resources1=VCPU:1"
THREE = "resources=VCPU:2&resources1=VCPU:1&resources2=VCPU:1&group_policy=isolate"


@pytest.fixture(scope="module")
def api(placement_server: RealPlacement) -> Iterator[PlacementAPI]:
    yield build(placement_server, CELLS)
    placement_server.empty()


def raw(query: str, placement: RealPlacement) -> AllocationCandidates:
    return parse_candidates(placement.request("GET", f"/allocation_candidates?{query}"))


def totals(answer: AllocationCandidates) -> set[int]:
    return {
        sum(resources.get("VCPU", 0) for resources in one.allocations.values())
        for one in answer.allocation_requests
    }


@pytest.mark.parametrize(("query", "asked"), [(TWO, 3), (f"{TWO}&group_policy=isolate", 3)])
def test_placement_adds_up_wrongly_without_group_policy_none(
    query: str, asked: int, api: PlacementAPI, placement_server: RealPlacement
) -> None:
    assert totals(raw(query, placement_server)) > {asked}
    assert totals(raw(f"{TWO}&group_policy=none", placement_server)) == {asked}


@pytest.mark.parametrize(
    ("query", "asked"), [(TWO, 3), (f"{TWO}&group_policy=isolate", 3), (THREE, 4)]
)
def test_our_queries_get_the_amounts_that_were_asked_for(
    query: str, asked: int, api: PlacementAPI
) -> None:
    answer = allocation_candidates(read_request(query), api)
    assert (totals(answer), answer.miscounted) == ({asked}, 0)


def test_groups_are_isolated_as_placement_does_it(api: PlacementAPI, placement_server) -> None:
    theirs = raw(THREE, placement_server).allocation_requests
    ours = allocation_candidates(read_request(THREE), api).allocation_requests
    assert [met(one) for one in sorted(ours, key=met)] == [met(o) for o in sorted(theirs, key=met)]
    limited = allocation_candidates(read_request(f"{THREE}&limit=2"), api)
    assert len(limited) == 2
    assert met(limited.allocation_requests[0])[1] != met(limited.allocation_requests[0])[2]


def met(candidate) -> list[list[str]]:
    return [sorted(candidate.mappings[suffix]) for suffix in ("", "1", "2")]


def test_wrong_amounts_of_an_answer_are_counted(
    placement_server: RealPlacement, monkeypatch: pytest.MonkeyPatch, api: PlacementAPI
) -> None:
    monkeypatch.setattr(
        "reportclient.candidates.asking.with_safe_group_policy", lambda r: (r, False)
    )
    answer = allocation_candidates(read_request(TWO), api)
    assert 0 < answer.miscounted < len(answer)


def test_a_sharing_provider_that_is_no_root_is_an_error_in_one_order(placement_server) -> None:
    build(placement_server, STORAGE)
    for name in ("host", "filer_disks"):
        placement_server.stranger.set_aggregates(uuid_of(name), [AGGREGATE])
    root = "root_required=HW_CPU_X86_AVX"
    first, second = "resources=VCPU:1,DISK_GB:1", "resources1=VCPU:1"
    with pytest.raises(errors.Unreachable):
        raw(f"{first}&{second}&{root}&group_policy=none", placement_server)
    assert len(raw(f"{second}&{first}&{root}&group_policy=none", placement_server)) == 1


def test_an_unknown_path_is_told_from_an_unknown_provider(placement_server: RealPlacement) -> None:
    url = placement_server.url
    for path, kind, said in [
        ("", errors.NotFound, "No resource provider with uuid"),
        ("/other", errors.Unreachable, f"{url}/other .*; is endpoint_override right"),
    ]:
        api = PlacementAPI(token_adapter(url + path, "admin"))
        with pytest.raises(kind, match=said):
            api.request("GET", f"/resource_providers/{uuid_of('nowhere')}")
