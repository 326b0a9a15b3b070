"""The databases' schema: which version it has, and what becomes of a file of another one."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from agent.registry.errors import RegistryUnavailable
from agent.registry.host_database import ADDED, TABLE
from compute_registry.database import open_database
from compute_registry.database.fleet_database import NEWEST, FleetDatabase
from compute_registry.database.migrate import config
from tests import registries
from tests.registries import registry_at


def rows(file: Path, wanted: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute(wanted).fetchall()


def test_the_newest_migration_is_the_one_that_is_named() -> None:
    assert ScriptDirectory.from_config(config()).get_heads() == [NEWEST]


def test_only_an_older_schema_is_migrated(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/services.sqlite")
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


def test_a_column_that_a_later_version_has_added_is_left_alone(tmp_path: Path) -> None:
    registry_at(tmp_path).heartbeat("host1", "a", None, [])
    with closing(sqlite3.connect(tmp_path / "services.sqlite")) as database:
        database.execute("ALTER TABLE services ADD COLUMN moon TEXT DEFAULT 'full'")
    registry = registry_at(tmp_path)
    assert registry.set_status("host1", disabled=True).disabled
    assert rows(tmp_path / "services.sqlite", "SELECT moon FROM services") == [("full",)]


def test_a_file_of_an_earlier_agent_gets_the_columns_that_it_lacks(tmp_path: Path) -> None:
    registry_at(tmp_path).heartbeat("host1", "a", None, [])
    with closing(sqlite3.connect(tmp_path / "services.sqlite")) as database:
        for column in ADDED:
            database.execute(f"ALTER TABLE services DROP COLUMN {column}")
    registry = registry_at(tmp_path)
    assert registry.get_service("host1").silent_for is None
    assert (
        registry.heartbeat("host1", "a", None, [], degraded="disk: full").degraded == "disk: full"
    )


def test_a_file_of_a_later_version_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "services.sqlite"
    registry_at(tmp_path).heartbeat("host1", "a", None, [])
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 2")
    with pytest.raises(
        RegistryUnavailable, match=r"services\.sqlite has version 2, and this compute-agent reads 1"
    ):
        registry_at(tmp_path)
    assert rows(file, "SELECT host FROM services") == [("host1",)]


def test_a_file_that_was_begun_only_is_finished(tmp_path: Path) -> None:
    file = tmp_path / "services.sqlite"
    with closing(sqlite3.connect(file)) as database:
        database.execute(TABLE)
    registry = registry_at(tmp_path)
    assert registry.heartbeat("host1", "a", None, []).host == "host1"


def test_a_file_that_was_removed_is_made_anew_by_the_next_that_opens_it(tmp_path: Path) -> None:
    file = tmp_path / "services.sqlite"
    for _ in range(2):
        with registries.registry(tmp_path) as store:
            assert store.heartbeat("host1", "a", None, []).version == 1
        file.unlink()


def test_what_is_no_database_is_said(tmp_path: Path) -> None:
    file = tmp_path / "services.sqlite"
    file.write_text("no database, " * 100)
    with pytest.raises(RegistryUnavailable, match=r"services\.sqlite: file is not a database"):
        open_database(f"sqlite:///{file}").upgrade()
