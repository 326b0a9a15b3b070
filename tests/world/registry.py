"""The real store of service records, over a database in memory with the simulated clock."""

from __future__ import annotations

from collections.abc import Callable

from agent.registry.errors import UnknownHost
from agent.registry.record import ServiceRecord
from tests.registries import MemoryDatabase, registry_at


class Registry:
    def __init__(self, clock: Callable[[], float], down_after: float) -> None:
        self.database = MemoryDatabase(clock)
        self.store = registry_at(self.database, down_after)

    def record(self, host: str) -> ServiceRecord | None:
        """Return the record of a host, also while the database is unavailable to others."""
        away, self.database.away = self.database.away, False
        try:
            return self.store.get_service(host)
        except UnknownHost:
            return None
        finally:
            self.database.away = away
