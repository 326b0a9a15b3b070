"""Upgrades of the schema by Alembic.

Several instances may start at the same time: each upgrades under a lock in the database, so the
first one upgrades and the others then have nothing to do.
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
LOCK_WITHIN = 3
"""Seconds to wait for another instance's upgrade; then the instance starts again."""


def config() -> Config:
    """Return the configuration of Alembic for ``MIGRATIONS``."""
    alembic = Config()
    alembic.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    alembic.set_main_option("path_separator", "os")
    return alembic


def migrate(connection: sa.Connection) -> None:
    """Run the missing migrations.

    :raises sqlalchemy.exc.SQLAlchemyError: the database can't be reached or changed; oslo.db's
        DBError as well.
    :raises RegistryUnavailable: another instance has held the lock for too long.
    """
    alembic = config()
    with _locked(connection):
        alembic.attributes["connection"] = connection
        command.upgrade(alembic, "head")
        connection.commit()


@contextmanager
def _locked(connection: sa.Connection) -> Iterator[None]:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("ROLLBACK")  # oslo.db has begun one whose first read would
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # not wait for a write of another instance
        yield
        return
    taken = connection.execute(sa.select(sa.func.get_lock(LOCK, LOCK_WITHIN))).scalar()
    connection.commit()
    if taken == 0:
        raise RegistryUnavailable(
            f"another instance has been upgrading the schema for over {LOCK_WITHIN} s"
        )
    try:
        yield
    finally:
        connection.rollback()
        connection.execute(sa.select(sa.func.release_lock(LOCK)))
        connection.commit()
