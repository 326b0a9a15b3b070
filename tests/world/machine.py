"""A simulated host: its disk, its clock, and the agent, which is restarted as systemd would.

This file puts the agent together; ``agent/main.py`` does the same with threads, sockets and a real
clock.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from agent.bus.caller import Caller
from agent.loop import Loop
from agent.nodes.identity import IdentityError, IdentityNotReady, compute_id, saved_compute_id
from agent.nodes.nodes import Nodes
from agent.nodes.workers import Job, Workers
from agent.opts import Settings
from agent.period.rules import Rules
from agent.registry.client import RegistryClient
from agent.registry.errors import RegistryError
from agent.registry.opts import RegistrySettings
from agent.reporting.reports import Occasion, Report
from agent.reporting.systemd import Systemd
from agent.service import Service
from agent.switching.host_status import VERSION_6, HostStatus
from agent.switching.rpc import ComputeEndpoint
from agent.switching.switching import Switching, host_status, switching
from drivers.errors import DriverError
from drivers.loaded import Opening
from drivers.loader import LoadedDriver
from tests.world.broker import REGISTRY, Client, Server
from tests.world.disk import StatePath
from tests.world.hypervisor import Direct, Driver, Hypervisor
from tests.world.link import Link
from tests.world.scheduler import Event, Lock, Promise, Queue, Scheduler
from tests.world.setup import Setup

if TYPE_CHECKING:
    from tests.world.world import World

OWNER = "CUSTOM_OWNER_COMPUTE_AGENT"
INTERVAL = 60.0
BEAT, DOWN_AFTER = 60.0, 180.0
DRIVERS = ("world", "devices")
RESTART = 10.0
"""Seconds after which an agent that has ended is restarted."""
EPOCH = 1.9e9


@dataclass(eq=False)
class Process:
    """A process of an agent; ``step`` is called before each request, message and file operation."""

    machine: Machine
    scheduler: Scheduler
    alive: bool = True
    steps: int = 0
    nodes: Nodes | None = None
    status: HostStatus | None = None
    switches: Switching | None = None
    loop: Loop | None = None
    began: float = 0.0
    reports: Sequence[Report] = ()
    reported_at: float = -1.0
    met_bad_disk: bool = False

    def step(self) -> None:
        """Let other actors run first, or end the process if it was killed."""
        self.steps += 1
        self.machine.happen()
        if not self.alive:
            self.scheduler.suspend()
        if self.machine.dice.random() < 0.05:
            self.scheduler.sleep(0)

    def has_unsaved_claims(self) -> bool:
        """Whether there are claims that are not saved on disk."""
        if self.nodes is None:
            return False
        gone = (departure.tracker for departure in self.nodes.vanished.values())
        trackers = (*self.nodes.trackers.values(), *gone)
        return any(one.saved is None or one.saved.on_disk[1] != one.ledger for one in trackers)


@dataclass(eq=False)
class Machine:
    world: World
    label: str
    nodes: Sequence[Hypervisor]
    """The nodes; the first one has the connection to the hypervisor, and the host's name."""
    state: StatePath
    address: str
    disk_fault: int = 0
    process: Process | None = None
    is_on: bool = True
    refused: str | None = None
    """Why the agent is not restarted: it ended with an error that an operator has to fix."""
    warnings: list[tuple[float, str]] = field(default_factory=list)
    """Times and texts of conditions about another agent with the same identity."""
    armed: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    """Events that happen after a number of further steps."""
    forgot: bool = False
    """Whether the agent may have lost claims: it ended while it could not write to its disk, it had a
    twin, or Placement was restored."""
    twin_uuids: frozenset[str] = frozenset()
    """Providers of a twin, which the agent may treat as its own."""
    late: set[tuple[str, str]] = field(default_factory=set)
    """Provider and name of data that a late request created, which the agent had given up."""
    writes: int = 0
    seen_version: int = 0
    """The highest version of the service record that an agent of this host has seen."""
    wrong_since: float | None = None
    """Since when the host does not have the status decided last; ``None`` if it has."""

    def __post_init__(self) -> None:
        self.scheduler = self.world.scheduler
        self.dice = random.Random(f"{self.world.seed} {self.label}")
        self.link = Link(
            self.scheduler,
            random.Random(f"{self.world.seed} {self.label} link"),
            lambda *request, **body: self.world.placement.carry_out(self, *request, **body),
            self.step,
            late=lambda carry_out: self.world.placement.carry_out_late(self, carry_out),
        )

    @property
    def setup(self) -> Setup:
        return self.world.setup

    @property
    def files(self) -> StatePath:
        """The directory of the provider files, which operators write to."""
        return self.state.with_name(f"{self.label}.d")

    @property
    def hypervisor(self) -> Hypervisor:
        return self.nodes[0]

    @property
    def uuids(self) -> set[str]:
        """The UUIDs of all possible parts."""
        return {uuid for node in self.nodes for uuid in node.uuids}

    @property
    def host(self) -> str:
        return self.hypervisor.host

    @property
    def verified_at(self) -> float:
        """The time since which the agent has verified all of its roots."""
        nodes = self.process.nodes if self.process is not None else None
        times = [one.root.schedule.verified_at for one in nodes.trackers.values()] if nodes else []
        return min((-1.0 if at is None else at for at in times), default=-1.0)

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive

    # -- events

    def step(self) -> None:
        process = self.scheduler.owner
        if process is not None:
            process.step()

    def happen(self) -> None:
        """Count a step and start the events that are due."""
        if not self.armed:
            return
        left = [(steps - 1, act) for steps, act in self.armed]
        self.armed = [(steps, act) for steps, act in left if steps > 0]
        for steps, act in left:
            if steps <= 0:
                act()
        self.scheduler.sleep(0)

    def kill(self) -> None:
        """End the process as ``kill -9`` does; it is restarted later."""
        self._end()
        self._start_later(RESTART)

    def turn_off(self) -> None:
        self.is_on = False
        self._end()

    def turn_on(self) -> None:
        self.is_on = True
        self._start_later(0.0)

    def set_connection_lost(self, lost: str | None) -> None:
        """Set why the connection to the hypervisor is lost; ``None`` if it is up."""
        self.hypervisor.lost = lost
        for notify in list(self.hypervisor.watchers):
            notify(lost)

    def _end(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            self.note_version(process)
            status = process.status
            if status is not None and status.document.problem and not status.current.acknowledged:
                # As the agent's warning says, this status is lost.
                self.world.operators.doubt(self.host, might_be=not status.current.disabled)
            self.forgot |= process.met_bad_disk and process.has_unsaved_claims()
            process.alive = False
            self.world.broker.leave(self.host, process)
        self.hypervisor.watchers.clear()
        self.hypervisor.wakers.clear()

    def note_version(self, process: Process | None) -> int:
        if process is not None and process.status is not None:
            version = process.status.current.record_version or 0
            self.seen_version = max(self.seen_version, version)
        return self.seen_version

    def _start_later(self, seconds: float) -> None:
        self.scheduler.spawn(self.start, after=seconds)

    def start(self) -> None:
        if self.is_on and not self.is_up and self.refused is None:
            process = self.process = Process(self, self.scheduler, began=self.scheduler.now)
            self.scheduler.spawn(lambda: self._main(process), process)

    # -- the process

    def _main(self, process: Process) -> None:
        try:
            self._serve(process)
        except (IdentityNotReady, RegistryError, DriverError):
            pass
        except IdentityError as err:
            self.refused = str(err)
        if process.alive:
            self.kill()

    def _serve(self, process: Process) -> None:
        settings = _settings(self)
        self.state.mkdir(parents=True, exist_ok=True)
        loop = process.loop = self._loop(process)
        drivers = [_loaded(self.nodes, process, number) for number in range(self.drivers)]
        self.hypervisor.wakers.append(loop.refresh)
        own = (saved_compute_id if self.setup.attached else compute_id)(settings.state_path)
        nodes = process.nodes = Nodes.from_settings(settings, drivers, self.link, own)
        nodes.workers = Tasks(scheduler=self.scheduler, owner=process)
        nodes.bulk.least = 2
        nodes.provider_files.load_files()
        status = process.status = self._status(settings, loop, nodes)
        service = Service(
            self.host, nodes, Systemd(), lambda: loop.stopping, status, self.scheduler.clock
        )
        service.listeners.append(lambda reports: self._note_reports(process, reports))
        switches = process.switches = self._switching(process, settings, service, status)
        service.open()
        switches.start()
        first_in = self.dice.uniform(0, settings.first_within)
        loop.run(service.period, settings.interval, first_in)

    @property
    def drivers(self) -> int:
        return 2 if self.setup.two_drivers else 1

    def reload(self) -> None:
        """Do what the agent does at SIGHUP."""
        process = self.process
        if process is not None and process.nodes is not None and process.loop is not None:
            process.loop.post(process.nodes.provider_files.read)
            process.loop.refresh()

    def _loop(self, process: Process) -> Loop:
        queue: Any = Queue(self.scheduler)
        return Loop(
            idle=lambda: None,
            idle_every=INTERVAL,
            clock=self.scheduler.clock,
            commands=queue,
            promise=lambda: Promise(self.scheduler),
        )

    def _status(self, settings: Settings, loop: Loop, nodes: Nodes) -> HostStatus:
        def write(disabled: bool, again: bool) -> list[Report]:
            return nodes.switch(self.scheduler.now, disabled=disabled, again=again)

        status: Any = host_status(settings, loop, write)
        status.registered = Event(self.scheduler)
        status.lock = Lock(self.scheduler)
        return status  # type: ignore[no-any-return]

    def _switching(
        self, process: Process, settings: Settings, service: Service, status: HostStatus
    ) -> Switching:
        switches: Any = switching(settings, status, service, None)
        broker, beat = self.world.broker, switches.heartbeat
        beat.answered, beat.wake = Event(self.scheduler), Event(self.scheduler)
        status.on_decided = beat.wake.set
        server = Server(
            broker,
            self.host,
            ComputeEndpoint(status),
            process,
            Event(self.scheduler),
            beat.wake.set,
        )
        switches.server = None if self.setup.attached else server
        beat.address = self.address
        rpc: Any = Client(broker, 10.0, REGISTRY, process.step)
        beat.connect = lambda: RegistryClient(rpc, Caller(user="agent"))
        beat.rpc_version = lambda: VERSION_6 if server.serving.is_set() else None
        beat.on_done = lambda *_: self._note_name(beat.name_conflict)
        beat.beside = lambda work, _: self.scheduler.spawn(work, process)
        switches.hypervisor.clock = self.scheduler.clock
        return switches  # type: ignore[no-any-return]

    def _note_name(self, conflict: str | None) -> None:
        if conflict is not None and (not self.warnings or self.warnings[-1][1] != conflict):
            self.warnings.append((self.scheduler.now, conflict))

    def _note_reports(self, process: Process, reports: Sequence[Report]) -> None:
        process.reports, process.reported_at = reports, self.scheduler.now
        for report in reports:
            for part in {"twin", "name", "node"} & report.degraded.keys():
                self.warnings.append((self.scheduler.now, report.degraded[part]))
            if report.occasion is Occasion.PERIOD:
                self.world.invariants.check_number_of_calls(self, report)
            if report.fatal:
                self.refused = str(report.error)

    # -- twins

    def cloned(self, label: str, nodes: Sequence[Hypervisor], state: StatePath) -> Machine:
        """Make a machine with a copy of this one's disk."""
        self.world.disk.copy(str(self.state), str(state))
        twin = Machine(self.world, label, nodes, state, f"{label} (boot {label})")
        self.twin_uuids = twin.twin_uuids = self.twin_uuids | self.uuids | twin.uuids
        self.forgot = True
        return twin


def _loaded(nodes: Sequence[Hypervisor], process: Process, number: int) -> LoadedDriver:
    """Load a driver; its abilities are determined only once, since that takes long."""
    calls: Any = Direct(process.step)
    inspected, driver = _inspected(), Driver(nodes, number)
    return replace(
        inspected,
        name=DRIVERS[number],
        driver=driver,
        abilities=frozenset() if number else inspected.abilities,
        opening=Opening(),
        calls=calls,
    )


@cache
def _inspected() -> LoadedDriver:
    return LoadedDriver.from_driver("world", Driver([Hypervisor("none", "none")]))


@dataclass(slots=True)
class Tasks(Workers):
    """Runs the periods of the nodes as concurrent tasks."""

    scheduler: Scheduler = field(kw_only=True)
    owner: Process = field(kw_only=True)

    def run(self, jobs: Mapping[str, Job]) -> dict[str, Report]:
        ends = {key: Promise(self.scheduler) for key in jobs}
        for key, job in jobs.items():
            self.scheduler.spawn(partial(self._do, job, ends[key]), self.owner)
        return {key: end.result() for key, end in ends.items()}

    def _do(self, job: Job, end: Promise) -> None:
        end.set_result(job())


def _settings(machine: Machine) -> Settings:
    setup, state, files = machine.setup, machine.state, machine.files
    return Settings(
        host=machine.host,
        state_path=state,  # type: ignore[arg-type]
        drivers=DRIVERS[: machine.drivers],
        interval=INTERVAL,
        first_within=setup.first_within,
        at_once=False,
        shutdown_within=60.0,
        rules=Rules(
            owner_traits=(OWNER,),
            verify_every=setup.verify_every,
            audit_every=setup.audit_every,
            reshape_when_running=not setup.reshapes_at_start,
            remove_after=30.0,
            attached=setup.attached,
            remove_child_after=30.0,
            pause=machine.scheduler.sleep,
            period=INTERVAL,
        ),
        bulk_chunk=3 if setup.bulk else 0,
        provider_config=files,  # type: ignore[arg-type]
        registry=RegistrySettings(
            access="rpc",
            state_path=machine.state,  # type: ignore[arg-type]
            connection="",
            down_after=DOWN_AFTER,
            report_interval=BEAT,
            binary="nova-compute",
            rest_bind="",
            rest_port=None,
            auth_strategy="noauth",
        ),
    )
