"""A request taken apart, and put together again with less."""

from __future__ import annotations

import pytest

from computectl.asking.constraints import (
    Aspect,
    Constraint,
    Question,
    constraints,
    with_constraints_only,
    without_constraint,
)
from computectl.asking.explanation import paragraphs
from computectl.asking.why import Explained, Verdict, Why
from reportclient.candidates import read_request, to_query_string

FULL = (
    "resources=VCPU:2&required=in:A,B&resources1=FPGA:1&required1=T,!U&required_N=HW_NUMA_ROOT&group_policy=isolate"
    "&root_required=R,!S&same_subtree=1,_N"
)


def test_each_constraint_is_told_as_the_query_has_it() -> None:
    told = [each.written for each in constraints(Question(read_request(FULL)))]
    assert told == [
        "root_required=!COMPUTE_STATUS_DISABLED",
        "root_required=R",
        "root_required=!S",
        "required=in:A,B",
        "required1=T",
        "required1=!U",
        "required_N=HW_NUMA_ROOT",
        "group_policy=isolate",
        "same_subtree=1,_N",
        "resources=VCPU:2",
        "resources1=FPGA:1",
    ]


def test_what_held_a_group_without_resources_takes_it_along() -> None:
    asked = Question(read_request(FULL))
    subtree = next(each for each in constraints(asked) if each.aspect is Aspect.SAME_SUBTREE)
    left = without_constraint(asked, subtree)
    assert left is not None and set(left.request.groups) == {"1"}


def test_resources_only_have_nothing_else() -> None:
    bare = with_constraints_only(Question(read_request(FULL)), ())
    assert bare.include_disabled
    assert to_query_string(bare.request) == "resources=VCPU:2&resources1=FPGA:1&group_policy=none"


@pytest.mark.parametrize(
    ("verdict", "is_named"),
    [("decides", True), ("conflicts", True), ("overlaps", False), ("nothing", False)],
)
def test_that_a_host_is_enabled_is_named_where_it_matters(verdict: str, is_named: bool) -> None:
    enabled = Constraint(Aspect.ENABLED)
    explained = [
        Explained(each, Verdict(verdict), sentence=each.written)
        for each in (enabled, Constraint(Aspect.ISOLATE))
    ]
    text = "\n".join(words for _, words in paragraphs(Why(explained)))
    assert (enabled.written in text) is is_named
