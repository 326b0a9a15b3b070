"""``--explain`` on the fleet of 200 hosts: what each constraint excludes, and what can be had."""

from collections.abc import Iterator

import pytest

from computectl.asking.explain import Explained, Explanation, draw, explain
from computectl.shared.screen import Screen
from reportclient.candidates import read_request
from reportclient.candidates.asking import allocation_candidates
from reportclient.http import PlacementAPI, token_adapter
from reportclient.root import Counting
from tests.integration.fleet import load_fleet, uuid
from tests.servers.placement import RealPlacement

ENABLED = "root_required=!COMPUTE_STATUS_DISABLED"
NOBODYS = "7a0e6a3c-52a5-4a39-8f4b-0d5b5f0c1e99"
DISABLED = 2
TWO_PORTS = "resources1=SRIOV_NET_VF:1&resources2=SRIOV_NET_VF:1"
ONE_CARD = f"{TWO_PORTS}&required1=CUSTOM_PHYSNET_0&required2=CUSTOM_PHYSNET_0"
ONE_TREE = (
    "resources_A=SRIOV_NET_VF:1&resources_B=SRIOV_NET_VF:1&required_A=CUSTOM_PHYSNET_0"
    "&required_B=CUSTOM_PHYSNET_1&group_policy=none&same_subtree=_A,_B"
)


@pytest.fixture(scope="module")
def api(placement_server: RealPlacement) -> Iterator[PlacementAPI]:
    load_fleet(placement_server, disabled=DISABLED)
    yield PlacementAPI(token_adapter(placement_server.url, "admin"))
    placement_server.empty()


def explained(query: str, api: PlacementAPI) -> Explanation:
    return explain(read_request(query), api, include_disabled=False)


def row(query: str, constraint: str, api: PlacementAPI) -> Explained:
    rows = explained(query, api).rows
    [found] = [each for each in rows if str(each.constraint) == constraint]
    return found


FIRST = {
    "resources=VCPU:1": {ENABLED: DISABLED},
    "resources=VCPU:249": {"resources=VCPU:249": 200},
    "resources=DISK_GB:2000000,VCPU:1": {"resources=DISK_GB:2000000": 200},
    "resources=VCPU:1,VGPU:1": {"resources=VGPU:1": 200},
    "resources=DISK_GB:5,VCPU:1&required=CUSTOM_PHYSNET_0": {"required=CUSTOM_PHYSNET_0": 200},
    "resources=VCPU:1&required=!HW_CPU_X86_AVX2": {"required=!HW_CPU_X86_AVX2": 200},
    f"resources=VCPU:1&in_tree={uuid(199)}": {f"in_tree={uuid(199)}": 199, ENABLED: 1},
    f"resources=VCPU:249&member_of={NOBODYS}": {"resources=VCPU:249": 200},
    f"{ONE_CARD}&group_policy=isolate": {"group_policy=isolate": 200},
    ONE_TREE: {"same_subtree=_A,_B": 200},
}


@pytest.mark.parametrize("query", FIRST)
def test_each_host_is_counted_by_the_first_constraint(query: str, api: PlacementAPI) -> None:
    found = explained(query, api)
    first = {str(row.constraint): row.excludes_first for row in found.rows if row.excludes_first}
    assert first == FIRST[query]
    assert sum(first.values()) + (found.remaining or 0) == found.hosts == 200
    assert found.remaining == len(allocation_candidates(read_request(query), api).hosts())


@pytest.mark.parametrize(
    ("query", "constraint", "hosts"),
    [
        ("resources=VCPU:249,MEMORY_MB:1024", "resources=VCPU:249", 198),
        ("resources=VCPU:1&required=HW_CPU_X86_AVX512F", "required=HW_CPU_X86_AVX512F", 198),
        (f"{ONE_CARD}&group_policy=isolate", "group_policy=isolate", 198),
        (ONE_TREE, "same_subtree=_A,_B", 198),
        (f"resources=VCPU:1&in_tree={uuid(199)}", ENABLED, 1),
        (f"limit=1&resources=VCPU:1&in_tree={uuid(7)}", f"in_tree={uuid(7)}", 198),
        ("resources=VCPU:1", "resources=VCPU:1", None),
    ],
)
def test_the_hosts_without_a_constraint_are_counted(
    query: str, constraint: str, hosts: int | None, api: PlacementAPI
) -> None:
    assert row(query, constraint, api).hosts_without == hosts


@pytest.mark.parametrize(
    ("query", "constraint", "largest"),
    [
        ("resources=VCPU:249", "resources=VCPU:249", 248),
        ("resources=VCPU:1,VGPU:1", "resources=VGPU:1", 0),
        ("resources=VCPU:1,DISK_GB:2000000", "resources=DISK_GB:2000000", 1048576),
        ("resources=SRIOV_NET_VF:1,VCPU:1&required=CUSTOM_PHYSNET_0", "resources=VCPU:1", 248),
        ("resources=VCPU:1&required=!HW_CPU_X86_AVX2", "resources=VCPU:1", 0),
        (
            "resources_N=SRIOV_NET_VF:99&required_N=CUSTOM_PHYSNET_0",
            "resources_N=SRIOV_NET_VF:99",
            16,
        ),
    ],
)
def test_the_largest_amount_is_one_that_a_provider_gives(
    query: str, constraint: str, largest: int, api: PlacementAPI
) -> None:
    assert row(query, constraint, api).largest == largest
    if largest:
        most = constraint.partition("=")[2].partition(":")[0]
        assert len(allocation_candidates(read_request(f"resources={most}:{largest}"), api))
        assert not len(allocation_candidates(read_request(f"resources={most}:{largest + 1}"), api))


@pytest.mark.parametrize(
    ("units", "largest"),
    [
        ({}, 90),
        ({"min_unit": 16, "step_size": 16}, 80),
        ({"max_unit": 16, "step_size": 16}, 16),
        ({"min_unit": 60, "step_size": 60}, 60),
        ({"min_unit": 100}, 0),
    ],
)
def test_units_of_an_inventory_limit_the_largest_amount(
    units: dict[str, int], largest: int, api: PlacementAPI, placement_server: RealPlacement
) -> None:
    stranger = placement_server.stranger
    made = stranger.create_provider("by-units")
    stranger.set_inventory(made, {"CUSTOM_ODD": {"total": 100, "reserved": 10, **units}})
    found = row("resources=CUSTOM_ODD:7", "resources=CUSTOM_ODD:7", api)
    stranger.delete_provider(made)
    assert (found.largest, found.units) == (largest, units if largest else {})


def test_what_is_in_use_is_not_to_be_had(api: PlacementAPI, placement_server) -> None:
    stranger, guests = placement_server.stranger, {}
    for name, used in (("full", 8), ("half", 4)):
        made = stranger.create_provider(name)
        stranger.set_inventory(made, {"CUSTOM_SLOT": {"total": 8}})
        guests[made] = stranger.put_allocation({made: {"CUSTOM_SLOT": used}})
    assert row("resources=CUSTOM_SLOT:8", "resources=CUSTOM_SLOT:8", api).largest == 4
    for made, guest in guests.items():
        stranger.delete_allocation(guest)
        stranger.delete_provider(made)


def test_hosts_of_what_is_only_shared_are_not_counted(api: PlacementAPI) -> None:
    found = explained("resources=DISK_GB:1", api)
    assert (found.hosts, found.remaining) == (200, None)
    assert {row.excludes_first for row in found.rows} == {None}
    assert "hosts are not counted" in list(draw(found, Screen()))[-1]


def test_hosts_of_too_many_candidates_are_not_counted(api: PlacementAPI, monkeypatch) -> None:
    monkeypatch.setattr("computectl.asking.explain.LIMIT", 100)
    found = explained("resources=VCPU:249,MEMORY_MB:1", api)
    counts = {str(row.constraint): row.hosts_without for row in found.rows}
    assert counts == {"resources=MEMORY_MB:1": 0, "resources=VCPU:249": None, ENABLED: 0}
    assert explained("resources=VCPU:1", api).remaining is None


def test_an_explanation_takes_few_calls(api: PlacementAPI) -> None:
    meter = Counting(api)
    explain(
        read_request("resources=VCPU:249,MEMORY_MB:1&required=HW_CPU_X86_AVX2"),
        meter,
        include_disabled=False,
    )
    assert meter.calls <= 1 + 2 * 4 + 2 * 11
