"""Why there are no candidates, or so few: by asking again, without one constraint at a time.

Where no single one decides, each is asked for alone; where each alone can be met, the
smallest set is looked for that can't.  The number of calls is bounded.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from computectl.asking.constraints import (
    Aspect,
    Constraint,
    Question,
    constraints,
    group_having,
    request_for,
    with_amount,
    with_amount_one,
    with_constraints_only,
    without_constraint,
)
from computectl.asking.facts import LOOKED_AT
from computectl.asking.tally import TALLIED, QueryCandidates, Tally, kept_out, tally
from reportclient.asking import QueryOptions, allocation_candidates, resource_providers
from reportclient.candidates import AllocationCandidates, ProviderQuery, to_query_string
from reportclient.http import API

MOST_CALLS = 60


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one constraint: ``answer`` is the result without it.

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
        return sorted(found, key=lambda effect: effect.constraint.aspect is Aspect.RESOURCES)


class _OutOfCalls(Exception):
    pass


@dataclass(slots=True)
class Explainer:
    """``calls`` made so far, of at most ``most``."""

    api: API
    most: int = MOST_CALLS
    calls: int = 0
    _answers: dict[tuple[str, bool], tuple[int, AllocationCandidates]] = field(default_factory=dict)
    """Answers, each with how many candidates were asked for; with fewer, it has them all."""

    def diagnose(self, question: Question) -> Why:
        """Return the answer with each constraint's effect.  :raises PlacementError: no answer."""
        question = replace(question, request=replace(question.request, limit=None))
        found = Why(AllocationCandidates())
        try:
            found = replace(found, answer=self._query(question))
            found = replace(found, tally=tally(question, self._all_hosts, self.api))
            for constraint in constraints(question):
                effect = self._effect(constraint, question, found.answer)
                found = replace(found, effects=(*found.effects, effect))
            found = self._deeper(question, found)
        except _OutOfCalls:
            return replace(found, complete=False)
        return found

    def _effect(
        self, constraint: Constraint, question: Question, answer: AllocationCandidates
    ) -> Effect:
        less = without_constraint(question, constraint)
        lowered = less is None
        if less is None and constraint.amount == 1:
            return Effect(constraint, None)
        relaxed = self._query(less or with_amount(question, with_amount_one(constraint)))
        out = tuple(sorted(kept_out(constraint, answer, relaxed)))
        return Effect(constraint, relaxed, out, len(relaxed) - len(answer), lowered)

    def _deeper(self, question: Question, found: Why) -> Why:
        """Return ``found`` with other effects, or a set that can't be met together."""
        decisive = {effect.constraint for effect in found.decisive}
        others = indecisive(question, decisive, self._query, self.api)
        found = replace(found, overlapping=others.overlapping)
        if len(found.answer) or decisive:
            return replace(found, overlapping=(*others.impossible, *others.overlapping))
        if others.impossible:
            return replace(found, impossible=others.impossible)
        everything = constraints(question)
        amounts = [each for each in everything if each.aspect is Aspect.RESOURCES]
        rest = [each for each in everything if each.aspect is not Aspect.RESOURCES]
        there = len(self._query(with_constraints_only(question, ())))
        together = self._conflict(question, rest) if there else amounts
        return replace(found, together=tuple(together))

    def _conflict(self, question: Question, rest: list[Constraint]) -> list[Constraint]:
        """The constraints that can't go together, and none that could be left away."""
        kept = list(rest)
        for constraint in rest:
            fewer = [each for each in kept if each != constraint]
            if len(self._query(with_constraints_only(question, fewer))) == 0:
                kept = fewer
        return kept

    def _all_hosts(self, question: Question) -> AllocationCandidates:
        return self._query(question, TALLIED)

    def _query(self, question: Question, limit: int = LOOKED_AT) -> AllocationCandidates:
        key = (to_query_string(replace(question.request, limit=None)), question.include_disabled)
        asked_for, answer = self._answers.get(key, (0, AllocationCandidates()))
        if asked_for == limit or len(answer) < asked_for:
            return answer
        if self.calls >= self.most:
            raise _OutOfCalls
        self.calls += 1
        how = QueryOptions(include_disabled=question.include_disabled, several=True)
        answer = allocation_candidates(replace(question.request, limit=limit), self.api, how)
        self._answers[key] = limit, answer
        return answer


@dataclass(frozen=True, slots=True)
class Indecisive:
    """``impossible`` ones can't be met; ``overlapping`` leave out what others leave out too."""

    impossible: tuple[Constraint, ...] = ()
    overlapping: tuple[Constraint, ...] = ()


def indecisive(
    question: Question, decisive: Collection[Constraint], query: QueryCandidates, api: API
) -> Indecisive:
    """Return what the constraints besides the decisive ones rule out."""
    others = [each for each in constraints(question) if each not in decisive]
    amounts = [each for each in others if each.aspect is Aspect.RESOURCES]
    too_much = [each for each in amounts if not query(request_for(each))]
    lowered, basis = _basis(question, too_much, query)
    impossible, overlapping = list(too_much), []
    for constraint in others:
        if constraint in too_much:
            continue
        if constraint.aspect is Aspect.RESOURCES:
            worse = constraint.amount > 1 and _is_short(constraint, lowered, query)
        elif constraint not in constraints(lowered) or not basis:
            worse = False
            impossible += [constraint] if _is_nowhere(constraint, api) else []
        else:
            left = query(with_constraints_only(lowered, (constraint,)))
            worse = bool(left) and bool(kept_out(constraint, left, basis))
            impossible += [] if left else [constraint]
        overlapping += [constraint] if worse else []
    return Indecisive(tuple(impossible), tuple(overlapping))


def _basis(
    question: Question, too_much: Sequence[Constraint], query: QueryCandidates
) -> tuple[Question, AllocationCandidates]:
    """The request with amounts that are there at once, and what these alone get."""
    lowered = question
    for each in too_much:
        fewer = with_amount(lowered, with_amount_one(each))
        if not query(request_for(with_amount_one(each))):
            fewer = without_constraint(lowered, each) or lowered
        lowered = fewer
    if found := query(with_constraints_only(lowered, ())):
        return lowered, found
    for each in constraints(lowered):
        if each.aspect is Aspect.RESOURCES:
            lowered = with_amount(lowered, with_amount_one(each))
    return lowered, query(with_constraints_only(lowered, ()))


def _is_short(constraint: Constraint, lowered: Question, query: QueryCandidates) -> bool:
    """Whether hosts that have the least of it lack so much."""
    if constraint not in constraints(lowered):
        return False
    bare = with_constraints_only(lowered, ())
    less = query(with_amount(bare, with_amount_one(constraint)))
    return bool(kept_out(constraint, query(bare), less))


def _is_nowhere(constraint: Constraint, api: API) -> bool:
    """Whether no provider has what it asks for, where nothing else can be asked."""
    if constraint.aspect not in (Aspect.REQUIRED, Aspect.ROOT_REQUIRED, Aspect.MEMBER_OF):
        return False
    how = QueryOptions(include_disabled=True, several=True)
    return not resource_providers(ProviderQuery(where=group_having(constraint)), api, how).providers
