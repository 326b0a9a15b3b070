"""``--explain`` on the fleet of 200 hosts: for what can't be had, it names what is in the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from computectl.asking.constraints import Question
from computectl.asking.explanation import paragraphs, write_sentences
from computectl.asking.facts import LOOKED_AT, NAMED, Facts
from computectl.asking.why import MOST_CALLS, Explained, Explainer, Why
from reportclient.calls import Counting
from reportclient.candidates import read_request
from reportclient.candidates.asking import allocation_candidates
from reportclient.http import PlacementAPI, token_adapter
from tests.integration.fleet import CEPH, host, load_fleet, uuid
from tests.servers.placement import RealPlacement

FILTER = "COMPUTE_STATUS_DISABLED"
NOBODYS = "7a0e6a3c-52a5-4a39-8f4b-0d5b5f0c1e99"
DISABLED = 2
ENABLED = 200 - DISABLED
TWO_PORTS = "resources1=SRIOV_NET_VF:1&resources2=SRIOV_NET_VF:1"

UNSATISFIABLE = {
    "more than any host has": (
        "resources=VCPU:249,MEMORY_MB:1024",
        "resources=VCPU:249",
        f"The most that one provider has free is 248, {host(0)}.",
    ),
    "a resource class that nobody gives": (
        "resources=VCPU:1,VGPU:1",
        "resources=VGPU:1",
        "No provider can give even 1 of VGPU",
    ),
    "more than what all hosts share": (
        "resources=VCPU:1,DISK_GB:2000000",
        "resources=DISK_GB:2000000",
        f"The most that one provider has free is 1048576, {CEPH}.",
    ),
    "more than one card has, though the host has it": (
        "resources=VCPU:1&resources_NIC=SRIOV_NET_VF:17",
        "resources_NIC=SRIOV_NET_VF:17",
        "The most that one provider has free is 16",
    ),
    "a trait that nobody has": (
        "resources=VCPU:1,DISK_GB:10&required=HW_CPU_X86_AVX512F",
        "required=HW_CPU_X86_AVX512F",
        "No provider has HW_CPU_X86_AVX512F.",
    ),
    "alternatives that nobody has": (
        "resources=VCPU:1&required=in:HW_CPU_X86_AVX512F,HW_CPU_X86_AVX512CD",
        "required=in:HW_CPU_X86_AVX512CD,HW_CPU_X86_AVX512F",
        "No provider has HW_CPU_X86_AVX512CD or HW_CPU_X86_AVX512F.",
    ),
    "a forbidden trait that all have": (
        "resources=VCPU:1&required=!HW_CPU_X86_AVX2",
        "required=!HW_CPU_X86_AVX2",
        "200 providers have HW_CPU_X86_AVX2",
    ),
    "a trait of the hosts asked of their cards": (
        "resources=VCPU:1&resources_NIC=SRIOV_NET_VF:1&required_NIC=HW_CPU_X86_AVX2",
        "required_NIC=HW_CPU_X86_AVX2",
        "but none that gives SRIOV_NET_VF:1.",
    ),
    "a trait of the cards asked of those that give processors and memory": (
        "resources=VCPU:1,MEMORY_MB:512&required=CUSTOM_PHYSNET_0",
        "required=CUSTOM_PHYSNET_0",
        "but none that gives MEMORY_MB:512 or VCPU:1.",
    ),
    "a trait of the cards asked of the hosts": (
        "resources=VCPU:1&root_required=CUSTOM_PHYSNET_0",
        "root_required=CUSTOM_PHYSNET_0",
        "but no root provider has it.",
    ),
    "an aggregate that nobody is in": (
        f"resources=VCPU:1&member_of={NOBODYS}",
        f"member_of={NOBODYS}",
        "No provider is in it.",
    ),
    "a tree that has no processors": (
        "resources=VCPU:1&in_tree={ceph}",
        "in_tree={ceph}",
        f"It is the tree of {CEPH}.",
    ),
    "a tree that there is not": (
        f"resources=VCPU:1&in_tree={NOBODYS}",
        f"in_tree={NOBODYS}",
        "Placement has no provider with this UUID.",
    ),
    "one card for two groups that need their own": (
        f"{TWO_PORTS}&required1=CUSTOM_PHYSNET_0&required2=CUSTOM_PHYSNET_0&group_policy=isolate",
        "group_policy=isolate",
        "There are too few providers",
    ),
    "two cards in one subtree": (
        "resources_A=SRIOV_NET_VF:1&resources_B=SRIOV_NET_VF:1&required_A=CUSTOM_PHYSNET_0"
        "&required_B=CUSTOM_PHYSNET_1&group_policy=none&same_subtree=_A,_B",
        "same_subtree=_A,_B",
        "No provider of one of these groups is an ancestor of those of the others.",
    ),
    "a host that is disabled": (
        f"resources=VCPU:1&in_tree={uuid(199)}",
        "root_required=!COMPUTE_STATUS_DISABLED",
        "`computectl service enable`",
    ),
}


@pytest.fixture(scope="module")
def api(placement_server: RealPlacement) -> Iterator[PlacementAPI]:
    load_fleet(placement_server, disabled=DISABLED)
    yield PlacementAPI(token_adapter(placement_server.url, "admin"))
    placement_server.empty()


@pytest.fixture(scope="module")
def ceph(api: PlacementAPI) -> str:
    [found] = api.request("GET", f"/resource_providers?name={CEPH}")["resource_providers"]
    return found["uuid"]


def explained(query: str, api: PlacementAPI) -> tuple[Why, list[Explained], int]:
    counted = Counting(api)
    facts = Facts(counted, Question(replace(read_request(query), limit=None)))
    why = Explainer(facts).diagnose()
    write_sentences(why, facts)
    return why, why.explained, counted.calls


TALLIES = {
    "resources=VCPU:1": {f"root_required=!{FILTER}": DISABLED},
    "resources=VCPU:249": {"resources=VCPU:249": 200},
    "resources=DISK_GB:5,VCPU:249": {"resources=VCPU:249": 200},
    "resources=DISK_GB:2000000,VCPU:1": {"resources=DISK_GB:2000000": 200},
    "resources=DISK_GB:5,VCPU:1&required=CUSTOM_PHYSNET_0": {"required=CUSTOM_PHYSNET_0": 200},
    f"resources=VCPU:1&in_tree={uuid(7)}": {f"in_tree={uuid(7)}": 199},
    f"resources=VCPU:249&member_of={NOBODYS}": {"resources=VCPU:249": 200},
    f"{TWO_PORTS}&required1=CUSTOM_PHYSNET_0&required2=CUSTOM_PHYSNET_0&group_policy=isolate": {
        "group_policy=isolate": 200
    },
}


@pytest.mark.parametrize("query", TALLIES)
def test_each_host_is_tallied_once_with_its_first_reason(query: str, api: PlacementAPI) -> None:
    why, found, _ = explained(query, api)
    assert why.tally is not None
    first = {constraint.written: hosts for constraint, hosts in why.tally.first.items()}
    assert first == TALLIES[query]
    assert sum(first.values()) + why.tally.left == why.tally.hosts == 200
    assert why.tally.left == len(allocation_candidates(read_request(query), api).hosts())
    assert sum(one.first_for or 0 for one in found) == 200 - why.tally.left


def test_a_request_for_what_is_shared_only_has_no_tally(api: PlacementAPI) -> None:
    assert explained("resources=DISK_GB:1", api)[0].tally is None


def test_all_that_can_not_be_met_is_named_at_once(api: PlacementAPI) -> None:
    query = f"resources=VCPU:249&required=HW_CPU_X86_AVX512F&member_of={NOBODYS}"
    why, found, _ = explained(query, api)
    assert {one.constraint.written for one in found if one.verdict == "impossible"} == {
        *("resources=VCPU:249", "required=HW_CPU_X86_AVX512F", f"member_of={NOBODYS}")
    }
    assert [one.constraint.written for one in found if one.verdict == "nothing"] == []


def test_what_nobody_gives_does_not_hide_what_nobody_has(api: PlacementAPI) -> None:
    _, found, _ = explained("resources=VGPU:1&required=HW_CPU_X86_AVX512F", api)
    assert {one.constraint.written for one in found if one.verdict == "impossible"} == {
        *("resources=VGPU:1", "required=HW_CPU_X86_AVX512F")
    }


def test_what_others_leave_out_as_well_is_not_called_harmless(api: PlacementAPI) -> None:
    query = f"resources=VCPU:1&in_tree={uuid(7)}&root_required=CUSTOM_PHYSNET_0,HW_CPU_X86_AVX2"
    _, found, _ = explained(query, api)
    verdicts = {one.constraint.written: one.verdict for one in found}
    assert verdicts == {
        "root_required=CUSTOM_PHYSNET_0": "decides",
        f"in_tree={uuid(7)}": "overlaps",
        f"root_required=!{FILTER}": "overlaps",
        "root_required=HW_CPU_X86_AVX2": "nothing",
        "resources=VCPU:1": "nothing",
    }


@pytest.mark.parametrize("title", UNSATISFIABLE)
def test_the_constraint_that_leaves_none_is_named(title: str, api: PlacementAPI, ceph: str) -> None:
    query, culprit, fact = (text.format(ceph=ceph) for text in UNSATISFIABLE[title])
    assert len(allocation_candidates(read_request(query), api)) == 0
    why, found, calls = explained(query, api)
    assert why.complete
    quiet = ("overlaps", "nothing")
    telling = {one.constraint.written: one for one in found if one.verdict not in quiet}
    assert culprit in telling
    assert fact in telling[culprit].sentence
    assert telling[culprit].sentence.startswith(f"{culprit}: ")
    assert calls <= 32
    for innocent in telling.keys() - {culprit}:  # whatever else is named would help as well
        assert telling[innocent].more > 0


def test_a_constraint_alone_tells_what_it_leaves_out(api: PlacementAPI) -> None:
    _, found, _ = explained("resources=VCPU:1&required=HW_CPU_X86_AVX512F", api)
    first = found[0]
    assert (first.verdict, first.more) == ("decides", ENABLED)
    assert set(first.kept_out) == {uuid(number) for number in range(ENABLED)}
    names = ", ".join(host(number) for number in range(NAMED))
    assert f"excludes 198 hosts ({names} and 195 more)" in first.sentence


def test_where_there_are_candidates_each_constraint_tells_how_many_it_costs(
    api: PlacementAPI,
) -> None:
    why, found, _ = explained(
        f"resources_NIC=SRIOV_NET_VF:1&required_NIC=CUSTOM_PHYSNET_1&in_tree_NIC={uuid(7)}", api
    )
    assert len(why.answer) == 1
    costs = {one.constraint.written: one.more for one in found}
    assert costs["required_NIC=CUSTOM_PHYSNET_1"] == 1
    assert costs[f"in_tree_NIC={uuid(7)}"] == ENABLED - 1
    assert costs["root_required=!COMPUTE_STATUS_DISABLED"] == 0


def test_two_that_nobody_meets_are_both_named_though_neither_alone_would_help(
    api: PlacementAPI,
) -> None:
    _, found, _ = explained(
        f"resources=VCPU:1&required=HW_CPU_X86_AVX512F,HW_CPU_X86_AVX2&member_of={NOBODYS}", api
    )
    impossible = {one.constraint.written for one in found if one.verdict == "impossible"}
    assert impossible == {"required=HW_CPU_X86_AVX512F", f"member_of={NOBODYS}"}


def test_what_only_goes_wrong_together_is_named_together(api: PlacementAPI) -> None:
    query = (
        "resources1=SRIOV_NET_VF:1&required1=CUSTOM_PHYSNET_0,!CUSTOM_PHYSNET_1"
        f"&resources=VCPU:1&in_tree={uuid(3)}&root_required=HW_CPU_X86_AVX2"
        f"&resources2=SRIOV_NET_VF:1&in_tree2={uuid(4)}&in_tree1={uuid(5)}&group_policy=none"
    )
    why, found, calls = explained(query, api)
    together = {one.constraint.written for one in found if one.verdict == "conflicts"}
    trees = {f"in_tree={uuid(3)}", f"in_tree1={uuid(5)}", f"in_tree2={uuid(4)}"}
    assert len(together) == 2 and together < trees
    assert why.complete and calls <= MOST_CALLS


def test_the_calls_are_bounded_and_it_is_said_if_they_are_used_up(api: PlacementAPI) -> None:
    asked = Question(read_request("resources=VCPU:1&required=HW_CPU_X86_AVX512F,HW_CPU_X86_SGX"))
    facts = Facts(api, asked)
    why = Explainer(facts, most=3).diagnose()
    assert facts.calls == 3
    assert not why.complete


def test_units_are_told_where_there_is_enough(api: PlacementAPI, placement_server) -> None:
    stranger = placement_server.stranger
    made = stranger.create_provider("by-eights")
    inventory = {"CUSTOM_UNITS": {"total": 64, "max_unit": 16}, "PCPU": {"total": 4}}
    stranger.set_inventory(made, inventory)
    _, found, _ = explained("resources=PCPU:1,CUSTOM_UNITS:24", api)
    assert (
        "by-eights has 64 free, but its inventory has max_unit 16: it gives 16 of CUSTOM_UNITS"
        in found[0].sentence
    )
    stranger.delete_provider(made)


@pytest.mark.parametrize(
    ("units", "amount", "sentence"),
    [
        ({"min_unit": 8}, 2, "min_unit 8: it gives 8 of CUSTOM_ODD, not 2."),
        ({"step_size": 16}, 20, "step_size 16: it gives 16 or 32 of CUSTOM_ODD, not 20."),
        (
            {"step_size": 16, "max_unit": 16},
            20,
            "max_unit 16, step_size 16: it gives 16 of CUSTOM_ODD, not 20.",
        ),
        (
            {"min_unit": 4, "step_size": 4},
            3,
            "min_unit 4, step_size 4: it gives 4 of CUSTOM_ODD, not 3.",
        ),
    ],
)
def test_what_is_given_by_larger_units_only_is_named_with_provider_and_value(
    units: dict[str, int], amount: int, sentence: str, api: PlacementAPI, placement_server
) -> None:
    stranger = placement_server.stranger
    made = stranger.create_provider("by-units")
    stranger.set_inventory(made, {"CUSTOM_ODD": {"total": 64, **units}})
    _, found, _ = explained(f"resources=CUSTOM_ODD:{amount}", api)
    stranger.delete_provider(made)
    sentences = [one.sentence for one in found if one.verdict in ("impossible", "decides")]
    assert f"by-units has 64 free, but its inventory has {sentence}" in str(sentences)


@pytest.mark.parametrize("more", ["", "&required=!CUSTOM_PHYSNET_0"])
def test_units_that_some_hosts_have_are_why_they_are_left_out(
    more: str, api: PlacementAPI, placement_server
) -> None:
    """Two hosts give memory by 64; one by 1, so that there are candidates."""
    stranger = placement_server.stranger
    hosts = {}
    for name, step in (("by-ones", 1), ("by-64", 64), ("by-64-too", 64)):
        hosts[name] = stranger.create_provider(name)
        units = {"total": 640, "min_unit": step, "step_size": step}
        stranger.set_inventory(hosts[name], {"VCPU": {"total": 4}, "CUSTOM_MEMORY": units})
        stranger.set_traits(hosts[name], {"COMPUTE_NODE"})
    why, found, _ = explained(f"resources=CUSTOM_MEMORY:100{more}", api)
    words = "\n".join(text for _, text in paragraphs(why))
    for made in hosts.values():
        stranger.delete_provider(made)
    [memory] = [one for one in found if "CUSTOM_MEMORY" in one.constraint.written]
    assert (memory.verdict, memory.more, len(memory.kept_out)) == ("decides", 2, 2)
    assert "excludes 2 hosts (by-64, by-64-too)" in memory.sentence
    assert "with CUSTOM_MEMORY:64 there would be 2 more" in memory.sentence
    assert "has 640 free, but its inventory has step_size 64: it gives 64 or 128" in memory.sentence
    assert FILTER not in words


def test_the_query_of_a_scheduler_has_its_filter_explained_once(api: PlacementAPI) -> None:
    query = f"limit=1000&resources=VCPU:1&in_tree={uuid(199)}&root_required=%21{FILTER}"
    _, found, _ = explained(query, api)
    deciding = {one.constraint.written: one.sentence for one in found if one.verdict == "decides"}
    assert "`computectl service enable`" in deciding[f"root_required=!{FILTER}"]
    assert len([one for one in found if FILTER in one.constraint.written]) == 1


def test_more_than_were_looked_at_are_not_counted_as_all(api: PlacementAPI) -> None:
    ports = "&".join(f"resources{n}=SRIOV_NET_VF:1" for n in (1, 2, 3))
    why, found, _ = explained(f"resources=VCPU:249&{ports}&group_policy=none", api)
    [first] = [one for one in found if one.verdict == "decides"]
    assert f"without it there would be at least {LOOKED_AT} candidates" in first.sentence
    assert any("Only the first" in words for _, words in paragraphs(why))
