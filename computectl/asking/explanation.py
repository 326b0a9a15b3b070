"""Explanations as sentences for an operator."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from computectl.asking.constraints import Aspect, Constraint, Question, constraints
from computectl.asking.facts import LOOKED_AT, Facts
from computectl.asking.tally import Tally
from computectl.asking.why import MOST_CALLS, Effect, Why
from computectl.shared.screen import counted
from reportclient.http import API
from reportclient.query.request import group_title

EXPLAINED = 8
"""Constraints of which everything is told; a request with more has them in the list only."""

TERMS = 8
"""Alternatives that a sentence names."""


@dataclass(frozen=True, slots=True)
class Explained:
    """``verdict``: ``decides``, ``impossible``, ``conflicts``, ``overlaps`` or ``nothing``.

    ``more`` candidates there would be without it; ``kept_out`` are UUIDs; of ``first_for``
    hosts it is the first that rules them out.
    """

    constraint: Constraint
    verdict: str
    sentence: str
    more: int = 0
    kept_out: tuple[str, ...] = ()
    first_for: int | None = None

    def row(self) -> list[Any]:
        """For programs."""
        group = self.constraint.suffix
        written = self.constraint.written
        out = list(self.kept_out)
        return [written, group, self.verdict, self.more, out, self.first_for, self.sentence]


COLUMNS = ("constraint", "group", "verdict", "more_candidates", "kept_out", "first_for", "sentence")


def explanations(why: Why, question: Question, api: API) -> list[Explained]:
    """Those first that decide."""
    facts = Facts(api, question)
    found = [_decides(effect, why, facts) for effect in _relevant(why, facts)[:EXPLAINED]]
    found += [_impossible(each, facts) for each in why.impossible[:EXPLAINED]]
    found += [Explained(each, "conflicts", f"{_subject(each)}.") for each in why.together]
    told = {one.constraint for one in found}
    verdicts = dict.fromkeys((*why.impossible, *why.overlapping), "overlaps")
    rest = (each for each in constraints(question) if each not in told)
    found += [Explained(one, verdicts.get(one, "nothing"), f"{_subject(one)}.") for one in rest]
    if why.tally is None:
        return found
    return [replace(one, first_for=why.tally.ruled_out_by(one.constraint)) for one in found]


def paragraphs(found: list[Explained], why: Why) -> Iterator[tuple[str, str]]:
    """Paragraphs: the bullet or nothing, and the text."""
    none = len(why.answer) == 0
    by_verdict = {
        verdict: [one for one in found if one.verdict == verdict]
        for verdict in ("decides", "impossible", "conflicts", "overlaps", "nothing")
    }
    if why.tally is not None:
        yield "", _tallied(why.tally)
    if by_verdict["impossible"]:
        yield "", "These can't be met, whatever else is asked:"
    for one in (*by_verdict["decides"], *by_verdict["impossible"]):
        yield "- ", one.sentence
    if by_verdict["conflicts"]:
        yield "", "No host meets all of these at once, though each alone is met:"
        yield from (("- ", one.sentence) for one in by_verdict["conflicts"])
    if not none and not by_verdict["decides"]:
        yield "", "No constraint leaves out anything by itself."
    if by_verdict["overlaps"]:
        yield (
            "",
            f"Also in the way, beside others: {_list(by_verdict['overlaps'])}",
        )
    if by_verdict["nothing"] and (by_verdict["decides"] or by_verdict["impossible"]):
        yield "", f"Nothing is left out by: {_list(by_verdict['nothing'])}"
    if len(why.answer) >= LOOKED_AT or any(effect.cut for effect in why.effects):
        yield "", f"Only the first {LOOKED_AT} candidates of each answer were compared."
    if not why.complete:
        yield "", f"Stopped after {MOST_CALLS} questions: the request has too many constraints."


def _tallied(tally: Tally) -> str:
    have = "has" if tally.left == 1 else "have"
    said = f"{tally.left} of {counted(tally.hosts, 'host')} {have} candidates"
    first = sorted(tally.first, key=lambda each: -each[1])
    reasons = ", ".join(f"{hosts} by {_short(constraint)}" for constraint, hosts in first)
    ruled_out = f"; ruled out, each by its first reason: {reasons}" if reasons else ""
    return f"{said}{ruled_out}."


def _list(found: list[Explained]) -> str:
    return ", ".join(_short(one.constraint) for one in found)


def _relevant(why: Why, facts: Facts) -> list[Effect]:
    """Without amounts that only do not fit beside the rest, where something else decides."""
    found = why.decisive
    if all(effect.constraint.aspect is Aspect.RESOURCES for effect in found):
        return found
    return [
        effect
        for effect in found
        if effect.constraint.aspect is not Aspect.RESOURCES or facts.is_short(effect.constraint)
    ]


def _decides(effect: Effect, why: Why, facts: Facts) -> Explained:
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
    fact = facts.sentence_about(constraint)
    return Explained(constraint, "decides", f"{'; '.join(parts)}. {fact}".strip(), effect.more, out)


def _impossible(constraint: Constraint, facts: Facts) -> Explained:
    said = f"{_subject(constraint)}. {facts.sentence_about(constraint)}".strip()
    return Explained(constraint, "impossible", said)


def _subject(constraint: Constraint) -> str:
    """The constraint as a demand."""
    terms = " or ".join(_some(constraint.terms))
    who = group_title(constraint.suffix) if constraint.suffix else "the request"
    said = {
        Aspect.ENABLED: "the host has to be enabled",
        Aspect.ROOT_REQUIRED: f"the host itself has to have {terms}",
        Aspect.ROOT_FORBIDDEN: f"the host itself must not have {terms}",
        Aspect.IN_TREE: f"{who} has to be met in the tree of {terms}",
        Aspect.REQUIRED: f"{who} needs {terms}",
        Aspect.FORBIDDEN: f"{who} must not get {terms}",
        Aspect.MEMBER_OF: f"{who} has to be met in the aggregate {terms}",
        Aspect.NOT_MEMBER_OF: f"{who} must not be met in the aggregate {terms}",
        Aspect.ISOLATE: "each group needs a provider of its own",
        Aspect.SAME_SUBTREE: f"the groups {', '.join(constraint.terms)} have to be in one subtree",
        Aspect.RESOURCES: f"{who} needs {constraint.amount} of {terms}",
    }
    text = said[constraint.aspect]
    return f"{_short(constraint)}: {text}"


def _some(terms: tuple[str, ...]) -> tuple[str, ...]:
    """A sentence with a thousand aggregates is none; programs have the constraint in full."""
    if len(terms) <= TERMS:
        return terms
    return (*terms[: TERMS - 1], f"{len(terms) - TERMS + 1} more")


def _short(constraint: Constraint) -> str:
    return replace(constraint, terms=_some(constraint.terms)).written
