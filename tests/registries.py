"""The one builder of a registry for tests: a host's document; a fleet's store, over any database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from agent.registry.errors import RegistryUnavailable
from agent.registry.host_record import HostRecord
from agent.state.document import Document
from compute_registry.database.fleet_database import FleetDatabase
from compute_registry.database.protocol import Duplicate, R, Transaction
from compute_registry.store import SqlRegistry

FILE = "registry.sqlite"
"""In a directory."""


def url_in(directory: Path) -> str:
    return f"sqlite:///{directory / FILE}"


def host_record(state_path: Path) -> HostRecord:
    """The registry of one host, as its agent and its commands open it."""
    return HostRecord(state_path)


def ended(record: HostRecord) -> None:
    """Its agent's process runs no more."""
    document = Document(record.path)
    fields = document.read(dict)
    assert fields is not None
    document.save({**fields, "pid": 2**30})  # above the kernel's largest


def registry_at(where: Path | str | Any, down_after: float = 60.0) -> SqlRegistry:
    """A fleet's: ``where`` is a directory, the URL of a database, or a database that is open."""
    if isinstance(where, Path):
        if not (where / FILE).exists():  # migrations take longer
            (where / FILE).write_bytes(_empty())
        where = url_in(where)
    database = FleetDatabase.from_url(where) if isinstance(where, str) else where
    database.upgrade()
    return SqlRegistry(database, down_after)


@contextmanager
def registry(where: Path | str, down_after: float = 60.0) -> Iterator[SqlRegistry]:
    """The same, until the end of the block."""
    opened = registry_at(where, down_after)
    yield opened
    opened.database.dispose()


class MemoryDatabase:
    """See :class:`compute_registry.database.protocol.Database`."""

    now: ClassVar[str] = "world_now()"
    clock: ClassVar[str] = now
    tick: ClassVar[str] = ""
    binary: ClassVar[str] = "binary"
    safe_url: ClassVar[str] = "memory"

    def __init__(self, clock: Callable[[], float]) -> None:
        self.away = False
        self._backup = _empty()
        self._connection = sqlite3.connect(":memory:")
        self._connection.row_factory = sqlite3.Row
        self._connection.create_function("world_now", 0, clock)
        self.restore()

    def upgrade(self) -> None:
        """The table is made."""

    def run(self, work: Callable[[Transaction], R]) -> R:
        if self.away:
            raise RegistryUnavailable("the database does not answer")
        try:
            with self._connection:
                return work(_Transaction(self._connection))
        except sqlite3.IntegrityError as err:
            raise Duplicate(str(err)) from err

    def dispose(self) -> None:
        self._connection.close()

    # -- what happens to it

    def back_up(self) -> None:
        self._backup = self._connection.serialize()

    def restore(self) -> None:
        self._connection.deserialize(self._backup)


class _Transaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, **values: Any) -> Sequence[Mapping[str, Any]]:
        return [dict(row) for row in self._connection.execute(sql, values)]

    def change(self, sql: str, **values: Any) -> int:
        return self._connection.execute(sql, values).rowcount


@cache
def _empty() -> bytes:
    """A database with its tables."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / FILE
        database = FleetDatabase.from_url(f"sqlite:///{file}")
        database.upgrade()
        database.dispose()
        return file.read_bytes()
