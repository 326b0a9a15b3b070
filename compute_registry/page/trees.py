"""The page's reads from Placement: the disabled roots, and a host's provider tree."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from agent.reporting.condition import Condition, with_agents_step
from compute_registry.observed_placement import (
    ObservedTree,
    PlacementRoots,
    drains,
    read_tree,
    sharing_providers,
)
from compute_registry.observed_service import Roots
from reportclient.candidates.request_filter import DISABLED
from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.model import Inventory, Provider
from reportclient.plain_text import in_natural_order
from reportclient.replies import seconds_of

READS_AT_ONCE = 4
"""Reads of Placement at the same time; the other threads answer the REST interface."""
MAX_WAIT = 10.0
"""Seconds that a request waits for one of these reads to end."""
T = TypeVar("T")


class NotRead(Exception):
    """Placement can't be read, or does not have it; the text says why."""


class ShownInventory(NamedTuple):
    """A row of a provider's table: one resource class; amounts in its unit."""

    resource_class: str
    record: Inventory
    """With the defaults of what Placement left out."""
    capacity: int
    used: int


class ShownProvider(NamedTuple):
    """A provider of the table; ``name`` is without the root's, ``depth`` 0 is the root."""

    provider: Provider
    name: str
    depth: int
    generation: int | None
    consumers: int
    inventory: Sequence[ShownInventory]
    traits: Sequence[str]
    """COMPUTE_STATUS_DISABLED first, then custom traits, then all others."""


@dataclass(frozen=True, slots=True)
class ShownTree:
    """A tree, parents first, and the sharing providers by the aggregates they share through.

    ``totals``: by resource class, the capacity of the tree and how much of it is used.
    """

    totals: Mapping[str, tuple[int, int]]
    providers: Sequence[ShownProvider]
    sharing: Sequence[tuple[Sequence[str], Sequence[ShownProvider]]]
    drains: Sequence[Condition]


@dataclass(slots=True)
class PlacementReads:
    """``placement`` is ``None`` where [placement] is not configured; ``url`` returns its URL."""

    placement: API | None
    url: Callable[[], str] = lambda: ""
    turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(READS_AT_ONCE))
    _roots: PlacementRoots = field(default_factory=PlacementRoots)

    def roots(self) -> Roots:
        """Return the roots.  :raises NotRead: Placement can't be read."""
        return self._read(self._roots.read)

    def tree(self, root: str) -> ShownTree:
        """Return the tree of a root provider.

        :raises NotRead: Placement can't be read, or has no such root.
        """
        return self._read(lambda api: _read_shown(root, api))

    def _read(self, read: Callable[[API], T]) -> T:
        if self.placement is None:
            raise NotRead("compute-registry can't read Placement: set [placement] auth_type")
        if not self.turns.acquire(timeout=MAX_WAIT):
            raise NotRead("too many pages are being read: try again in a moment")
        try:
            return read(self.placement)
        except PlacementError as err:
            raise NotRead(with_agents_step(err)) from err
        finally:
            self.turns.release()


def _read_shown(root: str, api: API) -> ShownTree:
    """Read a tree, with 1 GET more for each provider that drains."""
    tree = read_tree(root, api)
    if tree is None:
        raise NotRead(f"Placement has no root provider {root} (yet)")
    return shown_tree(tree, {uuid: _written_at(uuid, api) for uuid in tree.usage.draining})


def _written_at(uuid: str, api: API) -> float | None:
    """Return when the inventory of a provider was last written: it drains at least since then."""
    reply = api.request("GET", f"/resource_providers/{uuid}/inventories")
    return seconds_of(getattr(reply, "modified", ""))


def shown_tree(tree: ObservedTree, since: Mapping[str, float | None]) -> ShownTree:
    """Return everything that the page shows of a tree; ``since``: of what drains, by UUID."""
    sharing = sharing_providers(tree.snapshot, tree.root)
    providers = list(_nested(tree))
    amounts: dict[str, tuple[int, int]] = {}
    for provider in providers:
        for row in provider.inventory:
            capacity, used = amounts.get(row.resource_class, (0, 0))
            amounts[row.resource_class] = capacity + row.capacity, used + row.used
    shared = [(names, [_shown(p, tree) for p in others]) for names, others in sharing.items()]
    draining = list(drains(tree.snapshot, tree.usage.draining, since))
    return ShownTree(dict(sorted(amounts.items())), providers, shared, draining)


def _nested(tree: ObservedTree) -> Iterator[ShownProvider]:
    """Yield the providers, parents first; without recursion, since trees may be deep."""
    snapshot = tree.snapshot
    stack = [(snapshot.providers[tree.root], 0)]
    while stack:
        provider, depth = stack.pop()
        yield _shown(provider, tree, depth)
        below = (snapshot.providers[uuid] for uuid in snapshot.children(provider.uuid))
        stack += [(child, depth + 1) for child in reversed(in_natural_order(below))]


def _shown(provider: Provider, tree: ObservedTree, depth: int = 0) -> ShownProvider:
    root = tree.snapshot.providers[tree.root].name
    short = provider.name.removeprefix(root).lstrip("_-./: ") if depth else ""
    used_amounts = (tree.usage.usages or {}).get(provider.uuid, {})
    inventory = [
        ShownInventory(name, stored.with_defaults(None), stored.capacity, used_amounts.get(name, 0))
        for name, stored in sorted(provider.inventory.items())
    ]
    traits = sorted(
        provider.traits, key=lambda name: (name != DISABLED, not name.startswith("CUSTOM_"), name)
    )
    usage = tree.usage
    generation, consumers = usage.generations.get(provider.uuid), usage.consumers.get(provider.uuid)
    name = short or provider.name
    return ShownProvider(provider, name, depth, generation, consumers or 0, inventory, traits)
