"""What a constraint leaves out: hosts, or the providers that would meet its group.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from agent.cli.asking.constraints import Constraint
from reportclient.candidates import AllocationCandidates


def kept_out(
    constraint: Constraint, answer: AllocationCandidates, relaxed: AllocationCandidates
) -> list[str]:
    """UUIDs that are in the relaxed answer, and not in the other."""
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
