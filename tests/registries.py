"""The one builder of a registry for tests: the real store, over a file, a server or memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from agent.registry.database import Duplicate, R, Transaction
from agent.registry.errors import RegistryUnavailable
from agent.registry.host_database import SqliteTransaction, make_table
from agent.registry.store import SqlRegistry
from compute_registry.database import open_database

FILE = "services.sqlite"
"""In a state directory."""


def registry_at(where: Path | str | Any, down_after: float = 60.0) -> SqlRegistry:
    """``where`` is a state directory, the URL of a database, or a database that is open."""
    url = f"sqlite:///{where / FILE}" if isinstance(where, Path) else where
    database = open_database(url) if isinstance(url, str) else url
    database.upgrade()
    return SqlRegistry(database, down_after)


@contextmanager
def registry(where: Path | str, down_after: float = 60.0) -> Iterator[SqlRegistry]:
    """The same, until the end of the block."""
    opened = registry_at(where, down_after)
    yield opened
    opened.database.dispose()


class MemoryDatabase:
    """See :class:`agent.registry.database.Database`."""

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
                return work(SqliteTransaction(self._connection))
        except sqlite3.IntegrityError as err:
            raise Duplicate(str(err)) from err

    def dispose(self) -> None:
        self._connection.close()

    # -- what happens to it

    def back_up(self) -> None:
        self._backup = self._connection.serialize()

    def restore(self) -> None:
        self._connection.deserialize(self._backup)


@cache
def _empty() -> bytes:
    """The database with its table."""
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    make_table(connection)
    return connection.serialize()
