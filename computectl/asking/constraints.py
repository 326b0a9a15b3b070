"""Split a request into constraints, and build requests from some of them.  Pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from reportclient.candidates import ResourceRequest, read_request
from reportclient.candidates.request import ANY_OF
from reportclient.candidates.request_filter import FORBIDDEN
from reportclient.candidates.text import parameters, query_string

AMOUNT = "resources"
OF_GROUPS = (AMOUNT, "required", "member_of", "in_tree")
"""Placement's parameters of groups."""
_WHOLE = ("group_policy", "same_subtree")
"""Parameters whose values are not split at commas."""
_JOINED = (AMOUNT, "root_required")
"""Parameters that Placement takes once, or once for each group."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint of a request: a parameter of Placement's with a single term as its value.

    ``suffix`` is that of its group; empty for the unsuffixed group and the whole request.
    """

    parameter: str
    suffix: str
    value: str

    def __str__(self) -> str:
        return f"{self.parameter}{self.suffix}={self.value}"


ENABLED = Constraint("root_required", "", FORBIDDEN)
"""The constraint that leaves out disabled hosts."""


def constraints(request: ResourceRequest) -> list[Constraint]:
    """Return all constraints: amounts first, and last that a host is enabled."""
    result = []
    for name, values in parameters(replace(request, limit=None)).items():
        parameter = next(filter(name.startswith, OF_GROUPS), name)
        for value in values:
            is_one = parameter in _WHOLE or ANY_OF in value
            terms = [value] if is_one else value.split(",")
            result += [Constraint(parameter, name.removeprefix(parameter), t) for t in terms]
    if not _isolates(request):
        result = [each for each in result if each.parameter != "group_policy"]
    return sorted(result, key=lambda each: (each.parameter != AMOUNT, each == ENABLED))


def keeping(request: ResourceRequest, subset: Collection[Constraint]) -> ResourceRequest | None:
    """Return the request with these constraints only; ``None`` if it has no amount.

    A group without an amount stays only if ``same_subtree`` names it, as Placement demands.
    """
    together = [set(c.value.split(",")) for c in subset if c.parameter == "same_subtree"]
    with_amounts = {constraint.suffix for constraint in subset if constraint.parameter == AMOUNT}
    if not with_amounts:
        return None
    groups = with_amounts.union(*together)
    kept = read_request(
        joined_query(
            (f"{each.parameter}{each.suffix}", each.value)
            for each in subset
            if each.suffix in groups or each.parameter not in (*OF_GROUPS, "same_subtree")
        )
    )
    may_share = _isolates(request) and kept.group_policy is None
    subtrees = (names.intersection(kept.groups) for names in together)
    return replace(
        kept,
        group_policy="none" if may_share else request.group_policy,
        same_subtree=frozenset(map(frozenset, filter(None, subtrees))),
    )


def joined_query(pairs: Iterable[Sequence[str]]) -> str:
    """Return parameters and values as a query string; those that may be given once are joined."""
    values: dict[str, list[str]] = {}
    for parameter, value in pairs:
        several = values.setdefault(parameter, [])
        if several and parameter.startswith(_JOINED):
            several[0] += f",{value}"
        else:
            several.append(value)
    return query_string(values)


def _isolates(request: ResourceRequest) -> bool:
    return request.group_policy == "isolate" and len(request.groups) > 1
