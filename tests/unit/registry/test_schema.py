"""The fleet's schema: which version it has, and which one is migrated."""

from pathlib import Path

import sqlalchemy as sa
from alembic.script import ScriptDirectory

from compute_registry.database.fleet_database import NEWEST, FleetDatabase
from compute_registry.database.migrate import config


def test_the_newest_migration_is_the_one_that_is_named() -> None:
    assert ScriptDirectory.from_config(config()).get_heads() == [NEWEST]


def test_only_an_older_schema_is_migrated(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/registry.sqlite")
    fleet = FleetDatabase(engine)
    assert not fleet.is_newest()
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num TEXT)")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('0000')")
    for version, is_newest in {"0000": False, NEWEST: True, "9999": True}.items():
        with engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version}'")
        assert fleet.is_newest() == is_newest
    engine.dispose()
