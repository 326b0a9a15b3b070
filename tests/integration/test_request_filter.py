"""The request filter against a real Placement: what it lets through is what is enabled."""

import copy
from urllib.parse import urlencode

import pytest

from reportclient.candidates.request_filter import FORBIDDEN, CannotForbid, only_enabled
from tests.servers.placement import RealPlacement

DISABLED = "COMPUTE_STATUS_DISABLED"
VERSIONS = ("1.22", "1.29", "1.34", "1.35", "1.38", "1.39")


@pytest.fixture
def hosts(placement: RealPlacement) -> dict[str, str]:
    """``on`` and ``off``, each with its own VCPUs and a child with memory and a trait."""
    stranger = placement.stranger
    hosts = {}
    for name in ("on", "off"):
        root = hosts[name] = stranger.create_provider(name)
        stranger.set_inventory(root, {"VCPU": {"total": 4}})
        child = stranger.create_child(root, f"{name}-child")
        stranger.set_inventory(child, {"MEMORY_MB": {"total": 1024}})
        stranger.add_trait(child, "CUSTOM_FAST")
        stranger.add_trait(root, "CUSTOM_HERE")
    stranger.add_trait(hosts["off"], DISABLED)
    return hosts


def candidates(placement: RealPlacement, parameters, microversion: str) -> set[str]:
    query = urlencode(only_enabled(parameters, microversion), doseq=True)
    answer = placement.request("GET", f"/allocation_candidates?{query}", microversion=microversion)
    return {uuid for one in answer["allocation_requests"] for uuid in one["allocations"]}


@pytest.mark.parametrize("microversion", VERSIONS)
def test_a_disabled_host_is_no_candidate(placement, hosts, microversion) -> None:
    asked = {"resources": "VCPU:1"}
    assert candidates(placement, asked, microversion) == {hosts["on"]}
    asked["required"] = "CUSTOM_HERE"
    assert candidates(placement, asked, microversion) == {hosts["on"]}
    asked["required"] = "HW_CPU_X86_AVX"
    assert candidates(placement, asked, microversion) == set()


@pytest.mark.parametrize("microversion", ["1.35", "1.39"])
def test_what_is_required_of_the_root_is_merged(placement, hosts, microversion) -> None:
    asked = {"resources": "VCPU:1", "root_required": "CUSTOM_HERE,!CUSTOM_FAST"}
    assert candidates(placement, asked, microversion) == {hosts["on"]}


@pytest.mark.parametrize("microversion", ["1.35", "1.39"])
def test_resources_below_a_disabled_root_are_left_out(placement, hosts, microversion) -> None:
    asked = {"resources": "MEMORY_MB:1", "required": "CUSTOM_FAST"}
    found = candidates(placement, asked, microversion)
    assert len(found) == 1
    asked = {"resources1": "MEMORY_MB:1", "required1": "CUSTOM_FAST"}
    assert candidates(placement, asked, microversion) == found


def test_alternatives_are_kept(placement, hosts) -> None:
    asked = {"resources": "VCPU:1", "required": ["in:CUSTOM_HERE,HW_CPU_X86_AVX", "CUSTOM_HERE"]}
    assert candidates(placement, asked, "1.39") == {hosts["on"]}


def test_the_filter_does_not_change_what_it_gets() -> None:
    asked = {"resources": "VCPU:1", "required": ["CUSTOM_A", "in:CUSTOM_B,CUSTOM_C"]}
    before = copy.deepcopy(asked)
    for version in VERSIONS:
        assert only_enabled(asked, version) is not asked
    assert asked == before


@pytest.mark.parametrize("microversion", VERSIONS)
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"required": "CUSTOM_A"},
        {"required": ["CUSTOM_A", "!CUSTOM_B"]},
        {"root_required": ""},
        {"root_required": "CUSTOM_A"},
        {"required": FORBIDDEN, "root_required": FORBIDDEN},
    ],
)
def test_twice_is_once(asked, microversion) -> None:
    once = only_enabled(asked, microversion)
    assert only_enabled(once, microversion) == once
    assert str(once).count(FORBIDDEN) >= 1


def test_alternatives_alone_get_a_value_beside_them() -> None:
    asked = {"required": "in:CUSTOM_A,CUSTOM_B"}
    name = "root_required"
    assert only_enabled(asked, "1.39") == {**asked, name: FORBIDDEN}


@pytest.mark.parametrize("microversion", ["1.0", "1.21", "latest", "", "2"])
def test_what_can_not_forbid_is_an_error(microversion) -> None:
    with pytest.raises(CannotForbid):
        only_enabled({"resources": "VCPU:1"}, microversion)


def test_a_query_for_disabled_hosts_is_an_error() -> None:
    with pytest.raises(CannotForbid, match=DISABLED):
        only_enabled({"root_required": DISABLED}, "1.39")
