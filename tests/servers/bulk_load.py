"""A forest of providers into an empty Placement in one transaction, beside its API.

For tests that need a large fleet and are not about writing it: two hundred hosts take some
tens of milliseconds.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from reportclient.model import Provider, is_custom
from reportclient.snapshot import Snapshot
from tests.servers.placement import RealPlacement

COLUMNS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")
PROVIDERS = "resource_providers"

Held = Mapping[str, Mapping[str, int]]
"""What one consumer holds: ``{provider: {class: amount}}``."""


def load(
    placement: RealPlacement,
    snapshot: Snapshot,
    *,
    generation: int = 0,
    held: Mapping[str, Held] | None = None,
) -> None:
    """All of it, each provider at ``generation``, with what consumers hold of it."""
    providers = list(snapshot.walk())
    _make_names_known(placement, providers)
    engine = sa.create_engine(placement.database_url)
    with engine.begin() as connection:
        loading = _Loading(connection, providers)
        loading.insert(PROVIDERS, loading.providers(generation))
        loading.parts()
        loading.allocations(held or {})
    engine.dispose()


def _make_names_known(placement: RealPlacement, providers: Iterable[Provider]) -> None:
    """Through the API: the server remembers names."""
    for path, names in (
        ("/traits", {trait for one in providers for trait in one.traits}),
        ("/resource_classes", {name for one in providers for name in one.inventory}),
    ):
        for name in filter(is_custom, sorted(names)):
            placement.request("PUT", f"{path}/{name}")


class _Loading:
    def __init__(self, connection: sa.Connection, found: list[Provider]) -> None:
        self._connection, self._providers = connection, found
        self._tables = sa.MetaData()
        self._tables.reflect(connection)
        self._ids = {one.uuid: number for number, one in enumerate(found, 1)}

    def insert(self, table: str, rows: Iterable[dict[str, Any]]) -> None:
        values = list(rows)
        if values:
            self._connection.execute(sa.insert(self._tables.tables[table]), values)

    def providers(self, generation: int) -> Iterator[dict[str, Any]]:
        roots: dict[str, str] = {}
        now = datetime.now(UTC).replace(tzinfo=None)
        for one in self._providers:  # parents come first
            roots[one.uuid] = one.uuid if one.parent_uuid is None else roots[one.parent_uuid]
            yield {
                "id": self._ids[one.uuid],
                "uuid": one.uuid,
                "name": one.name,
                "generation": generation,
                "root_provider_id": self._ids[roots[one.uuid]],
                "parent_provider_id": self._ids.get(one.parent_uuid or ""),
                "created_at": now,
            }

    def parts(self) -> None:
        traits, classes = self._names("traits"), self._names("resource_classes")
        aggregates = sorted({uuid for one in self._providers for uuid in one.aggregates})
        numbers = {uuid: number for number, uuid in enumerate(aggregates, 1)}
        rows = ({"id": number, "uuid": uuid} for uuid, number in numbers.items())
        self.insert("placement_aggregates", rows)
        for table, column, ids, part in (
            ("resource_provider_aggregates", "aggregate_id", numbers, "aggregates"),
            ("resource_provider_traits", "trait_id", traits, "traits"),
        ):
            self.insert(table, self._pairs(column, ids, part))
        self.insert("inventories", self._inventories(classes))

    def allocations(self, held: Mapping[str, Held]) -> None:
        if not held:
            return
        owner = {"id": 1, "external_id": "guests"}
        self.insert("projects", [owner])
        self.insert("users", [owner])
        about = {"project_id": 1, "user_id": 1, "generation": 1}
        self.insert("consumers", ({"uuid": uuid, **about} for uuid in held))
        classes = self._names("resource_classes")
        self.insert(
            "allocations",
            (
                {
                    "resource_provider_id": self._ids[provider],
                    "consumer_id": consumer,
                    "resource_class_id": classes[name],
                    "used": used,
                }
                for consumer, amounts in held.items()
                for provider, of_it in amounts.items()
                for name, used in of_it.items()
            ),
        )

    def _names(self, table: str) -> dict[str, int]:
        names = self._tables.tables[table]
        found = self._connection.execute(sa.select(names.c.name, names.c.id))
        return {str(row.name): int(row.id) for row in found}

    def _pairs(self, column: str, ids: Mapping[str, int], part: str) -> Iterator[dict[str, Any]]:
        for one in self._providers:
            for each in getattr(one, part):
                yield {"resource_provider_id": self._ids[one.uuid], column: ids[each]}

    def _inventories(self, classes: Mapping[str, int]) -> Iterator[dict[str, Any]]:
        for one in self._providers:
            for name, record in one.inventory.items():
                values = record.with_defaults(None).as_dict()
                yield {
                    "resource_provider_id": self._ids[one.uuid],
                    "resource_class_id": classes[name],
                    **{column: values[column] for column in COLUMNS},
                }
