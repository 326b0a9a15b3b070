"""The desired state of one provider, and its holders.  Pure."""

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
    """A provider of a settlement.  Call :meth:`after` first: it decides who owns each class."""

    def __init__(self, settlement: Settlement, uuid: str) -> None:
        self.settlement, self.uuid = settlement, uuid
        self.before = settlement.observed.get(uuid)
        self.holders, self.sayings = (
            settlement.ledger.holdings_on(uuid),
            settlement.assertions.get(uuid, []),
        )
        unheard = frozenset[str]() if settlement.is_spoken_of(uuid) else STAND_INS
        self.quiet = settlement.quiet | unheard
        self.silent = joined(held for who, held in self.holders.items() if who in self.quiet)
        heard = joined(held for who, held in self.holders.items() if who not in self.quiet)
        self.asserted = joined(said.holding for _, said in self.sayings)
        self.released = heard.without(self.silent).without(self.asserted)
        self.owners: dict[str, str] = {}
        """Whose a class is, or (without a class) the provider."""

    def after(self) -> Provider | None:
        """Return the desired provider, or ``None`` if it is neither observed nor asserted."""
        places = list(self._places())
        if self.before is None and not places:
            return None
        owner, place = places[0] if places else ("", self.before)
        assert place is not None
        before = self.before or Provider(self.uuid, place.name, place.parent_uuid)
        self._settle_place(before, owner, place, places)
        gone, said, denied = self.released, self.asserted, self.settlement.denied(self.uuid)
        return Provider(
            self.uuid,
            place.name,
            place.parent_uuid,
            self._inventory(before),
            (before.traits - gone.traits | said.traits) - denied.traits,
            (before.aggregates - gone.aggregates | said.aggregates) - denied.aggregates,
        )

    def is_leaving(self) -> bool:
        """Whether it goes: not while somebody who can't be asked has something on it."""
        policy, waiting = self.settlement.policy, self.settlement.answers.waiting
        is_gone = self.before is not None and self.released.provider
        if not is_gone or self.uuid == policy.root or not policy.may_drop(self.uuid):
            return False
        missed = self.holders.keys() & self.quiet - STAND_INS
        return bool(waiting) or all(driver_of(who) == AGENT for who in missed)

    def row(self) -> Holders:
        """Return the new holders.  Released claims stay until Placement is seen without them."""
        quiet = self.settlement.quiet
        now = {who: self._won_by(who, said.holding) for who, said in self.sayings}
        known = (held for who, held in self.holders.items() if who in quiet - STAND_INS)
        kept = joined([self.asserted, *known])
        for who, held in self.holders.items():
            if who in quiet:
                left = held.without(kept) if who == NOVA_COMPUTE else held
            elif now.get(who) == held:
                continue
            else:
                # What is not there now may only have been missed; it is to be made, and then seen.
                is_missed = self.before is None and kept.provider
                left = (held if is_missed else held.within(self.before)).without(kept)
            now[who] = now.get(who, NONE).joined(left)
        return {who: held for who, held in now.items() if held != NONE and who != OWN_UUID}

    # -- whose the provider is

    def _places(self) -> Iterator[tuple[str, Provider]]:
        """Yield managers that assert a name and parent, with both; the first one decides."""
        placing = {who: said.provider for who, said in self.sayings if said.holding.provider}
        known = self.quiet - STAND_INS
        keepers = (who for who, held in self.holders.items() if held.provider and who in known)
        keeper = None if self.before is None else next(keepers, None)
        if keeper is not None and self.before is not None:
            yield keeper, placing.pop(keeper, self.before)
        yield from placing.items()

    def _settle_place(
        self, before: Provider, owner: str, place: Provider, places: list[tuple[str, Provider]]
    ) -> None:
        if places:
            self.owners[""] = owner
        for who, other in places[1:]:
            if (other.name, other.parent_uuid) != (place.name, place.parent_uuid):
                text = (
                    f"name and parent of {manager_text(who)} ignored: {manager_text(owner)} "
                    "reports this provider"
                )
                self.settlement.problem(before, text)

    def _won_by(self, who: str, said: Holding) -> Holding:
        """Return an assertion without the claims that another manager owns."""
        classes = frozenset(name for name in said.classes if self.owners.get(name, who) == who)
        provider = said.provider and self.owners.get("", who) == who
        return said._replace(provider=provider, classes=classes)

    # -- whose its classes are

    def _inventory(self, before: Provider) -> dict[str, Inventory]:
        after = dict(before.inventory)
        if self.settlement.policy.may_drop(self.uuid):
            for name in self.released.classes & after.keys():
                del after[name]
        for name in self.silent.classes & after.keys():
            holders = (who for who, held in self.holders.items() if name in held.classes)
            self.owners[name] = next(who for who in holders if who in self.quiet)
        for who, said in self.sayings:
            for name in said.holding.classes:
                self._claim(name, who, said, before, after)
        return after

    def _claim(
        self, name: str, who: str, said: Assertion, before: Provider, after: dict[str, Inventory]
    ) -> None:
        """Take over a manager's record of a class, unless an earlier manager owns the class."""
        owner, record = self.owners.get(name, who), said.provider.inventory[name]
        yields = owner in self.settlement.quiet and self.settlement.answers.takes_precedence(
            who, owner
        )
        if owner != who and not yields:
            self._compare(name, who, record, before, after[name])
        elif who == FILES and self._is_foreign(name, before):
            self._file_yields(name, before)
        else:
            after[name], self.owners[name] = self._record(name, record, before), who

    def _record(self, name: str, said: Inventory, before: Provider) -> Inventory:
        """With what it leaves unsaid as it is; reserved as it was before it was drained."""
        there = before.inventory.get(name)
        reserved = self.settlement.drained.get(self.uuid, {}).get(name)
        if there is not None and reserved is not None:
            there = replace(there, reserved=min(reserved, said.total))
        return said.with_defaults(there)

    def _is_foreign(self, name: str, before: Provider) -> bool:
        held = any(name in held.classes for held in self.holders.values())
        return name in before.inventory and not held

    def _compare(
        self, name: str, who: str, said: Inventory, before: Provider, there: Inventory
    ) -> None:
        owner = self.owners[name]
        if driver_of(who) == driver_of(owner):
            return
        if who == FILES:
            self._file_yields(name, before)
        elif said.with_defaults(there) != there:
            owns, says = manager_text(owner), manager_text(who)
            self.settlement.problem(
                before,
                f"{name} of {says} ignored: {owns}, which is before it in compute_driver, "
                "reports another inventory",
            )

    def _file_yields(self, name: str, before: Provider) -> None:
        place = self.settlement.place_in_files(self.uuid, name)
        self.settlement.problem(
            before,
            f"{place}: {name} of the file ignored: a driver reports it, or another service has "
            "set it; remove it from the file, or from Placement",
        )
