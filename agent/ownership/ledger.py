"""The ledger: what each manager asserted last.  Pure.

A *manager* asserts something about providers.  It is a driver (``driver:libvirt``), a source of
a driver that can fail by itself (``driver:libvirt/pci``), the operator's provider files
(``files``) or the agent (``agent``).  Kubernetes calls it a field manager.

A *claim* is one assertion of a manager: that a provider exists (with its name and its parent),
or that it has a resource class, a trait or an aggregate.

The ledger also has the claims that were removed, in case a restored Placement brings them back.
Generations only grow.  So a removed claim that Placement has again is compared by the provider's
generation.  If that is not higher than after the removal, Placement was restored to an older state:
the claim is still this host's, and is removed again.  If it is higher, another service has set it.
A deleted provider that is below this host's root again is recognized by its UUID alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import islice
from operator import or_, sub
from typing import NamedTuple

from reportclient.model import Provider
from reportclient.snapshot import changed_keys
from reportclient.view import View

DRIVER = "driver:"
"""Prefix of managers that are drivers or their sources."""
AGENT = "agent"
STATUS = "agent/status"
"""The agent as manager of COMPUTE_STATUS_DISABLED: silent while the status is unknown."""
FILES = "files"
NOVA_COMPUTE = "nova-compute"
"""The nova-compute that this agent replaced: see ``Policy.takes_over``."""
ADOPTED = "adopted"
"""Manager of providers that an operator adopted (``computectl adopt``).  It never asserts anything:
an adopted provider is removed once all drivers have answered and none has reported it."""
RESTORED = "restored"
"""Manager of removed claims that a restored, older Placement has again."""
OWN_UUID = "own-uuid"
"""Manager of providers that no ledger has, but whose UUID is this agent's; never saved."""
NOTHING: frozenset[str] = frozenset()
MOST_REMOVED = 256
"""Providers per root whose removed claims are remembered; beyond it the oldest are dropped."""


class Holding(NamedTuple):
    """The claims of one manager on one provider; ``provider`` is the claim that it exists."""

    provider: bool = False
    classes: frozenset[str] = NOTHING
    traits: frozenset[str] = NOTHING
    aggregates: frozenset[str] = NOTHING

    def joined(self, other: "Holding") -> "Holding":
        """Return the claims of both."""
        if NONE in (self, other):
            return other if self == NONE else self
        return Holding(self[0] or other[0], *map(or_, self[1:], other[1:]))

    def without(self, other: "Holding") -> "Holding":
        """Return the claims that ``other`` does not have."""
        if other == NONE:
            return self
        return Holding(self[0] and not other[0], *map(sub, self[1:], other[1:]))

    def within(self, provider: Provider | None) -> "Holding":
        """Return the claims that hold for ``provider``, as Placement has it."""
        if provider is None:
            return NONE
        return Holding(
            self.provider,
            self.classes & provider.inventory.keys(),
            self.traits & provider.traits,
            self.aggregates & provider.aggregates,
        )


NONE = Holding()


def everything_on(provider: Provider) -> Holding:
    """Return all claims that a provider allows, except those of its aggregates."""
    return Holding(True, frozenset(provider.inventory), provider.traits)


def adopted_on(provider: Provider) -> Holding:
    """Return the claims that adopting a provider takes over from the service that reported it.

    Of its traits only COMPUTE_* are certainly that service's: others may be an operator's.
    """
    traits = frozenset(name for name in provider.traits if name.startswith("COMPUTE_"))
    return everything_on(provider)._replace(traits=traits)


def joined(holdings: Iterable[Holding]) -> Holding:
    """Return the claims of all holdings."""
    return reduce(Holding.joined, holdings, NONE)


Holders = Mapping[str, Holding]
"""Holdings on one provider, by manager."""


class Removed(NamedTuple):
    """Claims that were removed from one provider.

    ``generation`` is the provider's first known one without them, ``None`` if the provider itself
    was deleted.
    """

    generation: int | None
    holding: Holding


@dataclass(frozen=True, slots=True)
class Ledger:
    """The holdings of all managers in one root's tree; ``holders`` is by provider UUID.

    ``seen`` are this agent's traits on another service's root that Placement has had.  ``begun``
    is false if no ledger was saved for this root yet, or it was lost: managers may then own claims
    that are not recorded here.  ``removed`` are the claims that were removed, by provider UUID.
    ``leaving`` are the providers that nothing here reported in the last period.
    """

    holders: Mapping[str, Holders] = field(default_factory=dict)
    seen: frozenset[str] = NOTHING
    begun: bool = False
    removed: Mapping[str, Removed] = field(default_factory=dict)
    leaving: frozenset[str] = NOTHING

    def holdings_on(self, uuid: str) -> Holders:
        """Return the holdings on a provider, by manager."""
        return self.holders.get(uuid, {})

    def holding_of(self, uuid: str, manager: str) -> Holding:
        """Return the holding of one manager on a provider."""
        return self.holdings_on(uuid).get(manager, NONE)

    def managers(self) -> set[str]:
        """Return all managers with claims."""
        return set[str]().union(*self.holders.values())

    def reported_by(self, manager: str, root: str) -> frozenset[str]:
        """Return the UUIDs of the providers that a manager claims; ``root`` if it has classes."""
        held = {uuid: row[manager] for uuid, row in self.holders.items() if manager in row}
        return frozenset(
            uuid for uuid, each in held.items() if each.provider or (uuid == root and each.classes)
        )

    def changed_since(self, old: "Ledger") -> list[str]:
        """Return the UUIDs of the providers whose holdings differ from those in ``old``."""
        return changed_keys(self.holders, old.holders)

    def is_ours(self, uuid: str) -> bool:
        """Return whether a manager claims that the provider exists."""
        return any(held.provider for held in self.holdings_on(uuid).values())

    def others_on(self, provider: Provider) -> Holding:
        """Return what this agent's provider has that none of its managers claims.

        Nothing for a provider without a row in the ledger, which is this agent's by its UUID.
        """
        row = self.holdings_on(provider.uuid)
        everything = everything_on(provider)._replace(aggregates=provider.aggregates)
        return everything.without(joined(row.values()))._replace(provider=False) if row else NONE

    def foreign_classes(self, provider: Provider) -> frozenset[str]:
        """Return the classes of this agent's provider that none of its managers claims."""
        return self.others_on(provider).classes

    def seen_on(self, root: Provider | None) -> "Ledger":
        """Return the ledger with the claimed traits that ``root``, another service's, has now."""
        if root is None:
            return self
        ours = joined(self.holdings_on(root.uuid).values()).traits & root.traits
        return replace(self, seen=self.seen | ours)

    def adding(self, manager: str, uuid: str, holding: Holding) -> "Ledger":
        """Return the ledger with claims of one manager added."""
        before = self.holdings_on(uuid)
        row = {**before, manager: before.get(manager, NONE).joined(holding)}
        return replace(self, holders={**self.holders, uuid: row})

    def with_restored(self, view: View, root: str) -> "Ledger":
        """Return the ledger with the removed claims that Placement has again, as RESTORED's."""
        ledger = self
        for uuid, removed in self.removed.items():
            if uuid not in view.snapshot:
                continue
            if view.snapshot.root_of(uuid) != root and not ledger.is_ours(uuid):
                continue
            now = view.generations.get(uuid, 0)
            if removed.generation is None or now <= removed.generation:
                back = removed.holding.within(view.snapshot.providers[uuid])
                if now == removed.generation:  # old microversions set aggregates without a new one
                    back = back._replace(aggregates=NOTHING)
                back = back.without(joined(ledger.holdings_on(uuid).values()))
                ledger = ledger if back == NONE else ledger.adding(RESTORED, uuid, back)
        return ledger

    def with_removed_since(
        self, before: "Ledger", view: View, theirs: str | None = None
    ) -> "Ledger":
        """Return the ledger with the claims held ``before`` that are now neither held nor there.

        ``view`` is Placement's state.  Claims on ``theirs``, another service's root, are left out:
        that service may delete its root and create it again.
        """
        removed: dict[str, Removed] = {}
        for uuid, old in before.removed.items():
            provider, now = view.snapshot.get(uuid), view.generations.get(uuid)
            if (provider is None) != (old.generation is None):
                continue  # the provider was created or deleted since
            if now is None or old.generation is None or now >= old.generation:
                removed[uuid] = old
            elif (absent := old.holding.without(old.holding.within(provider))) != NONE:
                removed[uuid] = Removed(now, absent)
        for uuid in (uuid for uuid in self.changed_since(before) if uuid != theirs):
            row = before.holdings_on(uuid).items()
            held = joined(held for manager, held in row if driver_of(manager) != AGENT)
            gone = held.joined(removed.pop(uuid, Removed(None, NONE)).holding)
            gone = gone.without(gone.within(view.snapshot.get(uuid)))
            gone = gone.without(joined(self.holdings_on(uuid).values()))
            if gone != NONE:
                removed[uuid] = Removed(view.generations.get(uuid), gone)
        removed = dict(islice(removed.items(), max(0, len(removed) - MOST_REMOVED), None))
        return self if removed == self.removed else replace(self, removed=removed)


def driver_of(manager: str) -> str:
    """Return the driver of a source: ``driver:libvirt`` for ``driver:libvirt/pci``."""
    return manager.partition("/")[0]


def manager_text(manager: str) -> str:
    """Return a manager as messages name it: ``driver libvirt`` for ``driver:libvirt/pci``."""
    return driver_of(manager).replace(":", " ")
