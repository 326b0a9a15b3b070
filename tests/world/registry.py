"""The real store of service records, over a database in memory with a clock of the world's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import cache
from typing import ClassVar

from agent.registry.database import Duplicate, R, Statements
from agent.registry.errors import RegistryUnavailable, UnknownHost
from agent.registry.host_database import Sent, make_table
from agent.registry.record import ServiceRecord
from agent.registry.store import SqlRegistry


class MemoryDatabase:
    """See :class:`agent.registry.database.Database`."""

    now: ClassVar[str] = "world_now()"
    binary: ClassVar[str] = "binary"
    shown: ClassVar[str] = "memory"

    def __init__(self, clock: Callable[[], float]) -> None:
        self.away = False
        self._backup = _empty()
        self._connection = sqlite3.connect(":memory:")
        self._connection.row_factory = sqlite3.Row
        self._connection.create_function("world_now", 0, clock)
        self.restore()

    def upgrade(self) -> None:
        """The table is made."""

    def run(self, work: Callable[[Statements], R]) -> R:
        if self.away:
            raise RegistryUnavailable("the database does not answer")
        try:
            with self._connection:
                return work(Sent(self._connection))
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


class Registry:
    def __init__(self, clock: Callable[[], float], down_after: float) -> None:
        self.database = MemoryDatabase(clock)
        self.store = SqlRegistry(self.database, down_after)

    def record(self, host: str) -> ServiceRecord | None:
        """As it is in the database, be that away."""
        away, self.database.away = self.database.away, False
        try:
            return self.store.get_service(host)
        except UnknownHost:
            return None
        finally:
            self.database.away = away
