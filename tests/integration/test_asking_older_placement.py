"""Queries to an older Placement: the error names what it lacks."""

from __future__ import annotations

from dataclasses import replace

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


def test_alternatives_name_the_feature_and_both_versions(api: PlacementAPI, older) -> None:
    with pytest.raises(TooOld) as told:
        allocation_candidates(read_request(ANY), api)
    for word in ("group _PORT", "in:", "1.39", older.max_microversion):
        assert word in str(told.value)


@pytest.mark.parametrize(
    ("query", "feature", "version"),
    [
        ("resources=VCPU:1", "root_required", "1.35"),
        (f"resources=VCPU:1&in_tree={uuid_of('CN1')}", "in_tree", "1.31"),
        (f"resources1=VCPU:1&member_of1=!{uuid_of('agg')}", "group 1: forbidden aggreg", "1.32"),
        ("resources_A=VCPU:1", "group _A: a suffix that is no number", "1.33"),
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
    request, everybody = read_request("resources1=VCPU:1"), QueryOptions(include_disabled=True)
    if older.max_microversion != "1.30":
        [one] = allocation_candidates(
            request, api, QueryOptions(mappings=True)
        ).allocation_requests[:1]
        assert set(one.mappings or ()) == {"1"}
        return
    assert allocation_candidates(request, api, everybody).allocation_requests[0].mappings is None
    with pytest.raises(TooOld, match=r"mappings \(microversion 1.34\)"):
        allocation_candidates(request, api, replace(everybody, mappings=True))


def test_providers_of_disabled_hosts_are_left_out(api: PlacementAPI) -> None:
    with pytest.raises(TooOld, match="in:"):
        resource_providers(read_provider_query("required=in:CUSTOM_PHYSNET_A,CUSTOM_B"), api)
    found = resource_providers(read_provider_query("required=CUSTOM_PHYSNET_A"), api)
    assert {NAMES[one.root_uuid] for one in found.providers} <= {"CN1", "CN2", "CN3"}
    assert found.left_out > 0


@pytest.mark.parametrize("query", ["resources=VCPU:1", "resources1=VCPU:1&required1=!CUSTOM_A"])
def test_a_placement_before_nested_answers_is_refused_in_a_sentence(query, tmp_path) -> None:
    with RealPlacement(tmp_path, max_microversion="1.21") as server:
        old = PlacementAPI(token_adapter(server.url, "admin"))
        with pytest.raises(TooOld, match=r"Placement has microversion 1\.21 and lacks: root_req"):
            allocation_candidates(read_request(query), old)
        with pytest.raises(TooOld, match=r"needs microversion 1\.30; Placement has 1\.21$"):
            resource_providers(read_provider_query("name=host1"), old)
