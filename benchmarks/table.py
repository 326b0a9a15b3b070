"""Writes the tables and the summary as reStructuredText."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from operator import itemgetter
from pathlib import Path

from benchmarks.results import METRICS, Case, Results
from benchmarks.scenarios import COLD, COLD_BULK, QUIET, SCENARIOS

BEST_KNOWN = (131, 50)
"""Providers and consumers of the case that the goals are for."""
NOTE = ".. Written by benchmarks/compare.py; do not edit.\n\n"

EXPECTED: Sequence[tuple[str, str, float]] = (
    (QUIET, "calls", 100),
    (COLD, "client_cpu_ms", 2),
    (COLD, "wall_ms", 2),
    (COLD_BULK, "client_cpu_ms", 2),
    (COLD_BULK, "wall_ms", 2),
)
"""The goals: ratio of the reference's cost to ours, at 131 providers."""


SAME = 0.99
"""Ratios from this one to 1 count as equal."""


def write_tables(results: Results, out: Path) -> None:
    """Write ``summary.rst`` and ``table.rst``."""
    summary = [*_versions(results), *_goals(results)]
    (out / "summary.rst").write_text(NOTE + "\n".join(summary) + "\n", encoding="utf-8")
    tables = (line for case in reversed(results.cases) for line in _case_table(case))
    (out / "table.rst").write_text(NOTE + "\n".join(tables) + "\n", encoding="utf-8")


def _versions(results: Results) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    how = results.conditions
    yield (
        f"Measured on {how['date']} on a machine with {how['processors']} processors, in one run "
        f"of {how['minutes']} minutes, with {versions}."
    )
    yield f"Each figure is the median of {how['repeats']} runs or more."
    yield ""


def _goals(results: Results) -> Iterator[str]:
    cases = [c for c in results.cases if c.providers == BEST_KNOWN[0] and c.reference]
    if not cases:
        return
    consumers = ", ".join(str(case.consumers) for case in cases)
    yield f"With {BEST_KNOWN[0]} providers, over the cases with {consumers} consumers:"
    yield ""
    rows = (_goal(cases, *expected) for expected in EXPECTED)
    yield from csv_table(("what", "times less here", "expected", "holds"), rows, "40 20 20 20")
    yield "Dearer here than there, each in the case where it is most so:"
    yield ""
    yield from [f"* {text}" for text in _dearer(cases)] or ["* nothing"]
    yield ""


def _goal(cases: Sequence[Case], scenario: str, metric: str, least: float) -> tuple[str, ...]:
    """Return the row of a goal, which is met if the lowest ratio meets it."""
    ratios = sorted(case.ratio(scenario, metric) or 0.0 for case in cases)
    return (
        f"{scenario}: {METRICS[metric][0].lower()}",
        f"{ratios[0]:.3g} to {ratios[-1]:.3g}",
        f"{least:g} or more",
        "yes" if ratios[0] >= least else "no",
    )


def _dearer(cases: Sequence[Case]) -> Iterator[str]:
    for scenario, metric in product(SCENARIOS, METRICS):
        known = [(case.ratio(scenario, metric), case) for case in cases]
        ratio, case = min(
            ((r, c) for r, c in known if r), key=itemgetter(0), default=(1.0, cases[0])
        )
        if ratio < SAME:
            title, unit = METRICS[metric]
            scale = 1024 if metric == "bytes" else 1
            theirs, ours = (_cell((v or 0) / scale, unit) for v in case.pair(scenario, metric))
            yield (
                f"{scenario}, {title.lower()}: {ours} here, {theirs} there, "
                f"with {case.consumers} consumers"
            )


def _case_table(case: Case) -> Iterator[str]:
    title = f"{case.providers} providers, {case.consumers} consumers"
    yield from (title, "-" * len(title), "")
    head = ["situation"]
    for label, unit in (("calls", ""), ("body", "KiB"), ("CPU", "ms"), ("wall", "ms")):
        head += [f"{label} {unit}".strip() + " ref.", "here"]
    rows = (_row(case, name) for name in SCENARIOS if name in case.ours)
    yield from csv_table([*head, "server ms ref.", "here"], rows, "30" + " 7" * 10)


def _row(case: Case, scenario: str) -> list[str]:
    row = [scenario]
    for metric in METRICS:
        scale = 1024 if metric == "bytes" else 1
        row += [_cell(None if v is None else v / scale) for v in case.pair(scenario, metric)]
    return row


def _cell(value: float | None, unit: str = "") -> str:
    return "-" if value is None else figure(value, unit)


def figure(value: float, unit: str = "") -> str:
    """Format a number with its unit."""
    whole = value >= 100 or value == int(value)
    return f"{value:,.0f} {unit}".rstrip() if whole else f"{value:.3g} {unit}".rstrip()


def csv_table(head: Sequence[str], rows: Iterable[Sequence[str]], widths: str) -> Iterator[str]:
    """Yield the lines of a ``csv-table`` with a header row."""
    yield ".. csv-table::"
    yield "   :header-rows: 1"
    yield f"   :widths: {widths}"
    yield ""
    for row in (head, *rows):
        yield "   " + ",".join(f'"{cell}"' for cell in row)
    yield ""
