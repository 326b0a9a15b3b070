"""The specification of any-traits queries, and what must not be asked, against a real Placement."""

from __future__ import annotations

import pytest

from reportclient.calls import Counting
from reportclient.candidates import (
    BadQuery,
    ProviderQuery,
    RequestGroup,
    read_provider_query,
    read_request,
)
from reportclient.candidates.asking import QueryOptions, allocation_candidates, resource_providers
from reportclient.errors import Rejected
from reportclient.http import PlacementAPI
from tests.servers.placement import RealPlacement
from tests.spec.models import DISABLED, OFF, PHYSNETS, build, names, uuid_of, with_twins

MODEL = with_twins(PHYSNETS)
NAMES = names(MODEL)
AGG = uuid_of("agg")


@pytest.fixture(scope="module")
def api(placement_server: RealPlacement) -> PlacementAPI:
    return build(placement_server, MODEL)


def providers(query: str, api: PlacementAPI, how: QueryOptions | None = None) -> set[str]:
    found = resource_providers(read_provider_query(query), api, how)
    assert all(one.name == NAMES[one.uuid] for one in found.providers)
    return {one.name for one in found.providers}


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
        ("name=CN3_NIC1", {"CN3_NIC1"}),
        (f"uuid={uuid_of('CN3_NIC1')}", {"CN3_NIC1"}),
        (f"member_of={AGG}", set()),
        (f"name=CN1&member_of=!{AGG}", {"CN1"}),
    ],
)
def test_each_provider_found_has_at_least_one_of_the_traits(
    query: str, expected: set[str], api: PlacementAPI
) -> None:
    assert providers(query, api) == expected


def test_providers_of_disabled_hosts_are_left_out_counted_and_can_be_seen(
    api: PlacementAPI,
) -> None:
    query = ProviderQuery(
        where=RequestGroup.from_values(required=["in:CUSTOM_PHYSNET_A,CUSTOM_PHYSNET_D"])
    )
    assert resource_providers(query, api).left_out == 2
    behind = resource_providers(query, api, QueryOptions(include_disabled=True))
    assert {one.name for one in behind.providers} == {
        "CN1_NIC0",
        "CN3_NIC1",
        f"CN1_NIC0{OFF}",
        f"CN3_NIC1{OFF}",
    }
    assert behind.left_out == 0


CANDIDATES, PROVIDERS = "/allocation_candidates", "/resource_providers"
ONE, TWO = "resources1=VCPU:1", "resources1=VCPU:1&resources_X=VCPU:1"
REFUSED = [
    (CANDIDATES, "resources=VCPU:1&required=in:HW_CPU_X86_AVX,!HW_CPU_X86_SSE", "required="),
    (PROVIDERS, "required=in:HW_CPU_X86_AVX,!HW_CPU_X86_SSE", "required="),
    (CANDIDATES, f"{ONE}&required1=in:HW_CPU_X86_AVX,!HW_CPU_X86_SSE", "required1="),
    (CANDIDATES, f"{ONE}&required1=in:HW_CPU_X86_AVX,", "required1="),
    (CANDIDATES, f"{ONE}&required1=HW_CPU_X86_AVX,!", "required1="),
    (CANDIDATES, f"{ONE}&required1=HW_CPU_X86_AVX,!HW_CPU_X86_AVX", "group 1"),
    (
        CANDIDATES,
        f"{ONE}&required1=in:HW_CPU_X86_AVX,HW_CPU_X86_SSE"
        "&required1=!HW_CPU_X86_AVX,!HW_CPU_X86_SSE",
        "group 1",
    ),
    (CANDIDATES, f"{ONE}&root_required=in:HW_CPU_X86_AVX,HW_CPU_X86_SSE", "root_required="),
    (CANDIDATES, f"{ONE}&root_required=HW_CPU_X86_AVX,!HW_CPU_X86_AVX", "root_required:"),
    (CANDIDATES, f"{ONE}&root_required=HW_CPU_X86_AVX&root_required=HW_CPU_X86_SSE", "root_req"),
    (CANDIDATES, f"{ONE}&same_subtree=1,_X", "no group _X"),
    (CANDIDATES, f"{ONE}&same_subtree=1,", "same_subtree"),
    (CANDIDATES, TWO, "groups 1, _X: more than one group needs a group_policy"),
    (CANDIDATES, f"{TWO}&group_policy=all", "group_policy"),
    (CANDIDATES, "resources=VCPU:0", "the unsuffixed group: the amount of VCPU"),
    (CANDIDATES, "resources_X=VCPU:-1", "group _X: the amount of VCPU"),
    (CANDIDATES, "resources_X=VCPU:some", "resources_X=VCPU:some"),
    (CANDIDATES, "resources=VCPU", "resources=VCPU"),
    (CANDIDATES, "resources=", "resources="),
    (CANDIDATES, f"{ONE}&required_X=HW_CPU_X86_AVX", "group _X: has no resources"),
    (CANDIDATES, f"{ONE}&required=HW_CPU_X86_AVX", "the unsuffixed group: has no resources"),
    (CANDIDATES, "required_X=HW_CPU_X86_AVX&same_subtree=_X", "at least one"),
    (CANDIDATES, "", "at least one"),
    (CANDIDATES, f"{ONE}&member_of1={AGG},{AGG}", "member_of1="),
    (CANDIDATES, f"{ONE}&member_of1=agg", "member_of1="),
    (CANDIDATES, f"{ONE}&in_tree1=CN1", "in_tree1="),
    (CANDIDATES, f"{ONE}&limit=0", "limit"),
    (CANDIDATES, f"{ONE}&limit=many", "limit"),
    (CANDIDATES, f"{ONE}&required-=HW_CPU_X86_AVX&unknown=1", "'unknown'"),
    (CANDIDATES, f"{ONE}&in_treé=1", "in_treé"),
    (PROVIDERS, "uuid=CN1", "uuid="),
    (PROVIDERS, "in_tree=CN1", "in_tree="),
    (PROVIDERS, "group_policy=none", "group_policy"),
    (PROVIDERS, "resources=VCPU:0", "VCPU"),
]


@pytest.mark.parametrize(("path", "query", "named"), REFUSED)
def test_what_placement_refuses_is_refused_before_it_is_sent(
    path: str, query: str, named: str, api: PlacementAPI, placement_server: RealPlacement
) -> None:
    with pytest.raises(Rejected):
        placement_server.request("GET", f"{path}?{query}".replace("é", "%C3%A9"))
    meter = Counting(api)
    with pytest.raises(BadQuery) as refused:
        if path == CANDIDATES:
            allocation_candidates(read_request(query), meter)
        else:
            resource_providers(read_provider_query(query), meter)
    assert named in str(refused.value)
    assert meter.calls == 0


def test_the_trait_itself_is_not_to_be_asked_for(api: PlacementAPI) -> None:
    for query in (f"required={DISABLED}", f"root_required={DISABLED}"):
        request = read_request(f"resources=VCPU:1&{query}")
        with pytest.raises(ValueError, match=DISABLED):
            allocation_candidates(request, api)
        behind = allocation_candidates(request, api, QueryOptions(include_disabled=True))
        assert {NAMES[host] for host in behind.hosts()} == {f"CN{n}{OFF}" for n in (1, 2, 3)}
