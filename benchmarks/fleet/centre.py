"""The centre of a site, all of it real and on this machine, and the fleet beside it."""

import json
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
from tests.servers.databases import DatabaseServer, MariaDB, PostgreSQL
from tests.servers.fleet import Fleet
from tests.servers.placement_workers import PlacementWorkers
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess

PERIOD, FUZZY, VERIFY, AUDIT = 60, 120, 600, 259200
"""The agent's defaults, in seconds."""


Writes = list[tuple[str, str, Any]]
"""Of one host: method, path and body, in the order of their answers."""


@dataclass(frozen=True)
class Shape:
    """How large, and how fast."""

    hosts: int
    rack: int
    """Hosts of them that are cold: Placement has never heard of them."""
    compressed: int = 10
    """All that agents do towards Placement is that many times as fast."""
    heartbeat: int = 10
    """Seconds of the clock on the wall."""
    workers: int = 2
    processes: int = 3
    placement_on: type[DatabaseServer] = MariaDB
    registry_on: type[DatabaseServer] = PostgreSQL

    @property
    def known(self) -> int:
        """Hosts that have run before."""
        return self.hosts - self.rack


@dataclass
class LargeFleet(Fleet):
    """Of large hosts, of which the last ``rack`` are cold."""

    rack: int = 0
    child = "benchmarks.fleet.hosts"

    def known(self) -> range:
        """All but the rack."""
        return range(self.count - self.rack)

    def tree(self, number: int) -> Snapshot:
        """See :class:`Fleet`."""
        return large_host.tree(number)

    def held(self) -> Mapping[str, Held]:
        """See :class:`Fleet`."""
        return {uuid: held for each in self.known() for uuid, held in large_host.guests(each)}

    def say(self, *said: Mapping[str, Any]) -> list[dict[str, Any]]:
        """To each process, all at once or one line for each; what they answer."""
        lines = said if len(said) > 1 else said * len(self._running)
        pipes = [(one.stdin, one.stdout) for one in self._running if one.stdin and one.stdout]
        for (into, _), line in zip(pipes, lines, strict=True):
            into.write(json.dumps(line).encode() + b"\n")
            into.flush()
        return [json.loads(out.readline()) for _, out in pipes]

    def look(self) -> list[dict[str, Any]]:
        """How many are well, and changed."""
        return self.say({})

    def start_known(self) -> None:
        """The hosts that have run before; the cold ones are the last of the last process."""
        each = [len(block) for block in self.blocks()]
        each[-1] -= self.rack
        self.say(*({"start": count} for count in each))

    def start_rack(self) -> None:
        """Those that are left; what they write is noted."""
        self.say({"start": self.count, "note": True})

    def written(self) -> list[Writes]:
        """What each host of the rack has written."""
        return [host for said in self.say({"written": True}) for host in said["written"]]

    @property
    def pids(self) -> list[int]:
        """Of all."""
        return [process.pid for process in self._running]


@dataclass
class Centre:
    """Started as a context; ends with all that it started."""

    shape: Shape
    directory: Path
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        shape, enter = self.shape, self._stack.enter_context
        self.placement_db = enter(shape.placement_on())
        self.registry_db = enter(shape.registry_on())
        self.broker = enter(RabbitMQ())
        url = self.placement_db.create("placement")
        self.placement = enter(PlacementWorkers(self.place("placement"), url, shape.workers))
        more = f"report_interval = {shape.heartbeat}\nservice_down_time = {6 * shape.heartbeat}\n"
        records = self.registry_db.create("registry")
        bus, lines = self.broker.url, f"connection = {records}\n{more}"
        self.registry = enter(
            RegistryProcess(self.place("registry"), transport_url=bus, more=lines)
        )
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
        self.client = RegistryClient.over(transport)
        self._engine = sa.create_engine(url)
        self._stack.callback(self._engine.dispose)

    def place(self, name: str) -> Path:
        """A directory of that name."""
        path = self.directory / name
        path.mkdir(parents=True)
        return path

    def count(self, query: str, **values: object) -> int:
        """One number out of Placement's database, beside its API."""
        with self._engine.connect() as connection:
            return int(connection.execute(sa.text(query), values).scalar_one())

    def with_trait(self, name: str) -> int:
        """Providers that have it."""
        return self.count(
            "SELECT count(*) FROM resource_provider_traits r JOIN traits t ON t.id = r.trait_id "
            "WHERE t.name = :name",
            name=name,
        )

    @property
    def parts(self) -> dict[str, list[int]]:
        """Process ids of each part of the centre, and of the hosts."""
        return {
            "placement": [self.placement.pid or 0],
            "placement's database": [self.placement_db.pid or 0],
            "broker": self.broker.pids,
            "registry": [self.registry.pid],
            "registry's database": [self.registry_db.pid or 0],
            "hosts": self.fleet.pids,
        }

    def queued(self) -> int:
        """Messages that nobody has fetched yet."""
        said = self.broker.control("list_queues", "messages_ready").split()
        return sum(int(word) for word in said if word.isdigit())


class Timeline:
    """How many requests Placement got in each second, from its log."""

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
