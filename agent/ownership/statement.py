"""What one manager asserts in this period.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from agent.ownership.ledger import FILES, NONE, NOTHING, Holding, Ledger, driver_of
from agent.ownership.recording import Recording, RecordingTree
from reportclient.model import Provider
from reportclient.snapshot import Snapshot


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


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a driver said, of which tree and with which ledger, and so what it asserts.

    ``statements`` are by source, ``silent`` are the managers that did not answer.
    """

    base: Snapshot
    ledger: Ledger
    changed: Mapping[str, Provider | None]
    removed: list[str]
    recordings: Mapping[str, Recording]
    silent_sources: frozenset[str]
    statements: tuple[Statement, ...] = ()
    silent: frozenset[str] = NOTHING

    @classmethod
    def on(cls, tree: RecordingTree, ledger: Ledger) -> Spoken:
        """What was said on this tree, not yet what it asserts."""
        silent = frozenset(tree.silent_sources)
        said = tree.base, ledger, tree.edits(), tree.removed_by_name(), tree.recordings, silent
        return cls(*said)

    def repeats(self, last: Spoken) -> bool:
        """Whether the same was said, on the same tree and with the same ledger."""
        return (
            last.base is self.base
            and last.ledger is self.ledger
            and last.silent_sources == self.silent_sources
            and last.changed == self.changed
            and last.removed == self.removed
            and last.recordings == self.recordings
        )

    def changed_since(self, last: Spoken, source: str) -> dict[str, None]:
        """UUIDs of the providers of which one source may assert something else than then."""
        now, then = self.recordings[source], last.recordings[source]
        around = self.base.changed_since(last.base), self.ledger.changed_since(last.ledger)
        edited = self.changed, last.changed
        return dict.fromkeys(chain(now.changed_since(then), *around, *edited))


def statements_of(
    driver: str, tree: RecordingTree, ledger: Ledger, last: Spoken | None = None
) -> Spoken:
    """A driver's answer.

    What it asserted before and left in the tree is asserted still.  With what was said
    ``last``, of whatever, it costs what changed since.
    """
    spoken = Spoken.on(tree, ledger)
    if last is not None and spoken.repeats(last):
        return last
    tree.recordings.setdefault("", Recording())
    found = tuple(
        _statement(driver, source, spoken, tree, last)
        for source in tree.recordings
        if not source or source not in tree.silent_sources
    )
    recordings = {source: one.copied() for source, one in tree.recordings.items()}
    silent = frozenset(f"{driver}/{source}" for source in tree.silent_sources)
    return replace(spoken, recordings=recordings, statements=found, silent=silent)


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


def _statement(
    driver: str, source: str, spoken: Spoken, tree: RecordingTree, last: Spoken | None
) -> Statement:
    manager, recording = f"{driver}/{source}" if source else driver, tree.recordings[source]
    said = _said(manager, source, spoken, tree, last)
    removed = NOTHING if source else frozenset(spoken.removed)
    gone = NOTHING if source else frozenset(tree.gone())
    inventoried, adopted = frozenset(recording.classes), frozenset(recording.adopted)
    return Statement(manager, said, removed, gone, inventoried, adopted)


def _said(
    manager: str, source: str, spoken: Spoken, tree: RecordingTree, last: Spoken | None
) -> dict[str, Said]:
    recording, ledger = tree.recordings[source], spoken.ledger
    before = next((o for o in (last.statements if last else ()) if o.manager == manager), None)
    if last is not None and before is not None:
        said, uuids = dict(before.said), spoken.changed_since(last, source)
    else:
        held = (uuid for uuid, holders in ledger.holders.items() if manager in holders)
        said, uuids = {}, dict.fromkeys(chain(recording.spoken, held))
    for uuid in uuids:
        provider, held_before = tree.provider(uuid), ledger.held(uuid, manager)
        holding = NONE if provider is None else _holding(recording, provider, held_before)
        if provider is not None and holding != NONE:
            said[uuid] = Said(holding, provider)
        else:
            said.pop(uuid, None)
    return said


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
