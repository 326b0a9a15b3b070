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
_LOCKS = {
    "mysql": (f"SELECT GET_LOCK(:lock, {LOCK_WITHIN})", "SELECT RELEASE_LOCK(:lock)"),
    "postgresql": (
        "SELECT pg_advisory_lock(hashtext(:lock))",
        "SELECT pg_advisory_unlock(hashtext(:lock))",
    ),
}


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
    take, release = _LOCKS["postgresql" if connection.dialect.name == "postgresql" else "mysql"]
    taken = connection.execute(sa.text(take), {"lock": LOCK}).scalar()
    connection.commit()
    if taken == 0:
        raise RegistryUnavailable(f"another instance upgrades the schema for over {LOCK_WITHIN} s")
    try:
        yield
    finally:
        connection.rollback()
        connection.execute(sa.text(release), {"lock": LOCK})
        connection.commit()
