"""Read a provider tree with its usage, to show it: GETs only, several at a time."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from reportclient.http import API
from reportclient.model import Provider
from reportclient.read_ahead import AT_ONCE, ReadAhead
from reportclient.reader import part_of, refresh
from reportclient.snapshot import Snapshot
from reportclient.usage import Usage, amounts_of
from reportclient.view import View

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
        to_count = [
            provider for provider in _with_inventory(view) if _is_used(provider.uuid, ahead.used)
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


def _is_used(uuid: str, used: Mapping[str, Mapping[str, int]]) -> bool:
    """Return whether its allocations have to be read: it is used, or its usage is unknown."""
    return uuid not in used or any(used[uuid].values())


def _with_inventory(view: View) -> Iterator[Provider]:
    return (provider for provider in view.snapshot.providers.values() if provider.inventory)


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
