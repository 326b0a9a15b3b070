"""Count each host once, by the first constraint that excludes it, as kube-scheduler does.

The constraints are added one after the other: amounts first, since a query needs resources, and
last that the host is enabled, which is named only for hosts that meet all others.  A class that
comes from a sharing provider has no host in its answer if it is queried alone, so it is added
after a class of the hosts' own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from computectl.asking.constraints import Aspect, Constraint, Question, constraints, keeping
from reportclient.candidates import AllocationCandidates, ProviderQuery, RequestGroup
from reportclient.candidates.asking import QueryOptions, disabled_roots, resource_providers
from reportclient.http import API
from reportclient.model import SHARES_VIA_AGGREGATE

TALLIED = 10_000
"""Candidates requested in each query; in a longer answer hosts may be missing."""
_HOST_TRAITS = ("COMPUTE_NODE", f"!{SHARES_VIA_AGGREGATE}")
"""Required traits of hosts: the second is used if no provider has the first."""

QueryCandidates = Callable[[Question], AllocationCandidates]


@dataclass(frozen=True, slots=True)
class Tally:
    """A count of hosts: ``left`` have candidates; ``first``: excluded hosts by constraint."""

    hosts: int
    left: int
    first: Mapping[Constraint, int]


def tally(question: Question, query: QueryCandidates, api: API) -> Tally | None:
    """Return the count; ``None`` with too many candidates, or with none that is on a host."""
    everything, enabled = hosts_of(api), Constraint(Aspect.ENABLED)
    left = set(everything)
    applied: list[Constraint] = []
    first: dict[Constraint, int] = {}
    waiting = sorted(
        (constraint for constraint in constraints(question) if constraint != enabled),
        key=lambda constraint: constraint.aspect is not Aspect.RESOURCES,
    )
    while waiting:
        for constraint in waiting:  # until one can be added: no host of its answer is a sharing one
            answer = query(keeping(question, (*applied, constraint)))
            if len(answer) >= TALLIED:
                return None
            hosts = set(answer.hosts())
            summaries = answer.provider_summaries
            is_amount = constraint.aspect is Aspect.RESOURCES
            if not (is_amount and any(summaries[uuid].shares for uuid in hosts)):
                break
        else:
            return None
        waiting.remove(constraint)
        applied.append(constraint)
        first[constraint] = len(left - hosts)
        left &= hosts
    if not question.include_disabled:
        disabled = left & disabled_roots(api)
        first[enabled] = len(disabled)
        left -= disabled
    return Tally(
        len(everything), len(left), {each: number for each, number in first.items() if number}
    )


def hosts_of(api: API) -> frozenset[str]:
    """Return the UUIDs of the roots of all hosts, disabled ones too."""
    for trait in _HOST_TRAITS:
        query = ProviderQuery(where=RequestGroup.from_values(required=[trait]))
        providers = resource_providers(query, api, QueryOptions(include_disabled=True)).providers
        roots = frozenset(each.uuid for each in providers if each.uuid == each.root_uuid)
        if roots:
            return roots
    return frozenset()


def kept_out(
    constraint: Constraint, answer: AllocationCandidates, relaxed: AllocationCandidates
) -> list[str]:
    """Return the UUIDs of providers, or of hosts, that are in the relaxed answer only."""
    if not constraint.suffix or not any(r.mappings for r in relaxed.allocation_requests):
        return _less(relaxed.hosts(), answer.hosts())
    return _less(_meeting(constraint.suffix, relaxed), _meeting(constraint.suffix, answer))


def _meeting(suffix: str, answer: AllocationCandidates) -> list[str]:
    return [
        uuid
        for request in answer.allocation_requests
        for uuid in (request.mappings or {}).get(suffix, ())
    ]


def _less(more: Iterable[str], fewer: Iterable[str]) -> list[str]:
    gone = set(fewer)
    return [uuid for uuid in dict.fromkeys(more) if uuid not in gone]
