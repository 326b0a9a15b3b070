"""A hypervisor host: its disk, its clock, and the agent that systemd keeps running there.

Only this file knows how the agent is put together; ``agent/main.py`` does the same with
threads, sockets and a real clock.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from agent.bus.caller import Caller
from agent.config import Settings
from agent.loop import Loop
from agent.nodes.composed import nodes_of
from agent.nodes.identity import (
    IdentityError,
    IdentityNotReady,
    compute_id,
    saved_compute_id,
)
from agent.nodes.nodes import Nodes
from agent.nodes.workers import Job, Workers
from agent.period.rules import Rules
from agent.registry.client import RegistryClient
from agent.registry.errors import HostTaken, RegistryError
from agent.registry.opts import RegistrySettings
from agent.reporting.reports import Occasion, Report
from agent.reporting.systemd import Systemd
from agent.service import Service
from agent.switching.host_status import VERSION_6, HostStatus
from agent.switching.notices import Serving
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
INTERVAL, VERIFY, AUDIT = 60.0, 80.0, 240.0
BEAT, DOWN_AFTER = 60.0, 180.0
DRIVERS = ("world", "devices")
RESTART = 10.0
"""Seconds after which systemd starts again what has ended."""
EPOCH = 1.9e9


@dataclass(eq=False)
class Process:
    """One life of an agent; ``step`` is called before whatever it does outside of itself."""

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
        """Between any two of these others may come first, or the process end."""
        self.steps += 1
        self.machine.happen()
        if not self.alive:
            self.scheduler.suspend()
        if self.machine.dice.random() < 0.05:
            self.scheduler.sleep(0)

    def has_unkept(self) -> bool:
        """Whether there are claims that are not on disk."""
        if self.nodes is None:
            return False
        gone = (one.tracker for one in self.nodes.departures.by_uuid.values())
        trackers = (*self.nodes.trackers.values(), *gone)
        return any(one.saved is None or one.saved.on_disk[1] != one.ledger for one in trackers)


@dataclass(eq=False)
class Machine:
    world: World
    label: str
    nodes: Sequence[Hypervisor]
    """What is reported; the first one has the connection, and the host's name."""
    state: StatePath
    address: str
    clock_is_off: float = 0.0
    disk_fault: int = 0
    process: Process | None = None
    is_on: bool = True
    refused: str | None = None
    """Why it does not start: systemd does not try again."""
    words: list[tuple[float, str]] = field(default_factory=list)
    """What an operator was told of another one that does the same, and when."""
    armed: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    """What happens after so many more steps."""
    forgot: bool = False
    """Whether there may be what it asserted, and nobody knows: it ended when it could not keep
    that on disk, it had a twin, or an old Placement came back."""
    kin: frozenset[str] = frozenset()
    """Providers of a twin's, which may be taken for its own."""
    late: set[tuple[str, str]] = field(default_factory=set)
    """Providers, and names that came to them by a request that was given up long before."""
    writes: int = 0
    seen_version: int = 0
    """The highest version of its record that an agent here knew."""
    wrong_since: float | None = None
    """Since when its status is not what was decided."""

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
        """Its provider files; on a disk of their own, which an operator writes to."""
        return self.state.with_name(f"{self.label}.d")

    @property
    def hypervisor(self) -> Hypervisor:
        return self.nodes[0]

    @property
    def uuids(self) -> set[str]:
        """Of all parts that there could be."""
        return {uuid for here in self.nodes for uuid in here.uuids}

    @property
    def host(self) -> str:
        return self.hypervisor.host

    @property
    def verified_at(self) -> float:
        """When its agent has last compared all its roots with what Placement has."""
        nodes = self.process.nodes if self.process is not None else None
        times = [one.root.verified_at for one in nodes.trackers.values()] if nodes else []
        return min((-1.0 if at is None else at for at in times), default=-1.0)

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive

    def wall(self) -> float:
        return EPOCH + self.scheduler.now + self.clock_is_off

    # -- what happens to it

    def step(self) -> None:
        process = self.scheduler.owner
        if process is not None:
            process.step()

    def happen(self) -> None:
        """A step was taken."""
        if not self.armed:
            return
        left = [(steps - 1, act) for steps, act in self.armed]
        self.armed = [one for one in left if one[0] > 0]
        for steps, act in left:
            if steps <= 0:
                act()
        self.scheduler.sleep(0)

    def kill(self) -> None:
        """As ``kill -9`` does; systemd starts it again."""
        self._end()
        self._start_later(RESTART)

    def turn_off(self) -> None:
        self.is_on = False
        self._end()

    def turn_on(self) -> None:
        self.is_on = True
        self._start_later(0.0)

    def hypervisor_is(self, lost: str | None) -> None:
        """Why its connection is lost; ``None``: it is there."""
        self.hypervisor.lost = lost
        for tell in list(self.hypervisor.watchers):
            tell(lost)

    def _end(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            self.note_version(process)
            self.forgot |= process.met_bad_disk and process.has_unkept()
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
        except HostTaken as err:
            self.words.append((self.scheduler.now, str(err)))
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
        nodes = process.nodes = nodes_of(settings, drivers, self.link, own)
        nodes.workers = Tasks(scheduler=self.scheduler, owner=process)
        nodes.bulk.least = 2
        nodes.additions.load()
        status = process.status = self._status(settings, loop, nodes)
        service = Service(
            self.host, nodes, Systemd(), lambda: loop.stopping, status, self.scheduler.clock
        )
        service.listeners.append(lambda reports: self._hear(process, reports))
        switches = process.switches = self._switching(process, settings, service, status)
        service.open()
        switches.start()
        first_in = self.dice.uniform(0, settings.first_within)
        loop.run(service.period, settings.interval, first_in)

    @property
    def drivers(self) -> int:
        return 2 if self.setup.two_drivers else 1

    def reload(self) -> None:
        """As SIGHUP has it."""
        process = self.process
        if process is not None and process.nodes is not None and process.loop is not None:
            process.loop.post(process.nodes.additions.read)
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
        status.wall = self.wall
        status.registered = Event(self.scheduler)
        status.lock = Lock(self.scheduler)
        return status  # type: ignore[no-any-return]

    def _switching(
        self, process: Process, settings: Settings, service: Service, status: HostStatus
    ) -> Switching:
        switches: Any = switching(settings, status, service, None)
        broker, beat = self.world.broker, switches.heartbeat
        server = Server(
            broker,
            self.host,
            ComputeEndpoint(status),
            process,
            Event(self.scheduler),
            lambda: status.publish(Serving()),
        )
        switches.server = None if self.setup.attached else server
        beat.address = self.address
        rpc: Any = Client(broker, 10.0, REGISTRY, process.step)
        beat.connect = lambda: RegistryClient(rpc, Caller(user="agent"))
        beat.rpc_version = lambda: VERSION_6 if server.serving.is_set() else None
        beat.beside = lambda work, _: self.scheduler.spawn(work, process)
        beat.answered, beat.wake = Event(self.scheduler), Event(self.scheduler)
        switches.hypervisor.clock = self.scheduler.clock
        return switches  # type: ignore[no-any-return]

    def _hear(self, process: Process, reports: Sequence[Report]) -> None:
        process.reports, process.reported_at = reports, self.scheduler.now
        for report in reports:
            for part in {"twin", "name", "node"} & report.degraded.keys():
                self.words.append((self.scheduler.now, report.degraded[part]))
            if report.occasion is Occasion.PERIOD:
                self.world.invariants.bounded(self, report)
            if report.fatal:
                self.refused = str(report.error)

    # -- another one

    def cloned(self, label: str, nodes: Sequence[Hypervisor], state: StatePath) -> Machine:
        """A machine that was made from this one's disk."""
        self.world.disk.copy(str(self.state), str(state))
        twin = Machine(self.world, label, nodes, state, f"{label} (boot {label})")
        self.kin = twin.kin = self.kin | self.uuids | twin.uuids
        self.forgot = True
        return twin


def _loaded(nodes: Sequence[Hypervisor], process: Process, number: int) -> LoadedDriver:
    """What the driver can do is found out once: that takes longer than a period."""
    calls: Any = Direct(process.step)
    known, driver = _known(), Driver(nodes, number)
    return replace(
        known,
        name=DRIVERS[number],
        driver=driver,
        abilities=frozenset() if number else known.abilities,
        opening=Opening(),
        calls=calls,
    )


@cache
def _known() -> LoadedDriver:
    return LoadedDriver.from_driver("world", Driver([Hypervisor("none", "none")]))


@dataclass(slots=True)
class Tasks(Workers):
    """The nodes' periods, in each other's way at any step."""

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
        first_within=5.0,
        at_once=False,
        shutdown_within=60.0,
        rules=Rules(
            owner_traits=(OWNER,),
            verify_every=VERIFY,
            audit_every=AUDIT,
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
            connection="",
            down_after=DOWN_AFTER,
            report_interval=BEAT,
            binary="nova-compute",
            rest_bind="",
            rest_port=None,
            auth_strategy="noauth",
        ),
    )
