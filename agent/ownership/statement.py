"""Statements: what each manager asserts in this period.  Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agent.ownership.ledger import FILES, NONE, NOTHING, Holding, Ledger, driver_of
from reportclient.claims import SourceClaims
from reportclient.model import Provider
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot


class Assertion(NamedTuple):
    """A holding asserted on one provider, and a provider that has the values of its claims."""

    holding: Holding
    provider: Provider


@dataclass(frozen=True, slots=True)
class Statement:
    """``said`` by the UUID of the provider; a manager with a statement has answered.

    ``removed`` are providers that it took away by name, ``gone`` also what was below them,
    ``adopted`` those that somebody made before it.  ``denied`` are traits and aggregates that it
    asserts absent, by provider: :meth:`agent.ownership.hearing.Hearing.denied` says which go.
    ``places`` names the file and line of an assertion, by provider and what it names.
    """

    manager: str
    said: Mapping[str, Assertion] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    inventoried: frozenset[str] = frozenset()
    """Providers of which it said what inventory they have, be it none."""
    adopted: frozenset[str] = frozenset()
    denied: Mapping[str, Holding] = field(default_factory=dict)
    places: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of one period, in the order that decides, and the managers without one."""

    statements: tuple[Statement, ...] = ()
    silent: frozenset[str] = frozenset()
    """Drivers that failed, and sources that did."""
    order: tuple[str, ...] = ()
    """All drivers, as they are configured."""
    waiting: frozenset[str] = frozenset()
    """Drivers that are asked next: silent until then, and what they hold keeps nothing there."""

    def with_answer(
        self, statements: tuple[Statement, ...], silent: frozenset[str]
    ) -> "Statements":
        """The same after one more has answered."""
        statements = (*self.statements, *statements)
        return replace(self, statements=statements, silent=self.silent | silent)

    def halfway(self, statements: tuple[Statement, ...], silent: frozenset[str]) -> "Statements":
        """The same after one more wants a reshape.

        What it has said by then counts, but nothing that it left out goes.
        """
        drivers = {driver_of(one.manager) for one in statements}
        return self.with_answer(statements, silent | drivers)

    def without_answer(self, manager: str) -> "Statements":
        """The same after one more has failed."""
        return replace(self, silent=self.silent | {manager})

    def is_before(self, manager: str, other: str) -> bool:
        """Whether of what only one can have it gets it, though the other has it and is silent."""
        names = (*self.order, FILES)
        one, two = driver_of(manager), driver_of(other)
        return one in names and (two not in names or names.index(one) < names.index(two))

    def is_silent(self, manager: str) -> bool:
        """Whether what it asserted stays as it is.

        A driver's own claims do so too while one of its sources is silent: they may be that
        source's, from the time before it was named.
        """
        silent = self.silent | self.waiting
        if manager in silent:
            return True
        if manager == driver_of(manager):
            return any(driver_of(one) == manager for one in silent)
        has_answered = any(one.manager == manager for one in self.statements)
        return driver_of(manager) in silent and not has_answered

    def answered(self) -> frozenset[str]:
        """Drivers, and whoever else has said something."""
        return frozenset(driver_of(one.manager) for one in self.statements)


class DriverEdits(NamedTuple):
    """The edits that a driver made, the tree that it was shown, and the ledger of then."""

    base: Snapshot
    ledger: Ledger
    edits: Mapping[str, Provider | None]
    removed_below: frozenset[str]
    claims: Mapping[str, SourceClaims]

    @classmethod
    def on(cls, tree: ProviderTree, ledger: Ledger) -> "DriverEdits":
        """Return the edits of a tree, which may be edited on."""
        claims = {source: said.copy() for source, said in tree.claims.items()}
        return cls(tree.base, ledger, tree.edits(), frozenset(tree.removed_below), claims)

    def gone(self) -> frozenset[str]:
        """Providers that were taken away."""
        return frozenset(uuid for uuid, provider in self.edits.items() if provider is None)

    def changed_since(self, last: "DriverEdits", source: str) -> dict[str, None]:
        """UUIDs of the providers of which one source may assert something else than then."""
        claims = self.claims[source].changed_since(last.claims[source])
        around = self.base.changed_since(last.base), self.ledger.changed_since(last.ledger)
        return claims | dict.fromkeys([*around[0], *around[1], *self.edits, *last.edits])


@dataclass(frozen=True, slots=True)
class DriverStatements:
    """The statements of a driver, one a source; ``silent`` are sources without an answer."""

    heard: DriverEdits
    statements: tuple[Statement, ...]
    silent: frozenset[str]


def statements_of(
    driver: str, tree: ProviderTree, ledger: Ledger, last: DriverStatements | None = None
) -> DriverStatements:
    """A driver's answer.

    What it asserted before and left in the tree is asserted still.  With what was said
    ``last``, of whatever, it costs what changed since.
    """
    heard = DriverEdits.on(tree, ledger)
    if last is not None and last.heard == heard:
        return last
    silent = frozenset(source for source, said in heard.claims.items() if said.silent)
    found = tuple(
        _statement(driver, source, heard, tree, last)
        for source in heard.claims
        if not source or source not in silent
    )
    return DriverStatements(heard, found, frozenset(f"{driver}/{source}" for source in silent))


def without_moves(statement: Statement, ledger: Ledger) -> Statement:
    """Return a statement without classes that wait for a reshape to be moved.

    Or what moves would be offered in both places.  A source that was through by then has said
    all that it says, and nothing that moves.
    """
    driver = driver_of(statement.manager)
    if statement.manager != driver:
        return statement
    where: dict[str, set[str]] = {}
    for uuid, holders in ledger.holders.items():
        for who, held in holders.items():
            for name in held.classes if driver_of(who) == driver else ():
                where.setdefault(name, set()).add(uuid)
    said = dict(statement.said)
    for uuid, one in statement.said.items():
        classes = one.holding.classes
        stays = frozenset(name for name in classes if uuid in where.get(name, {uuid}))
        if stays != classes:
            said[uuid] = one._replace(holding=one.holding._replace(classes=stays))
        if classes and not stays and uuid not in ledger.holders:
            del said[uuid]
    return replace(statement, said=said)


def _statement(
    driver: str, source: str, heard: DriverEdits, tree: ProviderTree, last: DriverStatements | None
) -> Statement:
    manager, claims = f"{driver}/{source}" if source else driver, heard.claims[source]
    gone = NOTHING if source else heard.gone()
    return Statement(
        manager,
        _said(manager, source, heard, tree, last),
        removed=gone - heard.removed_below,
        gone=gone,
        inventoried=frozenset(claims.classes),
        adopted=frozenset(claims.adopted),
        denied={
            uuid: Holding(
                traits=claims.absent_traits.get(uuid, NOTHING),
                aggregates=claims.absent_aggregates.get(uuid, NOTHING),
            )
            for uuid in claims.absent_traits.keys() | claims.absent_aggregates.keys()
        },
    )


def _said(
    manager: str, source: str, heard: DriverEdits, tree: ProviderTree, last: DriverStatements | None
) -> dict[str, Assertion]:
    claims, ledger = heard.claims[source], heard.ledger
    before = next((o for o in (last.statements if last else ()) if o.manager == manager), None)
    if last is not None and before is not None:
        said, uuids = dict(before.said), heard.changed_since(last.heard, source)
    else:
        held = (uuid for uuid, holders in ledger.holders.items() if manager in holders)
        said, uuids = {}, claims.claimed_uuids() | dict.fromkeys(held)
    for uuid in uuids:
        provider, held_before = tree.provider(uuid), ledger.held(uuid, manager)
        holding = NONE if provider is None else _holding(claims, provider, held_before)
        if provider is not None and holding != NONE:
            said[uuid] = Assertion(holding, provider)
        else:
            said.pop(uuid, None)
    return said


def _holding(claims: SourceClaims, provider: Provider, before: Holding) -> Holding:
    uuid = provider.uuid
    now = Holding(
        before.provider or uuid in claims.placed or uuid in claims.classes,
        claims.classes.get(uuid, before.classes),
        (NOTHING if uuid in claims.renewed else before.traits) | claims.traits.get(uuid, NOTHING),
        before.aggregates | claims.aggregates.get(uuid, NOTHING),
    ).within(provider)
    return before if now == before else now
