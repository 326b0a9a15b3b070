"""Answers to candidate queries as values.  Pure.

Placement calls a candidate an allocation request.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reportclient import forms
from reportclient.model import SHARES_VIA_AGGREGATE


@dataclass(frozen=True, slots=True)
class AllocationRequest:
    """A candidate: the amounts to allocate, by provider UUID and resource class.

    ``mappings``: the UUIDs of the providers that meet each group, by suffix; empty before
    microversion 1.34.
    """

    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProviderSummary:
    """A provider of a candidate's tree: its capacity and usage by resource class, and traits."""

    uuid: str
    parent_uuid: str | None
    root_uuid: str
    capacity: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()

    @property
    def shares(self) -> bool:
        """Whether the provider shares its inventory through aggregates."""
        return SHARES_VIA_AGGREGATE in self.traits

    def free(self, resource_class: str) -> int:
        """Return the unused amount of a resource class; 0 for a class that it does not have."""
        return self.capacity.get(resource_class, 0) - self.used.get(resource_class, 0)


@dataclass(frozen=True, slots=True)
class AllocationCandidates:
    """An answer: candidates in Placement's order, and all providers of their trees by UUID.

    ``miscounted`` is the number of candidates whose amounts differ from the request, due to an
    error of Placement's; do not allocate those.
    """

    allocation_requests: tuple[AllocationRequest, ...] = ()
    provider_summaries: Mapping[str, ProviderSummary] = field(default_factory=dict)
    miscounted: int = 0

    def __len__(self) -> int:
        return len(self.allocation_requests)

    def host(self, request: AllocationRequest) -> str:
        """Return the UUID of the candidate's root; sharing providers that it uses don't count."""
        summaries = [self.provider_summaries[uuid] for uuid in request.allocations]
        own = [summary for summary in summaries if not summary.shares] or summaries
        return own[0].root_uuid

    def hosts(self) -> list[str]:
        """Return the roots' UUIDs in the order of their first candidates."""
        return list(dict.fromkeys(self.host(request) for request in self.allocation_requests))

    def only(self, requests: Iterable[AllocationRequest]) -> "AllocationCandidates":
        """Return an answer with these candidates only, and the summaries of their trees."""
        chosen = tuple(requests)
        if len(chosen) == len(self.allocation_requests):
            return self
        used = {uuid for request in chosen for uuid in request.allocations}
        roots = {self.provider_summaries[uuid].root_uuid for uuid in used}
        summaries = self.provider_summaries.items()
        return AllocationCandidates(
            chosen, {uuid: summary for uuid, summary in summaries if summary.root_uuid in roots}
        )


def parse_candidates(body: Any) -> AllocationCandidates:
    """Parse the body of ``GET /allocation_candidates``.  :raises ValueError: its form is wrong."""
    shown = forms.field(body, "provider_summaries", forms.mapping(_SUMMARY))
    summaries = {uuid: _summary(uuid, summary) for uuid, summary in shown.items()}
    listed = forms.field(body, "allocation_requests", forms.items(_CANDIDATE))
    requests = tuple(map(_request, listed))
    for request in requests:
        for uuid in request.allocations:
            if uuid not in summaries:
                raise ValueError(f".provider_summaries.{uuid} is missing")
    return AllocationCandidates(requests, summaries)


_CANDIDATE = forms.record(allocations=forms.mapping(forms.record(resources=forms.AMOUNTS)))
_SUMMARY = forms.record(
    parent_provider_uuid=forms.OPTIONAL_TEXT,
    root_provider_uuid=forms.text,
    resources=forms.mapping(forms.record(capacity=forms.number, used=forms.number)),
    traits=forms.NAMES,
)


def _request(candidate: Mapping[str, Any]) -> AllocationRequest:
    allocations = {uuid: dict(part["resources"]) for uuid, part in candidate["allocations"].items()}
    if "mappings" not in candidate:
        return AllocationRequest(allocations)
    mappings = forms.field(candidate, "mappings", forms.mapping(forms.TEXTS))
    return AllocationRequest(allocations, {key: tuple(uuids) for key, uuids in mappings.items()})


def _summary(uuid: str, summary: Mapping[str, Any]) -> ProviderSummary:
    resources = summary["resources"].items()
    return ProviderSummary(
        uuid,
        summary["parent_provider_uuid"],
        summary["root_provider_uuid"],
        {name: amounts["capacity"] for name, amounts in resources},
        {name: amounts["used"] for name, amounts in resources},
        frozenset(summary["traits"]),
    )
