"""settle: what Placement has, what is asserted now and the ledger, into what is desired.  Pure.

Ownership is that of Kubernetes' server-side apply.  For each claim (a provider is there,
with its name and parent; it has a class, a trait, an aggregate):

====================  ================  ==================  =================================
in Placement          in the ledger of  asserted now by     outcome
====================  ================  ==================  =================================
yes                   nobody            nobody              foreign: never touched, nor what
                                                            it hangs below
yes                   nobody            M                   adopted, with M's values
no                    nobody            M                   made
yes or no             M                 M                   kept right
yes                   M                 M is silent         stays as it is
yes                   M                 nobody; M answered  released: removed, or drained while
                                                            in use; in the ledger until
                                                            Placement is seen without it
yes                   M, configured     nobody; all others  released
                      no more           answered
no, but it was        M                 M, on another       given up, and told
                                        service's root
any                   M and N           both, exclusive     the first in order; the other told
any                   M and N           M only, shared      stays
====================  ================  ==================  =================================

A provider (its name, its parent) and a class are exclusive; traits and aggregates are
shared.  Where no ledger is kept, nothing is known to be released, with two exceptions that
are :func:`assumed`.  What may be asserted at all is :mod:`agent.ownership.policy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from agent.ownership.ledger import (
    AGENT,
    DERIVED,
    FILES,
    FORMER,
    NONE,
    NOTHING,
    STATUS,
    Holders,
    Holding,
    Ledger,
    driver_of,
    everything_on,
    joined,
    words_for,
)
from agent.ownership.placing import Placing
from agent.ownership.policy import Policy
from agent.ownership.showing import Drained
from agent.ownership.statement import Round, Said
from reportclient.model import Inventory, Provider
from reportclient.plan import Problem
from reportclient.provider_tree import own_uuid
from reportclient.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Settled:
    """``desired`` is what Placement shall have; ``ledger`` is to be kept before it is written."""

    desired: Snapshot
    ledger: Ledger
    problems: tuple[Problem, ...] = ()
    before: Ledger = field(default_factory=Ledger)
    """What held until now, with what is :func:`assumed`."""


def settle(
    observed: Snapshot,
    ledger: Ledger,
    answers: Round,
    policy: Policy,
    drained: Drained | None = None,
) -> Settled:
    """Who owns what, and so what shall be.

    ``answers`` has the statements in the order that decides exclusive claims: drivers as
    they are configured, then files, then the agent.
    """
    before = _adopting(assumed(ledger, observed, answers, policy), observed, answers)
    return _Settling(observed, before, answers, policy, drained or {}).settled()


def assumed(ledger: Ledger, observed: Snapshot, answers: Round, policy: Policy) -> Ledger:
    """What counts as this host's though it stands in no ledger.

    Providers below the root whose UUID is made from it and their name; where nothing was
    kept yet, also the classes of own providers of which a driver speaks, as an inventory
    belongs to who reports it.  Nobody who is configured holds them: they go if a driver
    takes them away or leaves them out, and all have answered.
    """
    if policy.root not in observed:
        return ledger
    rows: dict[str, Holders] = dict(ledger.holders)
    drivers = {driver_of(one.manager) for one in answers.statements}
    spoken = NOTHING.union(*(one.inventoried for one in answers.statements))
    takes_over = not (ledger.begun or ledger.lost or policy.attached)
    for provider in observed.walk(policy.root):
        if provider.uuid not in rows:
            row: dict[str, Holding] = {}
            if takes_over and provider.uuid in spoken:
                row[FORMER] = Holding(classes=frozenset(provider.inventory))
            if _is_derived(provider, policy.root, drivers):
                row[DERIVED] = Holding(True, frozenset(provider.inventory))
            if row:
                rows[provider.uuid] = row
    return ledger if len(rows) == len(ledger.holders) else replace(ledger, holders=rows)


def _is_derived(provider: Provider, root: str, drivers: Iterable[str]) -> bool:
    if provider.uuid == root:
        return False
    names = (provider.name, *(f"{one.partition(':')[2]} {provider.name}" for one in drivers))
    return any(provider.uuid == own_uuid(root, name) for name in names)


def _adopting(ledger: Ledger, observed: Snapshot, answers: Round) -> Ledger:
    for statement in answers.statements:
        for uuid in statement.adopted:
            provider = observed.get(uuid)
            if provider is not None and not ledger.is_ours(uuid):
                ledger = ledger.adding(statement.manager, uuid, everything_on(provider))
    return ledger


@dataclass(slots=True)
class _Settling:
    observed: Snapshot
    ledger: Ledger
    answers: Round
    policy: Policy
    drained: Drained
    problems: dict[Problem, None] = field(default_factory=dict)
    said: dict[str, list[tuple[str, Said]]] = field(default_factory=dict)
    quiet: frozenset[str] = NOTHING
    """Managers whose claims stay as they are."""
    changed: dict[str, Provider | None] = field(default_factory=dict)
    won: dict[tuple[str, str], str] = field(default_factory=dict)
    """Whose a class of a provider, or (without a class) the provider is in this round."""

    def settled(self) -> Settled:
        self.quiet = self._silent_managers()
        self._hear()
        there = self.observed.providers
        held = (uuid for uuid in self.ledger.holders if uuid in there)
        leaving = [uuid for uuid in dict.fromkeys([*held, *self.said]) if self._settle(uuid)]
        placing = Placing(self.observed, self.policy, self.changed)
        placing.mend(free=frozenset(leaving))
        kept = placing.remove(frozenset(leaving))
        placing.mend()
        self._tell_kept(kept, leaving)
        for provider, text in placing.told:
            self._problem(provider, text)
        self._refuse_removals()
        desired = self.observed.with_changes(self.changed)
        return Settled(desired, self._next_ledger(), tuple(self.problems), self.ledger)

    # -- who says what

    def _silent_managers(self) -> frozenset[str]:
        answered = self.answers.answered()
        complete = self.answers.silent <= {AGENT, STATUS}
        return frozenset(
            one
            for one in self.ledger.managers()
            if self.answers.is_silent(one) or (driver_of(one) not in answered and not complete)
        )

    def _hear(self) -> None:
        for statement in self.answers.statements:
            for uuid, said in statement.said.items():
                counts, told = self.policy.allowed(
                    statement.manager, said, self.observed, self.ledger
                )
                for text in told:
                    self._problem(self.observed.get(uuid) or said.provider, text)
                if counts is not None:
                    self.said.setdefault(uuid, []).append((statement.manager, counts))

    # -- one provider

    def _settle(self, uuid: str) -> bool:
        """Note what it shall be; whether it is to go."""
        before, sayings = self.observed.get(uuid), self.said.get(uuid, [])
        if before is None:
            self._make(uuid, sayings)
            return False
        holders = self.ledger.of(uuid)
        quiet = self.quiet if self._is_spoken_of(uuid) else self.quiet | {DERIVED, FORMER}
        silent = joined(held for who, held in holders.items() if who in quiet)
        heard = joined(held for who, held in holders.items() if who not in quiet)
        asserted = joined(said.holding for _, said in sayings)
        released = heard.without(silent).without(asserted)
        after = self._contents(before, released, silent, sayings)
        configured = joined(h for w, h in holders.items() if w in quiet - {DERIVED, FORMER})
        holding = quiet - {DERIVED, FORMER} if configured.provider else NOTHING
        after = self._place(before, after, holding, sayings)
        if after != before:
            self.changed[uuid] = after
        return released.provider and uuid != self.policy.root and self.policy.may_drop(uuid)

    def _is_spoken_of(self, uuid: str) -> bool:
        """By a driver: it says what the provider has, or took it away."""
        return any(uuid in one.gone or uuid in one.inventoried for one in self.answers.statements)

    def _make(self, uuid: str, sayings: list[tuple[str, Said]]) -> None:
        first = next(((who, one.provider) for who, one in sayings if one.holding.provider), None)
        if first is not None:
            self.won[uuid, ""] = first[0]
            empty = Provider(uuid, first[1].name, first[1].parent_uuid)
            self.changed[uuid] = self._contents(empty, NONE, NONE, sayings)

    def _place(
        self,
        before: Provider,
        after: Provider,
        quiet: frozenset[str],
        sayings: list[tuple[str, Said]],
    ) -> Provider:
        """With the name and the parent that the one says who holds it."""
        placing = [(who, one.provider) for who, one in sayings if one.holding.provider]
        if quiet:
            holders = self.ledger.of(before.uuid).items()
            holder = next(w for w, held in holders if held.provider and w in quiet)
            own = [one for one in placing if one[0] == holder] or [(holder, before)]
            placing = own + [one for one in placing if one[0] != holder]
        if not placing:
            return after
        (owner, place), *others = placing
        self.won[before.uuid, ""] = owner
        for who, other in others:
            if (other.name, other.parent_uuid) != (place.name, place.parent_uuid):
                text = f"{words_for(who)} renamed or moved it; {words_for(owner)} reports it"
                self._problem(before, text)
        if (after.name, after.parent_uuid) == (place.name, place.parent_uuid):
            return after
        return replace(after, name=place.name, parent_uuid=place.parent_uuid)

    def _contents(
        self,
        before: Provider,
        released: Holding,
        silent: Holding,
        sayings: list[tuple[str, Said]],
    ) -> Provider:
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
        return NOTHING.union(*(one.denied.get(uuid, NOTHING) for one in self.answers.statements))

    def _inventory(
        self,
        before: Provider,
        released: Holding,
        silent: Holding,
        sayings: list[tuple[str, Said]],
    ) -> Mapping[str, Inventory]:
        after = dict(before.inventory)
        if self.policy.may_drop(before.uuid):
            for name in released.classes:
                after.pop(name, None)
        for name in silent.classes & after.keys():
            self.won[before.uuid, name] = self._holder(before, name)
        for who, said in sayings:
            for name in said.holding.classes:
                key, record = (before.uuid, name), said.provider.inventory[name]
                owner = self.won.get(key, who)
                if owner != who and not (
                    owner in self.quiet and self.answers.is_before(who, owner)
                ):
                    self._compare(before, name, record, after[name], who)
                elif who == FILES and self._is_foreign(before, name):
                    self._file_yields(before, name)
                else:
                    after[name], self.won[key] = self._record(before, name, record), who
        return before.inventory if after == before.inventory else after

    def _record(self, before: Provider, name: str, said: Inventory) -> Inventory:
        """With what it leaves unsaid as it is; reserved as it was before it was drained."""
        there, reserved = before.inventory.get(name), self.drained.get(before.uuid, {}).get(name)
        if there is not None and reserved is not None:
            there = replace(there, reserved=min(reserved, said.total))
        full = said.over(there)
        return there if there is not None and full == there and reserved is None else full

    def _holder(self, provider: Provider, name: str) -> str:
        holders = self.ledger.of(provider.uuid).items()
        return next(w for w, h in holders if w in self.quiet and name in h.classes)

    def _is_foreign(self, before: Provider, name: str) -> bool:
        holders = self.ledger.of(before.uuid).values()
        return name in before.inventory and not any(name in held.classes for held in holders)

    def _compare(
        self, provider: Provider, name: str, said: Inventory, there: Inventory, who: str
    ) -> None:
        owner = self.won[provider.uuid, name]
        if driver_of(who) == driver_of(owner):
            return
        if who == FILES:
            self._file_yields(provider, name)
        elif said.over(there) != there:
            owns, says = words_for(owner), words_for(who)
            self._problem(
                provider,
                f"{name} is reported by {owns}, and differently by {says}: "
                f"{owns.removeprefix('driver ')} counts, being the first in compute_driver",
            )

    def _file_yields(self, provider: Provider, name: str) -> None:
        places = (one.places for one in self.answers.statements if one.manager == FILES)
        place = next((p[provider.uuid, name] for p in places if (provider.uuid, name) in p), FILES)
        self._problem(
            provider,
            f"{place}: {name} is reported by a driver, or was set by somebody else: that holds; "
            "take it out of the file, or out of Placement",
        )

    # -- what is told of the whole

    def _tell_kept(self, kept: list[str], leaving: list[str]) -> None:
        for uuid in kept:
            for below in self.observed.children(uuid):
                if below not in leaving:
                    self._problem(self.observed.providers[below], self._why_kept(below))

    def _why_kept(self, uuid: str) -> str:
        owner = next((w for w, h in self.ledger.of(uuid).items() if h.provider), None)
        if owner is None:
            return "is below a device that is gone, and was not made by this agent: both are kept"
        return f"is below what was taken away; {words_for(owner)} reports it: both are kept"

    def _refuse_removals(self) -> None:
        for statement in self.answers.statements:
            for uuid in statement.removed:
                provider = self.observed.get(uuid)
                if provider is not None and not self.ledger.of(uuid):
                    self._problem(
                        provider,
                        "is not this agent's, and can't be taken away, as "
                        f"{words_for(statement.manager)} did (computectl adopt {uuid} allows it)",
                    )

    # -- the ledger

    def _next_ledger(self) -> Ledger:
        rows = dict(self.ledger.holders)
        for uuid in dict.fromkeys([*self.ledger.holders, *self.said]):
            before = self.ledger.of(uuid)
            after = self._row(uuid, before)
            if after != before:
                rows[uuid] = after
            if not after:
                rows.pop(uuid, None)
        seen = self._seen()
        if self.ledger.begun and rows == self.ledger.holders and seen == self.ledger.seen:
            return self.ledger
        return Ledger(rows, seen, begun=True)

    def _row(self, uuid: str, before: Holders) -> Holders:
        """Who holds what from now on; what was released stays until Placement is without it."""
        provider, sayings = self.observed.get(uuid), self.said.get(uuid, [])
        now = {who: self._won_by(uuid, who, said.holding) for who, said in sayings}
        kept = joined(
            [
                *(said.holding for _, said in sayings),
                *(before[w] for w in before if w in self.quiet - {FORMER, DERIVED}),
            ]
        )
        for who, held in before.items():
            if who in self.quiet:
                kept_so = held.without(kept) if who == FORMER else held
                now[who] = now.get(who, NONE).joined(kept_so)
            elif who not in now or now[who] != held:
                # What is not there now may only have been missed; it is to be made, and then seen.
                there = held if provider is None and kept.provider else held.within(provider)
                left = there.without(kept)
                now[who] = now.get(who, NONE).joined(left)
        return {who: held for who, held in now.items() if held != NONE and who != DERIVED}

    def _won_by(self, uuid: str, who: str, said: Holding) -> Holding:
        """Of what is exclusive only what it was first to say."""
        classes = frozenset(n for n in said.classes if self.won.get((uuid, n), who) == who)
        provider = said.provider and self.won.get((uuid, ""), who) == who
        if len(classes) == len(said.classes) and provider == said.provider:
            return said
        return said._replace(provider=provider, classes=classes)

    def _seen(self) -> frozenset[str]:
        """Of our traits on another service's root those that Placement was seen with."""
        root = self.observed.get(self.policy.root) if self.policy.attached else None
        if root is None:
            return NOTHING
        held = joined(self.ledger.of(root.uuid).values()).traits
        said = (one.said.get(root.uuid) for one in self.answers.statements)
        wanted = NOTHING.union(*(one.holding.traits for one in said if one is not None))
        silent = (h.traits for w, h in self.ledger.of(root.uuid).items() if w in self.quiet)
        return (self.ledger.seen | held & root.traits) & wanted.union(*silent)

    def _problem(self, provider: Provider, text: str) -> None:
        self.problems[Problem(provider.uuid, provider.name, text)] = None
