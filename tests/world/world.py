"""All actors over one Placement, one registry and one broker, on one scheduler."""

from __future__ import annotations

import contextlib
import logging
import random
import shutil
import tempfile
import types
import uuid as uuidlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tenacity.nap

from agent.registry.endpoint import RegistryEndpoint
from agent.switching import switching
from tests.world.broker import REGISTRY, Broker
from tests.world.disk import StatePath, disks
from tests.world.events import Event, Killed, Off
from tests.world.hypervisor import Hypervisor
from tests.world.invariants import Invariants
from tests.world.machine import AUDIT, DOWN_AFTER, EPOCH, VERIFY, Machine
from tests.world.operators import Operators
from tests.world.placement import Placement, tried
from tests.world.registry import Registry
from tests.world.scheduler import Scheduler

HOSTS = 2
"""At most."""
CALM, CHAOS = 60.0, 600.0
"""Seconds before the first event, and while they happen."""


class World:
    def __init__(self, seed: object, disk: Path, hosts: int) -> None:
        self.seed, self.disk = seed, disk
        self.scheduler = Scheduler(seed)
        self.placement = Placement()
        self.invariants = self.placement.invariants = Invariants(self)
        self.registry_clock_is_off = 0.0
        self.registry = Registry(lambda: self.wall() + self.registry_clock_is_off, DOWN_AFTER)
        self.broker = Broker(self.scheduler, random.Random(f"{seed} broker"))
        self.operators = Operators(self)
        self.needs_audit = False
        """Whether there may be what no generation shows."""
        self.troubled_until = 0.0
        """When the last of what happened was over, as far as it is known."""
        self.machines = [self._machine(number) for number in range(1, hosts + 1)]
        self.twins: list[Machine] = []
        self.registry_listens()

    def wall(self) -> float:
        return EPOCH + self.scheduler.now

    def registry_listens(self) -> None:
        endpoint = RegistryEndpoint(self.registry.store)
        self.broker.listen(
            REGISTRY, lambda method, ctxt, said: getattr(endpoint, method)(ctxt, **said), None
        )

    def _machine(self, number: int) -> Machine:
        root = str(uuidlib.UUID(f"c0ffee00-0000-4000-8000-{number:012}"))
        state = StatePath(self.disk / f"host{number}")
        state.mkdir()
        (state / "compute_id").write_text(root + "\n")
        hypervisor = Hypervisor(f"host{number}", root)
        return Machine(self, f"host{number}", hypervisor, state, f"host{number} (boot 1)")

    # -- a history

    def live(self, events: Sequence[Event]) -> None:
        """:raises Violation: an invariant does not hold."""
        for machine in self.machines:
            machine.start()
        for event in sorted(events, key=lambda one: one.at):
            self.scheduler.spawn(self._happening(event), after=CALM + event.at)
        self._run(CALM + CHAOS)
        self.faults_end()
        self._run(2.5 * VERIFY + (1.5 * AUDIT if self.needs_audit else 0.0))
        self.invariants.all_is_equal()
        before = self._writes()
        self._run(1.2 * VERIFY)
        self.invariants.is_quiet(before)
        self.invariants.all_is_equal()

    def _run(self, seconds: float) -> None:
        end = self.scheduler.now + seconds
        while self.scheduler.now < end:
            self.scheduler.run(min(end, self.scheduler.now + 15.0))
            self.invariants.nothing_broke()
            self.invariants.statuses_follow()

    def is_troubled(self, machine: Machine) -> bool:
        """Whether something is in the way of it."""
        pending = machine.armed or machine.link.faults or any(self.broker.faults.values())
        return bool(pending) or self.scheduler.now < self.troubled_until or bool(self.twins)

    def _happening(self, event: Event) -> Callable[[], None]:
        def happen() -> None:
            self.troubled_until = max(self.troubled_until, self.scheduler.now + event.lasts)
            event.happen(self)

        def begin() -> None:
            """An end comes at that very step; whatever lasts must not last in the agent."""
            happen() if isinstance(event, Killed | Off) else self.scheduler.spawn(happen)

        def arm() -> None:
            event.on(self).armed.append((event.steps, begin))

        return arm if event.steps else happen

    def faults_end(self) -> None:
        for twin in self.twins:
            twin.turn_off()
        self.broker.faults.clear()
        if not self.broker.up:
            self.broker.come_back()
        self.registry_listens()
        self.registry.database.away = False
        for consumer in list(self.placement.whose.guests):
            tried(self.placement.stranger.delete_allocation, consumer)
            del self.placement.whose.guests[consumer]
        for machine in self.machines:
            machine.armed.clear()
            machine.link.faults.clear()
            machine.link.cut, machine.disk_fault = False, 0
            machine.hypervisor.silent = False
            machine.hypervisor_is(None)
            if not machine.is_on:
                machine.turn_on()

    def _writes(self) -> dict[str, int]:
        return {uuid: row.generation for uuid, row in self.placement.rows.items()}


@contextlib.contextmanager
def world(seed: object, *, hosts: int = 1, log: bool = False) -> Iterator[World]:
    """A world that begins; within, waiting and writing are its own."""
    random.seed(f"{seed} agents")
    disk = Path(tempfile.mkdtemp(prefix="world", dir=_memory()))
    made = World(seed, disk, hosts)
    with _quiet(made, log), disks(made.scheduler), _waits(made.scheduler):
        try:
            yield made
        finally:
            shutil.rmtree(disk)
            made.scheduler.close()
            made.registry.database.dispose()


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@contextlib.contextmanager
def _waits(scheduler: Scheduler) -> Iterator[None]:
    """The report client's pauses between two tries; and nobody reads a status file often."""
    before = vars(tenacity.nap)["time"], switching.FACTS_EVERY
    vars(tenacity.nap)["time"] = types.SimpleNamespace(sleep=scheduler.sleep)
    switching.FACTS_EVERY = 60.0
    try:
        yield
    finally:
        vars(tenacity.nap)["time"], switching.FACTS_EVERY = before


@contextlib.contextmanager
def _quiet(made: World, log: bool) -> Iterator[None]:
    """What goes wrong by order is not told; what has a traceback is an invariant's."""
    root = logging.getLogger()
    handlers: list[logging.Handler] = [made.invariants.log]
    if log:
        handlers.append(_Told(made))
    before = logging.root.manager.disable
    logging.disable(logging.NOTSET if log else logging.WARNING)
    level = root.level
    root.setLevel(logging.DEBUG if log else logging.WARNING)
    for handler in handlers:
        root.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)
        root.setLevel(level)
        logging.disable(before)


class _Told(logging.Handler):
    """For who reads a story: each line with its time and its host."""

    def __init__(self, made: World) -> None:
        super().__init__(logging.DEBUG)
        self.world = made

    def emit(self, record: logging.LogRecord) -> None:
        owner: Any = self.world.scheduler.owner
        who = owner.machine.label if owner is not None else "-"
        now = self.world.scheduler.now - CALM
        print(f"{now:9.2f} {who:8} {record.levelname[0]} {record.getMessage()}")
