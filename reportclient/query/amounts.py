"""Amounts that Placement adds up wrongly, avoided and found.  Pure.

Where the unsuffixed group and one with a suffix ask for the same class, Placement adds the
amount of one to a record that other candidates share, and does so again for each of them;
only with ``group_policy=none`` it takes copies.  ``docs/candidates.rst`` has a reproduction.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from reportclient.query.answers import AllocationCandidates, AllocationRequest
from reportclient.query.request import ResourceRequest


def counted_right(request: ResourceRequest, *, mappings: bool) -> tuple[ResourceRequest, bool]:
    """The request as Placement adds it up rightly, and whether it is left to us to isolate.

    ``mappings``: whether the answer has them; without them nobody could isolate.
    """
    if not request.unsuffixed or not request.groups or request.group_policy == "none":
        return request, False
    none = replace(request, group_policy="none")
    if len(request.groups) == 1:  # one group alone is isolated
        return none, False
    if not mappings or not _share_a_class(request):
        return request, False
    return replace(none, limit=None), True


def isolated(candidate: AllocationRequest) -> bool:
    """Whether each group with a suffix is met by a provider of its own."""
    met = [them for suffix, them in (candidate.mappings or {}).items() if suffix]
    return len({uuid for them in met for uuid in them}) == len(met)


def miscounted(request: ResourceRequest, answer: AllocationCandidates) -> int:
    """How many candidates do not have in all what was asked for in all."""
    wanted = _in_all(group.resources for group in request.by_suffix().values())
    return sum(
        _in_all(candidate.allocations.values()) != wanted
        for candidate in answer.allocation_requests
    )


def _in_all(parts: Iterable[Mapping[str, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for resources in parts:
        found.update(resources)
    return found


def _share_a_class(request: ResourceRequest) -> bool:
    own = request.unsuffixed.resources.keys()
    return any(own & group.resources.keys() for group in request.groups.values())
