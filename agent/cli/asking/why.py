"""Why there are no candidates, or so few: by asking again, without one constraint at a time.

Where no single one decides, each is asked for alone; where each alone can be met, the
smallest set is looked for that can't.  The number of calls is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from agent.cli.asking.constraints import (
    Asked,
    Constraint,
    Kind,
    alone,
    constraints,
    one_of,
    only,
    with_amount,
    without,
)
from reportclient.asking import How, allocation_candidates
from reportclient.candidates import AllocationCandidates, written
from reportclient.http import API

MOST_CALLS = 60
LOOKED_AT = 1000
"""Candidates in each answer: enough to name what is left out, little enough to be read."""


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

    ``complete`` is false if the calls were used up first.
    """

    answer: AllocationCandidates
    effects: tuple[Effect, ...] = ()
    impossible: tuple[Constraint, ...] = ()
    together: tuple[Constraint, ...] = ()
    resources_only: AllocationCandidates | None = None
    complete: bool = True

    @property
    def decisive(self) -> list[Effect]:
        """Constraints that leave out something by themselves, amounts last."""
        found = [effect for effect in self.effects if effect.more > 0]
        return sorted(found, key=lambda effect: effect.constraint.kind is Kind.RESOURCES)


class _OutOfCalls(Exception):
    pass


@dataclass(slots=True)
class Explainer:
    """``calls`` made so far, of at most ``most``."""

    api: API
    most: int = MOST_CALLS
    calls: int = 0
    _known: dict[tuple[str, bool], AllocationCandidates] = field(default_factory=dict)

    def why(self, asked: Asked) -> Why:
        """What decides.  :raises reportclient.errors.PlacementError: it can't be asked."""
        asked = replace(asked, request=replace(asked.request, limit=None))
        found = Why(AllocationCandidates())
        try:
            found = replace(found, answer=self._ask(asked))
            for constraint in constraints(asked):
                effect = self._effect(constraint, asked, found.answer)
                found = replace(found, effects=(*found.effects, effect))
            if len(found.answer) == 0 and not found.decisive:
                found = self._deeper(asked, found)
        except _OutOfCalls:
            return replace(found, complete=False)
        return found

    def _effect(self, constraint: Constraint, asked: Asked, answer: AllocationCandidates) -> Effect:
        less = without(asked, constraint)
        lowered = less is None
        if less is None and constraint.amount == 1:
            return Effect(constraint, None)
        relaxed = self._ask(less or with_amount(asked, one_of(constraint)))
        out = tuple(sorted(_kept_out(constraint, answer, relaxed)))
        return Effect(constraint, relaxed, out, len(relaxed) - len(answer), lowered)

    def _deeper(self, asked: Asked, found: Why) -> Why:
        rest = [each for each in constraints(asked) if each.kind is not Kind.RESOURCES]
        bare = self._ask(only(asked, ()))
        found = replace(found, resources_only=bare)
        if len(bare) == 0:
            amounts = [each for each in constraints(asked) if each.kind is Kind.RESOURCES]
            bad = self._impossible((each, alone(each)) for each in amounts)
            together = () if bad else tuple(amounts)
            return replace(found, impossible=bad, together=together)
        bad = self._impossible((each, only(asked, (each,))) for each in rest)
        if bad:
            return replace(found, impossible=bad)
        return replace(found, together=tuple(self._conflict(asked, rest)))

    def _impossible(self, asked: Iterable[tuple[Constraint, Asked]]) -> tuple[Constraint, ...]:
        return tuple(constraint for constraint, alone in asked if len(self._ask(alone)) == 0)

    def _conflict(self, asked: Asked, rest: list[Constraint]) -> list[Constraint]:
        """The constraints that can't go together, and none that could be left away."""
        kept = list(rest)
        for constraint in rest:
            fewer = [each for each in kept if each != constraint]
            if len(self._ask(only(asked, fewer))) == 0:
                kept = fewer
        return kept

    def _ask(self, asked: Asked) -> AllocationCandidates:
        key = (written(asked.request), asked.include_disabled)
        if key not in self._known:
            if self.calls >= self.most:
                raise _OutOfCalls
            self.calls += 1
            how = How(include_disabled=asked.include_disabled, several=True)
            request = replace(asked.request, limit=LOOKED_AT)
            self._known[key] = allocation_candidates(request, self.api, how)
        return self._known[key]


def _kept_out(
    constraint: Constraint, answer: AllocationCandidates, relaxed: AllocationCandidates
) -> list[str]:
    """Hosts, or the providers that would meet the group of the constraint."""
    if not constraint.suffix or not any(r.mappings for r in relaxed.allocation_requests):
        return _less(relaxed.hosts(), answer.hosts())
    return _less(_meeting(constraint.suffix, relaxed), _meeting(constraint.suffix, answer))


def _meeting(suffix: str, answer: AllocationCandidates) -> list[str]:
    return [
        uuid
        for request in answer.allocation_requests
        for uuid in (request.mappings or {}).get(suffix, ())
    ]


def _less(more: Iterable[str], fewer: Iterable[str]) -> list[str]:
    gone = set(fewer)
    return [uuid for uuid in dict.fromkeys(more) if uuid not in gone]
