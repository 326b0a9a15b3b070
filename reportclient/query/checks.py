"""Checks for what Placement would refuse, before it is sent.  Pure."""

import re
from collections.abc import Iterator
from typing import TypeVar

from reportclient.model import MAX_INT, canonical_uuid
from reportclient.names import name_problem
from reportclient.query.request import (
    UNSUFFIXED,
    ProviderQuery,
    RequestGroup,
    ResourceRequest,
    group_title,
)
from reportclient.query.terms import FORBIDDEN, BadQuery

POLICIES = ("none", "isolate")
Asked = TypeVar("Asked")
SUFFIX = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def checked(request: ResourceRequest) -> ResourceRequest:
    """The same request.  :raises BadQuery: with all that is wrong, each with its group."""
    return _raise_or(request, list(problems(request)))


def checked_query(query: ProviderQuery) -> ProviderQuery:
    """The same query.  :raises BadQuery: with all that is wrong."""
    wrong = list(_group_problems(query.where))
    if query.name == "":
        wrong.append("name is empty")
    if query.uuid is not None:
        wrong += _uuid_problem(query.uuid, "uuid")
    return _raise_or(query, wrong)


def problems(request: ResourceRequest) -> Iterator[str]:
    """Return the errors, a sentence each."""
    groups = request.by_suffix()
    if not any(group.resources for group in groups.values()):
        yield "no group asks for resources, and at least one has to"
    for suffix, group in groups.items():
        if suffix and not SUFFIX.fullmatch(suffix):
            yield (
                f"{group_title(suffix)}: a suffix has 1 to 64 characters, letters, digits, _ and - "
                "only"
            )
        for problem in _group_problems(group):
            yield f"{group_title(suffix)}: {problem}"
    yield from _without_resources(request, groups)
    yield from _same_subtree(request, groups)
    yield from _policy(request)
    yield from _root(request)
    if request.limit is not None and request.limit < 1:
        yield f"limit is {request.limit}, it has to be at least 1"


def _group_problems(group: RequestGroup) -> Iterator[str]:
    for name, amount in group.resources.items():
        yield from _name(name, "resource class")
        if isinstance(amount, bool) or not isinstance(amount, int):
            yield f"the amount of {name} is {amount!r}, not a whole number"
        elif not 1 <= amount <= MAX_INT:
            yield f"the amount of {name} is {amount}, it has to be from 1 to {MAX_INT}"
    yield from _traits(group)
    for choice in group.member_of:
        if not choice:
            yield "member_of has a choice of no aggregates"
    for uuid in sorted(group.forbidden_aggregates.union(*group.member_of)):
        yield from _uuid_problem(uuid, "member_of")
    if group.in_tree is not None:
        yield from _uuid_problem(group.in_tree, "in_tree")


def _traits(group: RequestGroup) -> Iterator[str]:
    for choice in sorted(group.required_traits, key=sorted):
        mixed = sorted(name for name in choice if name.startswith(FORBIDDEN))
        if mixed:
            yield f"in:{','.join(sorted(choice))} mixes alternatives with a forbidden trait"
            continue
        if not choice:
            yield "required has a choice of no traits"
        elif choice <= group.forbidden_traits:
            yield f"requires and forbids {' and '.join(sorted(choice))}"
        for name in sorted(choice):
            yield from _name(name, "trait")
    for name in sorted(group.forbidden_traits):
        yield from _name(name, "trait")


def _name(name: str, what: str) -> Iterator[str]:
    problem = name_problem(name, what)
    if problem is not None:
        yield problem


def _uuid_problem(text: str, parameter: str) -> Iterator[str]:
    try:
        if canonical_uuid(text, parameter) != text:
            yield f"{parameter}: {text!r} is not as Placement writes a UUID (lower case, dashes)"
    except ValueError as err:
        yield str(err)


def _without_resources(request: ResourceRequest, groups: dict[str, RequestGroup]) -> Iterator[str]:
    together = frozenset().union(*request.same_subtree)
    for suffix, group in groups.items():
        if not group:
            yield f"{group_title(suffix)}: asks for nothing at all"
        elif not group.resources and suffix not in together:
            how = "name it in same_subtree, or give it some" if suffix else "give it some"
            yield f"{group_title(suffix)}: has no resources; {how}"


def _same_subtree(request: ResourceRequest, groups: dict[str, RequestGroup]) -> Iterator[str]:
    for suffixes in sorted(request.same_subtree, key=sorted):
        if not suffixes or UNSUFFIXED in suffixes:
            yield "same_subtree: only groups with a suffix can be in it, and at least one"
        for suffix in sorted(suffixes - groups.keys() - {UNSUFFIXED}):
            there = ", ".join(suffix for suffix in groups if suffix) or "none"
            yield f"same_subtree: there is no group {suffix} (there are: {there})"


def _policy(request: ResourceRequest) -> Iterator[str]:
    if request.group_policy is None and len(request.groups) > 1:
        names = ", ".join(suffix for suffix in request.by_suffix() if suffix)
        yield (
            f"groups {names}: group_policy has to be given with more than one of them: isolate "
            "(each from a provider of its own) or none"
        )
    elif request.group_policy not in (None, *POLICIES):
        yield f"group_policy is {request.group_policy!r}, it has to be isolate or none"


def _root(request: ResourceRequest) -> Iterator[str]:
    for name in sorted(request.root_required | request.root_forbidden):
        problem = name_problem(name, "trait")
        if problem is not None:
            yield f"root_required: {problem}"
    for name in sorted(request.root_required & request.root_forbidden):
        yield f"root_required: requires and forbids {name}"


def _raise_or(asked: Asked, wrong: list[str]) -> Asked:
    if wrong:
        raise BadQuery("; ".join(wrong))
    return asked
