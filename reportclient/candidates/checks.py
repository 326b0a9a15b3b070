"""Checks of queries before they are sent, for all that Placement would refuse.  Pure."""

import re
from collections.abc import Iterable, Iterator

from reportclient.candidates.request import (
    FORBIDDEN,
    UNSUFFIXED,
    BadQuery,
    ProviderQuery,
    RequestGroup,
    ResourceRequest,
    group_title,
)
from reportclient.model import MAX_INT, canonical_uuid
from reportclient.names import name_problem

POLICIES = ("none", "isolate")
SUFFIX = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def checked(request: ResourceRequest) -> ResourceRequest:
    """Check a request and return it.  :raises BadQuery: the text lists all errors by group."""
    _raise_any(problems(request))
    return request


def check_query(query: ProviderQuery) -> None:
    """Check a provider query.  :raises BadQuery: the text lists all errors."""
    errors = list(_group_problems(query.where))
    if query.name == "":
        errors.append("name is empty")
    if query.uuid is not None:
        errors += _uuid_problem(query.uuid, "uuid")
    _raise_any(errors)


def problems(request: ResourceRequest) -> Iterator[str]:
    """Yield the errors of a request, one sentence each."""
    groups = request.by_suffix()
    if not any(group.resources for group in groups.values()):
        yield "no group requests resources; at least one group has to"
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
            yield f"{parameter}: {text!r} is not in Placement's format (lower case, dashes)"
    except ValueError as err:
        yield str(err)


def _without_resources(request: ResourceRequest, groups: dict[str, RequestGroup]) -> Iterator[str]:
    together = frozenset().union(*request.same_subtree)
    for suffix, group in groups.items():
        if not group:
            yield f"{group_title(suffix)}: is empty"
        elif not group.resources and suffix not in together:
            step = "add some, or name the group in same_subtree" if suffix else "add some"
            yield f"{group_title(suffix)}: has no resources; {step}"


def _same_subtree(request: ResourceRequest, groups: dict[str, RequestGroup]) -> Iterator[str]:
    for suffixes in sorted(request.same_subtree, key=sorted):
        if not suffixes or UNSUFFIXED in suffixes:
            yield "same_subtree: needs one or more groups, all with a suffix"
        for suffix in sorted(suffixes - groups.keys() - {UNSUFFIXED}):
            groups_text = ", ".join(suffix for suffix in groups if suffix) or "none"
            yield f"same_subtree: the request has no group {suffix} (it has: {groups_text})"


def _policy(request: ResourceRequest) -> Iterator[str]:
    if request.group_policy is None and len(request.groups) > 1:
        names = ", ".join(suffix for suffix in request.by_suffix() if suffix)
        yield (
            f"groups {names}: more than one group needs a group_policy: isolate (each from a "
            "provider of its own) or none"
        )
    elif request.group_policy not in (None, *POLICIES):
        yield f"group_policy is {request.group_policy!r}, it has to be isolate or none"


def _root(request: ResourceRequest) -> Iterator[str]:
    for name in sorted(request.root_required | request.root_forbidden):
        yield from (f"root_required: {problem}" for problem in _name(name, "trait"))
    for name in sorted(request.root_required & request.root_forbidden):
        yield f"root_required: requires and forbids {name}"


def _raise_any(errors: Iterable[str]) -> None:
    if text := "; ".join(errors):
        raise BadQuery(text)
