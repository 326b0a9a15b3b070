"""The desired state of one provider, and the managers that hold it.  Pure."""

from collections.abc import Iterator
from dataclasses import replace

from agent.ownership.ledger import (
    AGENT,
    FILES,
    NONE,
    NOVA_COMPUTE,
    OWN_UUID,
    Holders,
    Holding,
    driver_of,
    joined,
    manager_text,
)
from agent.ownership.settlement import STAND_INS, Settlement
from agent.ownership.statement import Assertion
from reportclient.model import Inventory, Provider


class ProviderSettlement:
    """One provider in a settlement.  Call :meth:`after` first: it sets ``owners``."""

    def __init__(self, settlement: Settlement, uuid: str) -> None:
        self.settlement, self.uuid = settlement, uuid
        self.before = settlement.observed.get(uuid)
        self.holders = settlement.ledger.holdings_on(uuid)
        self.assertions = settlement.assertions.get(uuid, [])
        stand_ins = frozenset[str]() if settlement.is_reported(uuid) else STAND_INS
        self.silent_managers = settlement.silent_managers | stand_ins
        self.silent_claims = joined(
            held for manager, held in self.holders.items() if manager in self.silent_managers
        )
        answered = joined(
            held for manager, held in self.holders.items() if manager not in self.silent_managers
        )
        self.asserted = joined(assertion.holding for _, assertion in self.assertions)
        self.released = answered.without(self.silent_claims).without(self.asserted)
        self.owners: dict[str, str] = {}
        """The manager that owns each class, and under the empty name the provider itself."""

    def after(self) -> Provider | None:
        """Return the desired provider, or ``None`` if it is neither observed nor asserted."""
        places = list(self._places())
        if self.before is None and not places:
            return None
        owner, place = places[0] if places else ("", self.before)
        assert place is not None
        before = self.before or Provider(self.uuid, place.name, place.parent_uuid)
        self._settle_place(before, owner, place, places)
        gone, added, denied = self.released, self.asserted, self.settlement.denied(self.uuid)
        return Provider(
            self.uuid,
            place.name,
            place.parent_uuid,
            self._inventory(before),
            (before.traits - gone.traits | added.traits) - denied.traits,
            (before.aggregates - gone.aggregates | added.aggregates) - denied.aggregates,
        )

    def is_leaving(self) -> bool:
        """Return whether the provider is to be removed: not while silent managers claim it."""
        policy, waiting = self.settlement.policy, self.settlement.answers.waiting
        is_gone = self.before is not None and self.released.provider
        if not is_gone or self.uuid == policy.root or not policy.may_drop(self.uuid):
            return False
        silent_holders = self.holders.keys() & self.silent_managers - STAND_INS
        return bool(waiting) or all(driver_of(manager) == AGENT for manager in silent_holders)

    def row(self) -> Holders:
        """Return the new holders.  Released claims stay until Placement no longer has them."""
        silent_managers = self.settlement.silent_managers
        now = {manager: self._owned_by(manager, each.holding) for manager, each in self.assertions}
        known = (
            held for manager, held in self.holders.items() if manager in silent_managers - STAND_INS
        )
        still_claimed = joined([self.asserted, *known])
        for manager, held in self.holders.items():
            if manager in silent_managers:
                left = held.without(still_claimed) if manager == NOVA_COMPUTE else held
            elif now.get(manager) == held:
                continue
            else:
                # The provider is created again, and read afterwards: keep what may still exist.
                is_missed = self.before is None and still_claimed.provider
                left = (held if is_missed else held.within(self.before)).without(still_claimed)
            now[manager] = now.get(manager, NONE).joined(left)
        return {
            manager: held for manager, held in now.items() if held != NONE and manager != OWN_UUID
        }

    # -- who owns the provider

    def _places(self) -> Iterator[tuple[str, Provider]]:
        """Yield the managers that assert a name and parent, with both; the first one decides."""
        asserted = ((manager, each) for manager, each in self.assertions if each.holding.provider)
        places = {manager: assertion.provider for manager, assertion in asserted}
        silent = self.silent_managers - STAND_INS
        owners = (
            manager for manager, held in self.holders.items() if held.provider and manager in silent
        )
        owner = None if self.before is None else next(owners, None)
        if owner is not None and self.before is not None:
            yield owner, places.pop(owner, self.before)
        yield from places.items()

    def _settle_place(
        self, before: Provider, owner: str, place: Provider, places: list[tuple[str, Provider]]
    ) -> None:
        if places:
            self.owners[""] = owner
        for manager, other in places[1:]:
            if (other.name, other.parent_uuid) != (place.name, place.parent_uuid):
                text = (
                    f"name and parent of {manager_text(manager)} ignored: {manager_text(owner)} "
                    "reports this provider"
                )
                self.settlement.add_problem(before, text)

    def _owned_by(self, manager: str, asserted: Holding) -> Holding:
        """Return asserted claims without those that another manager owns."""
        owners = self.owners
        classes = frozenset(
            name for name in asserted.classes if owners.get(name, manager) == manager
        )
        provider = asserted.provider and owners.get("", manager) == manager
        return asserted._replace(provider=provider, classes=classes)

    # -- who owns its classes

    def _inventory(self, before: Provider) -> dict[str, Inventory]:
        after = dict(before.inventory)
        if self.settlement.policy.may_drop(self.uuid):
            for name in self.released.classes & after.keys():
                del after[name]
        for name in self.silent_claims.classes & after.keys():
            holders = (manager for manager, held in self.holders.items() if name in held.classes)
            self.owners[name] = next(
                manager for manager in holders if manager in self.silent_managers
            )
        for manager, assertion in self.assertions:
            for name in assertion.holding.classes:
                self._claim(name, manager, assertion, before, after)
        return after

    def _claim(
        self,
        name: str,
        manager: str,
        assertion: Assertion,
        before: Provider,
        after: dict[str, Inventory],
    ) -> None:
        """Take a manager's record of a class into ``after``, unless an earlier manager owns it."""
        owner, record = self.owners.get(name, manager), assertion.provider.inventory[name]
        yields = (
            owner in self.settlement.silent_managers
            and self.settlement.answers.takes_precedence(manager, owner)
        )
        if owner != manager and not yields:
            self._compare(name, manager, record, before, after[name])
        elif manager == FILES and self._is_foreign(name, before):
            self._refuse_file_class(name, before)
        else:
            after[name], self.owners[name] = self._record(name, record, before), manager

    def _record(self, name: str, asserted: Inventory, before: Provider) -> Inventory:
        """Return an asserted record with the missing fields of the observed one.

        A drained class gets the ``reserved`` that it had before.
        """
        observed = before.inventory.get(name)
        reserved = self.settlement.drained.get(self.uuid, {}).get(name)
        if observed is not None and reserved is not None:
            observed = replace(observed, reserved=min(reserved, asserted.total))
        return asserted.with_defaults(observed)

    def _is_foreign(self, name: str, before: Provider) -> bool:
        held = any(name in held.classes for held in self.holders.values())
        return name in before.inventory and not held

    def _compare(
        self, name: str, manager: str, asserted: Inventory, before: Provider, current: Inventory
    ) -> None:
        owner = self.owners[name]
        if driver_of(manager) == driver_of(owner):
            return
        if manager == FILES:
            self._refuse_file_class(name, before)
        elif asserted.with_defaults(current) != current:
            owns, other = manager_text(owner), manager_text(manager)
            self.settlement.add_problem(
                before,
                f"{name} of {other} ignored: {owns}, which is before it in compute_driver, "
                "reports another inventory",
            )

    def _refuse_file_class(self, name: str, before: Provider) -> None:
        place = self.settlement.place_in_files(self.uuid, name)
        self.settlement.add_problem(
            before,
            f"{place}: {name} of the file ignored: a driver reports it, or another service has "
            "set it; remove it from the file, or from Placement",
        )
