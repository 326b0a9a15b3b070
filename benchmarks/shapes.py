"""Trees of any size, as Placement would list them, and the timing of operations on them.

Only the standard library is used.
"""

from __future__ import annotations

import gc
import json
import math
import sys
import time
import uuid
from collections.abc import Callable
from statistics import median
from typing import Any

SHAPES = ("flat", "nested")
NAMESPACE = uuid.UUID("c0ffee00-0000-4000-8000-000000000001")
ENOUGH = 0.5
"""Seconds for which an operation is repeated."""

RECORD = {
    "total": 8,
    "reserved": 0,
    "min_unit": 1,
    "max_unit": 8,
    "step_size": 1,
    "allocation_ratio": 1.0,
}
TRAITS = ("HW_NIC_SRIOV", "HW_CPU_X86_VMX")
COPY = "an edit of the tree, or a copy"
DEEPCOPY = "copy.deepcopy"
SAME = "a driver says the same again"
QUIET = "comparing when nothing changed"
CHANGE = "comparing when one inventory changed"
BUILD = "building from Placement's list"
OPERATIONS = (COPY, DEEPCOPY, SAME, QUIET, CHANGE, BUILD)


def listed(shape: str, size: int) -> list[dict[str, Any]]:
    """Return a tree of ``size`` providers: all children of the root, or in three levels."""
    root = _item("root", None)
    middles = math.isqrt(size - 1) if shape == "nested" else 0
    middle = [_item(f"middle{number}", root["uuid"]) for number in range(middles)]
    above = middle or [root]
    leaves = (
        _item(f"leaf{number}", above[number % len(above)]["uuid"])
        for number in range(size - 1 - len(middle))
    )
    return [root, *middle, *leaves]


def _item(name: str, parent: str | None) -> dict[str, Any]:
    return {
        "uuid": str(uuid.uuid5(NAMESPACE, name)),
        "name": name,
        "generation": 1,
        "parent_provider_uuid": parent,
    }


def milliseconds(run: Callable[[Any], object], prepare: Callable[[], Any] = lambda: None) -> float:
    """Return the median time of ``run(prepare())`` without ``prepare``; once if it is slow."""
    times: list[float] = []
    until = time.perf_counter() + ENOUGH
    while not times or (time.perf_counter() < until and len(times) < 50):
        given = prepare()
        gc.collect()
        start = time.perf_counter()
        run(given)
        times.append((time.perf_counter() - start) * 1000)
    return round(median(times), 5)


def report_the_same(tree: Any) -> None:
    """Report again what each provider of a tree of either side has."""
    for each in tree.get_provider_uuids():
        tree.update_inventory(each, {"VCPU": RECORD})
        tree.add_traits(each, *TRAITS)


def print_measured(measure: Callable[[str, int], dict[str, float]]) -> None:
    """Print a row for each shape, and each size of the command line, as JSON."""
    rows = [
        {"shape": shape, "providers": size, "milliseconds": measure(shape, size)}
        for shape in SHAPES
        for size in map(int, sys.argv[1:])
    ]
    sys.stdout.write(json.dumps(rows))
