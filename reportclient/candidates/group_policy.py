"""Group policies that Placement counts right.  Pure.

If the unsuffixed group and one with a suffix request the same class, Placement miscounts without
``group_policy=none``: it adds one amount to a record that other candidates share, once for each of
them.  With ``none`` it makes copies (``docs/candidates.rst``).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from reportclient.candidates.answers import AllocationCandidates, AllocationRequest
from reportclient.candidates.request import ResourceRequest


def with_safe_group_policy(request: ResourceRequest) -> tuple[ResourceRequest, bool]:
    """Return the request so that Placement counts it right, and whether to isolate groups here."""
    if not request.unsuffixed or not request.groups or request.group_policy == "none":
        return request, False
    none = replace(request, group_policy="none")
    if len(request.groups) == 1:  # one group alone is isolated
        return none, False
    own = request.unsuffixed.resources.keys()
    if not any(own & group.resources.keys() for group in request.groups.values()):
        return request, False
    return replace(none, limit=None), True


def isolated(candidate: AllocationRequest) -> bool:
    """Return whether each group with a suffix is met by a provider of its own."""
    met = [uuids for suffix, uuids in (candidate.mappings or {}).items() if suffix]
    return len({uuid for uuids in met for uuid in uuids}) == len(met)


def miscounted(request: ResourceRequest, answer: AllocationCandidates) -> int:
    """Return the number of candidates whose total amounts differ from the requested ones."""
    wanted = _in_all(group.resources for group in request.by_suffix().values())
    return sum(
        _in_all(candidate.allocations.values()) != wanted
        for candidate in answer.allocation_requests
    )


def _in_all(parts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for resources in parts:
        total.update(resources)
    return total
