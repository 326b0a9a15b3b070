"""A request in a YAML file says what Placement's parameters say; errors name the line."""

from __future__ import annotations

import pytest

from computectl.asking.request_file import read_request_file
from drivers.diagnostics import BadFile
from reportclient.candidates import read_request

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
        ("resources: {VCPU: 2}\nrequire: A", "f.yaml:2:", "did you mean 'required'?"),
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
