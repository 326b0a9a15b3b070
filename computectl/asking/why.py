"""Find out why there are few or no candidates, by queries without one constraint at a time.

If no single constraint is decisive, each is queried alone; if each alone can be met, a smallest
set of constraints that can't be met together is searched.  The number of calls is bounded.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

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
from reportclient.candidates import AllocationCandidates, ProviderQuery, to_query_string
from reportclient.candidates.asking import QueryOptions, allocation_candidates, resource_providers
from reportclient.http import API

MOST_CALLS = 60


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one constraint.

    ``answer``: the candidates without it; ``None`` if the request would be empty then.
    ``kept_out``: UUIDs of the excluded hosts, or of the excluded providers for a constraint of a
    group with a suffix.  ``more``: the number of additional candidates.  ``lowered``: instead
    of leaving the constraint out, its amount was set to 1.
    """

    constraint: Constraint
    answer: AllocationCandidates | None
    kept_out: tuple[str, ...] = ()
    more: int = 0
    lowered: bool = False

    @property
    def cut(self) -> bool:
        """Whether the answer has as many candidates as were requested, so may be incomplete."""
        return self.answer is not None and len(self.answer) >= LOOKED_AT


@dataclass(frozen=True, slots=True)
class Why:
    """A diagnosis of a request.

    ``impossible`` constraints can't be met even alone; ``together`` can't be met by one host at
    once; ``overlapping`` exclude only what others exclude too.  ``tally`` counts each host
    once.  ``complete`` is false if the limit of calls was reached.
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
        """Return the constraints that exclude something by themselves, amounts last."""
        decisive = [effect for effect in self.effects if effect.more > 0]
        return sorted(decisive, key=lambda effect: effect.constraint.aspect is Aspect.RESOURCES)


class _OutOfCalls(Exception):
    pass


@dataclass(slots=True)
class Explainer:
    """Diagnoses a request with at most ``most`` queries; ``calls`` were made so far."""

    api: API
    most: int = MOST_CALLS
    calls: int = 0
    _answers: dict[tuple[str, bool], tuple[int, AllocationCandidates]] = field(default_factory=dict)
    """By query and ``include_disabled``: the requested limit, and the answer."""

    def diagnose(self, question: Question) -> Why:
        """Return the diagnosis of a question.  :raises PlacementError: a query failed."""
        question = replace(question, request=replace(question.request, limit=None))
        diagnosis = Why(AllocationCandidates())
        try:
            diagnosis = replace(diagnosis, answer=self._query(question))
            diagnosis = replace(
                diagnosis, tally=tally(question, partial(self._query, limit=TALLIED), self.api)
            )
            for constraint in constraints(question):
                effect = self._effect(constraint, question, diagnosis.answer)
                diagnosis = replace(diagnosis, effects=(*diagnosis.effects, effect))
            diagnosis = self._deeper(question, diagnosis)
        except _OutOfCalls:
            return replace(diagnosis, complete=False)
        return diagnosis

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

    def _deeper(self, question: Question, diagnosis: Why) -> Why:
        """Add the constraints that are not decisive, or a set that can't be met together."""
        decisive = {effect.constraint for effect in diagnosis.decisive}
        others = indecisive(question, decisive, self._query, self.api)
        diagnosis = replace(diagnosis, overlapping=others.overlapping)
        if len(diagnosis.answer) or decisive:
            return replace(diagnosis, overlapping=(*others.impossible, *others.overlapping))
        if others.impossible:
            return replace(diagnosis, impossible=others.impossible)
        everything = constraints(question)
        amounts = [each for each in everything if each.aspect is Aspect.RESOURCES]
        rest = [each for each in everything if each.aspect is not Aspect.RESOURCES]
        count = len(self._query(with_constraints_only(question, ())))
        if not count:
            return replace(diagnosis, together=tuple(amounts))
        conflict = list(rest)  # becomes a smallest set that can't be met together
        for constraint in rest:
            fewer = [each for each in conflict if each != constraint]
            if len(self._query(with_constraints_only(question, fewer))) == 0:
                conflict = fewer
        return replace(diagnosis, together=tuple(conflict))

    def _query(self, question: Question, limit: int = LOOKED_AT) -> AllocationCandidates:
        key = (to_query_string(replace(question.request, limit=None)), question.include_disabled)
        asked_for, answer = self._answers.get(key, (0, AllocationCandidates()))
        if asked_for == limit or len(answer) < asked_for:
            return answer
        if self.calls >= self.most:
            raise _OutOfCalls
        self.calls += 1
        how = QueryOptions(include_disabled=question.include_disabled)
        answer = allocation_candidates(replace(question.request, limit=limit), self.api, how)
        self._answers[key] = limit, answer
        return answer


@dataclass(frozen=True, slots=True)
class Indecisive:
    """Constraints that can't be met, and those that exclude only what others exclude too."""

    impossible: tuple[Constraint, ...] = ()
    overlapping: tuple[Constraint, ...] = ()


def indecisive(
    question: Question, decisive: Collection[Constraint], query: QueryCandidates, api: API
) -> Indecisive:
    """Classify the constraints that are not decisive."""
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
    """Return the question with amounts lowered until they can be met, and their candidates."""
    lowered = question
    for each in too_much:
        fewer = with_amount(lowered, with_amount_one(each))
        if not query(request_for(with_amount_one(each))):
            fewer = without_constraint(lowered, each) or lowered
        lowered = fewer
    if candidates := query(with_constraints_only(lowered, ())):
        return lowered, candidates
    for each in constraints(lowered):
        if each.aspect is Aspect.RESOURCES:
            lowered = with_amount(lowered, with_amount_one(each))
    return lowered, query(with_constraints_only(lowered, ()))


def _is_short(constraint: Constraint, lowered: Question, query: QueryCandidates) -> bool:
    """Whether hosts that have 1 of the resource class lack the requested amount."""
    if constraint not in constraints(lowered):
        return False
    bare = with_constraints_only(lowered, ())
    less = query(with_amount(bare, with_amount_one(constraint)))
    return bool(kept_out(constraint, query(bare), less))


def _is_nowhere(constraint: Constraint, api: API) -> bool:
    """Whether no provider at all has the traits or aggregates of the constraint."""
    if constraint.aspect not in (Aspect.REQUIRED, Aspect.ROOT_REQUIRED, Aspect.MEMBER_OF):
        return False
    how = QueryOptions(include_disabled=True)
    return not resource_providers(ProviderQuery(where=group_having(constraint)), api, how).providers
