"""Limits of assertions: on which provider a manager may claim what.  Pure.

- On this agent's own root everything, and below it on all providers but those that another
  service created.
- On a root of another service (``attached``) only traits, and below it only what this agent
  created.
- On a sharing provider of another service nothing.
- A second root is allowed only if it shares its inventory.
- The agent's own traits (the disabled status) are the agent's only.
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
"""Nova removes each provider with this trait that it did not create; with ``[pci]
report_in_placement`` off it refuses to start.  So in attach mode no provider gets it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits in one root's tree.

    ``reserved`` are the traits that only the agent sets, ``agent_traits`` those that no driver
    can remove by name.
    """

    root: str
    attached: bool = False
    reserved: frozenset[str] = frozenset({DISABLED})
    foreign: frozenset[str] = frozenset()
    """UUIDs of sharing providers that another service created."""
    takes_over: bool = False
    """Whether nova-compute reported the root until now: the root looks so, and this agent has never
    run with this state directory."""
    repeats_only: bool = False
    """Whether no ledger can be written: then only claims of the last ledger count."""
    agent_traits: frozenset[str] = frozenset({DISABLED})
    contested: frozenset[tuple[str, str]] = frozenset()
    """Denials that another service undoes: not removed in this period."""

    def allowed(
        self, manager: str, assertion: Assertion, observed: Snapshot, ledger: Ledger
    ) -> tuple[Assertion | None, list[str]]:
        """Return the part of an assertion that counts, and a reason for each part that does not."""
        before, problems = observed.get(assertion.provider.uuid), list[str]()
        if self.repeats_only:
            assertion = _repeated(manager, assertion, ledger)
            if assertion.holding == NONE:
                return None, []
        if driver_of(manager) != AGENT:
            assertion, problems = self._without_reserved(manager, assertion, before)
        if before is None:
            reason = self._no_new_root(assertion.provider)
            return (None, [*problems, reason]) if reason else (assertion, problems)
        if manager == FILES:
            assertion = _beside_others(assertion, before, ledger)
        reason = self._not_ours(before, ledger)
        if reason:
            return None, [*problems, reason] if _differs(before, assertion) else problems
        if self.attached and not ledger.is_ours(before.uuid):
            return self._beside_owner(manager, assertion, before, ledger, problems)
        return assertion, problems

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
        """Return whether another service owns a provider below the root; false without a ledger."""
        is_root = provider.parent_uuid is None or provider.uuid == self.root
        return ledger.begun and not is_root and not ledger.is_ours(provider.uuid)

    def may_drop(self, uuid: str) -> bool:
        """Return whether a provider, or more of it than traits, may be removed."""
        return not (self.attached and uuid == self.root) and uuid not in self.foreign

    def may_move(self, uuid: str, ledger: Ledger) -> bool:
        """Return whether a reshape may move allocations from and to an observed provider."""
        if uuid == self.root:
            return not self.attached
        return uuid not in self.foreign and bool(ledger.holdings_on(uuid))

    def _without_reserved(
        self, manager: str, assertion: Assertion, before: Provider | None
    ) -> tuple[Assertion, list[str]]:
        reserved = assertion.holding.traits & self.reserved
        if not reserved and not self.attached:
            return assertion, []
        never = {MANAGED_BY_NOVA} if self.attached else NOTHING
        traits = assertion.holding.traits - reserved - never
        observed = NOTHING if before is None else before.traits
        reasons = [
            f"{name} of {manager_text(manager)} ignored: only the agent sets this trait"
            for name in sorted(reserved & {DISABLED} - observed)
        ]
        return Assertion(assertion.holding._replace(traits=traits), assertion.provider), reasons

    def _no_new_root(self, provider: Provider) -> str | None:
        if provider.parent_uuid is not None or provider.uuid == self.root:
            return None
        if self.attached:
            return "not created: [compute] root_provider = attach allows no other root provider"
        if not provider.shares:
            return (
                "not created: a second root provider has to be a sharing provider; make it a child "
                "of the root, or give it the trait MISC_SHARES_VIA_AGGREGATE and an aggregate"
            )
        return None

    def _beside_owner(
        self,
        manager: str,
        assertion: Assertion,
        before: Provider,
        ledger: Ledger,
        problems: list[str],
    ) -> tuple[Assertion | None, list[str]]:
        problems = [*problems, *self._owners(assertion, before)]
        if before.uuid != self.root or manager == FILES:
            return None, problems
        # A trait that the root had before is its owner's, also if a driver asserts it.
        held = ledger.holding_of(before.uuid, manager).traits
        traits = assertion.holding.traits - (before.traits - held)
        removed = traits & ledger.seen - before.traits
        problems += [
            f"{name} not set again: the owner of this root removed it" for name in sorted(removed)
        ]
        holding = Holding(traits=traits - removed)
        return (None if holding == NONE else Assertion(holding, assertion.provider)), problems

    def _owners(self, assertion: Assertion, before: Provider) -> Iterator[str]:
        holding, wanted = assertion.holding, assertion.provider
        other = [name for name in sorted(holding.classes) if not _has_record(wanted, before, name)]
        if other:
            names = ", ".join(other)
            yield f"{names} not reported: another service owns this root and its inventory"
        if holding.aggregates - before.aggregates:
            yield "aggregates not changed: another service owns this root"


def _repeated(manager: str, assertion: Assertion, ledger: Ledger) -> Assertion:
    """Return the part of an assertion that the ledger has, or that is the agent's own traits."""
    uuid, holding = assertion.provider.uuid, assertion.holding
    held = joined(ledger.holdings_on(uuid).values())
    if driver_of(manager) == AGENT and ledger.is_ours(uuid):
        held = held.joined(Holding(traits=holding.traits))
    return assertion._replace(holding=holding.without(holding.without(held)))


def _beside_others(assertion: Assertion, before: Provider, ledger: Ledger) -> Assertion:
    """Return a provider file's assertion without traits that another service has set."""
    held = joined(ledger.holdings_on(before.uuid).values()).traits
    foreign = assertion.holding.traits & before.traits - held
    return assertion._replace(
        holding=assertion.holding._replace(traits=assertion.holding.traits - foreign)
    )


def _differs(before: Provider, assertion: Assertion) -> bool:
    holding, wanted = assertion.holding, assertion.provider
    if holding.within(before) != holding or not all(
        _has_record(wanted, before, name) for name in holding.classes
    ):
        return True
    placed = (wanted.name, wanted.parent_uuid) == (before.name, before.parent_uuid)
    return holding.provider and not (placed and before.inventory.keys() <= wanted.inventory.keys())


def _has_record(wanted: Provider, before: Provider, name: str) -> bool:
    """Return whether the observed record of a class has all values of the wanted one."""
    observed = before.inventory.get(name)
    return observed is not None and wanted.inventory[name].with_defaults(observed) == observed
