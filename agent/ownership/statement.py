"""What one manager asserts in this period.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agent.ownership.ledger import FILES, NONE, NOTHING, Holding, Ledger, driver_of
from agent.ownership.recording import Recording, RecordingTree
from reportclient.model import Provider


class Said(NamedTuple):
    """Of one provider: what is asserted, and its values (of all else in it, none count)."""

    holding: Holding
    provider: Provider


@dataclass(frozen=True, slots=True)
class Statement:
    """``said`` by the UUID of the provider; a manager with a statement has answered.

    ``removed`` are providers that it took away by name, ``gone`` also what was below them,
    ``adopted`` those that somebody made
    before it, ``denied`` traits that are to go, whoever set them (the agent's own only).
    ``places`` names the file and line of an assertion, by provider and what it names.
    """

    manager: str
    said: Mapping[str, Said] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    inventoried: frozenset[str] = frozenset()
    """Providers of which it said what inventory they have, be it none."""
    adopted: frozenset[str] = frozenset()
    denied: Mapping[str, frozenset[str]] = field(default_factory=dict)
    places: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Round:
    """One round of questions: who answered what, in the order that decides, and who did not."""

    statements: tuple[Statement, ...] = ()
    silent: frozenset[str] = frozenset()
    """Drivers that failed, and sources that did."""
    order: tuple[str, ...] = ()
    """All drivers, as they are configured."""
    waiting: frozenset[str] = frozenset()
    """Drivers that are asked next: silent until then, and what they hold keeps nothing there."""

    def with_answer(self, statements: tuple[Statement, ...], silent: frozenset[str]) -> Round:
        """The same after one more has answered."""
        statements = (*self.statements, *statements)
        return replace(self, statements=statements, silent=self.silent | silent)

    def halfway(self, statements: tuple[Statement, ...], silent: frozenset[str]) -> Round:
        """The same after one more wants a reshape.

        What it has said by then counts, but nothing that it left out goes.
        """
        drivers = {driver_of(one.manager) for one in statements}
        return self.with_answer(statements, silent | drivers)

    def without_answer(self, manager: str) -> Round:
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


def statements_of(
    driver: str, tree: RecordingTree, ledger: Ledger
) -> tuple[tuple[Statement, ...], frozenset[str]]:
    """A driver's answer, by its sources, and those of them that did not answer.

    What it asserted before and left in the tree is asserted still.
    """
    silent = frozenset(f"{driver}/{source}" for source in tree.silent_sources)
    recordings = {_manager(driver, source): one for source, one in tree.recordings.items()}
    recordings.setdefault(driver, Recording())
    found = tuple(
        _statement(manager, recording, tree, ledger)
        for manager, recording in recordings.items()
        if manager not in silent
    )
    return found, silent


def without_moves(statement: Statement, ledger: Ledger) -> Statement:
    """Of a driver that waits for a reshape: without classes that it has elsewhere until then.

    Or what moves would be offered in both places.  A source that was through by then has said
    all that it says, and nothing that moves.
    """
    driver = driver_of(statement.manager)
    if statement.manager != driver:
        return statement
    where: dict[str, set[str]] = {}
    for uuid, holders in ledger.holders.items():
        held = (held.classes for who, held in holders.items() if driver_of(who) == driver)
        for name in NOTHING.union(*held):
            where.setdefault(name, set()).add(uuid)
    said = dict(statement.said)
    for uuid, one in statement.said.items():
        moving = {name for name in one.holding.classes if uuid not in where.get(name, {uuid})}
        if moving:
            said[uuid] = Said(
                one.holding._replace(classes=one.holding.classes - moving), one.provider
            )
        if moving and moving == one.holding.classes and uuid not in ledger.holders:
            del said[uuid]
    return replace(statement, said=said)


def _manager(driver: str, source: str) -> str:
    return f"{driver}/{source}" if source else driver


def _statement(
    manager: str, recording: Recording, tree: RecordingTree, ledger: Ledger
) -> Statement:
    said = dict(_said(manager, recording, tree, ledger))
    is_main = manager == driver_of(manager)
    removed = frozenset(tree.removed_by_name()) if is_main else frozenset[str]()
    gone = frozenset(tree.gone()) if is_main else removed
    inventoried, adopted = frozenset(recording.classes), frozenset(recording.adopted)
    return Statement(manager, said, removed, gone, inventoried, adopted)


def _said(
    manager: str, recording: Recording, tree: RecordingTree, ledger: Ledger
) -> Iterator[tuple[str, Said]]:
    before = (uuid for uuid, holders in ledger.holders.items() if manager in holders)
    for uuid in {**dict.fromkeys(recording.spoken), **dict.fromkeys(before)}:
        provider = tree.provider(uuid)
        if provider is not None:
            holding = _holding(recording, provider, ledger.held(uuid, manager))
            if holding != NONE:
                yield uuid, Said(holding, provider)


def _holding(recording: Recording, provider: Provider, before: Holding) -> Holding:
    uuid, there = provider.uuid, provider.inventory.keys()
    classes = recording.classes.get(uuid, before.classes)
    said_before = NOTHING if uuid in recording.renewed else before.traits
    now = Holding(
        before.provider or uuid in recording.placed,
        classes if classes <= there else classes & there,
        _still(recording.traits.get(uuid), said_before, provider.traits),
        _still(recording.aggregates.get(uuid), before.aggregates, provider.aggregates),
    )
    return before if now == before else now


def _still(
    now: frozenset[str] | None, before: frozenset[str], there: frozenset[str]
) -> frozenset[str]:
    """Named now or before, and left in the tree."""
    names = before if now is None else before | now
    return names if names <= there else names & there
