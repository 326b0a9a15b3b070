"""Children that leave a root of another service: when they may be deleted.  Pure.

nova-compute keeps a copy of its root's tree.  In each update, and for each guest that it
builds, it asks for the allocations of every provider in that copy, and where one of them
answers 404 all of it fails, until the copy is read again: after
``resource_provider_association_refresh`` seconds of Nova's (300).  Then it holds again
whatever is in the tree, an empty provider too.  So, one step in each period:

1. the child is emptied: no guest can land there any more;
2. it is taken out of the tree, as a root of its own with a name that says what it was.
   Who reads the tree from now on does not see it; who has it in a copy still gets answers;
3. it is deleted, once no copy can be that old any more.

Should it be reported again meanwhile, it goes back to its place.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from reportclient.errors import PlacementError, TooOld
from reportclient.model import Provider
from reportclient.plan import DeleteProvider, Operation, Plan, UpdateProvider
from reportclient.snapshot import Snapshot

KEPT_NAME_LENGTH = 150
"""Characters of a provider's name that are kept; the rest and a UUID fit into Placement's 200."""


class Step(Enum):
    """A step in the removal of a child that no manager reports any more."""

    EMPTY = auto()
    TAKE_OUT = auto()
    WAIT = auto()
    DELETE = auto()


def next_step(
    child: Provider, *, is_leaf: bool, outside_for: float | None, wait: float | None
) -> Step:
    """Return the next step; each follows only after Placement has acknowledged the one before.

    ``outside_for``: seconds since it was first seen outside the tree; ``wait``: seconds
    for which somebody may hold it in a copy, ``None`` for ever: it stays in the tree, empty.
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
    """Children of ``root`` that were taken out of its tree: their names tell."""
    for uuid in snapshot.children(None):
        if uuid != root and _is_marked(snapshot.providers[uuid]):
            yield snapshot.providers[uuid]


def name_outside(child: Provider) -> str:
    """The name that a child has outside the tree; its own is free for others."""
    mark = _mark(child.uuid)
    return child.name.removesuffix(mark)[:KEPT_NAME_LENGTH] + mark


def delete_orphans(snapshot: Snapshot, root: str) -> Plan:
    """Delete what is outside: without the root nobody has its tree in a copy to work with."""
    gone = [one.uuid for one in children_outside(snapshot, root) if not one.inventory]
    leaves = (uuid for uuid in gone if not list(snapshot.children(uuid)))
    return Plan(tuple(DeleteProvider(uuid) for uuid in leaves))


def refused_as_too_old(
    refused: Mapping[str, Operation], failed: Mapping[str, PlacementError]
) -> frozenset[str]:
    """Children that this Placement can't take out of a tree: it takes microversion 1.37."""
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
    """For one root; ``observed`` is what Placement has.  The rest: see :func:`next_step`."""

    root: str
    observed: Snapshot
    wait: float | None = None
    outside_for: Mapping[str, float] = field(default_factory=dict)

    def hidden(self) -> frozenset[str]:
        """Return the UUIDs of children outside the tree, which drivers are not shown."""
        return frozenset(one.uuid for one in self.observed.walk() if self._is_hidden(one))

    def with_next_steps(self, desired: Snapshot) -> Snapshot:
        """``desired``, in which whatever would be deleted takes its next step instead."""
        gone = [one for one in self.observed.walk() if one.uuid not in desired]
        for child in gone:
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
            place = replace(place, name=name_outside(child))  # also if somebody renamed it there
        return replace(place, parent_uuid=None) if step is Step.TAKE_OUT else place


def _is_marked(provider: Provider) -> bool:
    return provider.name.endswith(_mark(provider.uuid))


def _mark(uuid: str) -> str:
    return f"_removed_{uuid}"
