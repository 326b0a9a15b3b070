"""The ledger: what each owner claimed last.  Pure.

An *owner* claims something about providers.  It is a driver (``driver:libvirt``), a source of
a driver that can fail by itself (``driver:libvirt/pci``), the operator's provider files
(``files``) or the agent (``agent``).  Kubernetes calls it a field manager.

A *claim* of an owner is that a provider exists (with its name and its parent),
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
from typing import NamedTuple

from reportclient.model import Provider
from reportclient.provider_tree import NONE, NOTHING, Claims
from reportclient.snapshot import changed_keys
from reportclient.view import View

DRIVER = "driver:"
"""Prefix of owners that are drivers or their sources."""
AGENT = "agent"
STATUS = "agent/status"
"""The agent as owner of COMPUTE_STATUS_DISABLED: without an answer while the status is unknown."""
FILES = "files"
REPLACED = "nova-compute"
"""The service that this one has replaced, mostly nova-compute: see ``Policy.takes_over``."""
ADOPTED = "adopted"
"""Owner of providers that an operator adopted (``computectl adopt``).  It never claims anything:
an adopted provider is removed once all drivers have answered and none has reported it."""
RESTORED = "restored"
"""Owner of removed claims that a restored, older Placement has again."""
OWN_UUID = "own-uuid"
"""Owner of providers that no ledger has, but whose UUID is this agent's; never saved."""
MOST_REMOVED = 256
"""Providers per root whose removed claims are remembered; beyond it the oldest are dropped."""


def everything_on(provider: Provider) -> Claims:
    """Return all claims that a provider allows, except those of its aggregates."""
    return Claims(True, frozenset(provider.inventory), provider.traits)


def adopted_on(provider: Provider) -> Claims:
    """Return the claims that adopting a provider takes over from the service that reported it.

    Of its traits only COMPUTE_* are certainly that service's: others may be an operator's.
    """
    traits = frozenset(name for name in provider.traits if name.startswith("COMPUTE_"))
    return everything_on(provider)._replace(traits=traits)


def joined(claims: Iterable[Claims]) -> Claims:
    """Return all of these claims in one."""
    return reduce(Claims.joined, claims, NONE)


ClaimsByOwner = Mapping[str, Claims]
"""Claims on one provider, by owner."""


class Removed(NamedTuple):
    """Claims that were removed from one provider.

    ``generation`` is the provider's first known one without them, ``None`` if the provider itself
    was deleted.
    """

    generation: int | None
    claims: Claims


@dataclass(frozen=True, slots=True)
class Ledger:
    """The claims of all owners in one root's tree; ``claims`` is by provider UUID.

    ``accepted`` are this agent's traits on another service's root that Placement has had.
    ``known`` is false if no ledger was saved for this root yet, or it was lost: owners may then own
    claims that are not recorded here.  ``removed`` are the claims that were removed, by provider
    UUID.  ``leaving`` are the providers that nothing here reported in the last period.
    """

    claims: Mapping[str, ClaimsByOwner] = field(default_factory=dict)
    accepted: frozenset[str] = NOTHING
    known: bool = False
    removed: Mapping[str, Removed] = field(default_factory=dict)
    leaving: frozenset[str] = NOTHING

    def claims_on(self, uuid: str) -> ClaimsByOwner:
        """Return the claims on a provider, by owner."""
        return self.claims.get(uuid, {})

    def claims_of(self, uuid: str, owner: str) -> Claims:
        """Return the claims of one owner on a provider."""
        return self.claims_on(uuid).get(owner, NONE)

    def owners(self) -> set[str]:
        """Return all owners with claims."""
        return set[str]().union(*self.claims.values())

    def claims_by(self, owner: str) -> Mapping[str, Claims]:
        """Return the claims of one owner, by provider UUID."""
        return {uuid: row[owner] for uuid, row in self.claims.items() if owner in row}

    def changed_since(self, old: "Ledger") -> list[str]:
        """Return the UUIDs of the providers whose claims differ from those in ``old``."""
        return changed_keys(self.claims, old.claims)

    def owns(self, uuid: str) -> bool:
        """Return whether an owner claims that the provider exists."""
        return any(held.provider for held in self.claims_on(uuid).values())

    def others_on(self, provider: Provider) -> Claims:
        """Return what this agent's provider has that none of its owners claims.

        Nothing for a provider without a row in the ledger, which is this agent's by its UUID.
        """
        row = self.claims_on(provider.uuid)
        everything = everything_on(provider)._replace(aggregates=provider.aggregates)
        return everything.without(joined(row.values()))._replace(provider=False) if row else NONE

    def foreign_classes(self, provider: Provider) -> frozenset[str]:
        """Return the classes of this agent's provider that none of its owners claims."""
        return self.others_on(provider).classes

    def with_accepted(self, root: Provider | None) -> "Ledger":
        """Return the ledger with the claimed traits that ``root``, another service's, has now."""
        if root is None:
            return self
        own = joined(self.claims_on(root.uuid).values()).traits & root.traits
        return replace(self, accepted=self.accepted | own)

    def adding(self, owner: str, uuid: str, claims: Claims) -> "Ledger":
        """Return the ledger with claims of one owner added."""
        before = self.claims_on(uuid)
        row = {**before, owner: before.get(owner, NONE).joined(claims)}
        return replace(self, claims={**self.claims, uuid: row})

    def with_restored(self, view: View, root: str) -> "Ledger":
        """Return the ledger with the removed claims that Placement has again, as RESTORED's."""
        ledger = self
        for uuid, removed in self.removed.items():
            if uuid not in view.snapshot:
                continue
            if view.snapshot.root_of(uuid) != root and not ledger.owns(uuid):
                continue
            now = view.generations.get(uuid, 0)
            if removed.generation is None or now <= removed.generation:
                back = removed.claims.within(view.snapshot.providers[uuid])
                if now == removed.generation:  # old microversions set aggregates without a new one
                    back = back._replace(aggregates=NOTHING)
                back = back.without(joined(ledger.claims_on(uuid).values()))
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
            elif (absent := old.claims.without(old.claims.within(provider))) != NONE:
                removed[uuid] = Removed(now, absent)
        for uuid in (uuid for uuid in self.changed_since(before) if uuid != theirs):
            row = before.claims_on(uuid).items()
            held = joined(held for owner, held in row if driver_of(owner) != AGENT)
            absent = held.joined(removed.pop(uuid, Removed(None, NONE)).claims)
            absent = absent.without(absent.within(view.snapshot.get(uuid)))
            absent = absent.without(joined(self.claims_on(uuid).values()))
            if absent != NONE:
                removed[uuid] = Removed(view.generations.get(uuid), absent)
        removed = dict(islice(removed.items(), max(0, len(removed) - MOST_REMOVED), None))
        return self if removed == self.removed else replace(self, removed=removed)


def driver_of(owner: str) -> str:
    """Return the driver of a source: ``driver:libvirt`` for ``driver:libvirt/pci``."""
    return owner.partition("/")[0]


def owner_text(owner: str) -> str:
    """Return an owner as messages name it: ``driver libvirt`` for ``driver:libvirt/pci``."""
    return driver_of(owner).replace(":", " ")
