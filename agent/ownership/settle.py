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
yes                   M and N           nobody; N is        a provider stays, with what N
                                        silent              holds of it
yes                   M, configured     nobody; all others  released
                      no more           answered
no, but it was        M                 M, on another       given up, and told
                                        service's root
any                   M and N           both, exclusive     the first in order; the other told
any                   M and N           M only, shared      stays
====================  ================  ==================  =================================

A provider (its name, its parent) and a class are exclusive; traits and aggregates are
shared.  Where no ledger is kept, nothing is known to be released, with two exceptions that
are :mod:`agent.ownership.assumed`.  What may be asserted at all is :mod:`agent.ownership.policy`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agent.ownership.assumed import assumed, with_adopted
from agent.ownership.contents import Contents
from agent.ownership.hearing import UNKNOWN_BEFORE, Hearing, Sayings
from agent.ownership.ledger import AGENT, NONE, NOTHING, Ledger, driver_of, joined, words_for
from agent.ownership.next_ledger import NextLedger
from agent.ownership.placing import Placing
from agent.ownership.policy import Policy
from agent.ownership.showing import Drained
from agent.ownership.statement import Round
from reportclient.model import Provider
from reportclient.plan import Problem
from reportclient.snapshot import Snapshot

__all__ = ["Settled", "settle"]


@dataclass(frozen=True, slots=True)
class Settled:
    """``desired`` is what Placement shall have; ``ledger`` is to be kept before it is written."""

    desired: Snapshot
    ledger: Ledger
    problems: tuple[Problem, ...] = ()
    before: Ledger = field(default_factory=Ledger)
    """What held until now, with what is :func:`agent.ownership.assumed.assumed`."""
    hearing: Hearing | None = field(default=None, compare=False, repr=False)
    """What it was about."""
    kept: Ledger = field(default_factory=Ledger, compare=False, repr=False)
    """The ledger that it was settled with."""
    differ: tuple[str, ...] = field(default=(), compare=False)
    """Providers of which not only what there is was repeated."""


def settle(  # noqa: PLR0913  all of it decides
    observed: Snapshot,
    ledger: Ledger,
    answers: Round,
    policy: Policy,
    drained: Drained | None = None,
    *,
    last: Settled | None = None,
) -> Settled:
    """Who owns what, and so what shall be.

    ``answers`` has the statements in the order that decides exclusive claims: drivers as
    they are configured, then files, then the agent.  With what was settled ``last``, of
    whatever, it costs what changed since.
    """
    hearing = Hearing(observed, ledger, answers, policy, drained or {})
    before = last.hearing if last is not None else None
    if last is not None and before is not None and last.kept is ledger and hearing.repeats(before):
        return last
    hearing.ledger = assumed(ledger, observed, answers, policy)
    if not policy.attached:  # or who made it is at work there
        hearing.ledger = with_adopted(hearing.ledger, observed, answers)
    if last is not None and before is not None and hearing.follows(before):
        hearing.among = dict.fromkeys([*last.differ, *hearing.changed_since(before)])
    return replace(_Settling(hearing).settled(), kept=ledger)


@dataclass(slots=True)
class _Settling:
    hearing: Hearing
    changed: dict[str, Provider | None] = field(default_factory=dict)

    def settled(self) -> Settled:
        hearing = self.hearing
        differ = hearing.hear()
        leaving = [uuid for uuid in differ if self._settle(uuid)]
        self._mend_placing(leaving)
        self._refuse_removals()
        desired = hearing.observed.with_changes(self.changed)
        ledger = NextLedger(hearing, differ).ledger()
        told = (problem.uuid for problem in hearing.problems)
        again = tuple(dict.fromkeys([*differ, *told]))
        problems = tuple(hearing.problems)
        return Settled(desired, ledger, problems, hearing.ledger, hearing, differ=again)

    def _mend_placing(self, leaving: list[str]) -> None:
        placing = Placing(self.hearing.observed, self.hearing.policy, self.changed)
        placing.mend(free=frozenset(leaving))
        kept = placing.remove(frozenset(leaving))
        placing.mend()
        self._tell_kept(kept, leaving)
        for provider, text in placing.told:
            self.hearing.problem(provider, text)

    # -- one provider

    def _settle(self, uuid: str) -> bool:
        """Note what it shall be; whether it is to go."""
        hearing = self.hearing
        before, sayings = hearing.observed.get(uuid), hearing.said.get(uuid, [])
        if before is None:
            self._make(uuid, sayings)
            return False
        holders, quiet = hearing.ledger.of(uuid), hearing.quiet
        if not hearing.is_spoken_of(uuid):
            quiet = quiet | UNKNOWN_BEFORE
        silent = joined(held for who, held in holders.items() if who in quiet)
        heard = joined(held for who, held in holders.items() if who not in quiet)
        asserted = joined(said.holding for _, said in sayings)
        released = heard.without(silent).without(asserted)
        after = Contents(hearing).of(before, released, silent, sayings)
        known = quiet - UNKNOWN_BEFORE
        is_held = any(held.provider for who, held in holders.items() if who in known)
        after = self._place(before, after, known if is_held else NOTHING, sayings)
        if after != before:
            self.changed[uuid] = after
        may_go = uuid != hearing.policy.root and hearing.policy.may_drop(uuid)
        return released.provider and may_go and not self._is_kept_by(known & holders.keys())

    def _is_kept_by(self, silent: frozenset[str]) -> bool:
        """Whether it can't go yet, as some who can't be asked have something on it."""
        waited_for = (who for who in silent if driver_of(who) != AGENT)
        return any(waited_for) and not self.hearing.answers.waiting

    def _make(self, uuid: str, sayings: Sayings) -> None:
        first = next(((who, one.provider) for who, one in sayings if one.holding.provider), None)
        if first is not None:
            self.hearing.won[uuid, ""] = first[0]
            empty = Provider(uuid, first[1].name, first[1].parent_uuid)
            self.changed[uuid] = Contents(self.hearing).of(empty, NONE, NONE, sayings)

    def _place(
        self,
        before: Provider,
        after: Provider,
        quiet: frozenset[str],
        sayings: Sayings,
    ) -> Provider:
        """With the name and the parent that the one says who holds it."""
        placing = [(who, one.provider) for who, one in sayings if one.holding.provider]
        if quiet:
            holders = self.hearing.ledger.of(before.uuid).items()
            holder = next(w for w, held in holders if held.provider and w in quiet)
            own = [one for one in placing if one[0] == holder] or [(holder, before)]
            placing = own + [one for one in placing if one[0] != holder]
        if not placing:
            return after
        (owner, place), *others = placing
        self.hearing.won[before.uuid, ""] = owner
        for who, other in others:
            if (other.name, other.parent_uuid) != (place.name, place.parent_uuid):
                text = f"{words_for(who)} renamed or moved it; {words_for(owner)} reports it"
                self.hearing.problem(before, text)
        if (after.name, after.parent_uuid) == (place.name, place.parent_uuid):
            return after
        return replace(after, name=place.name, parent_uuid=place.parent_uuid)

    # -- what is told of the whole

    def _tell_kept(self, kept: list[str], leaving: list[str]) -> None:
        for uuid in kept:
            for below in self.hearing.observed.children(uuid):
                if below not in leaving:
                    self.hearing.problem(
                        self.hearing.observed.providers[below], self._why_kept(below)
                    )

    def _why_kept(self, uuid: str) -> str:
        owner = next((w for w, h in self.hearing.ledger.of(uuid).items() if h.provider), None)
        if owner is None:
            return "is below a device that is gone, and was not made by this agent: both are kept"
        return f"is below what was taken away; {words_for(owner)} reports it: both are kept"

    def _refuse_removals(self) -> None:
        for statement in self.hearing.answers.statements:
            for uuid in statement.removed - statement.adopted:
                provider = self.hearing.observed.get(uuid)
                if provider is not None and not self.hearing.ledger.of(uuid):
                    self.hearing.problem(
                        provider,
                        "is not this agent's, and can't be taken away, as "
                        f"{words_for(statement.manager)} did (computectl adopt {uuid} allows it)",
                    )
