"""What the page reads from Placement: which roots are disabled, and a host's provider tree."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from agent.reporting.reports import with_agents_step
from reportclient.candidates.asking import disabled_roots
from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.model import Provider
from reportclient.observed_tree import ObservedTree, read_tree, sharing_providers
from reportclient.plain_text import in_natural_order
from reportclient.request_filter import DISABLED
from reportclient.usage import NEARLY_FULL

READS_AT_ONCE = 4
"""Reads of Placement at the same time; the other threads answer the REST interface."""
MAX_WAIT = 10.0
"""Seconds that a request waits for one of these reads to end."""
T = TypeVar("T")


class NotRead(Exception):
    """Placement can't be read, or does not have it; the text says why."""


class ShownTotal(NamedTuple):
    """One resource class of a whole tree; amounts in its unit."""

    resource_class: str
    capacity: int
    used: int
    nearly_full: bool


class ShownInventory(NamedTuple):
    """A row of a provider's table: one resource class; amounts in its unit."""

    resource_class: str
    total: int
    reserved: int
    ratio: str
    capacity: int
    used: int
    free: int
    nearly_full: bool


class ShownProvider(NamedTuple):
    """A provider in a nested list.

    ``has_children``: a list follows.  ``ends``: the number of lists that end after this provider.
    """

    provider: Provider
    generation: int | None
    consumers: int
    inventory: Sequence[ShownInventory]
    traits: Sequence[str]
    aggregates: Sequence[str]
    disabled: bool
    has_children: bool = False
    ends: int = 0


@dataclass(frozen=True, slots=True)
class ShownTree:
    """A tree, parents first, and the sharing providers by the aggregates they share through."""

    totals: Sequence[ShownTotal]
    providers: Sequence[ShownProvider]
    sharing: Sequence[tuple[Sequence[str], Sequence[ShownProvider]]]


@dataclass(frozen=True, slots=True)
class PlacementReads:
    """``placement`` is ``None`` where [placement] is not configured."""

    placement: API | None
    turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(READS_AT_ONCE))

    def disabled_roots(self) -> frozenset[str]:
        """Return the UUIDs of the roots with COMPUTE_STATUS_DISABLED; one call.

        :raises NotRead: Placement can't be read.
        """
        return self._read(disabled_roots)

    def tree(self, root: str) -> ShownTree:
        """Return the tree of a root provider.

        :raises NotRead: Placement can't be read, or has no such root.
        """
        tree = self._read(lambda api: read_tree(root, api))
        if tree is None:
            raise NotRead(f"Placement has no root provider {root} (yet)")
        return shown_tree(tree)

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


def shown_tree(tree: ObservedTree) -> ShownTree:
    """Return everything that the page shows of a tree."""
    sharing = sharing_providers(tree.snapshot, tree.root)
    providers = list(_nested(tree))
    amounts: dict[str, tuple[int, int]] = {}
    for provider in providers:
        for row in provider.inventory:
            capacity, used = amounts.get(row.resource_class, (0, 0))
            amounts[row.resource_class] = capacity + row.capacity, used + row.used
    return ShownTree(
        [
            ShownTotal(name, capacity, used, used > capacity * NEARLY_FULL)
            for name, (capacity, used) in sorted(amounts.items())
        ],
        providers,
        [(names, [_shown(p, tree) for p in providers]) for names, providers in sharing.items()],
    )


def _nested(tree: ObservedTree) -> Iterator[ShownProvider]:
    """Yield the providers, parents first; without recursion, since trees may be deep."""
    snapshot = tree.snapshot
    # With each provider, the number of lists that end after it, if it has no children.
    stack: list[tuple[Provider, int]] = [(snapshot.providers[tree.root], 0)]
    while stack:
        provider, ends = stack.pop()
        children = in_natural_order(
            snapshot.providers[uuid] for uuid in snapshot.children(provider.uuid)
        )
        shown = _shown(provider, tree)
        yield shown._replace(has_children=True) if children else shown._replace(ends=ends)
        last = children[-1:]
        stack += [(child, ends + 1) for child in last]
        stack += [(child, 0) for child in reversed(children[:-1])]


def _shown(provider: Provider, tree: ObservedTree) -> ShownProvider:
    used_amounts = (tree.usage.usages or {}).get(provider.uuid, {})
    inventory = []
    for resource_class, stored in sorted(provider.inventory.items()):
        record, capacity = stored.with_defaults(None), stored.capacity
        used = used_amounts.get(resource_class, 0)
        inventory.append(
            ShownInventory(
                resource_class,
                record.total,
                record.reserved or 0,
                f"{record.allocation_ratio:g}",
                capacity,
                used,
                free=capacity - used,
                nearly_full=used > capacity * NEARLY_FULL,
            )
        )
    # COMPUTE_STATUS_DISABLED first, then CUSTOM_*, then all others.
    traits = sorted(
        provider.traits,
        key=lambda trait: (trait != DISABLED, not trait.startswith("CUSTOM_"), trait),
    )
    return ShownProvider(
        provider,
        tree.usage.generations.get(provider.uuid),
        tree.usage.consumers.get(provider.uuid, 0),
        inventory,
        traits,
        sorted(provider.aggregates),
        DISABLED in provider.traits,
    )
