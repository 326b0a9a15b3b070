"""The database: how it is opened, and how its schema is brought up to date.

Any number of instances may start at once: each upgrades under a lock that the database
itself keeps (for SQLite: a file beside it), so one does it and the others find it done.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from oslo_db import exception as db_exception
from oslo_db.sqlalchemy import engines

from agent.registry.errors import RegistryUnavailable

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK = "compute-registry-schema"
LOCK_WITHIN = 60
"""Seconds that another instance's upgrade is waited for."""
# MySQL means a part of UTF-8 by "utf8", which is what oslo.db asks for.
_ALL_CHARACTERS = {"charset": "utf8mb4"}
_UNSAID = {
    "sqlite": {"timeout": "20"},
    "mysql": {"connect_timeout": "5", "read_timeout": "20", "write_timeout": "20"}
    | _ALL_CHARACTERS,
    "postgresql": {"connect_timeout": "5", "options": "-c statement_timeout=20000"},
}
"""By default none of these ever gives up waiting."""


def open_engine(connection: str, *, connections: int = 10) -> sa.Engine:
    """An engine over the database of this URL, that tests each connection before it is used.

    Nothing is connected yet.

    :raises RegistryUnavailable: the URL can't be used.
    """
    try:
        url = sa.make_url(connection)
        defaults = _UNSAID.get(url.get_backend_name(), {})
        unsaid = {name: value for name, value in defaults.items() if name not in url.query}
        engine: sa.Engine = engines.create_engine(
            url.update_query_dict(unsaid), max_retries=0, max_pool_size=connections
        )
    except (sa.exc.ArgumentError, ImportError) as err:
        raise RegistryUnavailable(f"[registry] connection: {err}") from err
    if engine.dialect.name == "sqlite":
        # Readers do not wait for the writer, nor it for them.
        sa.event.listen(engine, "connect", _use_wal)
    return engine


def _use_wal(connection: sa.engine.interfaces.DBAPIConnection, _: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    # A power cut may take the last heartbeats; it damages nothing.
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def upgrade(engine: sa.Engine) -> None:
    """Bring the schema up to date, once, whoever else tries to at the same time.

    :raises RegistryUnavailable: the database can't be reached, or can't be changed.
    """
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    try:
        with engine.connect() as connection, _locked(connection):
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()
    except (db_exception.DBError, sa.exc.SQLAlchemyError, OSError) as err:
        raise RegistryUnavailable(
            f"{shown(engine)}: {one_line(err)}; is the database up, and may we use it?"
        ) from err


@contextmanager
def _locked(connection: sa.Connection) -> Iterator[None]:
    name = connection.dialect.name
    if name == "sqlite":
        with _locked_file(connection.engine.url.database):
            yield
    elif name == "postgresql":
        with _locked_session(
            connection, "SELECT pg_advisory_lock({})", "SELECT pg_advisory_unlock({})"
        ):
            yield
    else:
        with _locked_session(
            connection, f"SELECT GET_LOCK({{}}, {LOCK_WITHIN})", "SELECT RELEASE_LOCK({})"
        ):
            yield


@contextmanager
def _locked_session(connection: sa.Connection, take: str, release: str) -> Iterator[None]:
    key = "hashtext(:lock)" if connection.dialect.name == "postgresql" else ":lock"
    taken = connection.execute(sa.text(take.format(key)), {"lock": LOCK}).scalar()
    connection.commit()
    if taken == 0:
        raise RegistryUnavailable(f"another instance upgrades the schema for over {LOCK_WITHIN} s")
    try:
        yield
    finally:
        connection.rollback()
        connection.execute(sa.text(release.format(key)), {"lock": LOCK})
        connection.commit()


@contextmanager
def _locked_file(database: str | None) -> Iterator[None]:
    if not database or database == ":memory:":
        yield
        return
    with Path(f"{database}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def shown(engine: sa.Engine) -> str:
    """The URL, without its password."""
    return engine.url.set(query={}).render_as_string(hide_password=True)


def one_line(err: Exception) -> str:
    """What the database said, without the statement that it said it about."""
    return str(err).partition("\n")[0]
