"""The ledger: what each manager asserted last.  Pure.

A *manager* is whoever asserts something about providers: ``driver:libvirt``, or finer
``driver:libvirt/pci`` where a source of a driver can fail by itself; ``files``, the
operator's provider files; ``agent``.  Kubernetes calls it a field manager.

What a manager asserts is a *claim*: that a provider is there (with its name and its
parent), or that it has a resource class, a trait, an aggregate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import or_, sub
from typing import NamedTuple

from reportclient.model import Provider
from reportclient.snapshot import changed_keys

DRIVER = "driver:"
"""How the managers begin that are drivers, or sources of theirs."""
AGENT = "agent"
STATUS = "agent/status"
"""The agent again, for the one trait that it may not know how to set."""
FILES = "files"
NOVA_COMPUTE = "nova-compute"
"""The nova-compute that reported the providers of this host before: see ``Policy.takes_over``."""
ADOPTED = "adopted"
"""Whoever made what an operator took over (``computectl adopt``); it answers nothing, so that
it goes once all have answered and nobody reports it."""
RESTORED = "restored"
"""Whoever asserted what this host had removed, and an older state of Placement has again."""
OWN_UUID = "own-uuid"
"""Whoever asserted what is this host's by its UUID, but stands in no ledger; never kept."""
NOTHING: frozenset[str] = frozenset()


class Holding(NamedTuple):
    """The claims of one manager on one provider; ``provider``: that it is there at all."""

    provider: bool = False
    classes: frozenset[str] = NOTHING
    traits: frozenset[str] = NOTHING
    aggregates: frozenset[str] = NOTHING

    def joined(self, other: "Holding") -> "Holding":
        """The claims of both."""
        if other in (self, NONE):
            return self
        return Holding(self[0] or other[0], *map(or_, self[1:], other[1:]))

    def without(self, other: "Holding") -> "Holding":
        """The claims that ``other`` does not have."""
        if other == NONE:
            return self
        return Holding(self[0] and not other[0], *map(sub, self[1:], other[1:]))

    def within(self, provider: Provider | None) -> "Holding":
        """The claims that Placement has."""
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
    """All that can be claimed of a provider, but for its aggregates."""
    return Holding(True, frozenset(provider.inventory), provider.traits)


def joined(holdings: Iterable[Holding]) -> Holding:
    """The claims of all of them."""
    result = NONE
    for one in holdings:
        result = one if result is NONE else result.joined(one)
    return result


Holders = Mapping[str, Holding]
"""Holdings on one provider, by manager."""


class Removed(NamedTuple):
    """Claims on one provider that were given up; at ``generation`` it was seen without them.

    ``None``: it was not there at all.
    """

    generation: int | None
    holding: Holding


@dataclass(frozen=True, slots=True)
class Ledger:
    """``holders`` by the UUID of the provider.

    ``seen`` are the traits of this agent on another service's root that Placement was
    seen with.  ``begun`` is false where nothing was ever kept for this root, or it was lost:
    then a manager may have had claims that are not in here.  ``removed`` is
    :mod:`agent.ownership.removed`'s.
    """

    holders: Mapping[str, Holders] = field(default_factory=dict)
    seen: frozenset[str] = NOTHING
    begun: bool = False
    removed: Mapping[str, Removed] = field(default_factory=dict)

    def holdings_on(self, uuid: str) -> Holders:
        """Return the holdings on a provider, by manager."""
        return self.holders.get(uuid, {})

    def holding_of(self, uuid: str, manager: str) -> Holding:
        """Return the holding of one manager on a provider."""
        return self.holdings_on(uuid).get(manager, NONE)

    def managers(self) -> set[str]:
        """All that hold anything."""
        return set[str]().union(*self.holders.values())

    def changed_since(self, old: "Ledger") -> list[str]:
        """UUIDs of the providers of which other claims are held than in ``old``."""
        return changed_keys(self.holders, old.holders)

    def is_ours(self, uuid: str) -> bool:
        """Whether some manager asserted that the provider is there."""
        return any(held.provider for held in self.holdings_on(uuid).values())

    def foreign_classes(self, provider: Provider) -> frozenset[str]:
        """The classes of a provider of ours that nobody here asserted; none where it is ours by
        its UUID alone.
        """
        row = self.holdings_on(provider.uuid)
        ours = joined(row.values()).classes if row else frozenset(provider.inventory)
        return frozenset(provider.inventory) - ours

    def seen_on(self, root: Provider | None) -> "Ledger":
        """The same once Placement was seen with what is ours on another service's root."""
        if root is None:
            return self
        ours = joined(self.holdings_on(root.uuid).values()).traits & root.traits
        return self if ours <= self.seen else replace(self, seen=self.seen | ours)

    def adding(self, manager: str, uuid: str, holding: Holding) -> "Ledger":
        """This ledger with claims of one manager added."""
        before = self.holdings_on(uuid)
        row = {**before, manager: before.get(manager, NONE).joined(holding)}
        return replace(self, holders={**self.holders, uuid: row})


def driver_of(manager: str) -> str:
    """``driver:libvirt`` for ``driver:libvirt/pci``."""
    return manager.partition("/")[0]


def manager_text(manager: str) -> str:
    """``driver libvirt`` for ``driver:libvirt/pci``, for whoever reads it."""
    return driver_of(manager).replace(":", " ")
