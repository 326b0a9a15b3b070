"""The database of a fleet, by SQLAlchemy and oslo.db: MariaDB or PostgreSQL; SQLite for trials."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from oslo_db import api as oslo_db_api
from oslo_db import exception as db_exception
from oslo_db.sqlalchemy import engines

from agent.registry.errors import InputRefused, RegistryUnavailable
from compute_registry.database.protocol import Duplicate, R, Transaction

NEWEST = "0002"
"""The revision of the last migration; a test compares it with migrations/."""
# oslo.db's default is "utf8", which in MySQL is only a part of UTF-8.
_ALL_CHARACTERS = {"charset": "utf8mb4"}
_DEFAULTS = {
    "mysql": {"connect_timeout": "5", "read_timeout": "20", "write_timeout": "20"}
    | _ALL_CHARACTERS,
    "postgresql": {"connect_timeout": "5", "options": "-c statement_timeout=20000"},
    "sqlite": {"timeout": "20"},
}
"""Query parameters of the URL by backend.  Without these timeouts clients wait without a limit."""
CONNECTIONS = 10
"""Connections at most: to open another one for a transaction costs more CPU than ten of these."""
CONNECTION_WITHIN = 5.0
"""Seconds that a transaction waits for a connection while all are busy."""
_POOL = {
    "max_pool_size": CONNECTIONS,
    "max_overflow": 0,
    "pool_timeout": CONNECTION_WITHIN,
}
_MYSQL_NOW = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)"
_NOW = {
    "mysql": _MYSQL_NOW,
    "mariadb": _MYSQL_NOW,
    # now() would be the time of the transaction's start.
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)",
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
}


LONGEST_TICK = 5.0
"""Seconds between two ticks of the clock, at most; in a longer time without a tick it stands still.
Registries tick once a second."""


@dataclass(frozen=True, slots=True)
class FleetDatabase:
    """See :class:`compute_registry.database.protocol.Database`."""

    engine: sa.Engine

    @classmethod
    def from_url(cls, connection: str, option: str = "[registry] connection") -> "FleetDatabase":
        """Return the database of an SQLAlchemy URL; each connection is tested before its use.

        ``option``: the option that set the URL, for errors.

        :raises RegistryUnavailable: the URL is invalid.
        """
        if not connection:
            raise RegistryUnavailable(f"{option} is not set: the URL of the fleet's database")
        try:
            url = sa.make_url(connection)
            defaults = _DEFAULTS.get(url.get_backend_name(), {})
            added = {name: value for name, value in defaults.items() if name not in url.query}
            engine: sa.Engine = engines.create_engine(
                url.update_query_dict(added),
                max_retries=0,
                **({} if url.get_backend_name() == "sqlite" else _POOL),
            )
        except (sa.exc.ArgumentError, ImportError, ValueError) as err:
            # A ValueError is about the port, which SQLAlchemy's pattern does not check.
            why = f"the port is not a number: {err}" if isinstance(err, ValueError) else err
            raise RegistryUnavailable(f"{option}: {why}") from err
        if url.port is not None and not 0 < url.port < 65536:
            raise RegistryUnavailable(f"{option}: port {url.port} is out of range")
        if engine.dialect.name not in _NOW:
            supported = "mysql+pymysql or postgresql+psycopg2"
            raise RegistryUnavailable(
                f"{option}: {engine.dialect.name} is not supported: use {supported}"
            )
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine, "connect", _add_functions)
        return cls(engine)

    @property
    def now(self) -> str:
        return _NOW[self.engine.dialect.name]

    @property
    def clock(self) -> str:
        return f"(SELECT seconds + {self._passed} FROM clock)"

    @property
    def tick(self) -> str:
        # In this order: in MySQL an assignment sees the results of those before it.
        return f"UPDATE clock SET seconds = seconds + {self._passed}, ticked_at = {self.now}"

    @property
    def _passed(self) -> str:
        """SQL for the seconds since the last tick; none if the database's clock was set back."""
        return f"LEAST(GREATEST({self.now} - ticked_at, 0), {LONGEST_TICK})"

    @property
    def binary(self) -> str:
        return self.engine.dialect.identifier_preparer.quote("binary")

    @property
    def safe_url(self) -> str:
        return self.engine.url.set(query={}).render_as_string(hide_password=True)

    def upgrade(self) -> None:
        if self.is_newest():
            return
        # Loading Alembic takes 12 MiB, needed only for an upgrade.
        from compute_registry.database.migrate import migrate  # noqa: PLC0415

        try:
            migrate(self.engine)
        except (db_exception.DBError, sa.exc.SQLAlchemyError, OSError) as err:
            raise RegistryUnavailable(
                f"{self.safe_url}: {_one_line(err)}; check that the database is up "
                "and that the user may change its schema"
            ) from err

    def is_newest(self) -> bool:
        """Return whether the schema is up to date; ``False`` if that is unknown."""
        try:
            with self.engine.connect() as connection:
                rows = connection.execute(sa.text("SELECT version_num FROM alembic_version"))
                (version,) = rows.scalars().all()
                return str(version) >= NEWEST  # later migrations only add columns
        except (db_exception.DBError, sa.exc.SQLAlchemyError, ValueError):
            return False

    def run(self, work: Callable[[Transaction], R]) -> R:
        try:
            result: R = self._run_with_retries(work)
        except db_exception.DBDeadlock as err:
            raise RegistryUnavailable(f"the database is too busy: {_one_line(err)}") from err
        except db_exception.DBDuplicateEntry as err:
            raise Duplicate(_one_line(err)) from err
        except db_exception.DBDataError as err:
            raise InputRefused(_one_line(err)) from err
        except (db_exception.DBError, sa.exc.SQLAlchemyError) as err:
            raise RegistryUnavailable(f"{self.safe_url}: {_one_line(err)}") from err
        return result

    def dispose(self) -> None:
        self.engine.dispose()

    @oslo_db_api.wrap_db_retry(  # type: ignore[untyped-decorator]
        max_retries=5, retry_interval=0.05, inc_retry_interval=True, retry_on_deadlock=True
    )
    def _run_with_retries(self, work: Callable[[Transaction], Any]) -> Any:
        with self.engine.begin() as connection:
            return work(_SqlTransaction(connection))


def _add_functions(connection: Any, _: object) -> None:
    """Add the functions that SQLite has under other names."""
    connection.create_function("LEAST", 2, min)
    connection.create_function("GREATEST", 2, max)


@dataclass(frozen=True, slots=True)
class _SqlTransaction:
    connection: sa.Connection

    def rows(self, sql: str, **values: Any) -> Sequence[Mapping[str, Any]]:
        return [dict(row) for row in self.connection.execute(_statement(sql), values).mappings()]

    def change(self, sql: str, **values: Any) -> int:
        return self.connection.execute(_statement(sql), values).rowcount


@lru_cache(64)
def _statement(sql: str) -> sa.TextClause:
    """Return the statement; the same object again is compiled once."""
    return sa.text(sql)


def _one_line(err: Exception) -> str:
    """Return the database's error in one line, without the statement."""
    return str(err).partition("\n")[0]
