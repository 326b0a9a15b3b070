"""A history: all actors with one Placement, one registry and one broker, on one scheduler."""

from __future__ import annotations

import contextlib
import gc
import logging
import random
import uuid as uuidlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

from agent.bus.rpcapi import ComputeAgentAPI
from agent.provider_config import files
from agent.switching import switching
from compute_registry.endpoint import RegistryEndpoint
from compute_registry.heartbeats import TOGETHER, Heartbeats
from reportclient.schedule import LONGEST
from tests.world.broker import REGISTRY, Broker, Client
from tests.world.disk import Disk, StatePath, disks
from tests.world.events import Event, HostOff, Killed
from tests.world.files import NAME, text_for
from tests.world.hypervisor import Hypervisor
from tests.world.invariants import Invariants
from tests.world.machine import BEAT, DOWN_AFTER, EPOCH, INTERVAL, Machine
from tests.world.nova import Nova
from tests.world.operators import Operators
from tests.world.placement import SQUATTER, Placement, is_accepted
from tests.world.registry import Registry
from tests.world.scheduler import Scheduler
from tests.world.setup import AUDIT, VERIFY, Setup

PLAIN = Setup()
CALM, CHAOS = 15.0, 200.0
"""Seconds before the first event, and seconds during which events happen."""
LEAVING = 2.5 * VERIFY + 2 * INTERVAL
"""Seconds within which a child that left nova-compute's root, or a vanished node, is deleted; twice
that if the agent is killed meanwhile."""
LONGEST_FAULT = 120.0
"""Seconds."""
LOOK = 15.0
"""Seconds between two checks of the rules."""
LONGEST_TRY = 1.5 * LONGEST * INTERVAL
"""Seconds until an agent retries after a long outage; a host whose connection flapped is enabled
before that."""


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
        """Whether there may be changes that no generation shows."""
        self.troubled_until = 0.0
        """When the last event ends, as far as it is known."""
        self.machines = [self._machine(number) for number in range(setup.hosts)]
        self.places = [(machine, node) for machine in self.machines for node in machine.nodes]
        self.twins: list[Machine] = []
        self.registry_listens()

    def wall(self) -> float:
        return EPOCH + self.scheduler.now

    def registry_listens(self) -> None:
        endpoint = RegistryEndpoint(self.registry.store)
        agents: Any = ComputeAgentAPI(None)
        agents.rpc = Client(self.broker, 10.0)
        beats = Heartbeats(self.registry.store, endpoint.received, agents, lambda: False)

        def answer(method: str, context: dict[str, Any], values: dict[str, Any]) -> Any:
            if method == "keep_alive":
                self.scheduler.call(beats.record, TOGETHER)
            return getattr(endpoint, method)(context, **values)

        self.broker.listen(REGISTRY, answer, None)

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
        """Make a node; with many nodes its UUID is made from its name."""
        name = f"host{index + 1}"
        root = own if self.setup.nodes == 1 else str(uuidlib.uuid5(uuidlib.UUID(own), name))
        return Hypervisor(
            name, root, two_drivers=self.setup.two_drivers, attached=self.setup.attached
        )

    def state_path(self, label: str) -> StatePath:
        return StatePath(self.disk, f"/state/{label}")

    def write_files(self, machine: Machine, part: str, total: int) -> None:
        """Write the provider file: it adds to a part of the first node, or to each root."""
        part = part or ("cell0" if self.setup.attached else "")
        (machine.files / NAME).write_text(text_for(machine.host, part, total))
        for node in machine.nodes:
            is_meant = not part or node is machine.hypervisor
            node.filed = (part, total) if is_meant else None

    # -- a history

    def run_events(self, events: Sequence[Event]) -> None:
        """:raises Violation: a rule is violated."""
        for machine in self.machines:
            machine.start()
        for event in sorted(events, key=lambda event: event.at):
            self.scheduler.spawn(self._at_step(event), after=CALM + event.at)
        self._run(CALM + CHAOS)
        self.faults_end()
        over = self.scheduler.now + LONGEST_FAULT
        self._run_until(lambda: not self.scheduler.strays, over)
        self.others_leave()
        self._settle_down()

    def _settle_down(self) -> None:
        """Wait until Placement is correct, within a limit, and check that it stays so."""
        end = self.scheduler.now + self._longest()
        while True:
            self._run_until(self.invariants.is_equal, end)
            self.invariants.check_equal()
            before, since = self._writes(), self.scheduler.now
            self._run_until(partial(self._all_verified, since), since + 1.6 * VERIFY + INTERVAL)
            if self._writes() == before or self.scheduler.now > end:
                break
        self.invariants.check_quiet(before)
        self.invariants.check_equal()

    def _longest(self) -> float:
        """Return the seconds within which Placement has to be correct once faults end."""
        most = 2.5 * VERIFY + LONGEST_TRY
        if self.setup.attached or any(node.gone for _, node in self.places):
            most += 2 * LEAVING
        return most + (1.5 * AUDIT if self.needs_audit else 0.0)

    def _all_verified(self, since: float) -> bool:
        """Whether each agent has verified its roots and sent a heartbeat since that time."""
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
            self.invariants.check_log()
            self.invariants.check_statuses()

    def is_troubled(self, machine: Machine) -> bool:
        """Whether an event may prevent the host from having the right status."""
        pending = machine.armed or machine.link.faults or any(self.broker.faults.values())
        return bool(pending) or self.scheduler.now < self.troubled_until or bool(self.twins)

    def _at_step(self, event: Event) -> Callable[[], None]:
        def happen() -> None:
            self.troubled_until = max(self.troubled_until, self.scheduler.now + event.lasts)
            event.happen(self)

        def begin() -> None:
            """End the process at this very step; run other events in a task of their own."""
            happen() if isinstance(event, Killed | HostOff) else self.scheduler.spawn(happen)

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
        for _, node in self.places:
            node.silent.clear()
        for machine in self.machines:
            machine.armed.clear()
            machine.link.faults.clear()
            machine.link.cut, machine.disk_fault = False, 0
            machine.set_connection_lost(None)
            if machine.setup.files:
                self.write_files(machine, *(machine.hypervisor.filed or ("", 3)))
                machine.reload()
            if not machine.is_on:
                machine.turn_on()
            elif machine.setup.reshapes_at_start:
                machine.kill()

    def others_leave(self) -> None:
        """Delete all guests, and the providers that have a name of a host's."""
        for uuid in [uuid for uuid in self.placement.rows if uuid.startswith(SQUATTER)]:
            self.placement.stranger.delete_provider(uuid)
        for consumer in list(self.placement.foreign.guests):
            is_accepted(self.placement.stranger.delete_allocation, consumer)
            del self.placement.foreign.guests[consumer]

    def _writes(self) -> dict[str, int]:
        return {uuid: row.generation for uuid, row in self.placement.rows.items()}


@contextlib.contextmanager
def world(seed: object, setup: Setup = PLAIN, *, log: bool = False) -> Iterator[World]:
    """A new simulation; within this context the agents use its clock and its disk."""
    random.seed(f"{seed} agents")
    simulation = World(seed, setup)
    with (
        reduced_logging(log=log),
        _log_handlers(simulation, log),
        disks(simulation.disk),
        _rare_status_files(),
        _provider_files_parsed_once(),
    ):
        try:
            yield simulation
        finally:
            simulation.scheduler.close()
            simulation.registry.database.dispose()


@contextlib.contextmanager
def _rare_status_files() -> Iterator[None]:
    """Write the status file rarely, since nothing reads it."""
    before, switching.FACTS_EVERY = switching.FACTS_EVERY, 60.0
    try:
        yield
    finally:
        switching.FACTS_EVERY = before


@contextlib.contextmanager
def _provider_files_parsed_once() -> Iterator[None]:
    """Parse equal provider files only once."""
    before, files.parse_files = files.parse_files, _parsed
    try:
        yield
    finally:
        files.parse_files = before


_parsed = cache(files.parse_files)


@contextlib.contextmanager
def _log_handlers(simulation: World, log: bool) -> Iterator[None]:
    """Collect log records with tracebacks, which violate a rule; print the log if asked for."""
    root = logging.getLogger()
    handlers: list[logging.Handler] = [simulation.invariants.log]
    if log:
        handlers.append(LogPrinter(simulation))
    for handler in handlers:
        root.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)


@contextlib.contextmanager
def many_histories() -> Iterator[None]:
    """Run many histories faster: the garbage collector skips the objects loaded until now."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    try:
        with reduced_logging():
            yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextlib.contextmanager
def reduced_logging(*, log: bool = False) -> Iterator[None]:
    """Disable log records that nothing reads.  Changing a level is slow: it affects all loggers."""
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


class LogPrinter(logging.Handler):
    """Prints each log record with its time and its host."""

    def __init__(self, simulation: World) -> None:
        super().__init__(logging.DEBUG)
        self.world = simulation

    def emit(self, record: logging.LogRecord) -> None:
        owner: Any = self.world.scheduler.owner
        host = owner.machine.label if owner is not None else "-"
        now = self.world.scheduler.now - CALM
        print(f"{now:9.2f} {host:8} {record.levelname[0]} {record.getMessage()}")
