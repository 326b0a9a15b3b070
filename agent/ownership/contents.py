"""What one provider shall have: traits, aggregates, inventory.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agent.ownership.hearing import UNKNOWN_BEFORE, Hearing, Sayings
from agent.ownership.ledger import FILES, NOTHING, Holding, driver_of, joined, words_for
from agent.ownership.statement import Said
from reportclient.model import Inventory, Provider


@dataclass(frozen=True, slots=True)
class Contents:
    """Notes in the hearing whose each class is from now on."""

    hearing: Hearing

    def of(
        self,
        before: Provider,
        released: Holding,
        silent: Holding,
        sayings: Sayings,
    ) -> Provider:
        """The provider less what is released, with what is asserted."""
        traits, aggregates = before.traits, before.aggregates
        asserted = joined(said.holding for _, said in sayings)
        denied = self._denied(before.uuid)
        if released.traits or denied or not asserted.traits <= traits:
            traits = (traits - released.traits | asserted.traits) - denied
        if released.aggregates or not asserted.aggregates <= aggregates:
            aggregates = aggregates - released.aggregates | asserted.aggregates
        inventory = self._inventory(before, released, silent, sayings)
        return replace(before, inventory=inventory, traits=traits, aggregates=aggregates)

    def _denied(self, uuid: str) -> frozenset[str]:
        return NOTHING.union(
            *(one.denied.get(uuid, NOTHING) for one in self.hearing.answers.statements)
        )

    def _inventory(
        self,
        before: Provider,
        released: Holding,
        silent: Holding,
        sayings: Sayings,
    ) -> Mapping[str, Inventory]:
        after = dict(before.inventory)
        if self.hearing.policy.may_drop(before.uuid):
            for name in released.classes:
                after.pop(name, None)
        for name in silent.classes & after.keys():
            self.hearing.won[before.uuid, name] = self._holder(before, name)
        for who, said in sayings:
            for name in said.holding.classes:
                self._claim(before, name, after, who, said)
        return before.inventory if after == before.inventory else after

    def _claim(
        self, before: Provider, name: str, after: dict[str, Inventory], who: str, said: Said
    ) -> None:
        """One says that the provider has a class: the first in order who does decides."""
        key, record = (before.uuid, name), said.provider.inventory[name]
        owner = self.hearing.won.get(key, who)
        yields = owner in self.hearing.quiet and self.hearing.answers.is_before(who, owner)
        if owner != who and not yields:
            self._compare(before, name, record, after[name], who)
        elif who == FILES and self._is_foreign(before, name):
            self._file_yields(before, name)
        else:
            after[name], self.hearing.won[key] = self._record(before, name, record), who

    def _record(self, before: Provider, name: str, said: Inventory) -> Inventory:
        """With what it leaves unsaid as it is; reserved as it was before it was drained."""
        there, reserved = (
            before.inventory.get(name),
            self.hearing.drained.get(before.uuid, {}).get(name),
        )
        if there is not None and reserved is not None:
            there = replace(there, reserved=min(reserved, said.total))
        full = said.over(there)
        return there if there is not None and full == there and reserved is None else full

    def _holder(self, provider: Provider, name: str) -> str:
        holders = self.hearing.ledger.of(provider.uuid).items()
        quiet = self.hearing.quiet | UNKNOWN_BEFORE
        return next(w for w, h in holders if w in quiet and name in h.classes)

    def _is_foreign(self, before: Provider, name: str) -> bool:
        holders = self.hearing.ledger.of(before.uuid).values()
        return name in before.inventory and not any(name in held.classes for held in holders)

    def _compare(
        self, provider: Provider, name: str, said: Inventory, there: Inventory, who: str
    ) -> None:
        owner = self.hearing.won[provider.uuid, name]
        if driver_of(who) == driver_of(owner):
            return
        if who == FILES:
            self._file_yields(provider, name)
        elif said.over(there) != there:
            owns, says = words_for(owner), words_for(who)
            self.hearing.problem(
                provider,
                f"{name} is reported by {owns}, and differently by {says}: "
                f"{owns.removeprefix('driver ')} counts, being the first in compute_driver",
            )

    def _file_yields(self, provider: Provider, name: str) -> None:
        places = (one.places for one in self.hearing.answers.statements if one.manager == FILES)
        place = next((p[provider.uuid, name] for p in places if (provider.uuid, name) in p), FILES)
        self.hearing.problem(
            provider,
            f"{place}: {name} is reported by a driver, or was set by somebody else: that holds; "
            "take it out of the file, or out of Placement",
        )
