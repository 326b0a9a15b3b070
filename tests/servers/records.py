"""The tables of the registry, written to as nothing of ours does it."""

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from compute_registry.database.fleet_database import FleetDatabase
from compute_registry.database.tables import ROOTS, SERVICES


def write(database: FleetDatabase, host: str | None = None, **values: Any) -> None:
    """Write the same to the record of a host, by default to all."""
    change = SERVICES.update().values(values)
    if host is not None:
        change = change.where(SERVICES.c.host == host)
    database.run(lambda sql: sql.execute(change))


def later(database: FleetDatabase, seconds: float, host: str | None = None) -> None:
    """Let that many seconds pass for the record of a host, by default for all."""
    write(database, host, **{name: SERVICES.c[name] - seconds for name in ("last_seen", "heard")})


def insert(database: FleetDatabase, rows: Iterable[Mapping[str, Any]]) -> None:
    """Put these in; all have the same columns, and perhaps ``root``, their only root provider."""
    found = [{**row} for row in rows]
    held = {row["host"]: row.pop("root") for row in found if "root" in row}

    def work(sql: sa.Connection) -> None:
        sql.execute(SERVICES.insert(), found)
        numbers = sql.execute(sa.select(SERVICES.c.host, SERVICES.c.id)).all()
        own = [{"root": held[host], "service_id": each} for host, each in numbers if host in held]
        if own:
            sql.execute(ROOTS.insert(), own)

    database.run(work)
