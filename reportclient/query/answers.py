"""Answers to candidate and provider queries as values.  Pure.

A candidate is called what Placement calls it: an allocation request.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reportclient.model import SHARES_VIA_AGGREGATE

Key = tuple[frozenset[Any], frozenset[Any]]


@dataclass(frozen=True, slots=True)
class AllocationRequest:
    """Amounts by provider and resource class, as they would be claimed.

    ``mappings``: the providers that meet each group, by suffix; ``None`` from a Placement
    before microversion 1.34.
    """

    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, tuple[str, ...]] | None = None

    @property
    def key(self) -> Key:
        """Equal for equal candidates, whatever their order."""
        amounts = frozenset(
            (uuid, name, amount)
            for uuid, resources in self.allocations.items()
            for name, amount in resources.items()
        )
        met = frozenset((suffix, frozenset(them)) for suffix, them in (self.mappings or {}).items())
        return amounts, met


@dataclass(frozen=True, slots=True)
class ProviderSummary:
    """A provider of a candidate's tree: what it can give in all, and what is taken."""

    uuid: str
    parent_uuid: str | None
    root_uuid: str
    capacity: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()

    @property
    def shares(self) -> bool:
        """Whether others may use it through an aggregate."""
        return SHARES_VIA_AGGREGATE in self.traits

    def free(self, resource_class: str) -> int:
        """How much is left; 0 of what it does not have."""
        return self.capacity.get(resource_class, 0) - self.used.get(resource_class, 0)


@dataclass(frozen=True, slots=True)
class AllocationCandidates:
    """An answer: candidates in Placement's order, and all providers of their trees by UUID.

    ``miscounted`` candidates have other amounts than were asked for: do not claim them.
    """

    allocation_requests: tuple[AllocationRequest, ...] = ()
    provider_summaries: Mapping[str, ProviderSummary] = field(default_factory=dict)
    miscounted: int = 0

    def __len__(self) -> int:
        return len(self.allocation_requests)

    def host(self, request: AllocationRequest) -> str:
        """The root of the tree that the candidate is on; sharing providers are only used by it."""
        return self._anchors(request)[0]

    def hosts(self) -> list[str]:
        """Roots, in the order of their first candidates."""
        return list(dict.fromkeys(self.host(request) for request in self.allocation_requests))

    def root_traits(self, request: AllocationRequest) -> Iterator[frozenset[str]]:
        """Return the traits of the candidate's roots: several if all providers share."""
        for root in self._anchors(request):
            summary = self.provider_summaries.get(root)
            yield summary.traits if summary else frozenset()

    def only(self, requests: Iterable[AllocationRequest]) -> "AllocationCandidates":
        """These candidates, and the summaries of their trees."""
        kept = tuple(requests)
        if len(kept) == len(self.allocation_requests):
            return self
        used = {uuid for request in kept for uuid in request.allocations}
        roots = {self.provider_summaries[uuid].root_uuid for uuid in used}
        summaries = self.provider_summaries.items()
        return AllocationCandidates(
            kept, {u: one for u, one in summaries if one.root_uuid in roots}
        )

    def _anchors(self, request: AllocationRequest) -> list[str]:
        summaries = [self.provider_summaries[uuid] for uuid in request.allocations]
        own = [summary for summary in summaries if not summary.shares] or summaries
        return list(dict.fromkeys(summary.root_uuid for summary in own))


@dataclass(frozen=True, slots=True)
class ListedProvider:
    """A provider as ``GET /resource_providers`` lists it."""

    uuid: str
    name: str
    generation: int
    parent_uuid: str | None
    root_uuid: str


def parse_candidates(body: Mapping[str, Any]) -> AllocationCandidates:
    """From the body of an answer.  :raises KeyError: it is not Placement's."""
    summaries = {u: _summary(u, record) for u, record in body["provider_summaries"].items()}
    requests = tuple(map(_request, body["allocation_requests"]))
    for request in requests:
        if not request.allocations.keys() <= summaries.keys():
            raise KeyError("provider_summaries")
    return AllocationCandidates(requests, summaries)


def merge_candidates(answers: Iterable[AllocationCandidates]) -> AllocationCandidates:
    """Merge answers into one with each candidate once."""
    requests: dict[Key, AllocationRequest] = {}
    summaries: dict[str, ProviderSummary] = {}
    for answer in answers:
        summaries |= answer.provider_summaries
        for request in answer.allocation_requests:
            requests.setdefault(request.key, request)
    return AllocationCandidates(tuple(requests.values()), summaries)


def parse_providers(body: Mapping[str, Any]) -> list[ListedProvider]:
    """From the body of an answer.  :raises KeyError: it is not Placement's."""
    return [
        ListedProvider(
            item["uuid"],
            item["name"],
            item["generation"],
            item["parent_provider_uuid"],
            item["root_provider_uuid"],
        )
        for item in body["resource_providers"]
    ]


def _request(record: Mapping[str, Any]) -> AllocationRequest:
    mappings = record.get("mappings")
    return AllocationRequest(
        {uuid: dict(part["resources"]) for uuid, part in record["allocations"].items()},
        None if mappings is None else {name: tuple(them) for name, them in mappings.items()},
    )


def _summary(uuid: str, record: Mapping[str, Any]) -> ProviderSummary:
    resources = record["resources"].items()
    return ProviderSummary(
        uuid,
        record["parent_provider_uuid"],
        record["root_provider_uuid"],
        {name: amounts["capacity"] for name, amounts in resources},
        {name: amounts["used"] for name, amounts in resources},
        frozenset(record["traits"]),
    )
