"""The table of services, written to as nothing of ours does it."""

from collections.abc import Iterable, Mapping
from typing import Any

from compute_registry.database.protocol import Database


def write(database: Database, said: str, **values: Any) -> None:
    """Write the same to all records: ``said`` is what comes after SET."""
    database.run(lambda sent: sent.change(f"UPDATE services SET {said}", **values))


def later(database: Database, seconds: float) -> None:
    """Let that many seconds pass for all records."""
    passed = "last_seen = last_seen - :seconds, heard = heard - :seconds"
    write(database, passed, seconds=seconds)


def insert(database: Database, rows: Iterable[Mapping[str, Any]]) -> None:
    """Put these in; all have the same columns."""
    found = list(rows)
    columns = ", ".join(database.binary if name == "binary" else name for name in found[0])
    values = ", ".join(f":{name}" for name in found[0])
    wanted = f"INSERT INTO services ({columns}) VALUES ({values})"
    database.run(lambda sent: [sent.change(wanted, **row) for row in found])
