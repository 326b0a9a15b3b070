"""The databases' schema: which version it has, and the file of one host across versions."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from agent.registry.database import NEWEST, open_database
from agent.registry.errors import RegistryUnavailable
from agent.registry.fleet_database import FleetDatabase
from agent.registry.migrate import config
from tests import registries
from tests.registries import registry_at

OLDER = Path(__file__).parent / "data" / "services-by-sqlalchemy.sqlite"
"""Of the last version that had SQLAlchemy for it: host1, disabled and forced down."""


def rows(file: Path, wanted: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute(wanted).fetchall()


def test_the_newest_migration_is_the_one_that_is_named() -> None:
    assert ScriptDirectory.from_config(config()).get_heads() == [NEWEST]


def test_only_an_older_schema_is_migrated(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/services.sqlite")
    fleet = FleetDatabase(engine)
    assert not fleet.is_newest()
    open_database(f"sqlite:///{tmp_path}/services.sqlite").upgrade()
    for version, is_newest in {"0001": False, NEWEST: True, "9999": True}.items():
        with engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version}'")
        assert fleet.is_newest() == is_newest
    engine.dispose()


ADDED = [("disabled_at", "DOUBLE", 0, 0), ("attached", "BOOLEAN", 0, 0)]


def test_an_upgrade_keeps_the_record_and_a_downgrade_what_was_written_since(
    tmp_path: Path,
) -> None:
    file, older = tmp_path / "services.sqlite", tmp_path / "older.sqlite"
    for copy in (file, older):
        shutil.copy(OLDER, copy)
    registry = registry_at(tmp_path)
    before = registry.get_service("host1")
    assert (before.disabled_reason, before.forced_down, before.address) == (
        "new disks",
        True,
        "rack 1",
    )
    assert before.disabled_at is None
    registry.heartbeat("host1", "rack 1", "6.5", before.roots)
    enabled = registry.set_status("host1", disabled=False)
    registry.heartbeat("host2", "rack 2", None, [])
    # What that version looks at, and what it reads there.
    assert rows(file, "SELECT * FROM alembic_version") == rows(
        older, "SELECT * FROM alembic_version"
    )
    columns = "SELECT name, type, \"notnull\", pk FROM pragma_table_info('services')"
    assert rows(file, columns) == [*rows(older, columns), *ADDED]
    kept = "SELECT id, uuid, host, binary, disabled, forced_down, version FROM services"
    assert rows(file, kept)[0] == (
        1,
        before.uuid,
        "host1",
        "nova-compute",
        0,
        1,
        enabled.version,
    )
    kinds = "typeof(disabled), typeof(last_seen), typeof(roots), typeof(version)"
    types = f"SELECT DISTINCT {kinds} FROM services"
    assert rows(file, types) == rows(older, types)


def test_a_file_that_was_begun_only_is_finished(tmp_path: Path) -> None:
    file = tmp_path / "services.sqlite"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
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
