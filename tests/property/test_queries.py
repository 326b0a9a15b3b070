"""A request and its query string are the same thing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from computectl.asking.constraints import constraints, keeping
from reportclient.candidates import (
    BadQuery,
    RequestGroup,
    ResourceRequest,
    read_request,
    to_query_string,
)
from reportclient.candidates.asking import with_safe_group_policy
from reportclient.candidates.request_filter import forbid_disabled, only_enabled
from reportclient.candidates.text import parameters, query_string
from tests.property.strategies import AGGREGATES, CLASSES, TRAITS, UUIDS

names = st.sampled_from(TRAITS)
some_traits = st.frozensets(names, max_size=3)
choices = st.frozensets(st.frozensets(names, min_size=1, max_size=3), max_size=3)
aggregates = st.frozensets(st.sampled_from(AGGREGATES), max_size=3)
aggregate_choices = st.frozensets(
    st.frozensets(st.sampled_from(AGGREGATES), min_size=1, max_size=3), max_size=2
)
resources = st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 2**31 - 1), max_size=3)
groups = st.builds(
    RequestGroup,
    resources,
    choices,
    some_traits,
    aggregate_choices,
    aggregates,
    st.none() | st.sampled_from(UUIDS),
)
SUFFIXES = ["1", "2", "10", "_A", "_B", "a-b", "007", "s" * 64]
suffixes = st.sampled_from(SUFFIXES)
requests = st.builds(
    ResourceRequest,
    groups,
    st.dictionaries(suffixes, groups.filter(bool), max_size=3),
    st.sampled_from([None, "none", "isolate"]),
    some_traits,
    some_traits,
    st.frozensets(st.frozensets(suffixes, min_size=1, max_size=3), max_size=2),
    st.none() | st.integers(1, 1000),
)


@given(requests)
def test_what_is_written_is_read_as_it_was(request: ResourceRequest) -> None:
    assert read_request(to_query_string(request)) == request


@given(requests, st.randoms())
def test_equal_requests_are_equal_texts(request: ResourceRequest, random) -> None:
    pairs = to_query_string(request).split("&")
    random.shuffle(pairs)
    again = read_request("&".join(pair for pair in pairs if pair))
    assert again == request
    assert to_query_string(again) == to_query_string(request)


@given(st.text(alphabet="abcdefgimnoqrstuvy_=&:,!123ABV%?/ ", max_size=60))
def test_no_text_makes_it_fail_otherwise_than_clearly(text: str) -> None:
    try:
        read_request(text)
    except BadQuery as err:
        assert str(err)


@given(requests)
def test_the_filter_means_the_same_typed_and_not(request: ResourceRequest) -> None:
    try:
        filtered = parameters(forbid_disabled(request))
    except ValueError:
        return
    merged = only_enabled(parameters(request), "1.39")
    assert read_request(query_string(merged)) == read_request(query_string(filtered))


@given(requests)
def test_a_safe_group_policy_is_for_the_same_groups(request: ResourceRequest) -> None:
    safe, isolate = with_safe_group_policy(request)
    assert safe.by_suffix() == request.by_suffix()
    assert not isolate or (request.group_policy, safe.limit) == ("isolate", None)
    assert safe.group_policy == request.group_policy or safe.group_policy == "none"


@settings(max_examples=40)
@given(requests)
def test_whatever_is_left_out_the_rest_is_what_placement_takes(request: ResourceRequest) -> None:
    every = constraints(request)
    for constraint in every:
        left = keeping(request, [each for each in every if each != constraint])
        if left is None:
            assert constraint.parameter == "resources" or not _with_amounts(request)
            continue
        others = {each for each in constraints(left) if each.parameter != "same_subtree"}
        assert others <= set(every) - {constraint}
        together = frozenset().union(*left.same_subtree)
        assert together <= left.groups.keys()
        assert left.groups.keys() - together <= _with_amounts(left)
        assert left.group_policy or len(left.groups) < 2 or not request.group_policy


def _with_amounts(request: ResourceRequest) -> set[str]:
    return {suffix for suffix, group in request.by_suffix().items() if group.resources}
