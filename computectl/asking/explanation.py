"""Write a diagnosis of a request as sentences for an operator."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from computectl.asking.constraints import Aspect, Constraint, constraints
from computectl.asking.facts import LOOKED_AT, Facts
from computectl.asking.tally import Tally
from computectl.asking.why import MOST_CALLS, Effect, Why
from computectl.shared.screen import counted
from reportclient.candidates.request import group_title

EXPLAINED = 8
"""Constraints that are explained in full; further ones are only listed."""

TERMS = 8
"""Traits or aggregates that a sentence names; of more, the number is given."""


VERDICTS = ("decides", "impossible", "conflicts", "overlaps", "nothing")


@dataclass(frozen=True, slots=True)
class Explained:
    """A constraint with its explanation; ``verdict``: one of ``VERDICTS``.

    ``more``: additional candidates without it.  ``kept_out``: UUIDs of excluded hosts or
    providers.  ``first_for``: number of hosts that it is the first constraint to exclude.
    """

    constraint: Constraint
    verdict: str
    sentence: str
    more: int = 0
    kept_out: tuple[str, ...] = ()
    first_for: int | None = None


COLUMNS: Mapping[str, Callable[[Explained], Any]] = {
    "constraint": lambda explained: explained.constraint.written,
    "group": lambda explained: explained.constraint.suffix,
    "verdict": lambda explained: explained.verdict,
    "more_candidates": lambda explained: explained.more,
    "kept_out": lambda explained: list(explained.kept_out),
    "first_for": lambda explained: explained.first_for,
    "sentence": lambda explained: explained.sentence,
}


def explanations(why: Why, facts: Facts) -> list[Explained]:
    """Return all constraints explained; those that alone exclude something come first."""
    explained = [_decides(effect, why, facts) for effect in _relevant(why, facts)[:EXPLAINED]]
    for each in why.impossible[:EXPLAINED]:
        sentence = f"{_subject(each)}. {facts.sentence_about(each)}".strip()
        explained.append(Explained(each, "impossible", sentence))
    explained += [Explained(each, "conflicts", f"{_subject(each)}.") for each in why.together]
    done = {each.constraint for each in explained}
    verdicts = dict.fromkeys((*why.impossible, *why.overlapping), "overlaps")
    if why.tally is not None:
        verdicts |= dict.fromkeys(why.tally.first, "overlaps")
    rest = (each for each in constraints(facts.question) if each not in done)
    explained += [
        Explained(each, verdicts.get(each, "nothing"), f"{_subject(each)}.") for each in rest
    ]
    if why.tally is None:
        return explained
    first = why.tally.first
    return [replace(each, first_for=first.get(each.constraint, 0)) for each in explained]


def paragraphs(explained: list[Explained], why: Why) -> Iterator[tuple[str, str]]:
    """Yield paragraphs of the explanation: a bullet or an empty text, and the sentence."""
    none = len(why.answer) == 0
    by_verdict = {
        verdict: [each for each in explained if each.verdict == verdict and _matters(each)]
        for verdict in VERDICTS
    }
    if why.tally is not None:
        yield "", _tallied(why.tally)
    if by_verdict["impossible"]:
        yield "", "No provider meets these constraints, even alone:"
    for each in (*by_verdict["decides"], *by_verdict["impossible"]):
        yield "- ", each.sentence
    if by_verdict["conflicts"]:
        yield "", "Each of these constraints can be met, but no host meets all of them:"
        yield from (("- ", each.sentence) for each in by_verdict["conflicts"])
    if not none and not by_verdict["decides"]:
        yield "", "No single constraint excludes anything."
    if by_verdict["overlaps"]:
        yield (
            "",
            f"Excluding only what other constraints exclude too: {_list(by_verdict['overlaps'])}",
        )
    if by_verdict["nothing"] and (by_verdict["decides"] or by_verdict["impossible"]):
        yield "", f"Excluding nothing: {_list(by_verdict['nothing'])}"
    if len(why.answer) >= LOOKED_AT or any(effect.cut for effect in why.effects):
        yield "", f"Only the first {LOOKED_AT} candidates of each answer were compared."
    if not why.complete:
        yield "", f"Stopped after {MOST_CALLS} queries: the request has too many constraints."


def _matters(explained: Explained) -> bool:
    """Whether to name a constraint; that hosts are enabled is always one, and seldom the reason."""
    return explained.constraint.aspect is not Aspect.ENABLED or explained.verdict in VERDICTS[:3]


def _tallied(tally: Tally) -> str:
    have = "has" if tally.left == 1 else "have"
    sentence = f"{tally.left} of {counted(tally.hosts, 'host')} {have} candidates"
    first = sorted(tally.first.items(), key=lambda each: -each[1])
    reasons = ", ".join(f"{hosts} by {_short(constraint)}" for constraint, hosts in first)
    ruled_out = f"; the others are excluded, by their first reason: {reasons}" if reasons else ""
    return f"{sentence}{ruled_out}."


def _list(explained: list[Explained]) -> str:
    return ", ".join(_short(each.constraint) for each in explained)


def _relevant(why: Why, facts: Facts) -> list[Effect]:
    """Return decisive constraints; omit amounts that are free, if others are decisive too."""
    decisive = why.decisive
    if all(effect.constraint.aspect is Aspect.RESOURCES for effect in decisive):
        return decisive
    return [
        effect
        for effect in decisive
        if effect.constraint.aspect is not Aspect.RESOURCES or facts.is_short(effect.constraint)
    ]


def _decides(effect: Effect, why: Why, facts: Facts) -> Explained:
    constraint, answer = effect.constraint, effect.answer
    out = effect.kept_out
    shares = {answer.provider_summaries[uuid].shares for uuid in out}
    what = "host" if set(out) <= set(answer.hosts()) and shares == {False} else "provider"
    what = "sharing provider" if shares == {True} else what
    parts = [_subject(constraint)]
    least = "at least " if effect.cut else ""
    if out:
        parts.append(f"excludes {least}{counted(len(out), what)} ({facts.named(out)})")
    many = counted(len(answer), "candidate")
    less = f"with {constraint.terms[0]}:{effect.lowered}" if effect.lowered else "without it"
    more = many if len(why.answer) == 0 else f"{effect.more} more"
    parts.append(f"{less} there would be {least}{more}")
    fact = facts.sentence_about(constraint)
    return Explained(constraint, "decides", f"{'; '.join(parts)}. {fact}".strip(), effect.more, out)


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
