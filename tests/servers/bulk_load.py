"""A forest of providers into an empty Placement in one transaction, beside its API.

For tests that need a large fleet and are not about writing it: two hundred hosts take some
tens of milliseconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing

from reportclient.model import Provider
from reportclient.names import is_custom
from reportclient.snapshot import Snapshot
from tests.servers.placement import RealPlacement


def load(placement: RealPlacement, snapshot: Snapshot) -> None:
    """All of it, at generation 0."""
    providers = list(snapshot.walk())
    _make_names_known(placement, providers)
    path = placement.directory / "placement.sqlite"
    with closing(sqlite3.connect(path, timeout=60)) as database, database:
        _insert(database, providers)


def _make_names_known(placement: RealPlacement, providers: Iterable[Provider]) -> None:
    """Through the API: the server remembers names."""
    for path, names in (
        ("/traits", {trait for one in providers for trait in one.traits}),
        ("/resource_classes", {name for one in providers for name in one.inventory}),
    ):
        for name in filter(is_custom, sorted(names)):
            placement.request("PUT", f"{path}/{name}")


def _insert(database: sqlite3.Connection, providers: list[Provider]) -> None:
    ids = {one.uuid: number for number, one in enumerate(providers, 1)}
    roots: dict[str, str] = {}
    for one in providers:  # parents come first
        roots[one.uuid] = one.uuid if one.parent_uuid is None else roots[one.parent_uuid]
    database.executemany(
        "INSERT INTO resource_providers"
        " (id, uuid, name, generation, root_provider_id, parent_provider_id, created_at)"
        " VALUES (?, ?, ?, 0, ?, ?, CURRENT_TIMESTAMP)",
        (
            (ids[o.uuid], o.uuid, o.name, ids[roots[o.uuid]], ids.get(o.parent_uuid or ""))
            for o in providers
        ),
    )
    _insert_parts(database, providers, ids)


def _insert_parts(
    database: sqlite3.Connection, providers: list[Provider], ids: dict[str, int]
) -> None:
    traits = dict(database.execute("SELECT name, id FROM traits"))
    classes = dict(database.execute("SELECT name, id FROM resource_classes"))
    aggregates = sorted({uuid for one in providers for uuid in one.aggregates})
    numbers = {uuid: number for number, uuid in enumerate(aggregates, 1)}
    database.executemany(
        "INSERT INTO placement_aggregates (id, uuid) VALUES (?, ?)",
        ((number, uuid) for uuid, number in numbers.items()),
    )
    database.executemany(
        "INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id)"
        " VALUES (?, ?)",
        ((ids[o.uuid], numbers[uuid]) for o in providers for uuid in o.aggregates),
    )
    database.executemany(
        "INSERT INTO resource_provider_traits (resource_provider_id, trait_id) VALUES (?, ?)",
        ((ids[o.uuid], traits[name]) for o in providers for name in o.traits),
    )
    columns = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")
    database.executemany(
        "INSERT INTO inventories (resource_provider_id, resource_class_id,"
        f" {', '.join(columns)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (ids[o.uuid], classes[name], *(record.over(None).as_dict()[each] for each in columns))
            for o in providers
            for name, record in o.inventory.items()
        ),
    )
