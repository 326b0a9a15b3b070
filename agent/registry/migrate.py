"""How the schema is brought up to date: the only file that loads Alembic.

Any number of instances may start at once: each upgrades under a lock that the database
itself keeps, so one does it and the others find it done.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from agent.registry.errors import RegistryUnavailable

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK = "compute-registry-schema"
LOCK_WITHIN = 60
"""Seconds that another instance's upgrade is waited for."""


def config() -> Config:
    """Alembic's, with our migrations."""
    made = Config()
    made.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    made.set_main_option("path_separator", "os")
    return made


def migrate(engine: sa.Engine) -> None:
    """Run what is missing.

    :raises sqlalchemy.exc.SQLAlchemyError: the database can't be reached, or not be changed;
        oslo.db's DBError as well.
    """
    ours = config()
    with engine.connect() as connection, _locked(connection):
        ours.attributes["connection"] = connection
        command.upgrade(ours, "head")
        connection.commit()


@contextmanager
def _locked(connection: sa.Connection) -> Iterator[None]:
    if connection.dialect.name == "postgresql":
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
