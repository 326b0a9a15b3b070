"""Trees of any size, as Placement would list them, and the timing of operations on them.

Only the standard library is used.
"""

from __future__ import annotations

import gc
import math
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
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


def every(
    sizes: Sequence[int], measure: Callable[[str, int], dict[str, float]]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each shape and size."""
    for shape in SHAPES:
        for size in sizes:
            yield {"shape": shape, "providers": size, "milliseconds": measure(shape, size)}
