"""What those constraints do that do not decide by themselves: harmless, or blamed on others.

Each is held against as little else as can be: the amounts of the request, or one of each
class where so much can't be had, on whatever host.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agent.cli.asking.constraints import (
    Aspect,
    Constraint,
    Question,
    alone,
    constraints,
    one_of,
    only,
    with_amount,
    without,
)
from agent.cli.asking.tally import Ask, kept_out
from reportclient.asking import How, resource_providers
from reportclient.candidates import AllocationCandidates, ProviderQuery, RequestGroup
from reportclient.http import API


@dataclass(frozen=True, slots=True)
class Indecisive:
    """``impossible`` ones can't be met; ``overlapping`` leave out what others leave out too."""

    impossible: tuple[Constraint, ...] = ()
    overlapping: tuple[Constraint, ...] = ()


def indecisive(asked: Question, decisive: Collection[Constraint], ask: Ask, api: API) -> Indecisive:
    """Of all but the decisive ones."""
    others = [each for each in constraints(asked) if each not in decisive]
    amounts = [each for each in others if each.kind is Aspect.RESOURCES]
    too_much = [each for each in amounts if not ask(alone(each))]
    lowered, basis = _basis(asked, too_much, ask)
    impossible, overlapping = list(too_much), []
    for constraint in others:
        if constraint in too_much:
            continue
        if constraint.kind is Aspect.RESOURCES:
            worse = constraint.amount > 1 and _is_short(constraint, lowered, ask)
        elif constraint not in constraints(lowered) or not basis:
            worse = False
            impossible += [constraint] if _is_nowhere(constraint, api) else []
        else:
            left = ask(only(lowered, (constraint,)))
            worse = bool(left) and bool(kept_out(constraint, left, basis))
            impossible += [] if left else [constraint]
        overlapping += [constraint] if worse else []
    return Indecisive(tuple(impossible), tuple(overlapping))


def _basis(
    asked: Question, too_much: Sequence[Constraint], ask: Ask
) -> tuple[Question, AllocationCandidates]:
    """The request with amounts that are there at once, and what these alone get."""
    lowered = asked
    for each in too_much:
        fewer = with_amount(lowered, one_of(each))
        if not ask(alone(one_of(each))):
            fewer = without(lowered, each) or lowered
        lowered = fewer
    if found := ask(only(lowered, ())):
        return lowered, found
    for each in constraints(lowered):
        if each.kind is Aspect.RESOURCES:
            lowered = with_amount(lowered, one_of(each))
    return lowered, ask(only(lowered, ()))


def _is_short(constraint: Constraint, lowered: Question, ask: Ask) -> bool:
    """Whether hosts that have the least of it lack so much."""
    if constraint not in constraints(lowered):
        return False
    bare = only(lowered, ())
    less = ask(with_amount(bare, one_of(constraint)))
    return bool(kept_out(constraint, ask(bare), less))


def _is_nowhere(constraint: Constraint, api: API) -> bool:
    """Whether no provider has what it asks for, where nothing else can be asked."""
    terms = ",".join(constraint.terms)
    term = f"in:{terms}" if len(constraint.terms) > 1 else terms
    if constraint.kind in (Aspect.REQUIRED, Aspect.ROOT_REQUIRED):
        where = RequestGroup.of(required=[term])
    elif constraint.kind is Aspect.MEMBER_OF:
        where = RequestGroup.of(member_of=[term])
    else:
        return False
    how = How(include_disabled=True, several=True)
    return not resource_providers(ProviderQuery(where=where), api, how).providers
