"""The database of a fleet, MariaDB or PostgreSQL, by SQLAlchemy and oslo.db."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from oslo_db import api as oslo_db_api
from oslo_db import exception as db_exception
from oslo_db.sqlalchemy import engines

from agent.registry.database import Duplicate, R, Transaction
from agent.registry.errors import InputRefused, RegistryUnavailable

NEWEST = "0001"
"""The revision of the last migration; a test compares it with migrations/."""
# MySQL means a part of UTF-8 by "utf8", which is what oslo.db asks for.
_ALL_CHARACTERS = {"charset": "utf8mb4"}
_UNSAID = {
    "mysql": {"connect_timeout": "5", "read_timeout": "20", "write_timeout": "20"}
    | _ALL_CHARACTERS,
    "postgresql": {"connect_timeout": "5", "options": "-c statement_timeout=20000"},
}
"""By default none of these ever gives up waiting."""
CONNECTIONS = 10
"""Kept open; more are opened while all are busy."""
_MYSQL_NOW = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)"
_NOW = {
    "mysql": _MYSQL_NOW,
    "mariadb": _MYSQL_NOW,
    # Of this statement, not of the transaction's start.
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)",
}


@dataclass(frozen=True, slots=True)
class FleetDatabase:
    """See :class:`agent.registry.database.Database`."""

    engine: sa.Engine

    @classmethod
    def of(cls, connection: str, option: str) -> "FleetDatabase":
        """With an engine that tests each connection before it is used."""
        try:
            url = sa.make_url(connection)
            defaults = _UNSAID.get(url.get_backend_name(), {})
            unsaid = {name: value for name, value in defaults.items() if name not in url.query}
            engine: sa.Engine = engines.create_engine(
                url.update_query_dict(unsaid), max_retries=0, max_pool_size=CONNECTIONS
            )
        except (sa.exc.ArgumentError, ImportError, ValueError) as err:
            # A ValueError is about the port: the URL's pattern takes anything there.
            why = f"the port is not a number: {err}" if isinstance(err, ValueError) else err
            raise RegistryUnavailable(f"{option}: {why}") from err
        if url.port is not None and not 0 < url.port < 65536:
            raise RegistryUnavailable(f"{option}: port {url.port} is out of range")
        if engine.dialect.name not in _NOW:
            known = "sqlite, mysql+pymysql or postgresql+psycopg2"
            raise RegistryUnavailable(
                f"{option}: {engine.dialect.name} is not supported: use {known}"
            )
        return cls(engine)

    @property
    def now(self) -> str:
        return _NOW[self.engine.dialect.name]

    @property
    def binary(self) -> str:
        return self.engine.dialect.identifier_preparer.quote("binary")

    @property
    def safe_url(self) -> str:
        return self.engine.url.set(query={}).render_as_string(hide_password=True)

    def upgrade(self) -> None:
        if self.is_newest():
            return
        # To find nothing to do, Alembic would take 12 MiB.
        from compute_registry.database.migrate import migrate  # noqa: PLC0415

        try:
            migrate(self.engine)
        except (db_exception.DBError, sa.exc.SQLAlchemyError, OSError) as err:
            raise RegistryUnavailable(
                f"{self.safe_url}: {_one_line(err)}; is the database up, and may we use it?"
            ) from err

    def is_newest(self) -> bool:
        """Whether there is nothing to migrate; not where that can't be found out."""
        try:
            with self.engine.connect() as connection:
                found = connection.execute(sa.text("SELECT version_num FROM alembic_version"))
                (version,) = found.scalars().all()
                return str(version) >= NEWEST  # a later one only adds to it
        except (db_exception.DBError, sa.exc.SQLAlchemyError, ValueError):
            return False

    def run(self, work: Callable[[Transaction], R]) -> R:
        try:
            done: R = self._tried(work)
        except db_exception.DBDeadlock as err:
            raise RegistryUnavailable(f"the database is too busy: {_one_line(err)}") from err
        except db_exception.DBDuplicateEntry as err:
            raise Duplicate(_one_line(err)) from err
        except db_exception.DBDataError as err:
            raise InputRefused(_one_line(err)) from err
        except (db_exception.DBError, sa.exc.SQLAlchemyError) as err:
            raise RegistryUnavailable(f"{self.safe_url}: {_one_line(err)}") from err
        return done

    def dispose(self) -> None:
        self.engine.dispose()

    @oslo_db_api.wrap_db_retry(  # type: ignore[untyped-decorator]
        max_retries=5, retry_interval=0.05, inc_retry_interval=True, retry_on_deadlock=True
    )
    def _tried(self, work: Callable[[Transaction], Any]) -> Any:
        with self.engine.begin() as connection:
            return work(_Sent(connection))


@dataclass(frozen=True, slots=True)
class _Sent:
    connection: sa.Connection

    def rows(self, sql: str, **values: Any) -> Sequence[Mapping[str, Any]]:
        return [dict(row) for row in self.connection.execute(sa.text(sql), values).mappings()]

    def change(self, sql: str, **values: Any) -> int:
        return self.connection.execute(sa.text(sql), values).rowcount


def _one_line(err: Exception) -> str:
    """Return the database's error in one line, without the statement."""
    return str(err).partition("\n")[0]
