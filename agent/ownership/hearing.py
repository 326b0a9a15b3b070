"""What one settlement is about, and what was found out so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.ownership.ledger import AGENT, DERIVED, FORMER, NOTHING, STATUS, Ledger, driver_of
from agent.ownership.policy import Policy
from agent.ownership.showing import Drained
from agent.ownership.statement import Round, Said
from reportclient.model import Provider
from reportclient.plan import Problem
from reportclient.snapshot import Snapshot

Sayings = list[tuple[str, Said]]
"""What is said of one provider, and by whom, in the order that decides."""
UNKNOWN_BEFORE = frozenset({DERIVED, FORMER})
"""Managers that only stand for somebody of whom no ledger knows."""


@dataclass(slots=True)
class Hearing:
    """``said`` is what counts of the answers, by the UUID of the provider."""

    observed: Snapshot
    ledger: Ledger
    answers: Round
    policy: Policy
    drained: Drained
    problems: dict[Problem, None] = field(default_factory=dict)
    said: dict[str, Sayings] = field(default_factory=dict)
    quiet: frozenset[str] = NOTHING
    """Managers whose claims stay as they are."""
    denied: frozenset[str] = NOTHING
    """Providers of which traits are to go, whoever set them."""
    won: dict[tuple[str, str], str] = field(default_factory=dict)
    """Whose a class of a provider, or (without a class) the provider is in this round."""

    def hear(self) -> None:
        """Find out who is silent, and what of the answers counts."""
        self.quiet = self._silent_managers()
        self.denied = NOTHING.union(*(one.denied for one in self.answers.statements))
        for manager, uuid, said in self._each():
            counts, told = self.policy.allowed(manager, said, self.observed, self.ledger)
            for text in told:
                self.problem(self.observed.get(uuid) or said.provider, text)
            if counts is not None:
                self.said.setdefault(uuid, []).append((manager, counts))

    def problem(self, provider: Provider, text: str) -> None:
        """Tell it, once."""
        self.problems[Problem(provider.uuid, provider.name, text)] = None

    def is_spoken_of(self, uuid: str) -> bool:
        """By a driver: it says what the provider has, or took it away."""
        return any(uuid in one.gone or uuid in one.inventoried for one in self.answers.statements)

    def repeats(self, uuid: str) -> bool:
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
            for uuid, said in statement.said.items():
                yield statement.manager, uuid, said

    def _silent_managers(self) -> frozenset[str]:
        answered = self.answers.answered()
        complete = self.answers.silent | self.answers.waiting <= {AGENT, STATUS}
        return frozenset(
            one
            for one in self.ledger.managers()
            if self.answers.is_silent(one) or (driver_of(one) not in answered and not complete)
        )
