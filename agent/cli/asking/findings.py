"""What an explanation found, as sentences for an operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from agent.cli.asking.constraints import Asked, Constraint, Kind, alone, constraints, one_of
from agent.cli.asking.facts import Facts
from agent.cli.asking.why import LOOKED_AT, MOST_CALLS, Effect, Why
from agent.cli.drawing.candidates import counted
from reportclient.asking import How, allocation_candidates
from reportclient.http import API
from reportclient.query.request import called

TOLD = 8
"""Constraints of which everything is told; a request with more has them in the list only."""

TERMS = 8
"""Alternatives that a sentence names."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``verdict``: ``decides``, ``impossible``, ``conflicts`` or ``nothing``.

    ``more`` candidates there would be without it; ``kept_out`` are UUIDs.
    """

    constraint: Constraint
    verdict: str
    sentence: str
    more: int = 0
    kept_out: tuple[str, ...] = ()

    def row(self) -> list[Any]:
        """For programs."""
        group = self.constraint.suffix
        written = self.constraint.written
        return [written, group, self.verdict, self.more, list(self.kept_out), self.sentence]


COLUMNS = ("constraint", "group", "verdict", "more_candidates", "kept_out", "sentence")


def findings(why: Why, asked: Asked, api: API) -> list[Finding]:
    """Those first that decide."""
    groups = asked.request.by_suffix()
    facts = Facts(api, {suffix: group.resources for suffix, group in groups.items()})
    found = [_decides(effect, why, facts) for effect in _worth_telling(why, facts)[:TOLD]]
    found += [_impossible(each, why, facts, api) for each in why.impossible[:TOLD]]
    found += [Finding(each, "conflicts", f"{_subject(each)}.") for each in why.together]
    told = {finding.constraint for finding in found}
    rest = (each for each in constraints(asked) if each not in told)
    return [*found, *(Finding(each, "nothing", f"{_subject(each)}.") for each in rest)]


def told(found: list[Finding], why: Why) -> Iterator[tuple[str, str]]:
    """Paragraphs: the bullet or nothing, and the text."""
    none = len(why.answer) == 0
    by_verdict = {
        verdict: [finding for finding in found if finding.verdict == verdict]
        for verdict in ("decides", "impossible", "conflicts", "nothing")
    }
    if by_verdict["impossible"]:
        yield "", "These can't be met, whatever else is asked:"
    for finding in (*by_verdict["decides"], *by_verdict["impossible"]):
        yield "- ", finding.sentence
    if by_verdict["conflicts"]:
        yield "", "No host meets all of these at once, though each alone is met:"
        yield from (("- ", finding.sentence) for finding in by_verdict["conflicts"])
    if not none and not by_verdict["decides"]:
        yield "", "No constraint leaves out anything by itself."
    elif by_verdict["nothing"] and (by_verdict["decides"] or by_verdict["impossible"]):
        rest = ", ".join(_short(finding.constraint) for finding in by_verdict["nothing"])
        yield "", f"Nothing more is left out by: {rest}"
    if len(why.answer) >= LOOKED_AT or any(effect.cut for effect in why.effects):
        yield "", f"Only the first {LOOKED_AT} candidates of each answer were compared."
    if not why.complete:
        yield "", f"Stopped after {MOST_CALLS} questions: the request has too many constraints."


def _worth_telling(why: Why, facts: Facts) -> list[Effect]:
    """Without amounts that only do not fit beside the rest, where something else decides."""
    found = why.decisive
    if all(effect.constraint.kind is Kind.RESOURCES for effect in found):
        return found
    return [
        effect
        for effect in found
        if effect.constraint.kind is not Kind.RESOURCES
        or (effect.answer is not None and facts.is_short(effect.constraint, effect.answer))
    ]


def _decides(effect: Effect, why: Why, facts: Facts) -> Finding:
    constraint, answer = effect.constraint, effect.answer
    assert answer is not None
    out = effect.kept_out
    what = "host" if set(out) <= set(answer.hosts()) else "provider"
    parts = [_subject(constraint)]
    least = "at least " if effect.cut else ""
    if out:
        parts.append(f"leaves out {least}{counted(len(out), what)} ({facts.named(out)})")
    many = counted(len(answer), "candidate")
    if len(why.answer) == 0:
        less = f"with {constraint.terms[0]}:1" if effect.lowered else "without it"
        parts.append(f"{less} there would be {least}{many}")
    else:
        parts.append(f"without it there would be {least}{effect.more} more")
    fact = facts.of(constraint, answer)
    return Finding(constraint, "decides", f"{'; '.join(parts)}. {fact}".strip(), effect.more, out)


def _impossible(constraint: Constraint, why: Why, facts: Facts, api: API) -> Finding:
    answer = why.resources_only
    if constraint.kind is Kind.RESOURCES:
        answer = None
        if constraint.amount > 1:
            how = How(include_disabled=True)
            answer = allocation_candidates(alone(one_of(constraint)).request, api, how)
        answer = answer if answer is not None and len(answer) else None
    fact = facts.of(constraint, answer)
    return Finding(constraint, "impossible", f"{_subject(constraint)}. {fact}".strip())


def _subject(constraint: Constraint) -> str:
    """The constraint as a demand."""
    terms = " or ".join(_some(constraint.terms))
    who = called(constraint.suffix) if constraint.suffix else "the request"
    said = {
        Kind.ENABLED: "the host has to be enabled",
        Kind.ROOT_REQUIRED: f"the host itself has to have {terms}",
        Kind.ROOT_FORBIDDEN: f"the host itself must not have {terms}",
        Kind.IN_TREE: f"{who} has to be met in the tree of {terms}",
        Kind.REQUIRED: f"{who} needs {terms}",
        Kind.FORBIDDEN: f"{who} must not get {terms}",
        Kind.MEMBER_OF: f"{who} has to be met in the aggregate {terms}",
        Kind.NOT_MEMBER_OF: f"{who} must not be met in the aggregate {terms}",
        Kind.ISOLATE: "each group needs a provider of its own",
        Kind.SAME_SUBTREE: f"the groups {', '.join(constraint.terms)} have to be in one subtree",
        Kind.RESOURCES: f"{who} needs {constraint.amount} of {terms}",
    }
    text = said[constraint.kind]
    return f"{_short(constraint)}: {text}"


def _some(terms: tuple[str, ...]) -> tuple[str, ...]:
    """A sentence with a thousand aggregates is none; programs have the constraint in full."""
    if len(terms) <= TERMS:
        return terms
    return (*terms[: TERMS - 1], f"{len(terms) - TERMS + 1} more")


def _short(constraint: Constraint) -> str:
    return replace(constraint, terms=_some(constraint.terms)).written
