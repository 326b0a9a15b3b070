"""Draw allocation candidates as text, grouped by host."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from computectl.reading.trees import name_of
from computectl.shared.screen import Screen, counted, filled
from reportclient.candidates import AllocationCandidates, AllocationRequest, ProviderSummary

SHOWN_HOSTS = 20
"""Hosts that are drawn; the formats for programs list all."""


@dataclass(frozen=True, slots=True)
class NamedCandidates:
    """Candidates, names by provider UUID, the calls that they took, and the requested limit."""

    answer: AllocationCandidates
    names: Mapping[str, str]
    calls: int
    limit: int | None = None


def draw_candidates(named: NamedCandidates, screen: Screen) -> str:
    """Return the candidates as text."""
    return "\n".join(_lines(named, screen))


def _given(resources: Mapping[str, int], summary: ProviderSummary) -> str:
    """Return amounts as ``VCPU 2 of 248 free (capacity 256)``."""
    return ", ".join(
        f"{name} {amount} of {summary.free(name)} free{_whole(summary, name)}"
        for name, amount in sorted(resources.items())
    )


def _whole(summary: ProviderSummary, name: str) -> str:
    whole = summary.capacity.get(name, 0)
    return "" if whole == summary.free(name) else f" (capacity {whole})"


def used_only(request: AllocationRequest) -> dict[str, list[str]]:
    """Return the suffixes of groups by UUID of a provider that meets them without resources."""
    suffixes: dict[str, list[str]] = {}
    for suffix, providers in sorted((request.mappings or {}).items()):
        for uuid in providers:
            if uuid not in request.allocations:
                suffixes.setdefault(uuid, []).append(suffix)
    return suffixes


def _lines(named: NamedCandidates, screen: Screen) -> Iterator[str]:
    answer = named.answer
    hosts = answer.hosts()
    yield _heading(named, len(hosts))
    by_host: dict[str, list[AllocationRequest]] = {}
    for request in answer.allocation_requests:
        by_host.setdefault(answer.host(request), []).append(request)
    for host in sorted(hosts[:SHOWN_HOSTS], key=lambda host: name_of(host, named.names)):
        yield ""
        yield f"{screen.paint(name_of(host, named.names), 'bold')}  {host}"
        yield from sorted(_candidate(request, named, screen) for request in by_host[host])
    if len(hosts) > SHOWN_HOSTS:
        more = sum(len(by_host[host]) for host in hosts[SHOWN_HOSTS:])
        yield ""
        others = counted(len(hosts) - SHOWN_HOSTS, "host")
        yield f"and {counted(more, 'candidate')} on {others} more; -f json lists all"


def _heading(named: NamedCandidates, hosts: int) -> str:
    many = len(named.answer)
    at_least = "at least " if named.limit is not None and many >= named.limit else ""
    where = f" on {counted(hosts, 'host')}" if many else ""
    return f"{at_least}{counted(many, 'candidate')}{where}, {counted(named.calls, 'call')}"


def _candidate(request: AllocationRequest, named: NamedCandidates, screen: Screen) -> str:
    summaries = named.answer.provider_summaries
    parts = []
    for uuid, resources in sorted(
        request.allocations.items(), key=lambda item: name_of(item[0], named.names)
    ):
        shared = ", shared" if summaries[uuid].shares else ""
        parts.append(f"{name_of(uuid, named.names)} ({_given(resources, summaries[uuid])}{shared})")
    for uuid, suffixes in used_only(request).items():
        parts.append(f"{name_of(uuid, named.names)} (group {', '.join(suffixes)})")
    return filled(" + ".join(parts), screen.width, "  - ", " " * 4)
