"""docs/monitoring/dashboard.svg: the shipped dashboard, drawn without Grafana.

    python -m tests.integration.dashboard_drawn [FOLDER]

Needs the extras of the tests, ``plots``, and Debian's prometheus and rabbitmq-server.  Titles, places,
units, legends, thresholds and queries are those of the JSON file; the numbers are those of a real
Prometheus that scraped two agents and a registry for a minute.  Colours and shapes are not Grafana's.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib import rcParams
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator, StrMethodFormatter

from tests.integration.dashboard import Panel, panels, watched_fleet
from tests.servers.placement import RealPlacement
from tests.servers.prometheus import Prometheus
from tests.servers.rabbitmq import RabbitMQ

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "monitoring"
PAUSE = 15.0
"""Seconds between two things that happen."""
COLUMNS, WIDTH, ROW = 24, 11.0, 0.36
"""Columns and inches of the whole, and inches of one row of Grafana's grid."""
BESIDE = 1.7
"""Columns of a panel left of its axes, for the numbers; its legend begins there too."""
SHORT = 18
"""Letters of a label that leave room for a second column in the legend."""
COLOURS = {"green": "#3a8f4c", "orange": "#d9822b", "red": "#c4302b", "": "#30475e"}
UNITS = {"s": "s", "reqps": "req/s", "ops": "ops/s", "bytes": "B", "short": ""}
HIDDEN = ("__name__", "job")
_STYLE = re.compile(r' style="([^"]*)"')

rcParams.update(
    {"svg.fonttype": "none", "svg.hashsalt": "dashboard", "font.size": 7.5, "axes.titlesize": 8.5}
)


def main(folder: Path = FOLDER) -> None:
    with tempfile.TemporaryDirectory(prefix="dashboard-") as made:
        directory = Path(made)
        with (
            RealPlacement(directory / "placement") as placement,
            RabbitMQ() as broker,
            watched_fleet(directory, placement, broker) as run,
        ):
            run.happen(PAUSE)
            figure = drawn(panels(), run.prometheus, run.began, time.time())
    file = folder / "dashboard.svg"
    figure.savefig(file, metadata={"Date": None})
    file.write_text(without_repetition(file.read_text()))


def without_repetition(svg: str) -> str:
    """A third of its size and the same picture: each style once, tenths of a point, no idle ids."""
    used = set(re.findall(r"#([\w-]+)", svg))

    def shorter(tag: re.Match[str]) -> str:
        text = re.sub(r"-?\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", tag[0])
        text = re.sub(r'font-family: [^;"]*; | transform="rotate\(-0 [^"]*"', "", text)
        text = re.sub(r' id="([^"]*)"', lambda it: it[0] if it[1] in used else "", text)
        return re.sub(r"\s*\n\s*", " ", text)

    svg = re.sub(r"<[^>]*>", shorter, svg)
    names = {style: f"s{number}" for number, style in enumerate(dict.fromkeys(_STYLE.findall(svg)))}
    rules = "".join(f"\n.{name} {{{style}}}" for style, name in names.items())
    svg = _STYLE.sub(lambda it: f' class="{names[it[1]]}"', svg)
    return svg.replace(
        "</style>", f"\ntext {{font-family: 'DejaVu Sans', sans-serif}}{rules}</style>"
    )


def drawn(shown: Sequence[Panel], prometheus: Prometheus, start: float, stop: float) -> Figure:
    rows = max(panel.place[1] + panel.place[3] for panel in shown)
    figure = Figure(figsize=(WIDTH, rows * ROW))
    for panel in shown:
        axes = figure.add_axes(_inside(panel, rows))
        axes.set_title(panel.title, loc="left", fontweight="bold")
        _DRAW[panel.kind](axes, panel, prometheus, start, stop)
    return figure


def _inside(panel: Panel, rows: int) -> tuple[float, float, float, float]:
    x, y, w, h = panel.place
    left, right = (BESIDE, 1.2) if panel.kind == "timeseries" else (0.3, 0.3)
    below, above = (3.9, 1.2) if panel.kind == "timeseries" else (0.3, 1.2)
    return (
        (x + left) / COLUMNS,
        1 - (y + h - below) / rows,
        (w - left - right) / COLUMNS,
        (h - below - above) / rows,
    )


def _stat(axes: Any, panel: Panel, prometheus: Prometheus, *_: float) -> None:
    value = float(prometheus.ask(panel.targets[0].query)[0]["value"][1])
    colour = next((name for least, name in reversed(panel.steps) if value >= least), "")
    _empty(axes, COLOURS[colour])
    axes.text(0.5, 0.45, f"{value:g}", ha="center", va="center", fontsize=20, color="white")


def _table(axes: Any, panel: Panel, prometheus: Prometheus, *_: float) -> None:
    found = [one["metric"] for one in prometheus.ask(panel.targets[0].query)]
    _empty(axes, "white")
    names = sorted({name for one in found for name in one} - set(HIDDEN))
    for number, cells in enumerate([names, *([one.get(n, "") for n in names] for one in found)]):
        for column, cell in enumerate(cells):
            at = (0.02 + column / max(len(names), 1), 0.88 - 0.2 * number)
            axes.text(*at, cell, fontweight="normal" if number else "bold", va="center")


def _timeseries(axes: Any, panel: Panel, prometheus: Prometheus, start: float, stop: float) -> None:
    axes.set_xlim(0, stop - start)
    axes.xaxis.set_major_formatter(lambda at, _: f"{at:g} s")
    axes.grid(linewidth=0.3)
    sides = {panel.unit: axes}
    colours = cycle(rcParams["axes.prop_cycle"].by_key()["color"])
    for target in panel.targets:
        side = sides.get(target.unit) or sides.setdefault(target.unit, axes.twinx())
        for one in prometheus.ask_range(target.query, start, stop):
            points = [(float(at) - start, float(value)) for at, value in one["values"]]
            named = {"label": _legend(target.legend, one["metric"]), "color": next(colours)}
            side.plot(*zip(*points, strict=True), linewidth=1.2, **named)
    for unit, side in sides.items():
        _scale(side, unit)
    lines = [line for side in sides.values() for line in side.get_lines()]
    w = panel.place[2]
    axes.legend(
        handles=lines,
        loc="upper left",
        bbox_to_anchor=(-BESIDE / (w - BESIDE - 1.2), -0.16),
        ncols=2 if all(len(line.get_label()) <= SHORT for line in lines) else 1,
        fontsize=8.5,
        labelspacing=0.15,
        frameon=False,
    )


def _scale(side: Any, unit: str) -> None:
    side.set_ylim(0, side.get_ylim()[1] or 1)
    side.yaxis.set_major_locator(MaxNLocator(4, integer=unit == "short"))
    prefixed = EngFormatter(unit=UNITS[unit], sep=" ")
    plain = StrMethodFormatter("{x:g} " + UNITS[unit])
    side.yaxis.set_major_formatter(prefixed if unit in ("s", "bytes") else plain)
    side.spines["top"].set_visible(False)


def _legend(text: str, labels: Mapping[str, str]) -> str:
    for name, value in labels.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def _empty(axes: Any, colour: str) -> None:
    axes.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1), facecolor=colour)


_DRAW = {"stat": _stat, "table": _table, "timeseries": _timeseries}


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
