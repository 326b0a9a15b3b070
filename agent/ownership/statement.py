"""Statements: the assertions of each manager in one period.  Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agent.ownership.ledger import FILES, NONE, NOTHING, Holding, Ledger, driver_of
from reportclient.model import Provider
from reportclient.provider_tree import ProviderTree, SourceClaims
from reportclient.snapshot import Snapshot
from reportclient.view import Drained


class Assertion(NamedTuple):
    """Claims on one provider; ``provider`` has their values, such as the inventory records."""

    holding: Holding
    provider: Provider


@dataclass(frozen=True, slots=True)
class Statement:
    """The assertions of one manager by provider UUID, and what it removes.

    ``removed`` are the providers that the manager removed by name, ``gone`` those and all below
    them, ``adopted`` those that it takes over from another service.  ``denied`` are traits and
    aggregates that it asserts absent, by provider: see :mod:`agent.ownership.settle`.
    ``places`` has the file and line of each assertion of a provider file, by provider and name.
    """

    manager: str
    assertions: Mapping[str, Assertion] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    inventoried: frozenset[str] = frozenset()
    """Providers whose inventory the manager set, be it to none."""
    adopted: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    """Providers that the manager removed since it does not find them now."""
    denied: Mapping[str, Holding] = field(default_factory=dict)
    places: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of one period in order of precedence, and the managers without one."""

    statements: tuple[Statement, ...] = ()
    silent: frozenset[str] = frozenset()
    """Drivers and sources of drivers that failed: their claims stay as they are."""
    order: tuple[str, ...] = ()
    """All drivers, in the order of compute_driver."""
    waiting: frozenset[str] = frozenset()
    """Drivers that were not called yet: silent until then, but their claims keep no provider."""

    def with_answer(
        self, statements: tuple[Statement, ...] = (), silent: frozenset[str] = NOTHING
    ) -> "Statements":
        """Return the statements after another manager has answered or failed.

        What a manager in ``silent`` leaves out of its statement is not removed.
        """
        statements = (*self.statements, *statements)
        return replace(self, statements=statements, silent=self.silent | silent)

    def on(self, uuid: str) -> list[tuple[str, Assertion]]:
        """Return the managers with an assertion on a provider, each with it."""
        return [(s.manager, s.assertions[uuid]) for s in self.statements if uuid in s.assertions]

    def takes_precedence(self, manager: str, other: str) -> bool:
        """Return whether a manager gets an exclusive claim that another, silent one has."""
        names = (*self.order, FILES)
        driver, holder = driver_of(manager), driver_of(other)
        return holder not in names or names.index(driver) < names.index(holder)

    def is_silent(self, manager: str) -> bool:
        """Return whether a manager's claims stay as they are.

        A driver's own claims also stay while one of its sources is silent: they may be that
        source's, recorded before the driver named its sources.
        """
        silent = self.silent | self.waiting
        if manager in silent:
            return True
        if manager == driver_of(manager):
            return any(driver_of(each) == manager for each in silent)
        has_answered = any(each.manager == manager for each in self.statements)
        return driver_of(manager) in silent and not has_answered

    def answered(self) -> frozenset[str]:
        """Return the drivers and other managers with a statement."""
        return frozenset(driver_of(statement.manager) for statement in self.statements)


class DriverStatements(NamedTuple):
    """The statements of a driver, one per source, after what they follow from: its tree's edits."""

    base: Snapshot
    ledger: Ledger
    edits: Mapping[str, Provider | None]
    removed_below: frozenset[str]
    claims: Mapping[str, SourceClaims]
    drained: Drained
    statements: tuple[Statement, ...] = ()
    silent: frozenset[str] = NOTHING
    """Sources that failed."""


def driver_statements(
    driver: str,
    tree: ProviderTree,
    ledger: Ledger,
    last: DriverStatements | None = None,
    drained: Drained | None = None,
) -> DriverStatements:
    """Return a driver's statements, from its edited tree.

    What the driver asserted before and left in the tree counts as asserted again, but a drained
    class, and a provider that leaves, is asserted only if the driver set it.  ``last`` are the
    driver's statements of an earlier period; with them only what changed since is computed.
    """
    # Copies: if the driver goes on editing the tree, the statements don't change.
    copied = {source: claims.copy() for source, claims in tree.claims.items()}
    removed_below = frozenset(tree.removed_below)
    drained = drained or {}
    now = DriverStatements(tree.base, ledger, tree.edits(), removed_below, copied, drained)
    if last is not None and now == last._replace(statements=(), silent=NOTHING):
        return last
    gone = frozenset(uuid for uuid, provider in now.edits.items() if provider is None)
    managers = {source: f"{driver}/{source}" if source else driver for source in copied}
    silent = frozenset(managers[it] for it, claims in copied.items() if it and claims.silent)
    statements = []
    for source, claims in copied.items():
        manager = managers[source]
        if manager in silent:
            continue
        before = next((o for o in (last.statements if last else ()) if o.manager == manager), None)
        if last is not None and before is not None:
            assertions = dict(before.assertions)
            uuids = claims.changed_since(last.claims[source])
            uuids |= dict.fromkeys(now.base.changed_since(last.base))
            uuids |= dict.fromkeys(ledger.changed_since(last.ledger))
            uuids |= dict.fromkeys([*now.edits, *last.edits, *drained, *last.drained])
            uuids |= dict.fromkeys(ledger.leaving ^ last.ledger.leaving)
        else:
            held = (uuid for uuid, holders in ledger.holders.items() if manager in holders)
            assertions, uuids = {}, claims.claimed_uuids() | dict.fromkeys(held)
        for uuid in uuids:
            provider = tree.provider(uuid)
            holding = NONE
            if provider is not None:
                not_again = Holding(uuid in ledger.leaving, frozenset(drained.get(uuid, ())))
                earlier = ledger.holding_of(uuid, manager).without(not_again)
                holding = _holding(claims, provider, earlier)
            if provider is not None and holding != NONE:
                assertions[uuid] = Assertion(holding, provider)
            else:
                assertions.pop(uuid, None)
        traits, aggregates = claims.absent_traits, claims.absent_aggregates
        denied = {
            uuid: Holding(False, NOTHING, traits.get(uuid, NOTHING), aggregates.get(uuid, NOTHING))
            for uuid in traits.keys() | aggregates.keys()
        }
        statements.append(
            Statement(
                manager,
                assertions,
                removed=NOTHING if source else gone - now.removed_below,
                gone=NOTHING if source else gone,
                inventoried=frozenset(claims.classes),
                adopted=frozenset(claims.adopted),
                missing=frozenset(claims.missing),
                denied=denied,
            )
        )
    return now._replace(statements=tuple(statements), silent=silent)


def _holding(claims: SourceClaims, provider: Provider, before: Holding) -> Holding:
    """Return what a source claims on a provider: what it named, and what it claimed before."""
    uuid = provider.uuid
    now = Holding(
        before.provider or uuid in claims.placed or uuid in claims.classes,
        claims.classes.get(uuid, before.classes),
        (NOTHING if uuid in claims.all_traits else before.traits)
        | claims.traits.get(uuid, NOTHING),
        (NOTHING if uuid in claims.all_aggregates else before.aggregates)
        | claims.aggregates.get(uuid, NOTHING),
    ).within(provider)
    return before if now == before else now


def without_moved_classes(statement: Statement, ledger: Ledger) -> Statement:
    """Return a statement without the classes that a pending reshape would move.

    They would be offered in both places otherwise.  Statements of sources are returned as they
    are: a source that was done before the driver asked for the reshape moves nothing.
    """
    driver = driver_of(statement.manager)
    if statement.manager != driver:
        return statement
    where: dict[str, set[str]] = {}
    for uuid, holders in ledger.holders.items():
        for manager, held in holders.items():
            for name in held.classes if driver_of(manager) == driver else ():
                where.setdefault(name, set()).add(uuid)
    assertions = dict(statement.assertions)
    for uuid, assertion in statement.assertions.items():
        holding, classes = assertion.holding, assertion.holding.classes
        staying = frozenset(name for name in classes if uuid in where.get(name, {uuid}))
        if staying != classes:
            assertions[uuid] = assertion._replace(holding=holding._replace(classes=staying))
        if classes and not staying and uuid not in ledger.holders:
            del assertions[uuid]
    return replace(statement, assertions=assertions)


def with_moved_classes(ledger: Ledger, observed: Snapshot, answers: Statements) -> Ledger:
    """Return a lost ledger after a reshape, with the classes that the drivers have moved away.

    A class that a driver leaves out of an inventory, and adds to that of another provider, was its
    own; otherwise it would be offered in both places.  What it leaves out only may be another
    service's.
    """
    before = {uuid: provider.inventory.keys() for uuid, provider in observed.providers.items()}
    now = dict[str, frozenset[str]]()
    for statement in answers.statements:
        for uuid, (holding, _) in statement.assertions.items():
            now[uuid] = now.get(uuid, NOTHING) | holding.classes
    added = NOTHING.union(*(classes - before.get(uuid, NOTHING) for uuid, classes in now.items()))
    for statement in answers.statements:
        for uuid in statement.inventoried & before.keys():
            if moved := added.intersection(before[uuid] - now.get(uuid, NOTHING)):
                ledger = ledger.adding(statement.manager, uuid, Holding(classes=moved))
    return ledger
