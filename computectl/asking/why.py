"""Find out why there are few or no candidates, by queries without one constraint at a time.

If no single constraint is decisive, each is queried alone; if each alone can be met, a smallest
set of constraints that can't be met together is searched.  The number of calls is bounded.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from computectl.asking.constraints import (
    Aspect,
    Constraint,
    Question,
    constraints,
    group_having,
    request_for,
    with_amount,
    with_constraints_only,
    without_constraint,
)
from computectl.asking.facts import LOOKED_AT, Facts
from computectl.asking.tally import TALLIED, Tally, kept_out, tally
from reportclient.candidates import AllocationCandidates

MOST_CALLS = 60
_NAMED = (Aspect.REQUIRED, Aspect.ROOT_REQUIRED, Aspect.MEMBER_OF)
"""Constraints that no provider meets if none has their traits or aggregates."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one constraint.

    ``answer``: the candidates without it; none if the request would be empty then.
    ``kept_out``: UUIDs of the excluded hosts, or of the excluded providers for a constraint of a
    group with a suffix.  ``more``: the number of additional candidates.  ``lowered``: the amount
    that was requested instead, 0 if the constraint was left out.
    """

    constraint: Constraint
    answer: AllocationCandidates
    kept_out: tuple[str, ...] = ()
    more: int = 0
    lowered: int = 0

    @property
    def cut(self) -> bool:
        """Whether the answer has as many candidates as were requested, so may be incomplete."""
        return len(self.answer) >= LOOKED_AT


@dataclass(slots=True)
class Why:
    """A diagnosis of a request.

    ``impossible`` constraints can't be met even alone; ``together`` can't be met by one host at
    once; ``overlapping`` exclude only what others exclude too.  ``tally`` counts each host
    once.  ``complete`` is false if the limit of calls was reached.
    """

    answer: AllocationCandidates = field(default_factory=AllocationCandidates)
    effects: list[Effect] = field(default_factory=list)
    impossible: Sequence[Constraint] = ()
    together: Sequence[Constraint] = ()
    overlapping: Sequence[Constraint] = ()
    tally: Tally | None = None
    complete: bool = True

    @property
    def decisive(self) -> list[Effect]:
        """Return the constraints that exclude something by themselves, amounts last."""
        decisive = [effect for effect in self.effects if effect.more > 0]
        return sorted(decisive, key=lambda effect: effect.constraint.aspect is Aspect.RESOURCES)


class _OutOfCalls(Exception):
    pass


@dataclass(slots=True)
class Explainer:
    """Diagnoses a request with about ``most`` queries."""

    facts: Facts
    most: int = MOST_CALLS

    def diagnose(self) -> Why:
        """Return the diagnosis of the question.  :raises PlacementError: a query failed."""
        question, diagnosis = self.facts.question, Why()
        try:
            diagnosis.answer = self._query(question)
            query = partial(self._query, limit=TALLIED)
            diagnosis.tally = tally(question, query, self.facts.api)
            for constraint in constraints(question):
                effect = self._effect(constraint, question, diagnosis.answer)
                diagnosis.effects.append(effect)
            self._go_deeper(question, diagnosis)
        except _OutOfCalls:
            diagnosis.complete = False
        return diagnosis

    def _effect(
        self, constraint: Constraint, question: Question, answer: AllocationCandidates
    ) -> Effect:
        less, lowered = without_constraint(question, constraint), 0
        if less is None:  # it is the only amount
            easier = self.facts.easier(constraint)
            if easier == constraint:
                return Effect(constraint, AllocationCandidates())
            less, lowered = with_amount(question, easier), easier.amount
        relaxed = self._query(less)
        out = tuple(sorted(kept_out(constraint, answer, relaxed)))
        return Effect(constraint, relaxed, out, len(relaxed) - len(answer), lowered)

    def _go_deeper(self, question: Question, diagnosis: Why) -> None:
        """Add the constraints that are not decisive, or a set that can't be met together."""
        decisive = {effect.constraint for effect in diagnosis.decisive}
        impossible, overlapping = self._indecisive(question, decisive)
        if len(diagnosis.answer) or decisive:
            diagnosis.overlapping = (*impossible, *overlapping)
            return
        diagnosis.impossible, diagnosis.overlapping = impossible, overlapping
        if impossible:
            return
        everything = constraints(question)
        if not self._query(with_constraints_only(question, ())):
            diagnosis.together = [each for each in everything if each.aspect is Aspect.RESOURCES]
            return
        conflict = [each for each in everything if each.aspect is not Aspect.RESOURCES]
        for constraint in tuple(conflict):
            fewer = [each for each in conflict if each != constraint]
            if not self._query(with_constraints_only(question, fewer)):
                conflict = fewer
        diagnosis.together = conflict  # a smallest set that can't be met together

    def _indecisive(
        self, question: Question, decisive: Collection[Constraint]
    ) -> tuple[tuple[Constraint, ...], tuple[Constraint, ...]]:
        """Return the constraints that can't be met, and those that exclude what others do too."""
        others = [each for each in constraints(question) if each not in decisive]
        amounts = [each for each in others if each.aspect is Aspect.RESOURCES]
        too_much = [each for each in amounts if not self._query(request_for(each))]
        lowered, basis = self._basis(question, too_much)
        impossible, overlapping = list(too_much), []
        for constraint in others:
            if constraint in too_much:
                continue
            left, more = basis, basis
            if constraint not in constraints(lowered) or not basis:
                if constraint.aspect in _NAMED and not self.facts.find(group_having(constraint)):
                    impossible.append(constraint)
            elif constraint.aspect is Aspect.RESOURCES:
                easier = with_amount(lowered, self.facts.easier(constraint))
                more = self._query(with_constraints_only(easier, ()))
            else:
                left = self._query(with_constraints_only(lowered, (constraint,)))
                impossible += [] if left else [constraint]
            if left and kept_out(constraint, left, more):
                overlapping.append(constraint)
        return tuple(impossible), tuple(overlapping)

    def _basis(
        self, question: Question, too_much: Sequence[Constraint]
    ) -> tuple[Question, AllocationCandidates]:
        """Return the question with amounts lowered until they can be met, and their candidates."""
        lowered = question
        for each in too_much:
            easier = self.facts.easier(each)
            fewer = with_amount(lowered, easier)
            if not self._query(request_for(easier)):
                fewer = without_constraint(lowered, each) or lowered
            lowered = fewer
        if candidates := self._query(with_constraints_only(lowered, ())):
            return lowered, candidates
        for each in constraints(lowered):
            if each.aspect is Aspect.RESOURCES:
                lowered = with_amount(lowered, self.facts.easier(each))
        return lowered, self._query(with_constraints_only(lowered, ()))

    def _query(self, question: Question, limit: int = LOOKED_AT) -> AllocationCandidates:
        if self.facts.calls >= self.most and not self.facts.has(question, limit):
            raise _OutOfCalls
        return self.facts.candidates(question, limit)
