"""What has to hold: after each write of an agent, at each look, and once all is calm.

A :class:`Violation` says which, and of what.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.period.traits import DISABLED
from agent.told.reports import Report
from reportclient.root import ATTEMPTS
from tests.world.machine import BEAT, INTERVAL, OWNER, RESTART, Machine

if TYPE_CHECKING:
    from tests.world.world import World


TWIN, KEPT = "degraded twin", "is below a device that is gone"
"""What is to be told of strangers: one who undoes, one who hangs something below a part."""


QUARREL = 100
"""Writes of each of two twins, by which somebody has to have noticed."""
FOLLOWS = INTERVAL + 1.2 * BEAT + RESTART
"""Seconds: a heartbeat brings the record, and the next period the trait at the latest."""


class Violation(BaseException):
    """An invariant does not hold; not an error that an agent may survive."""


class Invariants:
    def __init__(self, world: World) -> None:
        self.world = world
        self.log = Tracebacks()

    # -- after each write of an agent

    def wrote(self, machine: Machine, method: str, uuid: str | None) -> None:
        placement = self.world.placement
        if uuid is not None:
            self._is_its_own(machine, method, uuid)
            self._foreign_is_there(machine, method, uuid)
        else:
            for each in placement.whose.things:
                self._foreign_is_there(machine, method, each)
        if placement.held() != placement.whose.guests:
            raise Violation(
                f"{machine.label} has changed allocations: {placement.held()}, "
                f"not {placement.whose.guests}"
            )

    def _is_its_own(self, machine: Machine, method: str, uuid: str) -> None:
        if uuid not in machine.hypervisor.uuids and uuid not in machine.kin:
            raise Violation(f"{machine.label} has sent a {method} for {uuid}, which is not its own")

    def _foreign_is_there(self, machine: Machine, method: str, uuid: str) -> None:
        row = self.world.placement.rows.get(uuid)
        if row is None:
            return
        for (kind, name), value in self.world.placement.whose.things.get(uuid, {}).items():
            if _has(row, kind, name) != value:
                raise Violation(
                    f"{machine.label} has changed what is a stranger's: {kind} {name} of "
                    f"{row.name}, by a {method}"
                )

    # -- after each period

    def bounded(self, machine: Machine, report: Report) -> None:
        """One try reads all once, and writes each part in each way once."""
        placement = self.world.placement
        providers = len(placement.tree(machine.hypervisor.root)) + 2
        reads = 2 + 4 * providers + len(placement.held())
        most = ATTEMPTS * (reads + 6 * len(machine.hypervisor.uuids))
        if report.calls > most:
            raise Violation(f"{machine.label} made {report.calls} calls in one period, not {most}")

    # -- at any time

    def nothing_broke(self) -> None:
        if self.log.texts:
            raise Violation(f"an agent logged a traceback: {self.log.texts[0]}")

    def there_was_a_word(self, machine: Machine, twin: Machine) -> None:
        """Two that write to one tree for long are told of."""
        both_wrote = min(machine.writes, twin.writes) >= QUARREL
        if both_wrote and not (machine.words or twin.words):
            raise Violation(
                f"{machine.label} and {twin.label} wrote to one tree {machine.writes} and "
                f"{twin.writes} times, and nobody said a word"
            )

    def statuses_follow(self) -> None:
        """What was decided last holds soon after nothing is in the way any more."""
        now = self.world.scheduler.now
        for machine in self.world.machines:
            row = self.world.placement.rows.get(machine.hypervisor.root)
            wanted = self.world.operators.expected(machine)
            right = row is None or (DISABLED in row.traits) in wanted
            if right or self.world.is_troubled(machine):
                machine.wrong_since = None
            elif machine.wrong_since is None:
                machine.wrong_since = now
            elif now - machine.wrong_since > FOLLOWS:
                raise Violation(
                    f"{machine.label} is not what was decided last ({sorted(wanted)}) for "
                    f"{now - machine.wrong_since:.0f} s in which nothing was in the way"
                )

    # -- once all is calm

    def is_equal(self) -> bool:
        return next(self._all_differences(), None) is None

    def all_is_equal(self) -> None:
        for text in self._all_differences():
            raise Violation(text)

    def _all_differences(self) -> Iterator[str]:
        for machine in self.world.machines:
            if machine.is_on:
                for text in self._differences(machine):
                    yield f"{machine.label}, once all is calm: {text}"

    def is_quiet(self, before: dict[str, int]) -> None:
        """Nothing was written since."""
        rows = self.world.placement.rows
        now = {uuid: row.generation for uuid, row in rows.items()}
        moved = [rows[uuid].name for uuid in now if now[uuid] != before.get(uuid)]
        if moved or now.keys() != before.keys():
            raise Violation(f"agents go on writing though nothing changes: {moved}")

    def _differences(self, machine: Machine) -> Iterator[str]:
        here, placement = machine.hypervisor, self.world.placement
        if not machine.is_up:
            yield f"its agent is not up ({machine.refused})"
        whose = placement.whose.providers
        there = {uuid for uuid in placement.tree(here.root) if uuid not in whose}
        wanted = {here.uuid(name) for name in here.parts}
        wanted |= {uuid for uuid in there if self._holds_a_strangers(uuid)}
        if there != wanted and not (machine.forgot and there > wanted):
            named = {uuid: here.name(part) for uuid, part in here.uuids.items()}
            yield (
                f"there are {sorted(named.get(each, each) for each in there)}, "
                f"and not {sorted(named.get(each, each) for each in wanted)}"
            )
        for name in here.parts:
            yield from self._unlike(machine, name)
        yield from _complaints(machine)

    def _holds_a_strangers(self, uuid: str) -> bool:
        """What has his child below it can't go."""
        placement = self.world.placement
        return any(each in placement.whose.providers for each in placement.tree(uuid))

    def _unlike(self, machine: Machine, name: str) -> Iterator[str]:
        here, placement = machine.hypervisor, self.world.placement
        part, uuid = here.parts[name], here.uuid(name)
        row = placement.rows.get(uuid)
        if row is None:
            return
        called = here.name(name)
        if row.name != called:
            yield f"{called} is called {row.name}"
        parent = here.uuid(part.parent) if name else None
        if row.parent != parent:
            yield f"{called} is below {row.parent}, not {parent}"
        things = placement.whose.things.get(uuid, {})
        differ = partial(_differ, called, things, machine.forgot)
        yield from differ("class", set(row.inventory), {part.resource_class})
        record = row.inventory.get(part.resource_class, {})
        if (record.get("total"), record.get("reserved")) != (part.total, 0):
            yield f"{called} has {record} of {part.resource_class}, not {part.total}"
        own = {*part.traits, *([] if name else [OWNER, "COMPUTE_NODE"])}
        status = self.world.operators.expected(machine) if not name else {False}
        traits = set(row.traits) - {DISABLED}
        if (DISABLED in row.traits) not in status:
            is_so = "is" if DISABLED in row.traits else "is not"
            yield f"{called} {is_so} disabled, against what was decided last"
        yield from differ("trait", traits, own)
        yield from differ("aggregate", set(row.aggregates), set(part.aggregates))


def _differ(
    called: str,
    things: dict[tuple[str, str], Any],
    forgot: bool,
    kind: str,
    there: set[str],
    ours: set[str],
) -> Iterator[str]:
    """An agent that ``forgot`` leaves what it can't know to be its own."""
    wanted = ours | {name for a_kind, name in things if a_kind == kind}
    for name in sorted(wanted - there if forgot else there ^ wanted):
        yield f"{called} {'has' if name in there else 'lacks'} the {kind} {name}"


def _has(row: Any, kind: str, name: str) -> Any:
    """As much of it as there is: an inventory, or whether it is there."""
    if kind == "class":
        return row.inventory.get(name)
    return name in (row.traits if kind == "trait" else row.aggregates)


def _complaints(machine: Machine) -> Iterator[str]:
    process = machine.process
    if process is None:
        return
    if not process.reports:
        yield "it has reported nothing"
    for report in process.reports:
        texts = [str(one) for key, one in sorted(report.conditions().items()) if key != TWIN]
        yield from (f"it complains: {text}" for text in texts if KEPT not in text)


class Tracebacks(logging.Handler):
    """Keeps what was logged with a traceback, or as an error: no fault here is worth one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            err = record.exc_info[1]
            self.texts.append(f"{record.getMessage()}: {type(err).__name__}: {err}")
