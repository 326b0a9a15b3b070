"""A host's provider tree in Placement, read for the page: what the template shows."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.reporting.reports import with_agents_step
from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.model import Provider
from reportclient.observed_tree import ObservedTree, read_tree, sharing_providers
from reportclient.plain_text import in_natural_order
from reportclient.request_filter import DISABLED
from reportclient.usage import NEARLY_FULL

TREES_AT_ONCE = 4
"""Trees that are read at the same time; the other threads answer the REST interface."""
MAX_WAIT = 10.0
"""Seconds that a request waits until fewer trees are being read."""


class NoTree(Exception):
    """The tree can't be shown; the text says why."""


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

    providers: Sequence[ShownProvider]
    sharing: Sequence[tuple[Sequence[str], Sequence[ShownProvider]]]


@dataclass(frozen=True, slots=True)
class TreesOfHosts:
    """``placement`` is ``None`` where [placement] is not configured."""

    placement: API | None
    turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(TREES_AT_ONCE))

    def read(self, root: str) -> ShownTree:
        """Return the tree of a root provider.

        :raises NoTree: Placement can't be read, or has no such root.
        """
        if self.placement is None:
            raise NoTree("compute-registry can't read Placement: set [placement] auth_type")
        if not self.turns.acquire(timeout=MAX_WAIT):
            raise NoTree("too many trees are being read: try again in a moment")
        try:
            tree = read_tree(root, self.placement)
        except PlacementError as err:
            raise NoTree(with_agents_step(err)) from err
        finally:
            self.turns.release()
        if tree is None:
            raise NoTree(f"Placement has no root provider {root} (yet)")
        return shown_tree(tree)


def shown_tree(tree: ObservedTree) -> ShownTree:
    """Return everything that the page shows of a tree."""
    sharing = sharing_providers(tree.snapshot, tree.root)
    return ShownTree(
        list(_nested(tree)),
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
