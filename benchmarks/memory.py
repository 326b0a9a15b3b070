"""Measure the in-memory provider trees of both clients, up to 10,001 providers, in one run.

    python -m benchmarks.memory [--reference PYTHON] [--quick] --out DIRECTORY

Writes ``trees.json`` and ``trees.rst``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compare import run_side
from benchmarks.shapes import COPY, OPERATIONS, QUIET, SHAPES
from benchmarks.table import csv_table, figure

SIZES = (11, 131, 1001, 10001)
QUICK_SIZES = (11, 131)
NOTE = ".. Written by benchmarks/memory.py; do not edit.\n\n"
AT_MOST_MS = 20.0
AT_LEAST = {"flat": 30.0, "nested": 1000.0}
"""The goals at the largest size, for a copy and a quiet comparison."""

Times = dict[tuple[str, int], dict[str, float]]
"""Milliseconds by operation, by shape and number of providers."""


@dataclass(frozen=True, slots=True)
class Trees:
    """The results; ``reference`` is empty if it was not run."""

    ours: Times
    reference: Times

    def pair(self, shape: str, size: int, operation: str) -> tuple[float | None, float | None]:
        """Return the times of the reference and ours in milliseconds."""
        return self.reference.get((shape, size), {}).get(operation), self.ours[shape, size][
            operation
        ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(prog="benchmarks.memory")
    parser.add_argument(
        "--reference", metavar="PYTHON", help="interpreter of an environment with nova"
    )
    parser.add_argument("--quick", action="store_true", help="small trees only")
    parser.add_argument("--out", type=Path, required=True, metavar="DIRECTORY")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    sides = _measured(options)
    text = json.dumps(sides, indent=1)
    (options.out / "trees.json").write_text(text + "\n", encoding="utf-8")
    write(Trees(_by_size(sides["ours"]), _by_size(sides["reference"])), options.out)


def _measured(options: argparse.Namespace) -> dict[str, list[dict[str, object]]]:
    sizes = QUICK_SIZES if options.quick else SIZES
    sys.stderr.write(f"trees of up to {sizes[-1]} providers\n")
    ours = run_side(sys.executable, "trees_ours", *sizes)
    reference = options.reference and run_side(options.reference, "trees_reference", *sizes)
    return {"ours": ours, "reference": reference or []}


def _by_size(rows: Sequence[dict[str, object]]) -> Times:
    return {(row["shape"], row["providers"]): row["milliseconds"] for row in rows}  # type: ignore[misc]


def write(trees: Trees, out: Path) -> None:
    """Write the tables."""
    lines = [line for shape in SHAPES for line in _table(trees, shape)]
    text = NOTE + "\n".join([*_goals(trees), *lines]) + "\n"
    (out / "trees.rst").write_text(text, encoding="utf-8")


def _goals(trees: Trees) -> Iterator[str]:
    if not trees.reference:
        return
    head = ("tree", "reference ms", "here ms", "times less", "expected", "holds")
    size = max(size for _, size in trees.ours)
    yield f"A copy and a quiet comparison together, at {size:,} providers:"
    yield ""
    yield from csv_table(head, (_goal(trees, s, size) for s in SHAPES), "15 15 15 15 30 10")
    dearer = [
        f"{name}, {shape} ({figure(ours)} ms here, {figure(theirs)} ms there)"
        for shape in SHAPES
        for name in OPERATIONS
        for theirs, ours in [trees.pair(shape, size, name)]
        if theirs is not None and ours is not None and ours > theirs
    ]
    yield f"Dearer here than there, at that size: {'; '.join(dearer) or 'nothing'}."
    yield ""


def _goal(trees: Trees, shape: str, size: int) -> tuple[str, ...]:
    theirs = sum(trees.reference[shape, size][name] for name in (COPY, QUIET))
    ours = sum(trees.ours[shape, size][name] for name in (COPY, QUIET))
    least = AT_LEAST[shape]
    holds = ours < AT_MOST_MS and theirs / ours >= least
    return (
        shape,
        figure(theirs),
        figure(ours),
        f"{theirs / ours:,.0f}",
        f"under {AT_MOST_MS:g} ms, {least:g} times less or more",
        "yes" if holds else "no",
    )


def _table(trees: Trees, shape: str) -> Iterator[str]:
    title = {"flat": "Flat", "nested": "Three levels"}[shape]
    yield from (title, "~" * len(title), "")
    sizes = [size for kind, size in trees.ours if kind == shape]
    head = ["milliseconds"]
    for size in sizes:
        head += [f"{size:,} ref.", "here"]
    rows = (
        [name, *(_cell(v) for size in sizes for v in trees.pair(shape, size, name))]
        for name in OPERATIONS
    )
    yield from csv_table(head, rows, "30" + " 9" * (2 * len(sizes)))


def _cell(value: float | None) -> str:
    return "-" if value is None else figure(value)


if __name__ == "__main__":
    main()
