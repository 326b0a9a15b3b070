"""The central services of a site, all of them real and on this machine, and the fleet."""

import json
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa

from agent.bus import messaging
from agent.registry.client import RegistryClient
from benchmarks.fleet import large_host
from reportclient.snapshot import Snapshot
from tests.servers.bulk_load import Held
from tests.servers.databases import MariaDB
from tests.servers.fleet import Fleet
from tests.servers.placement_workers import PlacementWorkers
from tests.servers.process import Server
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess

ENDING = """
from pathlib import Path
from compute_registry.heartbeats import Heartbeats
record, file = Heartbeats.record, Path({file!r})
def record_or_end(heartbeats):
    if file.exists():
        file.unlink()
        raise SystemExit("ended by the scenario")
    record(heartbeats)
Heartbeats.record = record_or_end
"""
"""Ends the registry's thread of heartbeats when the file is created."""
PERIOD, FUZZY, VERIFY, AUDIT = 60, 120, 600, 259200
"""The agent's defaults, in seconds."""


Writes = list[tuple[str, str, Any]]
"""The writes of one host: method, path and body, in order."""


@dataclass(frozen=True)
class Shape:
    """Size and speed of a run."""

    hosts: int
    rack: int
    """Number of cold hosts among them, which Placement does not have yet."""
    compressed: int = 10
    """How many times faster than usual the agents run towards Placement."""
    heartbeat: int = 10
    """Real seconds between heartbeats."""
    workers: int = 2
    processes: int = 3

    @property
    def known(self) -> int:
        """Number of hosts that Placement already has."""
        return self.hosts - self.rack


@dataclass
class LargeFleet(Fleet):
    """A fleet of large hosts, of which the last ``rack`` are cold."""

    rack: int = 0
    child = "benchmarks.fleet.hosts"

    def known(self) -> range:
        """Return the numbers of all hosts but those of the rack."""
        return range(self.count - self.rack)

    def tree(self, number: int) -> Snapshot:
        """See :class:`Fleet`."""
        return large_host.tree(number)

    def held(self) -> Mapping[str, Held]:
        """See :class:`Fleet`."""
        return {uuid: held for each in self.known() for uuid, held in large_host.guests(each)}

    def send(self, *lines_sent: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Send one line to all processes, or one to each; return the answers."""
        lines = lines_sent if len(lines_sent) > 1 else lines_sent * len(self._running)
        pipes = [(one.stdin, one.stdout) for one in self._running if one.stdin and one.stdout]
        for (into, _), line in zip(pipes, lines, strict=True):
            into.write(json.dumps(line).encode() + b"\n")
            into.flush()
        return [json.loads(out.readline()) for _, out in pipes]

    def states(self) -> list[dict[str, Any]]:
        """Return for each process how many hosts report without errors, and how many changed."""
        return self.send({})

    def start_known(self) -> None:
        """Start all hosts but the rack, which are the last hosts of the last process."""
        each = [len(block) for block in self.blocks()]
        each[-1] -= self.rack
        self.send(*({"start": count} for count in each))

    def start_rack(self) -> None:
        """Start the remaining hosts and record their writes."""
        self.send({"start": self.count, "note": True})

    def written(self) -> list[Writes]:
        """Return the writes of each host of the rack."""
        return [
            host for lines_sent in self.send({"written": True}) for host in lines_sent["written"]
        ]

    def stop_first(self, *, stopped: bool) -> None:
        """Stop the first process with its hosts, or let it go on."""
        self._running[0].send_signal(signal.SIGSTOP if stopped else signal.SIGCONT)

    @property
    def pids(self) -> list[int]:
        """The process ids of all processes with hosts."""
        return [process.pid for process in self._running]


@dataclass
class Centre(Server):
    """Starts all servers and the fleet as a context, and ends them with it."""

    shape: Shape
    directory: Path
    _stack: ExitStack = field(default_factory=ExitStack)

    def stop(self) -> None:
        """End all servers, the last one first."""
        self._stack.close()

    def start(self) -> None:
        """Start all servers; the hosts wait for their commands."""
        shape, enter = self.shape, self._stack.enter_context
        self.placement_db = enter(MariaDB())
        self.registry_db = enter(MariaDB())
        self.broker = enter(RabbitMQ())
        url = self.placement_db.create("placement")
        self.placement = enter(PlacementWorkers(self.place("placement"), url, shape.workers))
        more = f"report_interval = {shape.heartbeat}\nservice_down_time = {6 * shape.heartbeat}\n"
        records = self.registry_db.create("registry")
        bus, lines = self.broker.url, f"connection = {records}\n{more}"
        place = self.place("registry")
        self._ending = place / "end"
        registry = RegistryProcess(place, transport_url=bus, more=lines)
        registry.may_log_tracebacks = True  # such as that of the thread that is ended
        registry.code = ENDING.format(file=str(self._ending)) + registry.code
        self.registry = enter(registry)
        fast = shape.compressed
        fleet = LargeFleet(
            self.place("fleet"),
            self.placement,
            bus,
            records,
            shape.hosts,
            shape.processes,
            more,
            f"update_resources_interval = {PERIOD // fast}\nperiodic_fuzzy_delay = {FUZZY // fast}",
            f"resource_provider_association_refresh = {VERIFY // fast}\n"
            f"audit_interval = {AUDIT // fast}",
            rack=shape.rack,
        )
        self.fleet = enter(fleet)
        transport = messaging.transport(bus)
        self._stack.callback(transport.cleanup)
        self.client = RegistryClient(transport)
        self._engine = sa.create_engine(url)
        self._stack.callback(self._engine.dispose)

    def end_heartbeats(self) -> None:
        """End the registry's thread of heartbeats; the process goes on."""
        self._ending.touch()
        self.registry.wait_for(lambda: not self._ending.exists())

    def place(self, name: str) -> Path:
        """Create a directory of that name."""
        path = self.directory / name
        path.mkdir(parents=True)
        return path

    def count(self, query: str, **values: object) -> int:
        """Read one number from Placement's database."""
        with self._engine.connect() as connection:
            return int(connection.execute(sa.text(query), values).scalar_one())

    def with_trait(self, name: str) -> int:
        """Return the number of providers with this trait."""
        return self.count(
            "SELECT count(*) FROM resource_provider_traits r JOIN traits t ON t.id = r.trait_id "
            "WHERE t.name = :name",
            name=name,
        )

    @property
    def parts(self) -> dict[str, list[int]]:
        """The process ids of each service and of the hosts."""
        return {
            "placement": [self.placement.pid or 0],
            "placement's database": [self.placement_db.pid or 0],
            "broker": self.broker.pids,
            "registry": [self.registry.pid],
            "registry's database": [self.registry_db.pid or 0],
            "hosts": self.fleet.pids,
        }

    def queued(self) -> int:
        """Return the number of messages that are left in the queues."""
        lines_sent = self.broker.control("list_queues", "messages_ready").split()
        return sum(int(word) for word in lines_sent if word.isdigit())


class Timeline:
    """Counts the requests to Placement in each second from its log."""

    def __init__(self, placement: PlacementWorkers) -> None:
        self._placement, self._over = placement, threading.Event()
        self.seconds: list[int] = []
        self.refused: list[int] = []

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        for found in self._each_second():
            self.seconds.append(len(found))
            self.refused.append(sum(each == 503 for each in found))

    def _each_second(self) -> Iterator[list[int]]:
        path, mark = self._placement.log_of_requests, self._placement.mark()
        due = time.monotonic() + 1.0
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due += 1.0
            with path.open("rb") as log:
                log.seek(mark)
                text = log.read()
            text = text[: text.rfind(b"\n") + 1]
            mark += len(text)
            yield [json.loads(line)["status"] for line in text.splitlines()]
