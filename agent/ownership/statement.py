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
    asserts absent, by provider: :meth:`agent.ownership.settlement.Settlement.denied` says which go.
    ``places`` names the file and line of an assertion, by provider and what it names.
    """

    manager: str
    assertions: Mapping[str, Assertion] = field(default_factory=dict)
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

    def with_pending_reshape(
        self, statements: tuple[Statement, ...], silent: frozenset[str]
    ) -> "Statements":
        """The same after one more wants a reshape.

        What it has said by then counts, but nothing that it left out goes.
        """
        drivers = {driver_of(one.manager) for one in statements}
        return self.with_answer(statements, silent | drivers)

    def with_failed(self, manager: str) -> "Statements":
        """The same after one more has failed."""
        return replace(self, silent=self.silent | {manager})

    def takes_precedence(self, manager: str, other: str) -> bool:
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


class TreeEdits(NamedTuple):
    """The edits that a driver made, the tree that it was shown, and the ledger of then."""

    base: Snapshot
    ledger: Ledger
    edits: Mapping[str, Provider | None]
    removed_below: frozenset[str]
    claims: Mapping[str, SourceClaims]

    @classmethod
    def from_tree(cls, tree: ProviderTree, ledger: Ledger) -> "TreeEdits":
        """Return the edits of a tree, which may be edited on."""
        claims = {source: said.copy() for source, said in tree.claims.items()}
        return cls(tree.base, ledger, tree.edits(), frozenset(tree.removed_below), claims)

    def gone(self) -> frozenset[str]:
        """Providers that were taken away."""
        return frozenset(uuid for uuid, provider in self.edits.items() if provider is None)

    def changed_since(self, last: "TreeEdits", source: str) -> dict[str, None]:
        """UUIDs of the providers of which one source may assert something else than then."""
        claims = self.claims[source].changed_since(last.claims[source])
        around = self.base.changed_since(last.base), self.ledger.changed_since(last.ledger)
        return claims | dict.fromkeys([*around[0], *around[1], *self.edits, *last.edits])


@dataclass(frozen=True, slots=True)
class DriverStatements:
    """The statements of a driver, one a source; ``silent`` are sources without an answer."""

    tree_edits: TreeEdits
    statements: tuple[Statement, ...]
    silent: frozenset[str]


def driver_statements(
    driver: str, tree: ProviderTree, ledger: Ledger, last: DriverStatements | None = None
) -> DriverStatements:
    """A driver's answer.

    What it asserted before and left in the tree is asserted still.  With what was said
    ``last``, of whatever, it costs what changed since.
    """
    tree_edits = TreeEdits.from_tree(tree, ledger)
    if last is not None and last.tree_edits == tree_edits:
        return last
    silent = frozenset(source for source, said in tree_edits.claims.items() if said.silent)
    found = tuple(
        _statement(driver, source, tree_edits, tree, last)
        for source in tree_edits.claims
        if not source or source not in silent
    )
    return DriverStatements(tree_edits, found, frozenset(f"{driver}/{source}" for source in silent))


def without_moved_classes(statement: Statement, ledger: Ledger) -> Statement:
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
    said = dict(statement.assertions)
    for uuid, one in statement.assertions.items():
        classes = one.holding.classes
        stays = frozenset(name for name in classes if uuid in where.get(name, {uuid}))
        if stays != classes:
            said[uuid] = one._replace(holding=one.holding._replace(classes=stays))
        if classes and not stays and uuid not in ledger.holders:
            del said[uuid]
    return replace(statement, assertions=said)


def _statement(
    driver: str,
    source: str,
    tree_edits: TreeEdits,
    tree: ProviderTree,
    last: DriverStatements | None,
) -> Statement:
    manager, claims = f"{driver}/{source}" if source else driver, tree_edits.claims[source]
    gone = NOTHING if source else tree_edits.gone()
    return Statement(
        manager,
        _said(manager, source, tree_edits, tree, last),
        removed=gone - tree_edits.removed_below,
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
    manager: str,
    source: str,
    tree_edits: TreeEdits,
    tree: ProviderTree,
    last: DriverStatements | None,
) -> dict[str, Assertion]:
    claims, ledger = tree_edits.claims[source], tree_edits.ledger
    before = next((o for o in (last.statements if last else ()) if o.manager == manager), None)
    if last is not None and before is not None:
        said, uuids = dict(before.assertions), tree_edits.changed_since(last.tree_edits, source)
    else:
        held = (uuid for uuid, holders in ledger.holders.items() if manager in holders)
        said, uuids = {}, claims.claimed_uuids() | dict.fromkeys(held)
    for uuid in uuids:
        provider, held_before = tree.provider(uuid), ledger.holding_of(uuid, manager)
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
