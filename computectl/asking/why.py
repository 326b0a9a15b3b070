"""Find out why there are few or no candidates, by queries without one constraint at a time.

If no single constraint is decisive, each is queried alone; if each alone can be met, a smallest
set of constraints that can't be met together is searched.  The number of calls is bounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
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
_BY_NAME = (Aspect.REQUIRED, Aspect.ROOT_REQUIRED, Aspect.MEMBER_OF)
"""Constraints that no provider meets if none has their traits or aggregates."""


class Verdict(StrEnum):
    """The effect of a constraint; the first ``NAMED`` get a sentence each, the others a list."""

    DECIDES = "decides"
    """The constraint excludes hosts by itself: without it there are more candidates."""
    IMPOSSIBLE = "impossible"
    """The constraint can't be met even alone."""
    CONFLICTS = "conflicts"
    """The constraint can be met alone, but by no host together with the others of this verdict."""
    OVERLAPS = "overlaps"
    """The constraint excludes only what others exclude too."""
    NOTHING = "nothing"


NAMED = 3


@dataclass(slots=True)
class Explained:
    """A constraint and what it excludes.

    ``without``: the candidates without it.  ``kept_out``: UUIDs of the excluded hosts, or of the
    excluded providers for a constraint of a group with a suffix.  ``more``: the number of
    additional candidates.  ``lowered``: the amount that was requested instead, 0 if the constraint
    was left out.  ``first_for``: number of hosts that it is the first constraint to exclude.
    ``sentence``: all of this for an operator, by :mod:`computectl.asking.explanation`.
    """

    constraint: Constraint
    verdict: Verdict = Verdict.NOTHING
    without: AllocationCandidates = field(default_factory=AllocationCandidates)
    kept_out: tuple[str, ...] = ()
    more: int = 0
    lowered: int = 0
    first_for: int | None = None
    sentence: str = ""

    @property
    def rank(self) -> int:
        """Its place among the verdicts that are named; ``NAMED`` if it is only listed."""
        return min(list(Verdict).index(self.verdict), NAMED)

    @property
    def cut(self) -> bool:
        """Whether there are as many candidates as were requested, so perhaps not all."""
        return len(self.without) >= LOOKED_AT


@dataclass(slots=True)
class Why:
    """A diagnosis of a request: all its constraints, explained.

    ``tally`` counts each host once.  ``complete`` is false if the limit of calls was reached.
    """

    explained: list[Explained]
    answer: AllocationCandidates = field(default_factory=AllocationCandidates)
    tally: Tally | None = None
    complete: bool = True


class _OutOfCalls(Exception):
    pass


@dataclass(slots=True)
class Explainer:
    """Diagnoses a request with about ``most`` queries."""

    facts: Facts
    most: int = MOST_CALLS

    def diagnose(self) -> Why:
        """Return the diagnosis of the question.  :raises PlacementError: a query failed."""
        question = self.facts.question
        why = Why([Explained(each) for each in constraints(question)])
        try:
            why.answer = self._query(question)
            why.tally = tally(question, partial(self._query, limit=TALLIED), self.facts.api)
            for each in why.explained:
                self._relax(each, why.answer)
            self._judge_others(why)
        except _OutOfCalls:
            why.complete = False
        if why.tally is None:
            return why
        for each in why.explained:
            each.first_for = why.tally.first.get(each.constraint, 0)
            if each.first_for and each.verdict == Verdict.NOTHING:
                each.verdict = Verdict.OVERLAPS
        return why

    def _relax(self, each: Explained, answer: AllocationCandidates) -> None:
        """Query without the constraint, or for less of it if it is the only amount."""
        question, constraint = self.facts.question, each.constraint
        less = without_constraint(question, constraint)
        if less is None:
            easier = self.facts.easier(constraint)
            if easier == constraint:
                return
            less, each.lowered = with_amount(question, easier), easier.amount
        each.without = self._query(less)
        more = len(each.without) - len(answer)
        if more > 0:
            each.verdict, each.more = Verdict.DECIDES, more
            each.kept_out = tuple(sorted(kept_out(constraint, answer, each.without)))

    def _judge_others(self, why: Why) -> None:
        """Give the constraints that do not decide their verdicts."""
        question = self.facts.question
        others = [each for each in why.explained if each.verdict != Verdict.DECIDES]
        if len(why.answer) or len(others) < len(why.explained):
            self._judge_alone(others, Verdict.OVERLAPS)
            return
        self._judge_alone(others, Verdict.IMPOSSIBLE)
        if any(each.verdict == Verdict.IMPOSSIBLE for each in others):
            return
        conflict = [each for each in constraints(question) if each.aspect is Aspect.RESOURCES]
        if self._query(with_constraints_only(question, ())):
            conflict = [each for each in constraints(question) if each not in conflict]
            for constraint in tuple(conflict):  # a smallest set that can't be met together is left
                fewer = [each for each in conflict if each != constraint]
                if not self._query(with_constraints_only(question, fewer)):
                    conflict = fewer
        for each in others:
            if each.constraint in conflict:
                each.verdict = Verdict.CONFLICTS

    def _judge_alone(self, others: Sequence[Explained], unmet: Verdict) -> None:
        """Query with one constraint at a time; ``unmet``: the verdict if it can't be met."""
        amounts = (each.constraint for each in others)
        too_much = [
            each
            for each in amounts
            if each.aspect is Aspect.RESOURCES and not self._query(request_for(each))
        ]
        lowered, basis = self._basis(self.facts.question, too_much)
        for each in others:
            constraint, out = each.constraint, []
            if constraint in too_much:
                each.verdict = unmet
            elif constraint not in constraints(lowered) or not basis:
                if constraint.aspect in _BY_NAME and not self.facts.find(group_having(constraint)):
                    each.verdict = unmet
            elif constraint.aspect is Aspect.RESOURCES:
                easier = with_amount(lowered, self.facts.easier(constraint))
                out = kept_out(constraint, basis, self._query(with_constraints_only(easier, ())))
            elif left := self._query(with_constraints_only(lowered, (constraint,))):
                out = kept_out(constraint, left, basis)
            else:
                each.verdict = unmet
            if out:
                each.verdict = Verdict.OVERLAPS

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
