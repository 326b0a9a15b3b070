"""The input of one settlement: assertions that count, and silent managers.  Pure."""

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
"""``reserved`` of drained classes as it was before, by provider UUID and class."""
Denial = tuple[str, str]
"""A provider's UUID, and the trait or aggregate that a manager asserts absent from it."""
STAND_INS = frozenset({OWN_UUID, NOVA_COMPUTE})
"""Managers that stand for an owner that no ledger has."""
ManagerAssertions = list[tuple[str, Assertion]]
"""The assertions on one provider with their managers; for exclusive claims the first decides."""


@dataclass(slots=True)
class Settlement:
    """One settlement; ``assertions`` are those of ``answers`` that count, by provider UUID."""

    observed: Snapshot
    ledger: Ledger
    answers: Statements
    policy: Policy
    drained: Drained
    problems: dict[Problem, None] = field(default_factory=dict)
    assertions: dict[str, ManagerAssertions] = field(default_factory=dict)
    denials: dict[Denial, str] = field(default_factory=dict)
    """The denials that Placement contradicts, each with the manager that denies."""
    silent_managers: frozenset[str] = NOTHING
    """Managers whose claims stay as they are in this settlement."""
    may_deny: bool = False
    """Whether the claims of all configured managers are known, so that denials can be checked."""

    def __post_init__(self) -> None:
        complete = self.answers.silent | self.answers.waiting <= {AGENT, STATUS}
        answered = self.answers.answered()
        self.silent_managers = frozenset(
            manager
            for manager in self.ledger.managers()
            if self.answers.is_silent(manager) or not (complete or driver_of(manager) in answered)
        )
        # Unreadable files may claim traits that no ledger has: see Policy.allowed.
        managers = self.ledger.managers() - {FILES}
        known = {AGENT, STATUS, *managers, *map(driver_of, managers)}
        self.may_deny = self.answers.silent | self.answers.waiting <= known

    def collect_assertions(self) -> list[str]:
        """Collect the assertions that count; return the UUIDs of providers that may change."""
        statements = self.answers.statements
        uuids = dict.fromkeys(
            chain(self.ledger.holders, *(statement.assertions for statement in statements))
        )
        unchanged = self._unchanged()
        may_change = [uuid for uuid in uuids if uuid not in unchanged]
        for statement, uuid in product(statements, may_change):
            if uuid in statement.assertions:
                self._add_allowed(statement, uuid)
        return may_change

    def _add_allowed(self, statement: Statement, uuid: str) -> None:
        assertion, manager = statement.assertions[uuid], statement.manager
        allowed, reasons = self.policy.allowed(manager, assertion, self.observed, self.ledger)
        for reason in reasons:
            self.add_problem(self.observed.get(uuid) or assertion.provider, reason)
        if allowed is not None:
            self.assertions.setdefault(uuid, []).append((manager, allowed))

    def _unchanged(self) -> set[str]:
        """Return the providers that need no settlement: almost all in almost all periods.

        Their only manager asserts what it asserted before, and Placement has exactly that.
        """
        observed, rows = self.observed.providers, self.ledger.holders
        unchanged, others = set[str](), set(self.drained)
        for statement in self.answers.statements:
            is_silent = statement.manager in self.silent_managers
            others.update(statement.assertions if is_silent else ())
            others.update(
                uuid
                for uuid, absent in statement.denied.items()
                if absent.within(observed.get(uuid)) != NONE
            )
            for uuid, (holding, provider) in statement.assertions.items():
                row = rows.get(uuid, {})
                same = provider is observed.get(uuid) and row.get(statement.manager) == holding
                (unchanged if same and len(row) == 1 else others).add(uuid)
        return unchanged - others

    def add_problem(self, provider: Provider, text: str) -> None:
        """Add a problem of a provider, once."""
        self.problems[Problem(provider.uuid, provider.name, text)] = None

    def is_reported(self, uuid: str) -> bool:
        """Return whether a driver sets the inventory of a provider, or removed it."""
        statements = self.answers.statements
        return any(uuid in each.gone or uuid in each.inventoried for each in statements)

    def denied(self, uuid: str) -> Holding:
        """Return the traits and aggregates to be removed from a provider, whoever set them.

        The agent's denials always count.  A driver's denial counts if the ledger has the provider
        and it is neither foreign nor another service's root, if the claims of all managers are
        known, and if neither the agent nor another manager claims the name.
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
        is_ours = any(held.provider for holder, held in row.items() if holder not in STAND_INS)
        if not (self.may_deny and is_ours and self.policy.may_drop(uuid)):
            return NONE
        asserted = (
            statement.assertions[uuid].holding
            for statement in self.answers.statements
            if statement.manager != manager and uuid in statement.assertions
        )
        others = row.keys() & self.silent_managers - {manager}
        silent = (row[holder] for holder in others)
        agents = Holding(traits=self.policy.agent_traits)
        return names.without(joined([agents, *asserted, *silent]))

    def place_in_files(self, uuid: str, name: str) -> str:
        """Return file and line of what the provider files assert, for messages."""
        statements = self.answers.statements
        places = (statement.places.get((uuid, name)) for statement in statements)
        return next(filter(None, places), FILES)
