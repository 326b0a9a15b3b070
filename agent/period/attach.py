"""The two sets of rules for a root: this agent reports it, or another service does.  Pure.

In attach mode the agent reports children below a root that another service owns, such as
nova-compute's.  The root is looked up, or waited for, by :mod:`agent.nodes.foreign_roots`.  What
may be claimed on it is in :mod:`agent.ownership.policy`.  Its children are removed in steps:

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
from typing import ClassVar, Protocol

from agent.ownership.answers import Answer, Answers
from agent.ownership.ledger import ADOPTED, AGENT, STATUS, Ledger
from agent.ownership.policy import (
    MANAGED_BY_NOVA,
    AttachedPolicy,
    Policy,
    with_unrecorded_claims,
)
from agent.period.traits import AgentTraits
from reportclient.model import Provider, is_marked, name_when_removed
from reportclient.plan import DeleteProvider, Plan
from reportclient.provider_tree import Claims
from reportclient.snapshot import Snapshot


class Options(Protocol):
    """The options of :class:`agent.period.rules.Rules` that decide here."""

    @property
    def attached(self) -> bool:
        """Whether another service owns the roots."""

    @property
    def child_wait(self) -> float | None:
        """Seconds before a child outside the tree is deleted; ``None`` to keep it."""


class RootAwaited(Exception):
    """Another service has not created the root provider yet, or has deleted it."""


def root_awaited(name: str) -> RootAwaited:
    """Return the error for a root that does not exist."""
    return RootAwaited(
        f"waiting for the root provider {name}: another service has to create it "
        "([compute] root_provider = attach)"
    )


@dataclass(slots=True)
class OwnRoot:
    """The rules for a root that this agent reports."""

    policy: ClassVar[type[Policy]] = Policy
    needs: ClassVar[str | None] = None
    """The microversion without which nothing is written."""

    since: dict[str, float] = field(default_factory=dict)
    """When each removed child was first observed outside the tree, by UUID (monotonic seconds)."""

    def first_ledger(self, saved: Ledger, root: str, owners: frozenset[str]) -> tuple[Ledger, str]:
        """Return the ledger to begin with, and what the operator changed; empty if nothing.

        ``owners`` are the owner traits that identify the root (UUID) as this agent's.
        """
        if not saved.known or saved.owns(root):
            return saved, ""
        return saved, (
            "from attach to own: this agent now reports the root provider. Stop nova-compute on "
            "this host; inventory and traits that only nova-compute reported stay until you remove "
            "them"
        )

    def awaits(self, root: Provider | None) -> bool:
        """Return whether nothing is reported until another service has created the root."""
        return False

    def outside(self, ledger: Ledger, observed: Snapshot) -> set[str]:
        """Return the UUIDs of this agent's providers that may be outside of the root's tree."""
        return ledger.claims.keys() & {*observed.children(None)}

    def hidden(self, observed: Snapshot) -> frozenset[str]:
        """Return the UUIDs of the providers that drivers are not shown."""
        return frozenset()

    def with_agents_answer(
        self,
        answers: Answers,
        traits: AgentTraits,
        observed: Snapshot,
        ledger: Ledger,
        policy: Policy,
    ) -> Answers:
        """Return the drivers' and files' answers, and those of the agent itself."""
        return traits.added_to(answers, observed)

    def overdue(self, observed: Snapshot, options: Options, now: float) -> frozenset[str] | None:
        """Return the children outside the tree that are deleted now; ``None``: none leaves it."""
        return frozenset()

    def with_next_steps(
        self, observed: Snapshot, desired: Snapshot, overdue: frozenset[str] | None
    ) -> Snapshot:
        """Return ``desired`` with the next step of each child that would be deleted."""
        return desired

    def with_accepted(self, ledger: Ledger, root: Provider | None) -> Ledger:
        """Return the ledger with the agent's traits that Placement has on the root."""
        return ledger


class AttachedRoot(OwnRoot):
    """The rules for a root that another service owns."""

    policy: ClassVar[type[Policy]] = AttachedPolicy
    needs: ClassVar[str | None] = "1.37"  # from it on a provider can be taken out of its tree

    def first_ledger(self, saved: Ledger, root: str, owners: frozenset[str]) -> tuple[Ledger, str]:
        """Return it with only the owner traits of a root that was this agent's: they go."""
        if not saved.owns(root):
            return saved, ""
        rows = {**saved.claims, root: {ADOPTED: Claims(traits=owners)}}
        return replace(saved, claims=rows), (
            "from own to attach: nova-compute now reports the root provider, this agent only "
            "children of it. To hand back the whole host to nova-compute, run computectl retire "
            "--hand-back"
        )

    def awaits(self, root: Provider | None) -> bool:
        """Return whether its owner has not created the root, or has deleted it."""
        return root is None

    def outside(self, ledger: Ledger, observed: Snapshot) -> set[str]:
        """Return all: this agent itself takes children out of the tree."""
        return set(ledger.claims)

    def hidden(self, observed: Snapshot) -> frozenset[str]:
        """Return the UUIDs of the removed children.

        They are outside the tree, with all below them, or below the root but empty and with the
        mark in their name.
        """
        hidden = set[str]()
        for child in filter(is_marked, observed.walk()):
            is_empty = not child.inventory and not list(observed.children(child.uuid))
            if child.parent_uuid is None or is_empty:
                hidden.update(below.uuid for below in observed.walk(child.uuid))
        return frozenset(hidden)

    def with_agents_answer(
        self,
        answers: Answers,
        traits: AgentTraits,
        observed: Snapshot,
        ledger: Ledger,
        policy: Policy,
    ) -> Answers:
        """Add only that COMPUTE_MANAGED_PCI_DEVICE is on no provider of this agent's own."""
        ledger = with_unrecorded_claims(ledger, observed, answers, policy)
        own_uuids = (uuid for uuid in ledger.claims if ledger.owns(uuid) and uuid in observed)
        absent = Claims(traits=frozenset({MANAGED_BY_NOVA}))
        own = Answer(AGENT, absent=dict.fromkeys(own_uuids, absent))
        return answers.with_answer((own,), frozenset({AGENT, STATUS}))

    def overdue(self, observed: Snapshot, options: Options, now: float) -> frozenset[str] | None:
        """Return those that no copy of the tree has: outside for ``child_wait`` seconds."""
        wait = options.child_wait
        self.since = {it.uuid: self.since.get(it.uuid, now) for it in children_outside(observed)}
        if wait is None:
            return None
        return frozenset(uuid for uuid, since in self.since.items() if now - since >= wait)

    def with_next_steps(
        self, observed: Snapshot, desired: Snapshot, overdue: frozenset[str] | None
    ) -> Snapshot:
        """Return ``desired`` with the next step of each child that would be deleted.

        ``observed`` is as Placement has it, so a step follows only after the one before was
        acknowledged.
        """
        for child in [child for child in observed.walk() if child.uuid not in desired]:
            parent, is_leaf = child.parent_uuid, not list(observed.children(child.uuid))
            is_empty = not child.inventory and not child.aggregates
            if overdue is not None and is_empty and is_leaf:
                if child.uuid in overdue:
                    continue  # it is deleted
                parent = None
            place = replace(child, parent_uuid=parent, inventory={}, aggregates=frozenset())
            if parent is None or desired.named(child.name) is not None:
                # Also if another service has renamed it meanwhile.
                place = replace(place, name=name_when_removed(child))
            desired = desired.with_changes({child.uuid: place})
        return desired

    def with_accepted(self, ledger: Ledger, root: Provider | None) -> Ledger:
        """Return the ledger with them: what the owner removes later is not set again."""
        return ledger.with_accepted(root)


def root_rules(options: Options) -> OwnRoot:
    """Return the rules for one root: those of attach mode, or of a root of the agent's own."""
    return AttachedRoot() if options.attached else OwnRoot()


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
