"""A request taken apart, and put together again with less."""

from computectl.asking.constraints import constraints, keeping
from reportclient.candidates import read_request, to_query_string
from reportclient.candidates.request_filter import forbid_disabled

FULL = forbid_disabled(
    read_request(
        "resources=VCPU:2&required=in:A,B&resources1=FPGA:1&required1=T,!U&required_N=HW_NUMA_ROOT"
        "&group_policy=isolate&root_required=R,!S&same_subtree=1,_N"
    )
)


def test_constraints_are_in_order_and_written_as_in_the_query() -> None:
    assert list(map(str, constraints(FULL))) == [
        "resources=VCPU:2",
        "resources1=FPGA:1",
        "required=in:A,B",
        "required1=T",
        "required1=!U",
        "required_N=HW_NUMA_ROOT",
        "group_policy=isolate",
        "root_required=R",
        "root_required=!S",
        "same_subtree=1,_N",
        "root_required=!COMPUTE_STATUS_DISABLED",
    ]


def test_a_group_without_resources_goes_with_its_same_subtree() -> None:
    rest = [each for each in constraints(FULL) if each.parameter != "same_subtree"]
    left = keeping(FULL, rest)
    assert left is not None and set(left.groups) == {"1"}


def test_amounts_alone_may_come_from_one_provider() -> None:
    bare = keeping(FULL, [each for each in constraints(FULL) if each.parameter == "resources"])
    assert bare is not None
    assert to_query_string(bare) == "resources=VCPU:2&resources1=FPGA:1&group_policy=none"


def test_without_an_amount_there_is_no_request() -> None:
    assert keeping(FULL, [each for each in constraints(FULL) if each.suffix == "_N"]) is None
