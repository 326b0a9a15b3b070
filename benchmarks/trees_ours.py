"""Measure in-memory operations on this project's provider trees.

    python -m benchmarks.trees_ours SIZE...

Prints milliseconds by shape, size and operation, as JSON.
"""

from __future__ import annotations

import copy
from typing import Any

from benchmarks import shapes
from reportclient.model import Inventory, Provider
from reportclient.plan import Plan, SetInventory, diff
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot
from reportclient.view import View


def measure(shape: str, size: int) -> dict[str, float]:
    """Measure all operations on one tree."""
    items = shapes.listed(shape, size)
    view = View(_filled(_built(items)), {item["uuid"]: 1 for item in items}, certain=True)

    def edited() -> ProviderTree:
        tree = view.edit()
        tree.update_inventory(items[-1]["uuid"], {"VCPU": {**shapes.RECORD, "total": 9}})
        return tree

    def compare(tree: ProviderTree) -> Plan:
        return diff(view.snapshot, tree.freeze())

    _expect(list(compare(view.edit())) == [], "a quiet comparison finds nothing")
    (operation,) = compare(edited())
    _expect(isinstance(operation, SetInventory), "one change is one write")
    return {
        shapes.COPY: shapes.milliseconds(lambda _: view.edit()),
        shapes.DEEPCOPY: shapes.milliseconds(copy.deepcopy, view.edit),
        shapes.SAME: shapes.milliseconds(shapes.report_the_same, view.edit),
        shapes.QUIET: shapes.milliseconds(compare, view.edit),
        shapes.CHANGE: shapes.milliseconds(compare, edited),
        shapes.BUILD: shapes.milliseconds(lambda _: _built(items)),
    }


def _built(items: list[dict[str, Any]]) -> Snapshot:
    return Snapshot.build(
        Provider(item["uuid"], item["name"], item["parent_provider_uuid"]) for item in items
    )


def _filled(snapshot: Snapshot) -> Snapshot:
    inventory, traits = {"VCPU": Inventory.from_dict(shapes.RECORD)}, frozenset(shapes.TRAITS)
    return Snapshot.build(
        Provider(p.uuid, p.name, p.parent_uuid, inventory, traits) for p in snapshot.walk()
    )


def _expect(holds: object, what: str) -> None:
    if not holds:
        raise RuntimeError(f"the check failed: {what}")


if __name__ == "__main__":
    shapes.print_measured(measure)
