"""Limits of assertions: on which provider a manager may claim what.  Pure.

On an own root everything.  On a root of another service (``attached``) only traits, and
below it only what this agent made.  Of a sharing provider that somebody else made,
nothing.  No other root that shares nothing.  What is the agent's own (the disabled status,
the owner's trait) nobody else asserts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from agent.ownership.ledger import (
    AGENT,
    FILES,
    NONE,
    NOTHING,
    Holding,
    Ledger,
    driver_of,
    joined,
    manager_text,
)
from agent.ownership.statement import Assertion
from reportclient.model import Provider
from reportclient.snapshot import Snapshot

DISABLED = "COMPUTE_STATUS_DISABLED"
MANAGED_BY_NOVA = "COMPUTE_MANAGED_PCI_DEVICE"
"""Nova removes each provider that has it and is not of its own making, or, with ``[pci]
report_in_placement`` off, refuses to start: never set beside another owner, on nothing."""


@dataclass(frozen=True, slots=True)
class Policy:
    """For the tree of one root.  ``reserved`` are traits that only the agent asserts,
    ``agent_traits`` those that no driver removes by name.
    """

    root: str
    attached: bool = False
    reserved: frozenset[str] = frozenset({DISABLED})
    foreign: frozenset[str] = frozenset()
    """Sharing providers that no agent of ours made."""
    takes_over: bool = False
    """Whether nova-compute reported the root until now: there is evidence for it, and this agent
    has never run with this state directory."""
    repeats_only: bool = False
    """Whether no ledger can be written: then nothing is claimed that the last one lacks."""
    agent_traits: frozenset[str] = frozenset({DISABLED})
    contested: frozenset[tuple[str, str]] = frozenset()
    """Names on providers that a driver denies and another service sets again: left for now."""

    def allowed(
        self, manager: str, said: Assertion, observed: Snapshot, ledger: Ledger
    ) -> tuple[Assertion | None, list[str]]:
        """Return the part of an assertion that counts, and a reason for each part that does not."""
        before, problems = observed.get(said.provider.uuid), list[str]()
        if self.repeats_only:
            said = _repeated(manager, said, ledger)
            if said.holding == NONE:
                return None, []
        if driver_of(manager) != AGENT:
            said, problems = self._without_reserved(manager, said, before)
        if before is None:
            reason = self._no_new_root(said.provider)
            return (None, [*problems, reason]) if reason else (said, problems)
        if manager == FILES:
            said = _beside_others(said, before, ledger)
        reason = self._not_ours(before, ledger)
        if reason:
            return None, [*problems, reason] if _differs(before, said) else problems
        if self.attached and not ledger.is_ours(before.uuid):
            return self._beside_owner(manager, said, before, ledger, problems)
        return said, problems

    def _not_ours(self, provider: Provider, ledger: Ledger) -> str | None:
        if provider.uuid in self.foreign:
            return "not changed: sharing provider of another service"
        if self.attached or not self._is_foreign(provider, ledger):
            return None
        return (
            "not changed: created by another service (to take it over: computectl adopt "
            f"{provider.uuid}, or ProviderTree.adopt in the driver)"
        )

    def _is_foreign(self, provider: Provider, ledger: Ledger) -> bool:
        """Below the root, and of nobody here; where no ledger was kept that can't be known."""
        is_root = provider.parent_uuid is None or provider.uuid == self.root
        return ledger.begun and not is_root and not ledger.is_ours(provider.uuid)

    def may_drop(self, uuid: str) -> bool:
        """Whether more than traits can be taken from a provider that is there."""
        return not (self.attached and uuid == self.root) and uuid not in self.foreign

    def may_move(self, uuid: str, ledger: Ledger) -> bool:
        """Whether allocations may be taken from, and brought to, a provider that is there."""
        if uuid == self.root:
            return not self.attached
        return uuid not in self.foreign and bool(ledger.holdings_on(uuid))

    def _without_reserved(
        self, manager: str, said: Assertion, before: Provider | None
    ) -> tuple[Assertion, list[str]]:
        reserved = said.holding.traits & self.reserved
        if not reserved and not self.attached:
            return said, []
        never = {MANAGED_BY_NOVA} if self.attached else NOTHING
        traits = said.holding.traits - reserved - never
        there = NOTHING if before is None else before.traits
        told = [
            f"{name} of {manager_text(manager)} ignored: only the agent sets this trait"
            for name in sorted(reserved & {DISABLED} - there)
        ]
        return Assertion(said.holding._replace(traits=traits), said.provider), told

    def _no_new_root(self, provider: Provider) -> str | None:
        if provider.parent_uuid is not None or provider.uuid == self.root:
            return None
        if self.attached:
            return "not created: [compute] root_provider = attach allows no root of its own"
        if not provider.shares:
            return (
                "not created: a second root has to share what it has; make it a child of the root, "
                "or give it the trait MISC_SHARES_VIA_AGGREGATE and an aggregate"
            )
        return None

    def _beside_owner(
        self, manager: str, said: Assertion, before: Provider, ledger: Ledger, problems: list[str]
    ) -> tuple[Assertion | None, list[str]]:
        problems = [*problems, *self._owners(said, before)]
        if before.uuid != self.root or manager == FILES:
            return None, problems
        # What was there before is its owner's, also if a driver says the same.
        held = ledger.holding_of(before.uuid, manager).traits
        traits = said.holding.traits - (before.traits - held)
        gone = traits & ledger.seen - before.traits
        problems += [
            f"{name} not set again: the owner of this root removed it" for name in sorted(gone)
        ]
        holding = Holding(traits=traits - gone)
        return (None if holding == NONE else Assertion(holding, said.provider)), problems

    def _owners(self, said: Assertion, before: Provider) -> Iterator[str]:
        holding, wanted = said.holding, said.provider
        other = [name for name in sorted(holding.classes) if not _says(wanted, before, name)]
        if other:
            yield f"{', '.join(other)} not reported: the inventory is the owner's of this root"
        if holding.aggregates - before.aggregates:
            yield "aggregates not changed: they are the owner's of this root"


def _repeated(manager: str, said: Assertion, ledger: Ledger) -> Assertion:
    """Return the part of an assertion that a manager holds; the agent's own traits always count."""
    uuid, holding = said.provider.uuid, said.holding
    held = joined(ledger.holdings_on(uuid).values())
    if driver_of(manager) == AGENT and ledger.is_ours(uuid):
        held = held.joined(Holding(traits=holding.traits))
    return said._replace(holding=holding.without(holding.without(held)))


def _beside_others(said: Assertion, before: Provider, ledger: Ledger) -> Assertion:
    """Return a file's assertion without traits that were there before it."""
    held = joined(ledger.holdings_on(before.uuid).values()).traits
    foreign = said.holding.traits & before.traits - held
    return said._replace(holding=said.holding._replace(traits=said.holding.traits - foreign))


def _differs(before: Provider, said: Assertion) -> bool:
    holding, wanted = said.holding, said.provider
    if holding.within(before) != holding or not all(
        _says(wanted, before, name) for name in holding.classes
    ):
        return True
    placed = (wanted.name, wanted.parent_uuid) == (before.name, before.parent_uuid)
    return holding.provider and not (placed and before.inventory.keys() <= wanted.inventory.keys())


def _says(wanted: Provider, before: Provider, name: str) -> bool:
    """Whether what is there has all that a record says."""
    there = before.inventory.get(name)
    return there is not None and wanted.inventory[name].with_defaults(there) == there
