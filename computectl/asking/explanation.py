"""Write a diagnosis of a request as sentences for an operator."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from computectl.asking.constraints import Aspect, Constraint
from computectl.asking.facts import LOOKED_AT, Facts
from computectl.asking.tally import Tally
from computectl.asking.why import MOST_CALLS, NAMED, Explained, Verdict, Why
from computectl.shared.screen import counted
from reportclient.candidates.request import group_title

TERMS = 8
"""Traits or aggregates that a sentence names; of more, the number is given."""


COLUMNS: Mapping[str, Callable[[Explained], Any]] = {
    "constraint": lambda explained: explained.constraint.written,
    "group": lambda explained: explained.constraint.suffix,
    "verdict": lambda explained: str(explained.verdict),
    "more_candidates": lambda explained: explained.more,
    "kept_out": lambda explained: list(explained.kept_out),
    "first_for": lambda explained: explained.first_for,
    "sentence": lambda explained: explained.sentence,
}


def write_sentences(why: Why, facts: Facts) -> None:
    """Write the sentences of a diagnosis, and put the constraints in the order of the verdicts."""
    decisive = [each for each in why.explained if each.verdict is Verdict.DECIDES]
    amounts = [each for each in decisive if each.constraint.aspect is Aspect.RESOURCES]
    for each in amounts if len(amounts) < len(decisive) else ():
        if not facts.is_short(each.constraint):  # another constraint is the reason
            each.verdict = Verdict.OVERLAPS if each.first_for else Verdict.NOTHING
            each.more, each.kept_out = 0, ()
    for each in why.explained:
        parts = [_subject(each.constraint)]
        if each.verdict is Verdict.DECIDES:
            parts += _effect(each, why, facts)
        is_reason = each.verdict in (Verdict.DECIDES, Verdict.IMPOSSIBLE)
        fact = f" {facts.sentence_about(each.constraint)}" if is_reason else ""
        each.sentence = f"{'; '.join(parts)}.{fact}"
    why.explained.sort(key=lambda each: each.rank)


def paragraphs(why: Why) -> Iterator[tuple[str, str]]:
    """Yield paragraphs of the explanation: a bullet or an empty text, and the sentence."""
    # That hosts are enabled is always a constraint, and seldom the reason.
    shown = [
        each
        for each in why.explained
        if each.rank < NAMED or each.constraint.aspect is not Aspect.ENABLED
    ]
    decides, impossible, conflicts, overlaps, nothing = (
        [each for each in shown if each.verdict is verdict] for verdict in Verdict
    )
    if why.tally is not None:
        yield "", _tallied(why.tally)
    if impossible:
        yield "", "No provider meets these constraints, even alone:"
    yield from (("- ", each.sentence) for each in (*decides, *impossible))
    if conflicts:
        yield "", "Each of these constraints can be met, but no host meets all of them:"
        yield from (("- ", each.sentence) for each in conflicts)
    if len(why.answer) and not decides:
        yield "", "No single constraint excludes anything."
    if overlaps:
        yield "", f"Excluding only what other constraints exclude too: {_list(overlaps)}"
    if nothing and (decides or impossible):
        yield "", f"Excluding nothing: {_list(nothing)}"
    if len(why.answer) >= LOOKED_AT or any(each.cut for each in why.explained):
        yield "", f"Only the first {LOOKED_AT} candidates of each answer were compared."
    if not why.complete:
        yield "", f"Stopped after {MOST_CALLS} queries: the request has too many constraints."


def _tallied(tally: Tally) -> str:
    have = "has" if tally.left == 1 else "have"
    sentence = f"{tally.left} of {counted(tally.hosts, 'host')} {have} candidates"
    first = sorted(tally.first.items(), key=lambda each: -each[1])
    reasons = ", ".join(f"{hosts} by {_short(constraint)}" for constraint, hosts in first)
    ruled_out = f"; the others are excluded, by their first reason: {reasons}" if reasons else ""
    return f"{sentence}{ruled_out}."


def _list(explained: list[Explained]) -> str:
    return ", ".join(_short(each.constraint) for each in explained)


def _effect(each: Explained, why: Why, facts: Facts) -> Iterator[str]:
    """Yield what a decisive constraint excludes, and what there would be without it."""
    out, without = each.kept_out, each.without
    shares = {without.provider_summaries[uuid].shares for uuid in out}
    what = "host" if set(out) <= set(without.hosts()) and shares == {False} else "provider"
    what = "sharing provider" if shares == {True} else what
    least = "at least " if each.cut else ""
    if out:
        yield f"excludes {least}{counted(len(out), what)} ({facts.named(out)})"
    less = f"with {each.constraint.terms[0]}:{each.lowered}" if each.lowered else "without it"
    more = f"{each.more} more" if len(why.answer) else counted(len(without), "candidate")
    yield f"{less} there would be {least}{more}"


def _subject(constraint: Constraint) -> str:
    """Return the constraint as a query parameter and as a sentence."""
    terms = " or ".join(_some(constraint.terms))
    title = group_title(constraint.suffix) if constraint.suffix else "the request"
    sentences = {
        Aspect.ENABLED: "the host must be enabled",
        Aspect.ROOT_REQUIRED: f"the root provider must have {terms}",
        Aspect.ROOT_FORBIDDEN: f"the root provider must not have {terms}",
        Aspect.IN_TREE: f"{title} needs providers in the tree of {terms}",
        Aspect.REQUIRED: f"{title} needs {terms}",
        Aspect.FORBIDDEN: f"{title} excludes providers with {terms}",
        Aspect.MEMBER_OF: f"{title} needs providers in the aggregate {terms}",
        Aspect.NOT_MEMBER_OF: f"{title} excludes providers in the aggregate {terms}",
        Aspect.ISOLATE: "each group needs a provider of its own",
        Aspect.SAME_SUBTREE: f"the groups {', '.join(constraint.terms)} must be in one subtree",
        Aspect.RESOURCES: f"{title} needs {constraint.amount} of {terms}",
    }
    text = sentences[constraint.aspect]
    return f"{_short(constraint)}: {text}"


def _some(terms: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first terms, and how many more there are."""
    if len(terms) <= TERMS:
        return terms
    return (*terms[: TERMS - 1], f"{len(terms) - TERMS + 1} more")


def _short(constraint: Constraint) -> str:
    return replace(constraint, terms=_some(constraint.terms)).written
