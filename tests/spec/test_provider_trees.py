"""Every example of the specification on provider trees and queries, against a real Placement.

What is below ``query`` is as the text has it, ``<CN1>`` standing for a UUID; what is below it
are the candidates that the text lists, and there must be no other.  ``mapping`` is said
where a provider meets a group without giving anything.
"""

import re
from dataclasses import dataclass

import pytest

from reportclient.candidates import (
    AllocationCandidates,
    ResourceRequest,
    read_request,
    to_query_string,
)
from reportclient.candidates.asking import allocation_candidates
from reportclient.http import PlacementAPI
from tests.servers.placement import RealPlacement
from tests.spec import models
from tests.spec.models import OFF, Model, build, names, uuid_of, with_twins

MODELS: dict[str, Model] = {
    "sharing": models.SHARING,
    "nested": models.NESTED,
    "nics": models.NICS,
    "two storages": models.TWO_STORAGES,
    "root traits": models.ROOT_TRAITS,
    "fpgas": models.FPGAS,
    "physnets": models.PHYSNETS,
}


@dataclass(frozen=True)
class Example:
    title: str
    model: str
    query: str
    candidates: str
    mapping: str = ""

    def request(self) -> ResourceRequest:
        text = re.sub(r"<(\w+)>", lambda found: uuid_of(found[1]), self.query)
        return read_request(text)

    def expected(self) -> set[frozenset[str]]:
        lines = filter(None, map(str.strip, self.candidates.splitlines()))
        return {frozenset(part.strip() for part in line.split("+")) for line in lines}


_ALL_THREE = "resources=VCPU:1,MEMORY_MB:512,DISK_GB:500"
_EIGHT = """
    NUMA1_1 VCPU + CN1 DISK_GB MEMORY_MB
    NUMA1_2 VCPU + CN1 DISK_GB MEMORY_MB
    NUMA2_1 VCPU + CN2 DISK_GB MEMORY_MB
    NUMA2_2 VCPU + CN2 DISK_GB MEMORY_MB
    NUMA1_1 VCPU + CN1 MEMORY_MB + SS1 DISK_GB
    NUMA1_2 VCPU + CN1 MEMORY_MB + SS1 DISK_GB
    NUMA2_1 VCPU + CN2 MEMORY_MB + SS1 DISK_GB
    NUMA2_2 VCPU + CN2 MEMORY_MB + SS1 DISK_GB
"""
_WITH_VFS = "GET /allocation_candidates?resources=VCPU:1,MEMORY_MB:512,DISK_GB:500,SRIOV_NET_VF:2"
_TWO_VFS = """GET /allocation_candidates?resources=VCPU:1,MEMORY_MB:512,DISK_GB:500
                              &resources1=SRIOV_NET_VF:1&required1=HW_NIC_ACCEL_SSL
                              &resources2=SRIOV_NET_VF:1
                              &group_policy="""
_IN_CN1 = """
    NUMA1_1 VCPU + CN1 DISK_GB
    NUMA1_2 VCPU + CN1 DISK_GB
"""

EXAMPLES = [
    Example(
        "storage shared through an aggregate, beside local disks",
        "sharing",
        f"GET /allocation_candidates?{_ALL_THREE}",
        """
        CN1 DISK_GB MEMORY_MB VCPU
        CN2 DISK_GB MEMORY_MB VCPU
        CN1 MEMORY_MB VCPU + SS1 DISK_GB
        """,
    ),
    Example(
        "storage shared with a whole tree",
        "nested",
        f"GET /allocation_candidates?{_ALL_THREE}",
        _EIGHT,
    ),
    Example(
        "an aggregate of the roots spans their trees",
        "nested",
        f"GET /allocation_candidates?{_ALL_THREE}&member_of=<aggA>",
        _EIGHT,
    ),
    Example(
        "an aggregate of a child spans nothing",
        "nested",
        f"GET /allocation_candidates?{_ALL_THREE}&member_of=<aggB>",
        """
        NUMA1_1 VCPU + CN1 DISK_GB MEMORY_MB
        NUMA1_2 VCPU + CN1 DISK_GB MEMORY_MB
        """,
    ),
    Example(
        "a required trait",
        "nics",
        f"{_WITH_VFS}\n                              &required=HW_NIC_ACCEL_SSL",
        "CN1 DISK_GB MEMORY_MB VCPU + NIC1_1 SRIOV_NET_VF:2",
    ),
    Example(
        "a forbidden trait",
        "nics",
        f"{_WITH_VFS}\n                              &required=!HW_NIC_ACCEL_SSL",
        "CN1 DISK_GB MEMORY_MB VCPU + NIC1_2 SRIOV_NET_VF:2",
    ),
    Example(
        "a trait that nobody asks for",
        "nics",
        _WITH_VFS,
        """
        CN1 DISK_GB MEMORY_MB VCPU + NIC1_1 SRIOV_NET_VF:2
        CN1 DISK_GB MEMORY_MB VCPU + NIC1_2 SRIOV_NET_VF:2
        """,
    ),
    Example(
        "groups from providers of their own",
        "nics",
        f"{_TWO_VFS}isolate",
        "CN1 DISK_GB MEMORY_MB VCPU + NIC1_1 SRIOV_NET_VF + NIC1_2 SRIOV_NET_VF",
    ),
    Example(
        "groups that may share a provider",
        "nics",
        f"{_TWO_VFS}none",
        """
        CN1 DISK_GB MEMORY_MB VCPU + NIC1_1 SRIOV_NET_VF + NIC1_2 SRIOV_NET_VF
        CN1 DISK_GB MEMORY_MB VCPU + NIC1_1 SRIOV_NET_VF:2
        """,
    ),
    Example(
        "an aggregate of the root is not that of a child in a group",
        "nested",
        "GET /allocation_candidates?resources1=VCPU:1&member_of1=<aggB>",
        "NUMA2_1 VCPU",
    ),
    Example(
        "the tree of a root",
        "two storages",
        "GET /allocation_candidates?resources=VCPU:1,DISK_GB:50&in_tree=<CN1>",
        _IN_CN1,
    ),
    Example(
        "the tree of a child is all of it",
        "two storages",
        "GET /allocation_candidates?resources=VCPU:1,DISK_GB:50&in_tree=<NUMA1_1>",
        _IN_CN1,
    ),
    Example(
        "a tree for one group, anything for the other",
        "two storages",
        """GET /allocation_candidates?resources=VCPU:1&in_tree=<CN1>
                              &resources1=DISK_GB:10""",
        """
        NUMA1_1 VCPU + CN1 DISK_GB
        NUMA1_2 VCPU + CN1 DISK_GB
        NUMA1_1 VCPU + SS1 DISK_GB
        NUMA1_2 VCPU + SS1 DISK_GB
        NUMA1_1 VCPU + SS2 DISK_GB
        NUMA1_2 VCPU + SS2 DISK_GB
        """,
    ),
    Example(
        "one sharing provider for a group",
        "two storages",
        """GET /allocation_candidates?resources=VCPU:1
                              &resources1=DISK_GB:10&in_tree1=<SS1>""",
        """
        NUMA1_1 VCPU + SS1 DISK_GB
        NUMA1_2 VCPU + SS1 DISK_GB
        NUMA2_1 VCPU + SS1 DISK_GB
        NUMA2_2 VCPU + SS1 DISK_GB
        """,
    ),
    Example(
        "a tree for each group",
        "two storages",
        """GET /allocation_candidates?resources1=VCPU:1&in_tree1=<CN1>
                              &resources2=DISK_GB:10&in_tree2=<SS1>
                              &group_policy=isolate""",
        """
        NUMA1_1 VCPU + SS1 DISK_GB
        NUMA1_2 VCPU + SS1 DISK_GB
        """,
    ),
    Example(
        "a trait that the root has to have",
        "root traits",
        """GET /allocation_candidates
    ?resources1=VCPU:1,MEMORY_MB:512&required1=HW_CPU_X86_AVX2
    &resources2=DISK_GB:100
    &group_policy=none
    &root_required=COMPUTE_VOLUME_MULTI_ATTACH""",
        """
        NON_NUMA_CN DISK_GB MEMORY_MB VCPU
        NUMA_CN DISK_GB + NUMA2 MEMORY_MB VCPU
        """,
    ),
    Example(
        "a trait that the root must not have",
        "root traits",
        """GET /allocation_candidates
    ?resources1=VCPU:1,MEMORY_MB:512
    &resources2=DISK_GB:100
    &group_policy=none
    &root_required=!CUSTOM_WINDOWS_LICENSE_POOL""",
        """
        NUMA_CN DISK_GB + NUMA1 MEMORY_MB VCPU
        NUMA_CN DISK_GB + NUMA2 MEMORY_MB VCPU
        """,
    ),
    Example(
        "groups in the same subtree",
        "fpgas",
        """GET /allocation_candidates
    ?resources_COMPUTE=VCPU:1,MEMORY_MB:256
    &resources_ACCEL=CUSTOM_ACCELERATOR_FPGA:1
    &group_policy=none
    &same_subtree=_COMPUTE,_ACCEL""",
        """
        NUMA0 MEMORY_MB VCPU + FPGA0_0 CUSTOM_ACCELERATOR_FPGA
        NUMA1 MEMORY_MB VCPU + FPGA1_0 CUSTOM_ACCELERATOR_FPGA
        NUMA1 MEMORY_MB VCPU + FPGA1_1 CUSTOM_ACCELERATOR_FPGA
        """,
    ),
    Example(
        "a group without resources holds a subtree together",
        "fpgas",
        """GET /allocation_candidates
    ?required_NUMA=HW_NUMA_ROOT
    &resources_ACCEL1=CUSTOM_ACCELERATOR_FPGA:1
    &required_ACCEL1=CUSTOM_TYPE1
    &resources_ACCEL2=CUSTOM_ACCELERATOR_FPGA:1
    &required_ACCEL2=CUSTOM_TYPE2
    &group_policy=none
    &same_subtree=_NUMA,_ACCEL1,_ACCEL2""",
        "FPGA1_0 CUSTOM_ACCELERATOR_FPGA + FPGA1_1 CUSTOM_ACCELERATOR_FPGA",
        mapping="_NUMA NUMA1",
    ),
    Example(
        "each same_subtree on its own",
        "fpgas",
        """GET /allocation_candidates
    ?resources_C1=VCPU:1&resources_A1=CUSTOM_ACCELERATOR_FPGA:1
    &resources_C2=VCPU:1&resources_A2=CUSTOM_ACCELERATOR_FPGA:1&required_A2=CUSTOM_TYPE2
    &group_policy=isolate&same_subtree=_C1,_A1&same_subtree=_C2,_A2""",
        """
        NUMA0 VCPU + FPGA0_0 CUSTOM_ACCELERATOR_FPGA
            + NUMA1 VCPU + FPGA1_1 CUSTOM_ACCELERATOR_FPGA
        """.replace("\n            +", " +"),
    ),
    Example(
        "any of two traits, on whichever provider of the candidate",
        "physnets",
        "GET /allocation_candidates?resources=VCPU:1&required=in:HW_CPU_X86_AVX,HW_CPU_X86_AVX2",
        """
        CN1 VCPU
        CN2 VCPU
        """,
    ),
    Example(
        "any of two traits may be met by different providers of one candidate",
        "physnets",
        "GET /allocation_candidates?resources=VCPU:1,NET_BW_EGR_KILOBIT_PER_SEC:10"
        "&required=in:HW_CPU_X86_SSE,CUSTOM_PHYSNET_A",
        """
        CN1 VCPU + CN1_NIC0 NET_BW_EGR_KILOBIT_PER_SEC
        CN3 VCPU + CN3_NIC0 NET_BW_EGR_KILOBIT_PER_SEC
        CN3 VCPU + CN3_NIC1 NET_BW_EGR_KILOBIT_PER_SEC
        """,
    ),
    Example(
        "a port of a network that maps to two physnets",
        "physnets",
        "GET /allocation_candidates?resources=VCPU:1&resources1=NET_BW_EGR_KILOBIT_PER_SEC:10"
        "&required1=in:CUSTOM_PHYSNET_A,CUSTOM_PHYSNET_C",
        """
        CN1 VCPU + CN1_NIC0 NET_BW_EGR_KILOBIT_PER_SEC
        CN2 VCPU + CN2_NIC1 NET_BW_EGR_KILOBIT_PER_SEC
        CN3 VCPU + CN3_NIC0 NET_BW_EGR_KILOBIT_PER_SEC
        """,
    ),
    Example(
        "alternatives, a forbidden trait and one that has to be there, by repeating",
        "physnets",
        "GET /allocation_candidates?resources=VCPU:1,NET_BW_EGR_KILOBIT_PER_SEC:10"
        "&required=in:CUSTOM_PHYSNET_A,CUSTOM_PHYSNET_C&required=!CUSTOM_PHYSNET_D"
        "&required=in:HW_CPU_X86_AVX2,HW_CPU_X86_SSE",
        """
        CN2 VCPU + CN2_NIC1 NET_BW_EGR_KILOBIT_PER_SEC
        CN3 VCPU + CN3_NIC0 NET_BW_EGR_KILOBIT_PER_SEC
        """,
    ),
]


class Worlds:
    """One model at a time in the session's Placement, built when it is another one's turn."""

    def __init__(self, placement: RealPlacement) -> None:
        self.placement = placement
        self.key: tuple[str, bool] | None = None

    def __call__(self, model: str, *, twins: bool) -> PlacementAPI:
        if self.key != (model, twins):
            self.api = build(self.placement, with_twins(MODELS[model]) if twins else MODELS[model])
            self.key = (model, twins)
        return self.api


@pytest.fixture(scope="module")
def worlds(placement_server: RealPlacement) -> Worlds:
    return Worlds(placement_server)


def told(example: Example, answer: AllocationCandidates, *, twins: bool) -> list[frozenset[str]]:
    """Candidates as the text writes them; an amount only where it is not what was asked first."""
    model = MODELS[example.model]
    name = names(with_twins(model) if twins else model)
    asked = [group.resources for group in example.request().by_suffix().values()]
    return [
        frozenset(
            f"{name[uuid]} {' '.join(_amount(each, n, asked) for each, n in sorted(parts.items()))}"
            for uuid, parts in one.allocations.items()
        )
        for one in answer.allocation_requests
    ]


def _amount(resource_class: str, amount: int, asked) -> str:
    first = next(group[resource_class] for group in asked if resource_class in group)
    more = amount != first or (resource_class == "SRIOV_NET_VF" and amount > 1)
    return f"{resource_class}:{amount}" if more else resource_class


BY_MODEL = [
    pytest.param(example, id=example.title)
    for example in sorted(EXAMPLES, key=lambda example: example.model)
]


@pytest.mark.parametrize("example", BY_MODEL)
def test_exactly_the_candidates_that_the_text_lists(worlds: Worlds, example: Example) -> None:
    answer = allocation_candidates(example.request(), worlds(example.model, twins=False))
    found = told(example, answer, twins=False)
    assert len(found) == len(set(found)), "none twice"
    assert set(found) == example.expected()
    if example.mapping:
        suffix, _, provider = example.mapping.partition(" ")
        for one in answer.allocation_requests:
            assert one.mappings[suffix] == (uuid_of(provider),)
            assert uuid_of(provider) not in one.allocations


@pytest.mark.parametrize("example", BY_MODEL)
def test_disabled_hosts_never_show_and_operators_can_see_them(
    worlds: Worlds, example: Example
) -> None:
    built = worlds(example.model, twins=True)
    answer = allocation_candidates(example.request(), built)
    assert set(told(example, answer, twins=True)) == example.expected()
    behind = allocation_candidates(example.request(), built, include_disabled=True)
    seen = set(told(example, behind, twins=True))
    twins = {
        frozenset(re.sub(r"^((?!SS)\w+)", rf"\1{OFF}", part) for part in candidate)
        for candidate in example.expected()
    }
    bound = "in_tree=<CN1>" in example.query or "in_tree1=<CN1>" in example.query
    bound |= "in_tree=<NUMA1_1>" in example.query
    assert seen == (example.expected() if bound else example.expected() | twins)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_the_query_is_read_and_written_without_loss(example: Example) -> None:
    request = example.request()
    assert read_request(to_query_string(request)) == request


def test_a_disabled_host_is_no_candidate_in_its_own_tree(placement: RealPlacement) -> None:
    api = build(placement, with_twins(models.TWO_STORAGES))  # the last test here: it empties
    for tree in (f"CN1{OFF}", f"NUMA1_1{OFF}"):
        text = f"resources=VCPU:1,DISK_GB:50&in_tree={uuid_of(tree)}"
        assert len(allocation_candidates(read_request(text), api)) == 0
        shown = allocation_candidates(read_request(text), api, include_disabled=True)
        assert shown.hosts() == [uuid_of(f"CN1{OFF}")]
