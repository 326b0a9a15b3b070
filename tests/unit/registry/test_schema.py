"""What a database that is up to date costs: one look, and no Alembic."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from alembic.script import ScriptDirectory

from agent.registry.migrate import config
from agent.registry.schema import NEWEST, is_newest, open_engine, upgrade

LOOK = """
import sys
from agent.registry.schema import open_engine, upgrade
upgrade(open_engine(sys.argv[1]))
print("alembic" in sys.modules)
"""


def test_the_newest_migration_is_the_one_that_is_named() -> None:
    assert ScriptDirectory.from_config(config()).get_heads() == [NEWEST]


def test_only_a_schema_of_the_newest_version_is_left_alone(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/services.sqlite")
    assert not is_newest(engine)
    upgrade(engine)
    assert is_newest(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    assert not is_newest(engine)
    engine.dispose()


def test_a_later_start_does_not_load_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/services.sqlite"
    said = [
        subprocess.run(
            [sys.executable, "-c", LOOK, url], capture_output=True, text=True, check=True
        ).stdout.strip()
        for _ in range(2)
    ]
    assert said == ["True", "False"]
