"""Attach mode: children below a root that another service owns, such as nova-compute's.  Pure.

The root is looked up, or waited for, by :mod:`agent.nodes.foreign_roots`.  What may be claimed on
it is in :mod:`agent.ownership.policy`.  Its children are removed in steps:

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

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from agent.ownership.ledger import AGENT, Holding, Ledger
from agent.ownership.placing import is_marked, name_outside
from agent.ownership.policy import MANAGED_BY_NOVA
from agent.ownership.statement import Statement
from reportclient.model import Provider
from reportclient.plan import DeleteProvider, Plan
from reportclient.snapshot import Snapshot

NEEDS = "1.37"
"""The microversion from which a provider can be taken out of its tree."""


class RootAwaited(Exception):
    """Another service has not created the root provider yet, or has deleted it."""


def root_awaited(name: str) -> RootAwaited:
    """Return the error for a root that does not exist."""
    return RootAwaited(
        f"waiting for the root provider {name}: another service has to create it "
        "([compute] root_provider = attach)"
    )


def agent_statement(observed: Snapshot, ledger: Ledger) -> Statement:
    """Return the agent's own statement: COMPUTE_MANAGED_PCI_DEVICE is on no provider of its own."""
    ours = (uuid for uuid in ledger.holders if ledger.is_ours(uuid) and uuid in observed)
    denied = Holding(traits=frozenset({MANAGED_BY_NOVA}))
    return Statement(AGENT, denied=dict.fromkeys(ours, denied))


@dataclass(slots=True)
class LeavingChildren:
    """The removed children of one root."""

    since: dict[str, float] = field(default_factory=dict)
    """When each was first seen outside the tree (seconds of a monotonic clock), by UUID."""

    def hidden(self, observed: Snapshot) -> frozenset[str]:
        """Return the UUIDs of the children that drivers are not shown.

        They are outside the tree, with all below them, or below the root but empty and with the
        mark in their name.
        """
        hidden = set[str]()
        for child in filter(is_marked, observed.walk()):
            is_empty = not child.inventory and not list(observed.children(child.uuid))
            if child.parent_uuid is None or is_empty:
                hidden.update(below.uuid for below in observed.walk(child.uuid))
        return frozenset(hidden)

    def with_next_steps(
        self, observed: Snapshot, desired: Snapshot, wait: float | None, now: float
    ) -> Snapshot:
        """Return ``desired`` with the next step of each child that would be deleted.

        ``observed`` is as Placement has it, so a step follows only after the one before was
        acknowledged.  ``now`` is in seconds of a monotonic clock, ``wait`` the seconds after which
        no copy of the tree has a child outside; with ``None`` it stays in the tree, empty.
        """
        self.since = {it.uuid: self.since.get(it.uuid, now) for it in children_outside(observed)}
        for child in [child for child in observed.walk() if child.uuid not in desired]:
            parent, is_leaf = child.parent_uuid, not list(observed.children(child.uuid))
            if not child.inventory and not child.aggregates and wait is not None and is_leaf:
                if parent is None and now - self.since.get(child.uuid, now) >= wait:
                    continue  # it is deleted
                parent = None
            place = replace(child, parent_uuid=parent, inventory={}, aggregates=frozenset())
            if parent is None or desired.named(child.name) is not None:
                place = replace(place, name=name_outside(child))  # also if a service renamed it
            desired = desired.with_changes({child.uuid: place})
        return desired


def children_outside(snapshot: Snapshot) -> Iterator[Provider]:
    """Yield the children that were taken out of a tree, by the mark in their name."""
    for uuid in snapshot.children(None):
        if is_marked(snapshot.providers[uuid]):
            yield snapshot.providers[uuid]


def delete_orphans(snapshot: Snapshot) -> Plan:
    """Return the deletions of empty children outside a tree whose root does not exist.

    Without the root no service uses a copy of its tree.
    """
    empty = [child.uuid for child in children_outside(snapshot) if not child.inventory]
    leaves = (uuid for uuid in empty if not list(snapshot.children(uuid)))
    return Plan(tuple(DeleteProvider(uuid) for uuid in leaves))
