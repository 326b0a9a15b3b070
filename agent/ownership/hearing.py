"""What one settlement is about, and what was found out so far.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from agent.ownership.ledger import AGENT, DERIVED, FORMER, NOTHING, STATUS, Ledger, driver_of
from agent.ownership.policy import Policy
from agent.ownership.showing import Drained
from agent.ownership.statement import Round, Said
from reportclient.model import Provider
from reportclient.plan import Problem
from reportclient.snapshot import Snapshot, changed_keys

Sayings = list[tuple[str, Said]]
"""What is said of one provider, and by whom, in the order that decides."""
UNKNOWN_BEFORE = frozenset({DERIVED, FORMER})
"""Managers that only stand for somebody of whom no ledger knows."""


@dataclass(slots=True)
class Hearing:
    """``said`` is what counts of the answers, by the UUID of the provider.

    ``among`` are the providers that it is about: of all others somebody has heard before
    that they merely repeat what there is.  ``None``: all.
    """

    observed: Snapshot
    ledger: Ledger
    answers: Round
    policy: Policy
    drained: Drained
    among: Collection[str] | None = None
    problems: dict[Problem, None] = field(default_factory=dict)
    said: dict[str, Sayings] = field(default_factory=dict)
    quiet: frozenset[str] = NOTHING
    """Managers whose claims stay as they are."""
    denied: frozenset[str] = NOTHING
    """Providers of which traits are to go, whoever set them."""
    won: dict[tuple[str, str], str] = field(default_factory=dict)
    """Whose a class of a provider, or (without a class) the provider is in this round."""

    def hear(self) -> list[str]:
        """Find out who is silent, and what of the answers counts; of whom it says more than
        what was said before and is there.
        """
        self.quiet = self._silent_managers()
        self.denied = NOTHING.union(*(one.denied for one in self.answers.statements))
        for manager, uuid, said in self._each():
            counts, told = self.policy.allowed(manager, said, self.observed, self.ledger)
            for text in told:
                self.problem(self.observed.get(uuid) or said.provider, text)
            if counts is not None:
                self.said.setdefault(uuid, []).append((manager, counts))
        everybody = dict.fromkeys([*self._among(self.ledger.holders), *self.said])
        return [uuid for uuid in everybody if not self._repeats(uuid)]

    def repeats(self, last: Hearing) -> bool:
        """Whether it is about the same, but for the ledger."""
        return (
            self.observed is last.observed
            and self.policy == last.policy
            and self.drained == last.drained
            and self.answers == last.answers
        )

    def follows(self, last: Hearing) -> bool:
        """Whether what was found out then holds for all providers that are as they were."""
        now, then = self.ledger, last.ledger
        return (
            self.policy == last.policy
            and (now.begun, now.lost, now.seen) == (then.begun, then.lost, then.seen)
            and replace(self.answers, statements=()) == replace(last.answers, statements=())
            and [one.manager for one in self.answers.statements]
            == [one.manager for one in last.answers.statements]
        )

    def changed_since(self, last: Hearing) -> Iterator[str]:
        """UUIDs of the providers of which something is otherwise than it was then."""
        yield from self.observed.changed_since(last.observed)
        yield from self.ledger.changed_since(last.ledger)
        yield from (*self.drained, *last.drained)
        for now, then in zip(self.answers.statements, last.answers.statements, strict=True):
            yield from changed_keys(now.said, then.said)
            yield from (*now.denied, *then.denied)

    def problem(self, provider: Provider, text: str) -> None:
        """Tell it, once."""
        self.problems[Problem(provider.uuid, provider.name, text)] = None

    def is_spoken_of(self, uuid: str) -> bool:
        """By a driver: it says what the provider has, or took it away."""
        return any(uuid in one.gone or uuid in one.inventoried for one in self.answers.statements)

    def _repeats(self, uuid: str) -> bool:
        """Whether its one holder says again what it held, and that is what is there.

        So it is with almost all providers in almost all periods.
        """
        sayings, holders = self.said.get(uuid, ()), self.ledger.of(uuid)
        if len(sayings) != 1 or len(holders) != 1:
            return False
        ((who, said),) = sayings
        return (
            said.provider is self.observed.get(uuid)
            and said.holding == holders.get(who)
            and who not in self.quiet
            and uuid not in self.denied
            and uuid not in self.drained
        )

    def _each(self) -> Iterator[tuple[str, str, Said]]:
        for statement in self.answers.statements:
            for uuid in self._among(statement.said):
                yield statement.manager, uuid, statement.said[uuid]

    def _among(self, uuids: Collection[str]) -> Iterable[str]:
        if self.among is None:
            return uuids
        return (uuid for uuid in self.among if uuid in uuids)

    def _silent_managers(self) -> frozenset[str]:
        answered = self.answers.answered()
        complete = self.answers.silent | self.answers.waiting <= {AGENT, STATUS}
        return frozenset(
            one
            for one in self.ledger.managers()
            if self.answers.is_silent(one) or (driver_of(one) not in answered and not complete)
        )
