"""All actors over one Placement, one registry and one broker, on one scheduler."""

from __future__ import annotations

import contextlib
import gc
import logging
import random
import uuid as uuidlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

from agent.provider_config import files
from agent.switching import switching
from compute_registry.endpoint import RegistryEndpoint
from reportclient.schedule import LONGEST
from tests.world.broker import REGISTRY, Broker
from tests.world.disk import Disk, StatePath, disks
from tests.world.events import Event, Killed, Off
from tests.world.files import NAME, text_for
from tests.world.hypervisor import Hypervisor
from tests.world.invariants import Invariants
from tests.world.machine import AUDIT, BEAT, DOWN_AFTER, EPOCH, INTERVAL, VERIFY, Machine
from tests.world.nova import Nova
from tests.world.operators import Operators
from tests.world.placement import Placement, tried
from tests.world.registry import Registry
from tests.world.scheduler import Scheduler
from tests.world.setup import Setup

PLAIN = Setup()
CALM, CHAOS = 15.0, 200.0
"""Seconds before the first event, and while they happen."""
LEAVING = 2.5 * VERIFY + 2 * INTERVAL
"""Seconds in which a child of Nova's root, or a node that vanished, is taken away; twice that if
the agent is killed meanwhile."""
LONGEST_FAULT = 120.0
"""Seconds for which one lasts."""
LOOK = 15.0
"""Seconds between two looks from outside."""
LONGEST_TRY = 1.5 * LONGEST * INTERVAL
"""Seconds until an agent that got no answer for long asks again; a hypervisor that was lost again
and again is trusted before that."""


class World:
    def __init__(self, seed: object, setup: Setup) -> None:
        self.seed, self.setup = seed, setup
        self.scheduler = Scheduler(seed)
        self.disk = Disk(self.scheduler)
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
        self.machines = [self._machine(number) for number in range(setup.hosts)]
        self.places = [(machine, here) for machine in self.machines for here in machine.nodes]
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
        own = f"c0ffee00-0000-4000-8000-{number + 1:012}"
        label = f"host{number + 1}"
        state = self.state_path(label)
        state.mkdir()
        if not self.setup.attached:
            (state / "compute_id").write_text(own + "\n")
        nodes = [self._node(own, index) for index in range(number, number + self.setup.nodes)]
        machine = Machine(self, label, nodes, state, f"{label} (boot 1)")
        machine.files.mkdir()
        if self.setup.attached:
            Nova(self, nodes[0]).period()
        return machine

    def _node(self, own: str, index: int) -> Hypervisor:
        """A service with many nodes has UUIDs for them that are made from their names."""
        name = f"host{index + 1}"
        root = own if self.setup.nodes == 1 else str(uuidlib.uuid5(uuidlib.UUID(own), name))
        return Hypervisor(
            name, root, two_drivers=self.setup.two_drivers, attached=self.setup.attached
        )

    def state_path(self, label: str) -> StatePath:
        return StatePath(self.disk, f"/state/{label}")

    def write_files(self, machine: Machine, part: str, total: int) -> None:
        """An operator adds to a part of the first node, or to each root; no more to what was."""
        part = part or ("cell0" if self.setup.attached else "")
        (machine.files / NAME).write_text(text_for(machine.host, part, total))
        for here in machine.nodes:
            is_meant = not part or here is machine.hypervisor
            here.filed = (part, total) if is_meant else None

    # -- a history

    def live(self, events: Sequence[Event]) -> None:
        """:raises Violation: an invariant does not hold."""
        for machine in self.machines:
            machine.start()
        for event in sorted(events, key=lambda one: one.at):
            self.scheduler.spawn(self._happening(event), after=CALM + event.at)
        self._run(CALM + CHAOS)
        self.faults_end()
        over = self.scheduler.now + LONGEST_FAULT
        self._run_until(lambda: not self.scheduler.strays, over)
        self.guests_go()
        self._calms_down()

    def _calms_down(self) -> None:
        """All is equal, and stays so, after a time that is bounded."""
        end = self.scheduler.now + self._longest()
        while True:
            self._run_until(self.invariants.is_equal, end)
            self.invariants.all_is_equal()
            before, since = self._writes(), self.scheduler.now
            self._run_until(partial(self._all_looked, since), since + 1.6 * VERIFY + INTERVAL)
            if self._writes() == before or self.scheduler.now > end:
                break
        self.invariants.is_quiet(before)
        self.invariants.all_is_equal()

    def _longest(self) -> float:
        """Seconds within which all has to be equal once faults end."""
        most = 2.5 * VERIFY + LONGEST_TRY
        if self.setup.attached or any(here.gone for _, here in self.places):
            most += 2 * LEAVING
        return most + (1.5 * AUDIT if self.needs_audit else 0.0)

    def _all_looked(self, since: float) -> bool:
        """Whether each agent has read Placement and its record, and had time to write."""
        then = since + 1.2 * BEAT
        return self.scheduler.now > then and all(
            machine.verified_at > since for machine in self.machines
        )

    def _run_until(self, over: Callable[[], bool], end: float) -> None:
        while self.scheduler.now < end and not over():
            self._run(LOOK)

    def _run(self, seconds: float) -> None:
        end = self.scheduler.now + seconds
        while self.scheduler.now < end:
            self.scheduler.run(min(end, self.scheduler.now + LOOK))
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
        for _, here in self.places:
            here.silent.clear()
        for machine in self.machines:
            machine.armed.clear()
            machine.link.faults.clear()
            machine.link.cut, machine.disk_fault = False, 0
            machine.hypervisor_is(None)
            if machine.setup.files:
                self.write_files(machine, *(machine.hypervisor.filed or ("", 3)))
                machine.reload()
            if not machine.is_on:
                machine.turn_on()
            elif machine.setup.reshapes_at_start:
                machine.kill()

    def guests_go(self) -> None:
        for consumer in list(self.placement.whose.guests):
            tried(self.placement.stranger.delete_allocation, consumer)
            del self.placement.whose.guests[consumer]

    def _writes(self) -> dict[str, int]:
        return {uuid: row.generation for uuid, row in self.placement.rows.items()}


@contextlib.contextmanager
def world(seed: object, setup: Setup = PLAIN, *, log: bool = False) -> Iterator[World]:
    """A world that begins; within, waiting and writing are its own."""
    random.seed(f"{seed} agents")
    made = World(seed, setup)
    with hushed(log=log), _quiet(made, log), disks(made.disk), _seldom(), _parsed_once():
        try:
            yield made
        finally:
            made.scheduler.close()
            made.registry.database.dispose()


@contextlib.contextmanager
def _seldom() -> Iterator[None]:
    """Nobody reads a status file here."""
    before, switching.FACTS_EVERY = switching.FACTS_EVERY, 60.0
    try:
        yield
    finally:
        switching.FACTS_EVERY = before


@contextlib.contextmanager
def _parsed_once() -> Iterator[None]:
    """The same provider files say the same."""
    before, files.parse_files = files.parse_files, _parsed
    try:
        yield
    finally:
        files.parse_files = before


_parsed = cache(files.parse_files)


@contextlib.contextmanager
def _quiet(made: World, log: bool) -> Iterator[None]:
    """What goes wrong by order is not told; what has a traceback is an invariant's."""
    root = logging.getLogger()
    handlers: list[logging.Handler] = [made.invariants.log]
    if log:
        handlers.append(_Told(made))
    for handler in handlers:
        root.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)


@contextlib.contextmanager
def many() -> Iterator[None]:
    """For many histories one after the other: what was loaded until now is not looked through."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    try:
        with hushed():
            yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextlib.contextmanager
def hushed(*, log: bool = False) -> Iterator[None]:
    """Nothing is logged that nobody reads.  Each change of a level costs a look at all loggers."""
    root = logging.getLogger()
    before, level = logging.root.manager.disable, root.level
    wanted = (logging.NOTSET, logging.DEBUG) if log else (logging.WARNING, logging.WARNING)
    if (before, level) != wanted:
        logging.disable(wanted[0])
        root.setLevel(wanted[1])
    try:
        yield
    finally:
        if (before, level) != wanted:
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
