"""Charts: horizontal bars on a logarithmic axis, as plain SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks.results import METRICS, Case, Results
from benchmarks.scenarios import QUIET, SCENARIOS

WIDTH, LEFT, RIGHT, TOP = 900, 280, 90, 74
MANY_DECADES = 5
"""With more decades only every second one is labelled, since the labels would overlap."""
BAR, GAP = 13, 12
COLOURS = ("#9aa5b1", "#1f6feb")
BEST_KNOWN = (131, 50)

Bar = tuple[str, Sequence[float | None]]
"""A label, and a value for each series; ``None`` if it was not measured."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars in groups; ``series`` are the names of the bars of a group."""

    title: str
    unit: str
    series: Sequence[str]
    bars: Sequence[Bar]

    def svg(self) -> str:
        """Return the chart as SVG text."""
        height = TOP + len(self.bars) * self._step + 34
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">'
        )
        background = f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
        parts = [head, background, *self._legend(), *self._grid(height), *self._groups(), "</svg>"]
        return "\n".join(parts) + "\n"

    @property
    def _step(self) -> int:
        return len(self.series) * (BAR + 2) + GAP

    @property
    def _decades(self) -> tuple[int, int]:
        found = [value for _, values in self.bars for value in values if value]
        low = math.floor(math.log10(min(found, default=1)))
        high = math.ceil(math.log10(max(found, default=10)))
        return low - (min(found, default=1) == 10**low), max(high, low + 1)

    def _x(self, value: float) -> float:
        low, high = self._decades
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(value) - low) / (high - low)

    def _legend(self) -> Iterator[str]:
        yield _text(16, 24, self.title, "start", size=17)
        for number, name in enumerate(self.series):
            x = LEFT + number * 220
            yield f'<rect x="{x}" y="38" width="12" height="12" fill="{COLOURS[number]}"/>'
            yield _text(x + 18, 49, name, "start")

    def _grid(self, height: int) -> Iterator[str]:
        low, high = self._decades
        for decade in range(low, high + 1):
            x = self._x(10.0**decade)
            yield (
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 10}" y2="{height - 28}" '
                'stroke="#e3e7eb"/>'
            )
            if high - low > MANY_DECADES and (decade - low) % 2:
                continue
            yield _text(x, height - 12, figure(10.0**decade, self.unit), "middle", colour="#57606a")

    def _groups(self) -> Iterator[str]:
        for row, (label, values) in enumerate(self.bars):
            top = TOP + row * self._step
            yield _text(LEFT - 10, top + self._step / 2 - 2, label, "end")
            for number, value in enumerate(values):
                yield from self._bar(top + number * (BAR + 2), value, COLOURS[number])

    def _bar(self, y: float, value: float | None, colour: str) -> Iterator[str]:
        end = float(LEFT)
        if value:
            end = self._x(value)
            yield (
                f'<rect x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="{BAR}" '
                f'fill="{colour}"/>'
            )
        if value is not None:
            yield _text(end + 6, y + BAR - 2, figure(value, self.unit), "start")


def figure(value: float, unit: str = "") -> str:
    """Format a number with its unit."""
    whole = value >= 100 or value == int(value)
    return f"{value:,.0f} {unit}".rstrip() if whole else f"{value:.3g} {unit}".rstrip()


def write_charts(results: Results, out: Path) -> None:
    """Write a chart for each metric, of the case ``BEST_KNOWN`` (else of the last case)."""
    case = results.case(*BEST_KNOWN) or results.cases[-1]
    for metric, (title, unit) in METRICS.items():
        heading = f"{title}: {case.providers} providers, {case.consumers} consumers"
        bars = [
            (name, [_scaled(value, metric) for value in case.pair(name, metric)])
            for name in SCENARIOS
            if name in case.ours
        ]
        _write(out / f"{metric.removesuffix('_ms')}.svg", heading, unit, bars)
    _write(out / "quiet-by-size.svg", "Calls of one quiet period, by size", "", _by_size(results))


def _by_size(results: Results) -> list[Bar]:
    return [(_size(case), case.pair(QUIET, "calls")) for case in results.cases]


def _size(case: Case) -> str:
    return f"{case.providers} providers, {case.consumers} consumers"


def _scaled(value: float | None, metric: str) -> float | None:
    return value / 1024 if value is not None and metric == "bytes" else value


def _write(path: Path, title: str, unit: str, bars: Sequence[Bar]) -> None:
    chart = Chart(title, unit, ("reference (nova 34)", "compute-agent"), bars)
    path.write_text(chart.svg(), encoding="utf-8")


def _text(  # noqa: PLR0913  # as many as the element has
    x: float, y: float, text: str, anchor: str, *, colour: str = "#1f2328", size: int = 13
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-size="{size}">{escape(text)}</text>'
    )
