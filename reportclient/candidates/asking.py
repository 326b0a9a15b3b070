"""Query Placement for allocation candidates, without those of disabled hosts.

What Placement refuses is an error with Placement's own text; nothing is checked before.
"""

from dataclasses import replace
from typing import Any

from reportclient import forms
from reportclient.candidates.answers import (
    AllocationCandidates,
    AllocationRequest,
    parse_candidates,
)
from reportclient.candidates.request import ResourceRequest
from reportclient.candidates.request_filter import DISABLED, forbid_disabled
from reportclient.candidates.text import parameters, query_string
from reportclient.errors import TooOld
from reportclient.forms import parse_microversion
from reportclient.http import API
from reportclient.model import total_by_class
from reportclient.reader import providers_with_trait

NEWEST = "1.39"
"""The microversion of queries; if Placement does not have it, the newest that Placement has."""
OLDEST = "1.35"
"""The lowest microversion that can leave out disabled hosts, and says which provider meets which
group."""


def allocation_candidates(
    request: ResourceRequest, api: API, *, include_disabled: bool = False
) -> AllocationCandidates:
    """Return the candidates of ``GET /allocation_candidates``, without those of disabled hosts.

    Sends one call, and a second one if Placement is older than 1.39.

    ``include_disabled``: include those of disabled hosts; for operators, not for schedulers.

    :raises CannotForbid: the request requires disabled hosts.
    :raises reportclient.errors.TooOld: Placement has no microversion 1.35.
    :raises reportclient.errors.PlacementError: the request failed.
    """
    wanted = request if include_disabled else forbid_disabled(request)
    query, isolate = with_safe_group_policy(wanted)
    path = f"/allocation_candidates?{query_string(parameters(query))}"
    answer = forms.checked(f"GET {path}", parse_candidates, _get(path, api))
    if isolate:
        alone = [candidate for candidate in answer.allocation_requests if _isolated(candidate)]
        answer = answer.only(alone[: wanted.limit])
    return replace(answer, miscounted=_miscounted(wanted, answer))


def disabled_roots(api: API) -> frozenset[str]:
    """Return the UUIDs of the roots with COMPUTE_STATUS_DISABLED; one call."""
    disabled = providers_with_trait(DISABLED, api)
    return frozenset(item["uuid"] for item in disabled if item["parent_provider_uuid"] is None)


def _get(path: str, api: API) -> dict[str, Any]:
    try:
        return api.request("GET", path, needs=NEWEST)
    except TooOld as err:
        if not err.newest:
            raise
        needs = max(err.newest, OLDEST, key=parse_microversion)
        return api.request("GET", path, needs=needs)


def with_safe_group_policy(request: ResourceRequest) -> tuple[ResourceRequest, bool]:
    """Return the request so that Placement counts it right, and whether to isolate groups here.

    If the unsuffixed group and one with a suffix request the same class, Placement miscounts
    without ``group_policy=none``: it adds one amount to a record that other candidates share, once
    for each of them.  With ``none`` it makes copies (``docs/candidates.rst``).
    """
    groups = request.groups
    if not request.unsuffixed or not groups or request.group_policy not in (None, "isolate"):
        return request, False
    none = replace(request, group_policy="none")
    if len(groups) == 1:  # one group alone is isolated
        return none, False
    own = request.unsuffixed.resources.keys()
    same_class = any(own & group.resources.keys() for group in groups.values())
    if request.group_policy is None or not same_class:
        return request, False
    return replace(none, limit=None), True


def _isolated(candidate: AllocationRequest) -> bool:
    """Return whether each group with a suffix is met by a provider of its own."""
    used = [uuids for suffix, uuids in candidate.mappings.items() if suffix]
    return len({uuid for uuids in used for uuid in uuids}) == len(used)


def _miscounted(request: ResourceRequest, answer: AllocationCandidates) -> int:
    """Return the number of candidates whose total amounts differ from the requested ones."""
    wanted = total_by_class(group.resources for group in request.by_suffix().values())
    return sum(
        total_by_class(candidate.allocations.values()) != wanted
        for candidate in answer.allocation_requests
    )
