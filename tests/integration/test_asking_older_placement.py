"""Queries to an older Placement: what it can be asked otherwise, and what it lacks."""

from __future__ import annotations

import pytest

from reportclient.candidates import read_provider_query, read_request
from reportclient.candidates.asking import QueryOptions, allocation_candidates, resource_providers
from reportclient.errors import TooOld
from reportclient.http import PlacementAPI, token_adapter
from tests.servers.placement import RealPlacement
from tests.spec.models import FPGAS, PHYSNETS, build, names, uuid_of, with_twins

MODEL = with_twins({**PHYSNETS, **FPGAS})
NAMES = names(MODEL)
PORTS = "resources=VCPU:1&resources_PORT=NET_BW_EGR_KILOBIT_PER_SEC:10"
ANY = f"{PORTS}&required_PORT=in:CUSTOM_PHYSNET_A,CUSTOM_PHYSNET_C"


@pytest.fixture(scope="module", params=["1.30", "1.36"])
def older(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("older")
    with RealPlacement(directory, max_microversion=request.param) as server:
        build(server, MODEL)
        yield server


@pytest.fixture
def api(older: RealPlacement) -> PlacementAPI:
    return PlacementAPI(token_adapter(older.url, "admin"))


def hosts(query: str, api: PlacementAPI, how: QueryOptions | None = None) -> list[str]:
    return sorted(
        NAMES[root] for root in allocation_candidates(read_request(query), api, how).hosts()
    )


def test_alternatives_name_the_feature_and_both_versions(api: PlacementAPI, older) -> None:
    with pytest.raises(TooOld) as told:
        allocation_candidates(read_request(ANY), api)
    for word in ("group _PORT", "in:", "1.39", older.max_microversion):
        assert word in str(told.value)


def test_alternatives_are_asked_one_by_one_and_merged_if_that_is_allowed(
    api: PlacementAPI, older: RealPlacement
) -> None:
    mark = older.mark()
    answer = allocation_candidates(read_request(ANY), api, QueryOptions(several=True))
    met = [
        NAMES[uuid]
        for one in answer.allocation_requests
        for uuid in one.allocations
        if "NIC" in NAMES[uuid]
    ]
    assert sorted(met) == ["CN1_NIC0", "CN2_NIC1", "CN3_NIC0"]
    assert len(older.since(mark)) == 3, "one to learn the version, and one for each alternative"


def test_a_candidate_that_meets_two_alternatives_is_there_once(api: PlacementAPI) -> None:
    query = (
        "resources=VCPU:1,NET_BW_EGR_KILOBIT_PER_SEC:10&required=in:CUSTOM_PHYSNET_A,HW_CPU_X86_AVX"
    )
    answer = allocation_candidates(read_request(query), api, QueryOptions(several=True))
    assert len(answer) == 2
    assert answer.hosts() == [uuid_of("CN1")]
    cut = allocation_candidates(read_request(f"{query}&limit=1"), api, QueryOptions(several=True))
    assert len(cut) == 1


def test_disabled_hosts_do_not_show_where_only_their_children_are_asked(api: PlacementAPI) -> None:
    below = "resources_P=NET_BW_EGR_KILOBIT_PER_SEC:10"
    for query in (below, "resources=NET_BW_EGR_KILOBIT_PER_SEC:10"):
        assert hosts(query, api) == ["CN1", "CN2", "CN3"]
        assert len(hosts(query, api, QueryOptions(include_disabled=True))) == 6


def test_a_limit_is_not_used_up_by_disabled_hosts(api: PlacementAPI) -> None:
    query = "resources1=NET_BW_EGR_KILOBIT_PER_SEC:10"
    for limit in (1, 5, 6, 7):
        answer = allocation_candidates(read_request(f"{query}&limit={limit}"), api)
        assert len(answer) == min(limit, 6)
        assert {NAMES[root] for root in answer.hosts()} <= {"CN1", "CN2", "CN3"}


def test_what_the_root_has_to_be_is_found_in_the_answer(api: PlacementAPI) -> None:
    asked = f"{PORTS}&root_required="
    assert hosts(f"{asked}HW_CPU_X86_AVX2", api) == ["CN2"]
    assert hosts(f"{asked}!HW_CPU_X86_AVX2,!HW_CPU_X86_SSE", api) == ["CN1"]
    assert hosts(f"{asked}CUSTOM_PHYSNET_A", api) == []


def test_a_suffix_is_a_number_where_it_has_to_be_one(api: PlacementAPI) -> None:
    query = f"{PORTS}&required_PORT=CUSTOM_PHYSNET_D"
    answer = allocation_candidates(read_request(query), api)
    [found] = answer.allocation_requests
    assert {NAMES[uuid] for uuid in found.allocations} == {"CN3", "CN3_NIC1"}


@pytest.mark.parametrize(
    ("query", "feature", "version"),
    [
        (f"resources=VCPU:1&in_tree={uuid_of('CN1')}", "in_tree", "1.31"),
        (f"resources1=VCPU:1&member_of1=!{uuid_of('agg')}", "group 1: forbidden aggreg", "1.32"),
        ("resources_A=VCPU:1&same_subtree=_A", "same_subtree", "1.36"),
        (
            "resources_A=VCPU:1&required_B=HW_NUMA_ROOT&same_subtree=_A,_B&group_policy=none",
            "group _B: a group without resources",
            "1.36",
        ),
    ],
)
def test_what_it_lacks_is_named_with_its_version(
    query: str, feature: str, version: str, api: PlacementAPI, older
) -> None:
    if older.max_microversion != "1.30":
        allocation_candidates(read_request(query), api)
        return
    mark = older.mark()
    with pytest.raises(TooOld) as told:
        allocation_candidates(read_request(query), api)
    assert feature in str(told.value)
    assert f"(microversion {version})" in str(told.value)
    assert len(older.since(mark)) == 1, "nothing is sent but to learn the version"


def test_mappings_are_answered_or_missed_aloud(api: PlacementAPI, older) -> None:
    request = read_request("resources_X=VCPU:1")
    if older.max_microversion != "1.30":
        [one] = allocation_candidates(
            request, api, QueryOptions(mappings=True)
        ).allocation_requests[:1]
        assert set(one.mappings or ()) == {"_X"}
        return
    assert allocation_candidates(request, api).allocation_requests[0].mappings is None
    with pytest.raises(TooOld, match=r"mappings \(microversion 1.34\)"):
        allocation_candidates(request, api, QueryOptions(mappings=True))


def test_providers_are_found_by_alternatives_too(api: PlacementAPI) -> None:
    query = read_provider_query("required=in:CUSTOM_PHYSNET_A,CUSTOM_PHYSNET_B")
    with pytest.raises(TooOld, match="in:"):
        resource_providers(query, api)
    found = resource_providers(query, api, QueryOptions(several=True))
    assert {one.name for one in found.providers} == {"CN1_NIC0", "CN1_NIC1", "CN2_NIC0"}
    assert found.left_out == 3


@pytest.mark.parametrize("query", ["resources=VCPU:1", "resources1=VCPU:1&required1=!CUSTOM_A"])
def test_a_placement_before_nested_answers_is_refused_in_a_sentence(query, tmp_path) -> None:
    with RealPlacement(tmp_path, max_microversion="1.21") as server:
        old = PlacementAPI(token_adapter(server.url, "admin"))
        with pytest.raises(TooOld, match=r"needs microversion 1\.30; Placement has 1\.21$"):
            allocation_candidates(read_request(query), old)
        with pytest.raises(TooOld, match=r"needs microversion 1\.30; Placement has 1\.21$"):
            resource_providers(read_provider_query("name=host1"), old)
