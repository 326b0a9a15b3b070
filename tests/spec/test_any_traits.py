"""The specification of any-traits queries, and what is refused, against a real Placement."""

import pytest

from reportclient.candidates import (
    BadQuery,
    RequestGroup,
    ResourceRequest,
    read_request,
    to_query_string,
)
from reportclient.candidates.asking import allocation_candidates
from reportclient.errors import Rejected, UnknownNames
from reportclient.http import PlacementAPI
from tests.servers.placement import RealPlacement
from tests.spec.models import DISABLED, OFF, PHYSNETS, build, names, uuid_of, with_twins

MODEL = with_twins(PHYSNETS)
NAMES = names(MODEL)
AGG = uuid_of("agg")
CANDIDATES, PROVIDERS = "/allocation_candidates", "/resource_providers"


@pytest.fixture(scope="module")
def api(placement_server: RealPlacement) -> PlacementAPI:
    return build(placement_server, MODEL)


def providers(query: str, api: PlacementAPI) -> set[str]:
    """Return the providers that have what a group of a request needs, without disabled hosts'."""
    path = f"{PROVIDERS}?{to_query_string(read_request(query))}"
    listed = api.request("GET", path, needs="1.39")["resource_providers"]
    return {NAMES[item["uuid"]] for item in listed if not item["name"].endswith(OFF)}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("required=in:CUSTOM_PHYSNET_A,CUSTOM_PHYSNET_D", {"CN1_NIC0", "CN3_NIC1"}),
        ("required=in:CUSTOM_PHYSNET_B", {"CN1_NIC1", "CN2_NIC0"}),
        ("required=CUSTOM_PHYSNET_B,!HW_NIC_SRIOV", {"CN1_NIC1", "CN2_NIC0"}),
        ("required=in:CUSTOM_PHYSNET_A,CUSTOM_PHYSNET_B&required=!CUSTOM_PHYSNET_B", {"CN1_NIC0"}),
        (
            "required=in:CUSTOM_PHYSNET_A,CUSTOM_PHYSNET_B"
            "&required=in:CUSTOM_PHYSNET_B,CUSTOM_PHYSNET_C",
            {"CN1_NIC1", "CN2_NIC0"},
        ),
        (
            f"in_tree={uuid_of('CN2')}&required=in:CUSTOM_PHYSNET_B,CUSTOM_PHYSNET_C",
            {"CN2_NIC0", "CN2_NIC1"},
        ),
        ("resources=VCPU:8&required=in:HW_CPU_X86_AVX2,HW_CPU_X86_SSE", {"CN2", "CN3"}),
        (f"member_of={AGG}", set()),
        (f"in_tree={uuid_of('CN1')}&member_of=!{AGG}", {"CN1", "CN1_NIC0", "CN1_NIC1"}),
    ],
)
def test_each_provider_found_has_at_least_one_of_the_traits(
    query: str, expected: set[str], api: PlacementAPI
) -> None:
    assert providers(query, api) == expected


ONE, TWO = "resources1=VCPU:1", "resources1=VCPU:1&resources_X=VCPU:1"
REFUSED = [
    (CANDIDATES, "resources=VCPU:1&required=in:HW_CPU_X86_AVX,!HW_CPU_X86_SSE", "required="),
    (PROVIDERS, "required=in:HW_CPU_X86_AVX,!HW_CPU_X86_SSE", "required="),
    (CANDIDATES, f"{ONE}&required1=in:HW_CPU_X86_AVX,!HW_CPU_X86_SSE", "required1="),
    (CANDIDATES, f"{ONE}&required1=in:HW_CPU_X86_AVX,", "required1="),
    (CANDIDATES, f"{ONE}&required1=HW_CPU_X86_AVX,!", "required1="),
    (CANDIDATES, f"{ONE}&root_required=in:HW_CPU_X86_AVX,HW_CPU_X86_SSE", "root_required="),
    (CANDIDATES, f"{ONE}&root_required=HW_CPU_X86_AVX&root_required=HW_CPU_X86_SSE", "root_req"),
    (CANDIDATES, "resources_X=VCPU:some", "resources_X=VCPU:some"),
    (CANDIDATES, "resources=VCPU", "resources=VCPU"),
    (CANDIDATES, "resources=", "resources="),
    (CANDIDATES, f"{ONE}&member_of1={AGG},{AGG}", "member_of1="),
    (CANDIDATES, f"{ONE}&member_of1=agg", "member_of1="),
    (CANDIDATES, f"{ONE}&in_tree1=CN1", "in_tree1="),
    (CANDIDATES, f"{ONE}&limit=many", "limit"),
    (CANDIDATES, f"{ONE}&required-=HW_CPU_X86_AVX&unknown=1", "'unknown'"),
    (CANDIDATES, f"{ONE}&in_treé=1", "in_treé"),
    (PROVIDERS, "in_tree=CN1", "in_tree="),
]
"""Queries that can't be read; the text names the parameter."""


@pytest.mark.parametrize(("path", "query", "named"), REFUSED)
def test_what_can_not_be_read_is_refused_as_placement_refuses_it(
    path: str, query: str, named: str, placement_server: RealPlacement
) -> None:
    with pytest.raises(Rejected):
        placement_server.request("GET", f"{path}?{query}".replace("é", "%C3%A9"))
    with pytest.raises(BadQuery) as refused:
        read_request(query)
    assert named in str(refused.value)


@pytest.mark.parametrize(
    "query",
    [
        f"{ONE}&required1=HW_CPU_X86_AVX,!HW_CPU_X86_AVX",
        f"{ONE}&required1=in:HW_CPU_X86_AVX,HW_CPU_X86_SSE"
        "&required1=!HW_CPU_X86_AVX,!HW_CPU_X86_SSE",
        f"{ONE}&root_required=HW_CPU_X86_AVX,!HW_CPU_X86_AVX",
        f"{ONE}&same_subtree=1,_X",
        f"{ONE}&same_subtree=1,",
        TWO,
        f"resources=VCPU:1&{TWO}",
        f"{TWO}&group_policy=all",
        f"resources=VCPU:1&{ONE}&group_policy=all",
        "resources=VCPU:0",
        "resources_X=VCPU:-1",
        f"{ONE}&required_X=HW_CPU_X86_AVX&group_policy=none",
        f"{ONE}&required=HW_CPU_X86_AVX",
        "required_X=HW_CPU_X86_AVX&same_subtree=_X",
        "",
        f"{ONE}&limit=0",
    ],
)
def test_what_placement_refuses_is_told_in_its_own_words(
    query: str, api: PlacementAPI, placement_server: RealPlacement
) -> None:
    with pytest.raises(Rejected) as theirs:
        placement_server.request("GET", f"{CANDIDATES}?{query}")
    with pytest.raises(Rejected) as ours:
        allocation_candidates(read_request(query), api)
    assert ours.value.detail == theirs.value.detail
    assert " ".join(str(ours.value.detail).split()) in str(ours.value)


def test_names_in_the_wrong_form_are_left_to_placement(api: PlacementAPI) -> None:
    for group in (
        RequestGroup({"VCPU": True}),
        RequestGroup({"VCPU": 1}, frozenset({frozenset({"HW_CPU_X86_AVX", "!HW_CPU_X86_SSE"})})),
        RequestGroup({"VCPU": 1}, frozenset({frozenset()})),
        RequestGroup({"VCPU": 1}, in_tree="host1"),
        RequestGroup({"cpu": 1}),
    ):
        with pytest.raises((Rejected, UnknownNames)):
            allocation_candidates(ResourceRequest(group), api)


def test_the_trait_itself_is_not_to_be_asked_for(api: PlacementAPI) -> None:
    for query in (f"required={DISABLED}", f"root_required={DISABLED}"):
        request = read_request(f"resources=VCPU:1&{query}")
        with pytest.raises(ValueError, match=DISABLED):
            allocation_candidates(request, api)
        behind = allocation_candidates(request, api, include_disabled=True)
        assert {NAMES[host] for host in behind.hosts()} == {f"CN{n}{OFF}" for n in (1, 2, 3)}
