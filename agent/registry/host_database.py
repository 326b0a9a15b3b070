"""The SQLite file with the service record of one host, by the standard library."""

import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from agent.registry.database import Duplicate, R, Transaction
from agent.registry.errors import RegistryUnavailable
from agent.state.files import give_to_owner, set_aside

LOG = logging.getLogger("compute_agent.registry")
_SUFFIXES = ("-wal", "-shm")
"""Suffixes of SQLite's auxiliary files."""
BUSY_WITHIN = 20.0
"""Seconds to wait for another writer."""
TABLE = """
CREATE TABLE IF NOT EXISTS services (
    id INTEGER NOT NULL,
    uuid VARCHAR(36) NOT NULL,
    host VARCHAR(255) NOT NULL,
    binary VARCHAR(255) NOT NULL,
    disabled BOOLEAN NOT NULL,
    disabled_reason VARCHAR(255),
    disabled_at DOUBLE,
    forced_down BOOLEAN NOT NULL,
    rpc_version VARCHAR(32),
    last_seen DOUBLE,
    roots TEXT NOT NULL,
    address VARCHAR(255),
    contested_by VARCHAR(255),
    contested_at DOUBLE,
    version INTEGER NOT NULL,
    attached BOOLEAN,
    heard DOUBLE,
    agent_version VARCHAR(255),
    degraded VARCHAR(255),
    PRIMARY KEY (id),
    UNIQUE (uuid),
    UNIQUE (host)
);
"""
"""A test compares it with the migrations of a fleet's databases."""
VERSION = 1
"""``user_version`` of the file.  The file of a later agent may have more columns."""
ADDED = {"heard": "DOUBLE", "agent_version": "VARCHAR(255)", "degraded": "VARCHAR(255)"}
"""Columns that files of earlier agents lack, with their types."""


@dataclass(frozen=True, slots=True)
class HostDatabase:
    """See :class:`agent.registry.database.Database`."""

    path: str
    own: bool = False
    """Whether the caller is the agent of the host, which replaces a damaged file: it has its status
    elsewhere too."""
    now: ClassVar[str] = "((julianday('now') - 2440587.5) * 86400.0)"
    clock: ClassVar[str] = now
    tick: ClassVar[str] = ""
    binary: ClassVar[str] = "binary"
    _idle: list[sqlite3.Connection] = field(default_factory=list, repr=False, compare=False)

    @property
    def safe_url(self) -> str:
        return f"sqlite:///{self.path}"

    def upgrade(self) -> None:
        try:
            self.run(_check_integrity)
        except RegistryUnavailable as err:
            if not (self.own and _is_damaged(err.__cause__)):
                raise
            self._set_aside(err)
            self.run(_check_integrity)
        for suffix in ("", *_SUFFIXES):
            give_to_owner(Path(self.path + suffix))

    def _set_aside(self, err: RegistryUnavailable) -> None:
        self.dispose()
        for suffix in _SUFFIXES:  # they would be applied to the new file
            Path(self.path + suffix).unlink(missing_ok=True)
        LOG.warning(
            "%s: the file is damaged%s; a new file was created", err, set_aside(Path(self.path))
        )

    def run(self, work: Callable[[Transaction], R]) -> R:
        try:
            with self._connection() as connection, connection:
                return work(SqliteTransaction(connection))
        except sqlite3.IntegrityError as err:
            raise Duplicate(str(err)) from err
        except sqlite3.Error as err:
            raise RegistryUnavailable(f"{self.safe_url}: {err}") from err

    def dispose(self) -> None:
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for this thread alone; it is reused, unless an error was raised."""
        connection = self._idle.pop() if self._idle else self._open()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, BUSY_WITHIN, check_same_thread=False)
        try:
            connection.row_factory = sqlite3.Row
            # Invalid UTF-8 in one row must not make the others unreadable.
            connection.text_factory = lambda column: column.decode(errors="replace")
            # A power cut may lose the last heartbeats, and damages nothing.
            connection.execute("PRAGMA synchronous=NORMAL")
            self._ensure_table(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _ensure_table(self, connection: sqlite3.Connection) -> None:
        [(version,)] = connection.execute("PRAGMA user_version")
        if version > VERSION:
            raise RegistryUnavailable(
                f"{self.safe_url} has version {version}, and this compute-agent reads {VERSION}: a "
                "later compute-agent wrote it; use that version, or move the file away"
            )
        if version < VERSION:
            # In WAL mode readers and the writer do not wait for each other.
            connection.execute("PRAGMA journal_mode=WAL")
            make_table(connection)
        columns = {row["name"] for row in connection.execute("PRAGMA table_info(services)")}
        for name in ADDED.keys() - columns:
            connection.execute(f"ALTER TABLE services ADD COLUMN {name} {ADDED[name]}")


def _check_integrity(transaction: Transaction) -> None:
    [row] = transaction.rows("PRAGMA quick_check(1)")
    if row["quick_check"] != "ok":
        raise _Damaged(row["quick_check"])


class _Damaged(sqlite3.DatabaseError):
    """SQLite's ``quick_check`` failed."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


def _is_damaged(err: BaseException | None) -> bool:
    """Return whether the file is damaged; such an error is permanent."""
    code = getattr(err, "sqlite_errorcode", 0) & 0xFF  # the primary result code
    return code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def make_table(connection: sqlite3.Connection) -> None:
    """Create the table, unless another process has done so."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(TABLE)
        connection.execute(f"PRAGMA user_version = {VERSION}")


@dataclass(frozen=True, slots=True)
class SqliteTransaction:
    """A transaction on one connection."""

    connection: sqlite3.Connection

    def rows(self, sql: str, **values: Any) -> Sequence[Mapping[str, Any]]:
        return [dict(row) for row in self.connection.execute(sql, values)]

    def change(self, sql: str, **values: Any) -> int:
        return self.connection.execute(sql, values).rowcount
