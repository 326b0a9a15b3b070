"""The database of a fleet, by SQLAlchemy and oslo.db: MariaDB; SQLite for trials.

oslo.db's enginefacade would replace two lines of ``run``: it retries nothing, and translates no
errors into the registry's; a transaction costs about the same CPU with it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa
from oslo_db import api as oslo_db_api
from oslo_db import exception as db_exception
from oslo_db.sqlalchemy import engines

from agent.config import ConfigError
from agent.errors import InputRefused, RegistryUnavailable
from compute_registry.database.tables import CLOCK_ROW, METADATA
from reportclient.plain_text import error_text

# oslo.db's default is "utf8", which in MySQL is only a part of UTF-8.
_MYSQL = {"connect_timeout": "2", "read_timeout": "4", "write_timeout": "4", "charset": "utf8mb4"}
_DEFAULTS = {"mysql": _MYSQL, "mariadb": _MYSQL, "sqlite": {"timeout": "4"}}
"""Query parameters of the URL by backend.  A hung database costs a caller at most two of its
time-outs: that of a connection of the pool, and that of a new connection."""
CONNECTIONS = 10
"""Connections at most: to open another one for a transaction costs more CPU than ten of these."""
CONNECTION_WITHIN = 3.0
"""Seconds that a transaction waits for a connection while all are busy."""
RETRIED_WITHIN = 1.0
"""Seconds after which a transaction whose connection was lost is not tried again."""
_POOL = {"max_pool_size": CONNECTIONS, "max_overflow": 0, "pool_timeout": CONNECTION_WITHIN}

R = TypeVar("R")


@dataclass
class FleetDatabase:
    """The database with the tables of :mod:`compute_registry.database.tables`."""

    engine: sa.Engine

    @classmethod
    def from_url(cls, connection: str) -> "FleetDatabase":
        """Return the database of an SQLAlchemy URL; each connection is tested before its use.

        :raises RegistryUnavailable: the URL is invalid.
        """
        try:
            url = sa.make_url(connection)
            backend = url.get_backend_name()
            defaults = _DEFAULTS[backend].items()
            added = {name: value for name, value in defaults if name not in url.query}
            engine: sa.Engine = engines.create_engine(
                url.update_query_dict(added),
                max_retries=0,
                sqlite_fk=True,
                mysql_sql_mode="TRADITIONAL",
                **({} if backend == "sqlite" else _POOL),
            )
        except KeyError:
            raise RegistryUnavailable(
                f"[registry] connection: use mysql+pymysql, not {backend}"
            ) from None
        except (sa.exc.ArgumentError, ImportError, ValueError) as err:
            raise RegistryUnavailable(f"[registry] connection: {err}") from err
        if not url.database or not 0 < (url.port or 1) < 65536:
            raise RegistryUnavailable(
                "[registry] connection: the database is not named, or the port is wrong"
            )
        if backend == "sqlite":
            sa.event.listen(engine, "connect", add_functions)
        return cls(engine)

    @property
    def safe_url(self) -> str:
        """The URL, without its password."""
        return self.engine.url.set(query={}).render_as_string(hide_password=True)

    def prepare(self) -> None:
        """Create the tables, unless they are there; several processes may do so at the same time.

        :raises ConfigError: there are tables of these names with other columns.
        :raises RegistryUnavailable: the database can't be reached, or can't be changed.
        """
        try:
            self.run(_prepare)
        except RegistryUnavailable as err:
            text = f"{err}; check that the database is up and that the user may create tables"
            raise RegistryUnavailable(text) from err

    def run(self, work: Callable[[sa.Connection], R]) -> R:
        """Run ``work`` in a transaction.

        It is run again after a deadlock, after another transaction has taken a unique value or
        created a table, and once more on a new connection if one was lost.

        :raises InputRefused: the database refused the values.
        :raises RegistryUnavailable: the database can't be reached, is damaged, or too busy.
        """
        began = time.monotonic()

        def is_passing(err: Exception) -> bool:
            lost = isinstance(err, db_exception.DBConnectionError)
            lost = lost and time.monotonic() - began < RETRIED_WITHIN
            taken = isinstance(err, db_exception.DBDuplicateEntry | sa.exc.IntegrityError)
            return lost or taken or "already exists" in str(err)

        @oslo_db_api.wrap_db_retry(  # type: ignore[untyped-decorator]
            max_retries=5,
            retry_interval=0.05,
            retry_on_deadlock=True,
            exception_checker=is_passing,
        )
        def transaction() -> R:
            with self._connect() as connection, connection.begin():
                return work(connection)

        try:
            result: R = transaction()
        except (db_exception.DBDeadlock, db_exception.DBDuplicateEntry) as err:
            raise RegistryUnavailable(f"the database is too busy: {_one_line(err)}") from err
        except db_exception.DBDataError as err:
            raise InputRefused(_one_line(err)) from err
        except (db_exception.DBError, sa.exc.SQLAlchemyError) as err:
            raise RegistryUnavailable(f"{self.safe_url}: {_one_line(err)}") from err
        return result

    def _connect(self) -> sa.Connection:
        """Return a connection.

        If a new one is lost, SQLAlchemy and drivers raise errors of any type.

        :raises DBConnectionError: the connection could not be opened; SQLAlchemyError as well.
        """
        try:
            return self.engine.connect()
        except (db_exception.DBError, sa.exc.SQLAlchemyError):
            raise
        except Exception as err:
            text = f"can't open a connection: {error_text(err)}"
            raise db_exception.DBConnectionError(text) from err

    def dispose(self) -> None:
        """Close what is open."""
        self.engine.dispose()


def add_functions(connection: Any, _: object) -> None:
    """Add the functions that SQLite lacks, or has under other names."""
    connection.create_function("now_in_seconds", 0, time.time)
    connection.create_function("LEAST", 2, min)
    connection.create_function("GREATEST", 2, max)


def _prepare(sql: sa.Connection) -> None:
    if sql.dialect.name == "sqlite":
        # A write, which waits for another instance's; after a read it would fail.
        sql.exec_driver_sql("PRAGMA user_version = 1")
    inspector = sa.inspect(sql)
    for table in METADATA.sorted_tables:
        columns = {each.name: _length(each.type) for each in table.columns}
        if not inspector.has_table(table.name):
            continue
        found = inspector.get_columns(table.name)
        there = {each["name"]: _length(each["type"]) for each in found}
        needed = {each["name"] for each in found if not each["nullable"] and not each["default"]}
        wrong = {name for name, _ in columns.items() - there.items()} | (needed - columns.keys())
        if wrong:
            raise ConfigError(
                "[registry] connection: the database has tables of another version of compute-"
                f"registry, or of another program ({table.name}: {', '.join(sorted(wrong))}): "
                "create an empty database and connect to it; each agent creates its record again, "
                "and a disabled host stays disabled"
            )
    METADATA.create_all(sql)
    if sql.execute(sa.select(CLOCK_ROW.c.id)).first() is None:
        sql.execute(CLOCK_ROW.insert().values(id=1, seconds=0.0, ticked_at=0.0))


def _length(kind: sa.types.TypeEngine[Any]) -> int | None:
    return getattr(kind, "length", None)


def _one_line(err: Exception) -> str:
    """Return the database's error in one line, without the statement."""
    return str(err).partition("\n")[0]
