"""Read a provider tree with its usage, to show it: GETs only, several at a time."""

from collections.abc import Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from reportclient.candidates.answers import ProviderSummary, parse_candidates
from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.model import Provider
from reportclient.reader import part_of, refresh
from reportclient.snapshot import Snapshot
from reportclient.usage import Usage, amounts_of
from reportclient.view import View

AT_ONCE = 8
"""Maximum number of concurrent requests."""
_TREE = "/resource_providers?in_tree="
SUMMARY_FROM = 3
"""Number of providers of a tree from which a summary takes fewer calls than reading each."""
TRIED = ("VCPU", "PCPU")
"""Standard classes of which one unit is requested; the next is tried without candidates."""
NEEDS = "1.31"
"""Microversion of ``in_tree``; summaries of all providers of a tree need an older one."""
UNKNOWN = {"": 1}
"""The usage of a provider that no summary has: its allocations have to be read."""
SharingProviders = dict[tuple[str, ...], list[Provider]]
"""Sharing providers by the aggregates through which they share."""


@dataclass(frozen=True, slots=True)
class ObservedTree:
    """A tree, the sharing providers associated with it, and the usage of both."""

    snapshot: Snapshot
    root: str
    usage: Usage


def read_tree(
    root: str, api: API, *, marked: str | None = None, remembered: View | None = None
) -> ObservedTree | None:
    """Return the tree of ``root``, or ``None`` if Placement has no such root provider.

    1 GET, 2 for each provider, 1 for the usage and traits of all of them (or 1 for each), and
    1 for each provider that is used.  A provider whose generation is still the one in
    ``remembered`` is not read again.  ``marked``: the UUID of the provider to mark in a drawing.

    :raises reportclient.errors.PlacementError: a request failed.
    """
    before = remembered or View()
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="get") as pool:
        ahead = ReadAhead(api, pool, before.generations)
        view = refresh(before, root, ahead)
        if root not in view.snapshot:
            return None
        providers, used = view.snapshot.providers.values(), ahead.used
        to_count = [
            each
            for each in providers
            if each.inventory and any(used.get(each.uuid, UNKNOWN).values())
        ]
        counted = dict(pool.map(lambda provider: _usage_of(provider, view, api), to_count))
    usages = {**ahead.used, **{uuid: amounts for uuid, (amounts, _) in counted.items()}}
    consumers = {uuid: count for uuid, (_, count) in counted.items()}
    return ObservedTree(view.snapshot, root, Usage(usages, consumers, view.generations, marked))


def sharing_providers(snapshot: Snapshot, root: str) -> SharingProviders:
    """Return the roots without children that share with the tree of ``root``, by name."""
    ours = frozenset().union(*(provider.aggregates for provider in snapshot.walk(root)))
    sharing: SharingProviders = {}
    for provider in children_by_name(snapshot, None):
        common = tuple(sorted(provider.aggregates & ours))
        if provider.uuid != root and provider.shares and common:
            sharing.setdefault(common, []).append(provider)
    return sharing


def children_by_name(snapshot: Snapshot, uuid: str | None) -> list[Provider]:
    """Return the children of a provider, or the roots, sorted by name."""
    children = (snapshot.providers[child] for child in snapshot.children(uuid))
    return sorted(children, key=lambda provider: provider.name)


def _usage_of(provider: Provider, view: View, api: API) -> tuple[str, tuple[dict[str, int], int]]:
    """Return the UUID, the amounts by class, and the number of consumers.

    The allocations of a host's provider are few, and contain both.  Those of a sharing provider
    are many: only its amounts are read, and its consumers count as 0.
    """
    path = f"/resource_providers/{provider.uuid}"
    if provider.uuid in view.sharing:
        usages: dict[str, int] = part_of(f"{path}/usages", "usages", api)
        return provider.uuid, (usages, 0)
    allocations = part_of(f"{path}/allocations", "allocations", api)
    amounts = dict.fromkeys(provider.inventory, 0) | amounts_of(allocations)
    return provider.uuid, (amounts, len(allocations))


@dataclass(slots=True)
class ReadAhead:
    """An API that, once it has listed providers, fetches their parts on ``pool``.

    ``generations``: of providers in the saved view, which are not fetched if unchanged.  Traits
    and usage (``used``) of a larger tree come from one call.
    """

    api: API
    pool: Executor
    generations: Mapping[str, int] = field(default_factory=dict)
    used: dict[str, Mapping[str, int]] = field(default_factory=dict)
    _coming: dict[str, Future[dict[str, Any]]] = field(default_factory=dict)

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        coming = self._coming.pop(path, None) if method == "GET" else None
        if coming is not None:
            return coming.result()
        reply = self.api.request(method, path, json=json, needs=needs)
        listed = reply.get("resource_providers", ())
        fresh = [
            item for item in listed if self.generations.get(item["uuid"]) != item["generation"]
        ]
        for item in fresh:
            self._fetch(item["uuid"], "inventories")
            self._fetch(item["uuid"], "aggregates")
        whole = path.startswith(_TREE) and len(listed) >= SUMMARY_FROM
        summary = _summary_of(path.removeprefix(_TREE), self.api) if whole else {}
        self.used |= {uuid: summed.used for uuid, summed in summary.items()}
        for item in fresh:
            if item["uuid"] not in summary:
                self._fetch(item["uuid"], "traits")
                continue
            # With the generation of the listing, which was read before the summary.
            traits = sorted(summary[item["uuid"]].traits)
            done: Future[dict[str, Any]] = Future()
            done.set_result({"traits": traits, "resource_provider_generation": item["generation"]})
            self._coming[_part(item["uuid"], "traits")] = done
        return reply

    def _fetch(self, uuid: str, part: str) -> None:
        path = _part(uuid, part)
        self._coming[path] = self.pool.submit(self.api.request, "GET", path)


def _part(uuid: str, part: str) -> str:
    return f"/resource_providers/{uuid}/{part}"


def _summary_of(root: str, api: API) -> Mapping[str, ProviderSummary]:
    """Return the summaries of the tree of ``root`` by UUID; empty if Placement has none."""
    for resource_class in TRIED:
        path = f"/allocation_candidates?resources={resource_class}:1&in_tree={root}&limit=1"
        try:
            answer = parse_candidates(api.request("GET", path, needs=NEEDS))
            if answer.provider_summaries:
                return answer.provider_summaries
        except (PlacementError, KeyError, TypeError):
            return {}  # an older Placement, or not permitted: the parts are read one by one
    return {}
