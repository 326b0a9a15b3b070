"""Options of ``computectl candidates``, and a YAML file, say what Placement's parameters say."""

import argparse

import pytest

from computectl.asking.request import (
    add_request_options,
    parse_with_groups,
    query_of,
    read_request_file,
)
from computectl.shared.errors import CommandError
from drivers.errors import BadFile
from reportclient.candidates import BadQuery, ResourceRequest, read_request
from tests.stranger import FakePlacement

TREE = "00000000-0000-4000-8000-000000000001"
AGG = "00000000-0000-4000-8000-0000000000a1"


def parsed(*words: str) -> ResourceRequest:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_request_options(parser)
    given = parse_with_groups(parser, words).given
    placement = FakePlacement()
    placement.stranger.create_provider("host1", TREE)
    return read_request(query_of(given, placement))


@pytest.mark.parametrize(
    ("words", "query"),
    [
        ("--resources VCPU=2,MEMORY_MB=512", "resources=VCPU:2,MEMORY_MB:512"),
        ("--resources VCPU:2 --resources MEMORY_MB=512", "resources=VCPU:2,MEMORY_MB:512"),
        (
            "--resources VCPU=2 --required A,!B --required in:C,D --forbidden E,F",
            "resources=VCPU:2&required=A,!B,!E,!F&required=in:C,D",
        ),
        (
            f"--resources VCPU=2 --member-of {AGG} --member-of !in:{AGG},{TREE}",
            f"resources=VCPU:2&member_of={AGG}&member_of=!in:{AGG},{TREE}",
        ),
        ("--resources VCPU=2 --in-tree host1", f"resources=VCPU:2&in_tree={TREE}"),
        (f"--resources VCPU=2 --in-tree {TREE.upper()}", f"resources=VCPU:2&in_tree={TREE}"),
        (
            "--resources VCPU=2,MEMORY_MB=512 --group ACCEL:FPGA=1 --required-ACCEL CUSTOM_TYPE1",
            "resources=VCPU:2,MEMORY_MB:512&resourcesACCEL=FPGA:1&requiredACCEL=CUSTOM_TYPE1",
        ),
        (
            "--group _C:VCPU=1 --group _N --required_N=HW_NUMA_ROOT --forbidden_N X "
            "--same-subtree _C,_N --group-policy none",
            "resources_C=VCPU:1&required_N=HW_NUMA_ROOT,!X&same_subtree=_C,_N&group_policy=none",
        ),
        (
            f"--resources-1 VCPU=1 --in-tree-1 host1 --member-of-1 {AGG} --resources-22 PCPU=1",
            f"resources1=VCPU:1&in_tree1={TREE}&member_of1={AGG}&resources22=PCPU:1",
        ),
        (
            "--resources VCPU=1 --root-required A,!B --same-subtree X,Y --same-subtree Z",
            "resources=VCPU:1&root_required=A,!B&same_subtree=X,Y&same_subtree=Z",
        ),
    ],
)
def test_options_make_the_request_of_the_query(words: str, query: str) -> None:
    assert parsed(*words.split()) == read_request(query)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--resources VCPU", "resources=VCPU: "),
        ("--resources VCPU=two", "'two'"),
        ("--resources VCPU=1 --resources VCPU=2", "VCPU is given twice"),
        ("--group :VCPU=1", "--group: :VCPU=1: the suffix is missing"),
        ("--required-ACCEL", "--required-ACCEL: expected one argument"),
        ("--required-ACCEL --group X:VCPU=1", "--required-ACCEL: expected one argument"),
        ("--required_ACCEL=", "required_ACCEL=: a name is missing"),
        ("--in-tree-A host1 --in-tree-A host1", "in_treeA is given 2 times"),
        ("--required-A in:X,!Y", "requiredA=in:X,!Y"),
        ("--resources VCPU=1 --group A", "--group A: the group has no constraint"),
        ("--root-required in:X,Y", "root_required=in:X,Y"),
        ("--member-of rack7", "member_of=rack7"),
    ],
)
def test_what_can_not_be_read_names_the_option_or_the_group(words: str, named: str) -> None:
    with pytest.raises((CommandError, BadQuery, argparse.ArgumentError)) as told:
        parsed(*words.split())
    assert named in str(told.value)


@pytest.mark.parametrize("limit", ["-1", "x", "9" * 5000, ""])
def test_a_limit_that_is_no_number_of_candidates_is_refused(limit: str) -> None:
    with pytest.raises(BadQuery, match="limit="):
        read_request(f"resources=VCPU:1&limit={limit}")


# -- a file


FULL = """
resources: {VCPU: 2, MEMORY_MB: 512}
required: [CUSTOM_A, "!CUSTOM_B", "in:CUSTOM_C,CUSTOM_D"]
member_of: 00000000-0000-4000-8000-0000000000a1
groups:
  _ACCEL:
    resources: {FPGA: 1}
    required: CUSTOM_TYPE1
    in_tree: 00000000-0000-4000-8000-000000000001
  _NUMA: {required: HW_NUMA_ROOT}
group_policy: none
root_required: [CUSTOM_R, "!CUSTOM_S"]
same_subtree: [[_ACCEL, _NUMA]]
limit: 7
"""
QUERY = """resources=VCPU:2,MEMORY_MB:512&required=CUSTOM_A,!CUSTOM_B&required=in:CUSTOM_C,CUSTOM_D
&member_of=00000000-0000-4000-8000-0000000000a1&resources_ACCEL=FPGA:1
&required_ACCEL=CUSTOM_TYPE1&in_tree_ACCEL=00000000-0000-4000-8000-000000000001
&required_NUMA=HW_NUMA_ROOT&group_policy=none&root_required=CUSTOM_R,!CUSTOM_S
&same_subtree=_ACCEL,_NUMA&limit=7"""


def test_a_file_has_all_that_a_query_has() -> None:
    assert read_request_file(FULL, "request.yaml") == read_request(QUERY)


@pytest.mark.parametrize(
    ("text", "place", "named"),
    [
        ("resources: {VCPU: two}", "f.yaml:1:", "resources.VCPU"),
        ("resources: {VCPU: 2}\nrequire: A", "f.yaml:2:", "is required meant?"),
        ("groups:\n  A:\n    limit: 3", "f.yaml:3:", "groups.A.limit"),
        ("resources: {VCPU: 1}\ngroups:\n  A:\n    required: 'in:X,!Y'", "f.yaml:3:", "requiredA"),
        ("resources: {VCPU: 1}\nroot_required: 'in:X,Y'", "f.yaml:2:", "root_required"),
        ("resources: {VCPU: 1, VCPU: 2}", "f.yaml:1:", "listed twice"),
        ("resources: [", "f.yaml:", "not YAML"),
        ("", "f.yaml:1:", "empty"),
    ],
)
def test_an_error_names_file_line_and_key(text: str, place: str, named: str) -> None:
    with pytest.raises(BadFile) as told:
        read_request_file(text, "f.yaml")
    assert str(told.value).startswith(place)
    assert named in str(told.value)
