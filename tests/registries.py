"""The one builder of records for tests: a single host's service; a fleet's store, over any database."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa

from agent.bus import messaging
from agent.bus.server import RpcServer
from agent.errors import RegistryUnavailable
from agent.registry import wire
from agent.reporting.status import ServiceFacts, StatusFile
from agent.switching.host_status import status_document
from agent.switching.machine import UNTOUCHED, ServiceStatus
from compute_registry.database.fleet_database import FleetDatabase, R, add_functions
from compute_registry.endpoint import RegistryEndpoint
from compute_registry.store import SqlRegistry, TransactionListener
from computectl.reading.services import OwnService
from computectl.shared.command_session import Session
from tests.servers.rabbitmq import RabbitMQ

FILE = "registry.sqlite"
"""In a directory."""


def url_in(directory: Path) -> str:
    return f"sqlite:///{directory / FILE}"


def own_service(config: Path) -> OwnService:
    """The service of a host without a registry, as its commands have it."""
    return OwnService(Session.from_config_files([str(config)], ()))


def reported(state_path: Path, host: str = "host1", **facts: Any) -> StatusFile:
    """What an agent, which is this process, has saved about itself."""
    state_path.mkdir(exist_ok=True)
    if not (document := status_document(state_path)).path.exists():
        document.save(asdict(ServiceStatus(record_version=UNTOUCHED)))
    file = StatusFile(state_path, host, 60.0, time.time, lambda: ServiceFacts(**facts))
    file([])
    return file


def registry_at(where: Path | str | Any, down_after: float = 60.0) -> SqlRegistry:
    """A fleet's: ``where`` is a directory, the URL of a database, or a database that is open."""
    if isinstance(where, Path):
        if not (where / FILE).exists():  # creating the tables takes longer
            (where / FILE).write_bytes(_empty())
        where = url_in(where)
    database = FleetDatabase.from_url(where) if isinstance(where, str) else where
    database.prepare()
    return SqlRegistry(database, down_after)


def watched_registry(
    database: Any, listener: TransactionListener = lambda _seconds, _answered: None
) -> SqlRegistry:
    """A fleet's, over a database that need not answer; ``listener`` is called for transactions."""
    return SqlRegistry(database, listener=listener)


@contextmanager
def registry(where: Path | str, down_after: float = 60.0) -> Iterator[SqlRegistry]:
    """The same, until the end of the block."""
    opened = registry_at(where, down_after)
    yield opened
    opened.database.dispose()


@contextmanager
def served(directory: Path, broker: RabbitMQ, down_after: float = 60.0) -> Iterator[SqlRegistry]:
    """A fleet's, in this process, and answered over that broker until the end of the block."""
    broker.empty(wire.TOPIC)  # calls that an earlier test's agent has sent
    with registry(directory, down_after) as store, answering(RegistryEndpoint(store), broker.url):
        yield store


@contextmanager
def answering(endpoint: RegistryEndpoint, url: str = "kombu+memory://") -> Iterator[Any]:
    """Calls over this bus come to the endpoint until the end of the block; the bus."""
    bus = messaging.transport(url)
    target = messaging.Target(exchange=wire.EXCHANGE, topic=wire.TOPIC, server="tests")
    server = RpcServer(bus, target, [endpoint])
    server.start()
    assert server.serving.wait(60)
    yield bus
    assert server.stop(30)
    bus.cleanup()


class MemoryDatabase(FleetDatabase):
    """In memory, with another clock; it may be away, and restored from a backup."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(sa.create_engine("sqlite://", poolclass=sa.StaticPool))
        self.away = False
        self._backup = _empty()
        add_functions(self._connection, None)
        self._connection.create_function("now_in_seconds", 0, clock)
        # Time passes for hosts though nothing ticks.
        self._connection.create_function("LEAST", 2, lambda passed, _longest: passed)
        self.restore()

    def run(self, work: Callable[[sa.Connection], R]) -> R:
        if self.away:
            raise RegistryUnavailable("the database does not answer")
        return super().run(work)

    # -- what happens to it

    def back_up(self) -> None:
        self._backup = self._connection.serialize()

    def restore(self) -> None:
        self._connection.deserialize(self._backup)

    @property
    def _connection(self) -> Any:
        with self.engine.connect() as connection:
            return connection.connection.driver_connection


@cache
def _empty() -> bytes:
    """A database with its tables."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / FILE
        database = FleetDatabase.from_url(f"sqlite:///{file}")
        database.prepare()
        database.dispose()
        return file.read_bytes()
