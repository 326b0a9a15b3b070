"""Who holds what from now on.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.ownership.hearing import UNKNOWN_BEFORE, Hearing
from agent.ownership.ledger import (
    DERIVED,
    DRIVER,
    FORMER,
    NONE,
    NOTHING,
    Holders,
    Holding,
    Ledger,
    joined,
)


@dataclass(frozen=True, slots=True)
class NextLedger:
    """After a hearing in which it was settled whose what is; ``differ`` are those that did
    not merely repeat what there is.
    """

    hearing: Hearing
    differ: Sequence[str]

    def ledger(self) -> Ledger:
        """What is to be kept, before Placement is written."""
        ledger = self.hearing.ledger
        rows = {uuid: self._row(uuid, ledger.of(uuid)) for uuid in self.differ}
        changed = {uuid: row for uuid, row in rows.items() if row != ledger.of(uuid)}
        seen = self._seen()
        if ledger.begun and not changed and seen == ledger.seen:
            return ledger
        kept = {**ledger.holders, **changed}
        for uuid in [uuid for uuid in changed if not changed[uuid]]:
            del kept[uuid]
        return Ledger(kept, seen, self._is_begun(), ledger.lost)

    def _is_begun(self) -> bool:
        """From the first word of a driver on: until then it may take over what there is."""
        drivers = (one.manager.startswith(DRIVER) for one in self.hearing.answers.statements)
        return self.hearing.ledger.begun or any(drivers)

    def _row(self, uuid: str, before: Holders) -> Holders:
        """Who holds what from now on; what was released stays until Placement is without it."""
        provider, sayings = self.hearing.observed.get(uuid), self.hearing.said.get(uuid, [])
        now = {who: self._won_by(uuid, who, said.holding) for who, said in sayings}
        kept = joined(
            [
                *(said.holding for _, said in sayings),
                *(before[w] for w in before if w in self.hearing.quiet - UNKNOWN_BEFORE),
            ]
        )
        for who, held in before.items():
            if who in self.hearing.quiet:
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
        classes = frozenset(n for n in said.classes if self.hearing.won.get((uuid, n), who) == who)
        provider = said.provider and self.hearing.won.get((uuid, ""), who) == who
        if len(classes) == len(said.classes) and provider == said.provider:
            return said
        return said._replace(provider=provider, classes=classes)

    def _seen(self) -> frozenset[str]:
        """Of our traits on another service's root those that Placement was seen with."""
        root = (
            self.hearing.observed.get(self.hearing.policy.root)
            if self.hearing.policy.attached
            else None
        )
        if root is None:
            return NOTHING
        held = joined(self.hearing.ledger.of(root.uuid).values()).traits
        said = (one.said.get(root.uuid) for one in self.hearing.answers.statements)
        wanted = NOTHING.union(*(one.holding.traits for one in said if one is not None))
        silent = (
            h.traits
            for w, h in self.hearing.ledger.of(root.uuid).items()
            if w in self.hearing.quiet
        )
        return (self.hearing.ledger.seen | held & root.traits) & wanted.union(*silent)
