"""Measure in-memory operations on this project's provider trees.

    python -m benchmarks.trees_ours SIZE...

Prints milliseconds by shape, size and operation, as JSON.
"""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

from benchmarks.shapes import (
    BUILD,
    CHANGE,
    COPY,
    DEEPCOPY,
    QUIET,
    RECORD,
    SAME,
    TRAITS,
    every,
    listed,
    milliseconds,
)
from reportclient.diff import diff
from reportclient.model import Inventory, Provider
from reportclient.plan import Plan, SetInventory
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot
from reportclient.view import View


def measure(shape: str, size: int) -> dict[str, float]:
    """Measure all operations on one tree."""
    items = listed(shape, size)
    view = View(_filled(_built(items)), {item["uuid"]: 1 for item in items}, certain=True)

    def edited() -> ProviderTree:
        tree = view.edit()
        tree.update_inventory(items[-1]["uuid"], {"VCPU": {**RECORD, "total": 9}})
        return tree

    def compare(tree: ProviderTree) -> Plan:
        return diff(view.snapshot, tree.freeze())

    _expect(list(compare(view.edit())) == [], "a quiet comparison finds nothing")
    (operation,) = compare(edited())
    _expect(isinstance(operation, SetInventory), "one change is one write")
    return {
        COPY: milliseconds(lambda _: view.edit()),
        DEEPCOPY: milliseconds(copy.deepcopy, view.edit),
        SAME: milliseconds(_report_the_same, view.edit),
        QUIET: milliseconds(compare, view.edit),
        CHANGE: milliseconds(compare, edited),
        BUILD: milliseconds(lambda _: _built(items)),
    }


def _built(items: list[dict[str, Any]]) -> Snapshot:
    return Snapshot.build(
        Provider(item["uuid"], item["name"], item["parent_provider_uuid"]) for item in items
    )


def _filled(snapshot: Snapshot) -> Snapshot:
    inventory, traits = {"VCPU": Inventory.from_dict(RECORD)}, frozenset(TRAITS)
    return Snapshot.build(
        Provider(p.uuid, p.name, p.parent_uuid, inventory, traits) for p in snapshot.walk()
    )


def _report_the_same(tree: ProviderTree) -> None:
    for uuid in tree.get_provider_uuids():
        tree.update_inventory(uuid, {"VCPU": RECORD})
        tree.add_traits(uuid, *TRAITS)


def _expect(holds: object, what: str) -> None:
    if not holds:
        raise RuntimeError(f"the check failed: {what}")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(list(every([int(size) for size in sys.argv[1:]], measure))))
