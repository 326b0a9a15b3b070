"""The input of one settlement: assertions that count, and managers that are silent.  Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, product

from agent.ownership.ledger import (
    AGENT,
    FILES,
    NONE,
    NOTHING,
    NOVA_COMPUTE,
    OWN_UUID,
    STATUS,
    Holding,
    Ledger,
    driver_of,
    joined,
)
from agent.ownership.policy import Policy
from agent.ownership.statement import Assertion, Statement, Statements
from reportclient.model import Provider
from reportclient.plan import Problem
from reportclient.snapshot import Snapshot

Drained = Mapping[str, Mapping[str, int]]
"""What was reserved of classes before they were drained, by provider."""
Denial = tuple[str, str]
"""The UUID of a provider, and the name of a trait or the UUID of an aggregate."""
STAND_INS = frozenset({OWN_UUID, NOVA_COMPUTE})
"""Managers that only stand for somebody of whom no ledger knows."""
ManagerAssertions = list[tuple[str, Assertion]]
"""What is said of one provider, and by whom, in the order that decides."""


@dataclass(slots=True)
class Settlement:
    """``said`` is what counts of the answers, by the UUID of the provider."""

    observed: Snapshot
    ledger: Ledger
    answers: Statements
    policy: Policy
    drained: Drained
    problems: dict[Problem, None] = field(default_factory=dict)
    assertions: dict[str, ManagerAssertions] = field(default_factory=dict)
    denials: dict[Denial, str] = field(default_factory=dict)
    """Names that Placement has and a driver asserts absent, with the driver's manager."""
    quiet: frozenset[str] = NOTHING
    """Managers whose claims stay as they are."""
    may_deny: bool = False
    """Whether the claims of every configured manager are known."""

    def __post_init__(self) -> None:
        complete = self.answers.silent | self.answers.waiting <= {AGENT, STATUS}
        answered = self.answers.answered()
        self.quiet = frozenset(
            one
            for one in self.ledger.managers()
            if self.answers.is_silent(one) or not (complete or driver_of(one) in answered)
        )
        # Files that can't be read claim traits that no ledger has: see Policy.allowed.
        managers = self.ledger.managers() - {FILES}
        known = {AGENT, STATUS, *managers, *map(driver_of, managers)}
        self.may_deny = self.answers.silent | self.answers.waiting <= known

    def hear(self) -> list[str]:
        """Find out what counts of the answers; of which providers more is said than what was
        said before and is there.
        """
        statements = self.answers.statements
        everybody = dict.fromkeys(
            chain(self.ledger.holders, *(one.assertions for one in statements))
        )
        repeated = self._repeated()
        differ = [uuid for uuid in everybody if uuid not in repeated]
        for statement, uuid in product(statements, differ):
            if uuid in statement.assertions:
                self._weigh(statement, uuid)
        return differ

    def _weigh(self, statement: Statement, uuid: str) -> None:
        said, who = statement.assertions[uuid], statement.manager
        counts, told = self.policy.allowed(who, said, self.observed, self.ledger)
        for text in told:
            self.problem(self.observed.get(uuid) or said.provider, text)
        if counts is not None:
            self.assertions.setdefault(uuid, []).append((who, counts))

    def _repeated(self) -> set[str]:
        """Providers whose one holder says again what it held, and that is what is there, and
        nobody else says anything: almost all providers in almost all periods.
        """
        there, rows = self.observed.providers, self.ledger.holders
        repeated, others = set[str](), set(self.drained)
        for one in self.answers.statements:
            others.update(one.assertions if one.manager in self.quiet else ())
            others.update(
                uuid for uuid, held in one.denied.items() if held.within(there.get(uuid)) != NONE
            )
            for uuid, (held, provider) in one.assertions.items():
                row = rows.get(uuid, {})
                same = provider is there.get(uuid) and row.get(one.manager) == held
                (repeated if same and len(row) == 1 else others).add(uuid)
        return repeated - others

    def problem(self, provider: Provider, text: str) -> None:
        """Tell it, once."""
        self.problems[Problem(provider.uuid, provider.name, text)] = None

    def is_spoken_of(self, uuid: str) -> bool:
        """Return whether a driver sets the inventory of a provider, or removed it."""
        return any(uuid in one.gone or uuid in one.inventoried for one in self.answers.statements)

    def denied(self, uuid: str) -> Holding:
        """Return the traits and aggregates to be removed from a provider, whoever set them.

        The agent's denials always count.  A driver's counts on a provider in the ledger, that is
        neither attached nor foreign, once the claims of all managers are known, and against
        nothing that another manager claims or that is the agent's to set.
        """
        result = NONE
        for statement in self.answers.statements:
            names = statement.denied.get(uuid, NONE)
            if names != NONE and driver_of(statement.manager) != AGENT:
                names = names.within(self.observed.get(uuid))
                names = self._not_claimed(uuid, statement.manager, names)
                both = [*names.traits, *names.aggregates]
                self.denials.update({(uuid, name): statement.manager for name in both})
                waits = frozenset(name for name in both if (uuid, name) in self.policy.contested)
                names = names.without(Holding(False, NOTHING, waits, waits))
            result = result.joined(names)
        return result

    def _not_claimed(self, uuid: str, manager: str, names: Holding) -> Holding:
        """Return those of the names that a driver denies which it may remove."""
        row = self.ledger.holdings_on(uuid)
        is_ours = any(held.provider for who, held in row.items() if who not in STAND_INS)
        if not (self.may_deny and is_ours and self.policy.may_drop(uuid)):
            return NONE
        asserted = (
            one.assertions[uuid].holding
            for one in self.answers.statements
            if one.manager != manager and uuid in one.assertions
        )
        silent = (held for who, held in row.items() if who in self.quiet and who != manager)
        agents = Holding(traits=self.policy.agent_traits)
        return names.without(joined([agents, *asserted, *silent]))

    def place_in_files(self, uuid: str, name: str) -> str:
        """File and line of what the files say."""
        places = (one.places.get((uuid, name)) for one in self.answers.statements)
        return next(filter(None, places), FILES)
