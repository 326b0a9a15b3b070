"""What has to hold: after each write of an agent, at each look, and once all is calm.

A :class:`Violation` says which, and of what.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.period.service_tag import tag_of
from agent.period.traits import DISABLED
from agent.reporting.reports import Report
from reportclient.root import ATTEMPTS
from tests.world.files import CLASS, TRAIT, added_to
from tests.world.machine import AUDIT, BEAT, INTERVAL, OWNER, RESTART, Machine

if TYPE_CHECKING:
    from tests.world.hypervisor import Hypervisor
    from tests.world.world import World


TWIN = "degraded twin"
"""What is to be told of a stranger who undoes."""
ALLOWED = (
    "kept together with its removed parent",
    "below it is somebody else's",
    "somebody wrote to its providers meanwhile",
    "not set again: the owner of this root removed it",
)
"""And of one who hangs something below a part, or owns the root."""
RESHAPE = "needs a reshape, which is not allowed now"
"""And of a twin, which left a class that is foreign then: the driver wants it moved for ever."""

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

    def wrote(self, machine: Machine, method: str, path: str, uuid: str | None) -> None:
        placement = self.world.placement
        self._leaves_the_owners(machine, method, path, uuid)
        self._keeps_what_nobody_denies(machine, method, uuid)
        if uuid is not None:
            self._is_its_own(machine, method, uuid)
            self._foreign_is_there(machine, method, uuid)
        else:
            for each in list(placement.whose.things):
                self._foreign_is_there(machine, method, each)
        if placement.held() != placement.whose.guests:
            raise Violation(
                f"{machine.label} has changed allocations: {placement.held()}, "
                f"not {placement.whose.guests}"
            )

    def _is_its_own(self, machine: Machine, method: str, uuid: str) -> None:
        if uuid not in machine.uuids and uuid not in machine.kin:
            raise Violation(f"{machine.label} has sent a {method} for {uuid}, which is not its own")

    def _foreign_is_there(self, machine: Machine, method: str, uuid: str) -> None:
        row = self.world.placement.rows.get(uuid)
        if row is None:
            return
        leaves = (machine.setup.attached or method == "POST") and self._leaves(machine, uuid)
        things = self.world.placement.whose.things.get(uuid, {})
        for (kind, name), value in list(things.items()):
            if _has(row, kind, name) == value:
                continue
            if leaves or self._generations_repeat():
                del things[kind, name]
            else:
                raise Violation(
                    f"{machine.label} has changed what is a stranger's: {kind} {name} of "
                    f"{row.name}, by a {method}"
                )

    def _generations_repeat(self) -> bool:
        """After a restore the generations that an agent knows are given out once more, until it
        reads all again: a stranger's write may get just the one that the agent expects.
        """
        since = self.world.scheduler.now - self.world.placement.restored_at
        return since < 1.5 * AUDIT + INTERVAL

    def _leaves(self, machine: Machine, uuid: str) -> bool:
        """Its driver does not speak of it: it goes with what others have on it.

        By a reshape, or below a root of Nova's, it is emptied first.
        """
        for here in machine.nodes:
            part = here.uuids.get(uuid)
            if part:
                return part not in here.answered.get(here.driver_of(part), (part,))
        return False

    def _leaves_the_owners(
        self, machine: Machine, method: str, path: str, uuid: str | None
    ) -> None:
        """Of a root that is another service's an agent writes nothing but traits."""
        here = machine.hypervisor
        if here.attached and uuid == here.root and not path.endswith("/traits"):
            raise Violation(f"{machine.label} has sent a {method} {path}, of a root of Nova's")

    def _keeps_what_nobody_denies(self, machine: Machine, method: str, uuid: str | None) -> None:
        """What a driver said last is there until it says something else, and not only nothing.

        A removal that was given up, and done much later, is mended: it has no generation.
        """
        removes = method == "DELETE" and not self.world.placement.is_late
        for here in machine.nodes if removes else ():
            part = here.uuids.get(uuid or "")
            if part and not here.gone and part in here.answered.get(here.driver_of(part), ()):
                raise Violation(f"{machine.label} has removed {part}, which its driver spoke of")

    # -- after each period

    def bounded(self, machine: Machine, report: Report) -> None:
        """One try reads all once, and writes each part in each way once."""
        placement = self.world.placement
        here = next((one for one in machine.nodes if one.host == report.node), machine.hypervisor)
        providers = len(placement.tree(here.root)) + 2 + len(here.uuids) * here.attached
        reads = 2 + 4 * providers + len(placement.held())
        most = ATTEMPTS * (reads + 6 * len(here.uuids))
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
            there = self.world.placement.rows
            rows = [there.get(here.root) for here in machine.nodes if not here.gone]
            wanted = self.world.operators.expected(machine)
            right = all(row is None or (DISABLED in row.traits) in wanted for row in rows)
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
        if not machine.is_up:
            yield f"its agent is not up ({machine.refused})"
        for here in machine.nodes:
            yield from self._departed(machine, here) if here.gone else self._of(machine, here)
        yield from _complaints(machine)

    def _of(self, machine: Machine, here: Hypervisor) -> Iterator[str]:
        placement = self.world.placement
        whose = placement.whose.providers
        there = {uuid for uuid in placement.tree(here.root) if uuid not in whose}
        outside = placement.rows.keys() & here.uuids.keys() - there
        wanted = {here.uuid(name) for name in here.parts}
        wanted |= {uuid for uuid in there if self._holds_a_strangers(uuid)}
        named = {uuid: here.name(part) for uuid, part in here.uuids.items()}
        if there != wanted and not (machine.forgot and there > wanted):
            yield (
                f"there are {sorted(named.get(each, each) for each in there)}, "
                f"and not {sorted(named.get(each, each) for each in wanted)}"
            )
        for uuid in () if machine.forgot else outside:
            if not self._holds_a_strangers(uuid):
                yield f"{named[uuid]} is outside of the tree still"
        for name in here.parts:
            yield from self._unlike(machine, here, name)

    def _departed(self, machine: Machine, here: Hypervisor) -> Iterator[str]:
        """Nothing is left, or what carries no mark of this agent's, or holds a stranger's."""
        row = self.world.placement.rows.get(here.root)
        is_its_own = row is not None and _mark(machine) in row.traits
        # What a restored Placement has again is left there: nobody keeps a tree of it any more.
        is_left = machine.forgot or self.world.placement.restored_at >= 0
        if is_its_own and not self._holds_a_strangers(here.root) and not is_left:
            yield f"the provider of {here.host}, which vanished, is there still"

    def _holds_a_strangers(self, uuid: str) -> bool:
        """What has his child below it can't go."""
        placement = self.world.placement
        return any(each in placement.whose.providers for each in placement.tree(uuid))

    def _unlike(self, machine: Machine, here: Hypervisor, name: str) -> Iterator[str]:
        placement = self.world.placement
        part, uuid = here.parts[name], here.uuid(name)
        row = placement.rows.get(uuid)
        if row is None:
            return
        called = here.name(name)
        if row.name != called:
            yield f"{called} is called {row.name}"
        parent = here.parent(name) if name else None
        if row.parent != parent:
            yield f"{called} is below {row.parent}, not {parent}"
        things = placement.whose.things.get(uuid, {})
        late = {name for provider, name in machine.late if provider == uuid}
        made_anew = uuid in placement.deleted and placement.restored_at >= 0
        differ = partial(_differ, called, things, late, machine.forgot or made_anew)
        if here.attached and not name:
            yield from self._unlike_at_owners(machine, here, row)
            return
        filed = added_to(here, name)
        records = {part.resource_class: part.total} | ({CLASS: filed} if filed else {})
        yield from differ("class", set(row.inventory), set(records))
        for one, total in records.items():
            record = row.inventory.get(one, {})
            if (record.get("total"), record.get("reserved")) != (total, 0):
                yield f"{called} has {record} of {one}, not {total}"
        own = {*here.traits(name), *([] if name else [OWNER, "COMPUTE_NODE"])}
        own |= {TRAIT} if filed else set()
        own |= {_mark(machine)} if not name and len(machine.nodes) > 1 else set()
        status = self.world.operators.expected(machine) if not name else {False}
        traits = set(row.traits) - {DISABLED}
        if (DISABLED in row.traits) not in status:
            is_so = "is" if DISABLED in row.traits else "is not"
            yield f"{called} {is_so} disabled, against what was decided last"
        yield from differ("trait", traits, own)
        yield from differ("aggregate", set(row.aggregates), set(part.aggregates))

    def _unlike_at_owners(self, machine: Machine, here: Hypervisor, row: Any) -> Iterator[str]:
        """What its owner took away is not set again; so there may be fewer than are asserted."""
        wanted = self.world.placement.whose.things.get(here.root, {})
        for kind, name in wanted:
            if not _has(row, kind, name):
                yield f"{row.name} lacks the {kind} {name} of Nova's, or of a stranger's"
        foreign = {name for kind, name in wanted if kind == "trait"}
        # What a restored Placement has again is left there.
        is_left = machine.forgot or self.world.placement.restored_at >= 0
        for name in () if is_left else sorted(row.traits - foreign - here.traits("")):
            yield f"{row.name} has the trait {name}"


def _differ(
    called: str,
    things: dict[tuple[str, str], Any],
    late: set[str],
    forgot: bool,
    kind: str,
    there: set[str],
    ours: set[str],
) -> Iterator[str]:
    """An agent that ``forgot`` leaves what it can't know to be its own: nobody says whether a state
    of a provider that was made anew is one from before.
    """
    wanted = ours | {name for a_kind, name in things if a_kind == kind}
    for name in sorted(wanted - there if forgot else (there ^ wanted) - (late & there)):
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
        allowed = (*ALLOWED, RESHAPE) if machine.kin else ALLOWED
        told = (text for text in texts if not any(part in text for part in allowed))
        yield from (f"it complains: {text}" for text in told)


def _mark(machine: Machine) -> str:
    process = machine.process
    nodes = process.nodes if process is not None else None
    return "" if nodes is None else tag_of(nodes.own_uuid)


class Tracebacks(logging.Handler):
    """Keeps what was logged with a traceback, or as an error: no fault here is worth one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            err = record.exc_info[1]
            self.texts.append(f"{record.getMessage()}: {type(err).__name__}: {err}")
