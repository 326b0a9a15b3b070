"""Measure in-memory operations on Nova's provider trees, in its own virtual environment.

    python -m benchmarks.trees_reference SIZE...

Prints milliseconds by shape, size and operation, as JSON.  A copy is what
``get_provider_subtree_and_ensure_root`` gives a driver (``subtree``).  A comparison is
``update_from_provider_tree`` itself, with an HTTP adapter that answers at once.
"""

from __future__ import annotations

import copy
import types
from typing import Any

from nova import context  # type: ignore[import-not-found]
from nova.compute import provider_tree  # type: ignore[import-not-found]
from nova.scheduler.client import report  # type: ignore[import-not-found]

from benchmarks import shapes


class Answers:
    """Replaces the HTTP adapter: writes of inventories succeed, there are no other requests."""

    def __init__(self) -> None:
        self.writes = 0

    def put(self, _url: str, **request: Any) -> Any:
        """Answer a write of inventories."""
        self.writes += 1
        body = {**request["json"], "resource_provider_generation": 2}
        return types.SimpleNamespace(status_code=200, headers={}, json=lambda: body)


def measure(shape: str, size: int) -> dict[str, float]:
    """Measure all operations on one tree."""
    items = shapes.listed(shape, size)
    root, leaf = items[0]["uuid"], items[-1]["uuid"]
    tree = _built(items)
    shapes.report_the_same(tree)
    answers = Answers()
    client = report.SchedulerReportClient(adapter=answers)
    client._provider_tree = tree
    compare = _comparison(client)
    totals = iter(range(9, 1000))

    def edited() -> Any:
        copied = tree.subtree(root)
        copied.update_inventory(leaf, {"VCPU": {**shapes.RECORD, "total": next(totals)}})
        return copied

    times = {
        shapes.COPY: shapes.milliseconds(lambda _: tree.subtree(root)),
        shapes.DEEPCOPY: shapes.milliseconds(lambda _: copy.deepcopy(tree)),
        shapes.SAME: shapes.milliseconds(shapes.report_the_same, lambda: tree.subtree(root)),
        shapes.QUIET: shapes.milliseconds(compare, lambda: tree.subtree(root)),
        shapes.BUILD: shapes.milliseconds(lambda _: _built(items)),
    }
    if answers.writes:
        raise RuntimeError("a quiet comparison wrote something")
    return {**times, shapes.CHANGE: shapes.milliseconds(compare, edited)}


def _comparison(client: Any) -> Any:
    admin = context.get_admin_context()
    return lambda tree: client.update_from_provider_tree(admin, tree)


def _built(items: list[dict[str, Any]]) -> Any:
    tree = provider_tree.ProviderTree()
    tree.populate_from_iterable(items)
    return tree


if __name__ == "__main__":
    shapes.print_measured(measure)
