"""How children of another service's root are removed, in steps (attach mode).  Pure.

nova-compute keeps a copy of its root's tree.  In each update, and for each guest that it builds,
it gets the allocations of every provider in that copy.  If one of them answers 404, the update or
the build fails until the copy is read again: after ``resource_provider_association_refresh``
seconds of Nova's (300).  The new copy has all providers in the tree, empty ones too.  So a child
takes one step in each period:

1. it is emptied: no guest can be scheduled to it any more;
2. it is taken out of the tree: it becomes a root with a name that says what it was.  New copies of
   the tree don't have it, and old ones still get answers;
3. it is deleted, once no copy can be old enough to have it.

A child that is reported again meanwhile returns to its place.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from reportclient.errors import PlacementError, TooOld
from reportclient.model import Provider
from reportclient.plan import DeleteProvider, Operation, Plan, UpdateProvider
from reportclient.snapshot import Snapshot

KEPT_NAME_LENGTH = 150
"""Characters of the provider's name in its name outside; Placement allows 200 with the mark."""


class Step(Enum):
    """A step in the removal of a child that no manager reports any more."""

    EMPTY = auto()
    TAKE_OUT = auto()
    WAIT = auto()
    DELETE = auto()


def next_step(
    child: Provider, *, is_leaf: bool, outside_for: float | None, wait: float | None
) -> Step:
    """Return the next step of a child.

    ``child`` is as Placement has it, so a step follows only after the one before was acknowledged.
    ``outside_for``: seconds since the child was first seen outside the tree.  ``wait``: seconds
    until no copy has it; with ``None`` it stays in the tree, empty.
    """
    if child.inventory or child.aggregates:
        return Step.EMPTY
    if wait is None:
        return Step.WAIT
    if child.parent_uuid is not None:
        return Step.TAKE_OUT if is_leaf else Step.WAIT
    waited = outside_for is not None and outside_for >= wait
    return Step.DELETE if waited and is_leaf else Step.WAIT


def children_outside(snapshot: Snapshot, root: str) -> Iterator[Provider]:
    """Yield the children that were taken out of the tree of ``root``, by the mark in their name."""
    for uuid in snapshot.children(None):
        if uuid != root and _is_marked(snapshot.providers[uuid]):
            yield snapshot.providers[uuid]


def name_outside(child: Provider) -> str:
    """Return the name of a child outside the tree; its own name is free for others."""
    mark = _mark(child.uuid)
    return child.name.removesuffix(mark)[:KEPT_NAME_LENGTH] + mark


def delete_orphans(snapshot: Snapshot, root: str) -> Plan:
    """Return the deletions of empty children outside the tree of a root that does not exist.

    Without the root no service uses a copy of its tree.
    """
    empty = [child.uuid for child in children_outside(snapshot, root) if not child.inventory]
    leaves = (uuid for uuid in empty if not list(snapshot.children(uuid)))
    return Plan(tuple(DeleteProvider(uuid) for uuid in leaves))


def refused_as_too_old(
    refused: Mapping[str, Operation], failed: Mapping[str, PlacementError]
) -> frozenset[str]:
    """Return the UUIDs of children that stay: taking them out needs microversion 1.37."""
    return frozenset(
        uuid
        for uuid, operation in refused.items()
        if isinstance(operation, UpdateProvider)
        and operation.moved
        and operation.parent_uuid is None
        and isinstance(failed.get(uuid), TooOld)
    )


@dataclass(frozen=True, slots=True)
class LeavingChildren:
    """The removed children of one root; for ``wait`` and ``outside_for`` see :func:`next_step`."""

    root: str
    observed: Snapshot
    wait: float | None = None
    outside_for: Mapping[str, float] = field(default_factory=dict)

    def hidden(self) -> frozenset[str]:
        """Return the UUIDs of children outside the tree, which drivers are not shown."""
        walk = self.observed.walk()
        return frozenset(provider.uuid for provider in walk if self._is_hidden(provider))

    def with_next_steps(self, desired: Snapshot) -> Snapshot:
        """Return ``desired`` with the next step of each child that would be deleted."""
        removed = [child for child in self.observed.walk() if child.uuid not in desired]
        for child in removed:
            desired = desired.with_changes({child.uuid: self._next(desired, child)})
        return desired

    def _is_hidden(self, child: Provider) -> bool:
        is_empty_leaf = not child.inventory and self._is_leaf(child)
        return _is_marked(child) and (child.parent_uuid is None or is_empty_leaf)

    def _is_leaf(self, child: Provider) -> bool:
        return not list(self.observed.children(child.uuid))

    def _next(self, desired: Snapshot, child: Provider) -> Provider | None:
        step = next_step(
            child,
            is_leaf=self._is_leaf(child),
            outside_for=self.outside_for.get(child.uuid),
            wait=self.wait,
        )
        if step is Step.DELETE:
            return None
        place = replace(child, inventory={}, aggregates=frozenset())
        is_out = step is Step.TAKE_OUT or child.parent_uuid is None
        if is_out or desired.named(child.name) is not None:
            place = replace(place, name=name_outside(child))  # also if another service renamed it
        return replace(place, parent_uuid=None) if step is Step.TAKE_OUT else place


def _is_marked(provider: Provider) -> bool:
    return provider.name.endswith(_mark(provider.uuid))


def _mark(uuid: str) -> str:
    return f"_removed_{uuid}"
