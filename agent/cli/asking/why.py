"""Why there are no candidates, or so few: by asking again, without one constraint at a time.

Where no single one decides, each is asked for alone; where each alone can be met, the
smallest set is looked for that can't.  The number of calls is bounded.
"""

from dataclasses import dataclass, field, replace

from agent.cli.asking.constraints import (
    Aspect,
    Constraint,
    Question,
    constraints,
    one_of,
    only,
    with_amount,
    without,
)
from agent.cli.asking.facts import LOOKED_AT
from agent.cli.asking.indecisive import indecisive
from agent.cli.asking.tally import TALLIED, Tally, kept_out, tally
from reportclient.asking import How, allocation_candidates
from reportclient.candidates import AllocationCandidates, written
from reportclient.http import API

MOST_CALLS = 60


@dataclass(frozen=True, slots=True)
class Effect:
    """What one constraint leaves out: ``answer`` is what there would be without it.

    ``kept_out`` are providers where it is of a group with a suffix, and hosts otherwise;
    ``more`` counts the candidates.  ``answer`` is ``None`` if nothing would be left to ask;
    ``lowered`` says that in its place as little as possible was asked for.
    """

    constraint: Constraint
    answer: AllocationCandidates | None
    kept_out: tuple[str, ...] = ()
    more: int = 0
    lowered: bool = False

    @property
    def cut(self) -> bool:
        """Whether there may be more than were looked at."""
        return self.answer is not None and len(self.answer) >= LOOKED_AT


@dataclass(frozen=True, slots=True)
class Why:
    """``impossible`` can't be met even alone; ``together`` can't be met by one host at once.

    ``overlapping`` ones leave out what others leave out as well.  ``tally`` has each host once.
    ``complete`` is false if the calls were used up first.
    """

    answer: AllocationCandidates
    effects: tuple[Effect, ...] = ()
    impossible: tuple[Constraint, ...] = ()
    together: tuple[Constraint, ...] = ()
    overlapping: tuple[Constraint, ...] = ()
    tally: Tally | None = None
    complete: bool = True

    @property
    def decisive(self) -> list[Effect]:
        """Constraints that leave out something by themselves, amounts last."""
        found = [effect for effect in self.effects if effect.more > 0]
        return sorted(found, key=lambda effect: effect.constraint.kind is Aspect.RESOURCES)


class _OutOfCalls(Exception):
    pass


@dataclass(slots=True)
class Explainer:
    """``calls`` made so far, of at most ``most``."""

    api: API
    most: int = MOST_CALLS
    calls: int = 0
    _known: dict[tuple[str, bool], tuple[int, AllocationCandidates]] = field(default_factory=dict)
    """Answers, each with how many candidates were asked for; with fewer, it has them all."""

    def why(self, asked: Question) -> Why:
        """What decides.  :raises reportclient.errors.PlacementError: it can't be asked."""
        asked = replace(asked, request=replace(asked.request, limit=None))
        found = Why(AllocationCandidates())
        try:
            found = replace(found, answer=self._ask(asked))
            found = replace(found, tally=tally(asked, self._all_hosts, self.api))
            for constraint in constraints(asked):
                effect = self._effect(constraint, asked, found.answer)
                found = replace(found, effects=(*found.effects, effect))
            found = self._deeper(asked, found)
        except _OutOfCalls:
            return replace(found, complete=False)
        return found

    def _effect(
        self, constraint: Constraint, asked: Question, answer: AllocationCandidates
    ) -> Effect:
        less = without(asked, constraint)
        lowered = less is None
        if less is None and constraint.amount == 1:
            return Effect(constraint, None)
        relaxed = self._ask(less or with_amount(asked, one_of(constraint)))
        out = tuple(sorted(kept_out(constraint, answer, relaxed)))
        return Effect(constraint, relaxed, out, len(relaxed) - len(answer), lowered)

    def _deeper(self, asked: Question, found: Why) -> Why:
        """What the others do; and where nothing decides alone, what can't be met at once."""
        decisive = {effect.constraint for effect in found.decisive}
        others = indecisive(asked, decisive, self._ask, self.api)
        found = replace(found, overlapping=others.overlapping)
        if len(found.answer) or decisive:
            return replace(found, overlapping=(*others.impossible, *others.overlapping))
        if others.impossible:
            return replace(found, impossible=others.impossible)
        everything = constraints(asked)
        amounts = [each for each in everything if each.kind is Aspect.RESOURCES]
        rest = [each for each in everything if each.kind is not Aspect.RESOURCES]
        there = len(self._ask(only(asked, ())))
        together = self._conflict(asked, rest) if there else amounts
        return replace(found, together=tuple(together))

    def _conflict(self, asked: Question, rest: list[Constraint]) -> list[Constraint]:
        """The constraints that can't go together, and none that could be left away."""
        kept = list(rest)
        for constraint in rest:
            fewer = [each for each in kept if each != constraint]
            if len(self._ask(only(asked, fewer))) == 0:
                kept = fewer
        return kept

    def _all_hosts(self, asked: Question) -> AllocationCandidates:
        return self._ask(asked, TALLIED)

    def _ask(self, asked: Question, limit: int = LOOKED_AT) -> AllocationCandidates:
        key = (written(replace(asked.request, limit=None)), asked.include_disabled)
        asked_for, known = self._known.get(key, (0, AllocationCandidates()))
        if asked_for == limit or len(known) < asked_for:
            return known
        if self.calls >= self.most:
            raise _OutOfCalls
        self.calls += 1
        how = How(include_disabled=asked.include_disabled, several=True)
        answer = allocation_candidates(replace(asked.request, limit=limit), self.api, how)
        self._known[key] = limit, answer
        return answer
