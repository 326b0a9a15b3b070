"""Draws docs/fleet/*.svg from docs/fleet/on-*.json: the load of fleets of any size.

    python -m benchmarks.fleet.plots

Assumptions: costs are proportional to the number of requests, which the schedule gives exactly; a
request costs the same CPU time as in the run; there are no other clients.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from matplotlib import rcParams
from matplotlib.figure import Figure

from benchmarks.fleet import nova
from benchmarks.fleet.__main__ import RESULTS
from benchmarks.fleet.centre import PERIOD
from benchmarks.fleet.extrapolated import Unit, agent_calls, cores
from benchmarks.fleet.page import runs
from benchmarks.fleet.virtual import BIN, PROVIDERS

OUTAGE = "Placement is back after ten minutes"
SIZES = (100, 1_000, 10_000, 100_000)
PARTS = ("placement", "placement's database", "registry", "registry's database", "broker")

rcParams.update(
    {"svg.fonttype": "none", "svg.hashsalt": "fleet", "font.size": 9, "axes.grid": True}
)


def main(arguments: list[str] | None = None) -> None:
    """Draw the pictures beside the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet.plots", description=__doc__)
    parser.add_argument("--measured", type=Path, default=RESULTS, help="a directory")
    directory: Path = parser.parse_args(arguments).measured
    largest = runs(directory)[0]
    _save(_calls(), directory / "calls.svg")
    _save(_cores(Unit.of(largest)), directory / "cores.svg")
    _save(_outage(largest), directory / "outage.svg")
    _save(
        _overload(json.loads((directory / "overload.json").read_text())), directory / "overload.svg"
    )
    _save(_release(json.loads((directory / "release.json").read_text())), directory / "release.svg")


def _calls() -> Any:
    figure, axes = _axes("requests a second at Placement, nothing happens")
    axes.plot(SIZES, [nova.A_SECOND * size for size in SIZES], "s--", label="Nova 34")
    axes.plot(SIZES, [agent_calls(size, 2) for size in SIZES], "o-", label="with aggregates")
    axes.plot(SIZES, [agent_calls(size, 1) for size in SIZES], "^-", label="without")
    axes.axhline(40, color="grey", linewidth=0.8)
    axes.legend()
    return figure


def _cores(unit: Unit) -> Any:
    figure, axes = _axes("processors busy at the centre, nothing happens")
    for part in PARTS:
        axes.plot(SIZES, [cores(unit, part, size) for size in SIZES], "o-", label=part)
    both = [sum(unit.request[part] for part in PARTS[:2]) * nova.A_SECOND * size for size in SIZES]
    axes.plot(SIZES, both, "s--", label="Placement and database for Nova 34")
    axes.legend()
    return figure


def _outage(results: Mapping[str, Any]) -> Any:
    (one,) = (one for one in results["scenarios"] if one["name"] == OUTAGE)
    figure = Figure(figsize=(6.4, 2.8), layout="constrained")
    axes = figure.subplots()
    fast = results["compressed"]
    minutes = [at * fast / PERIOD for at in range(len(one["timeline"]))]
    axes.plot(minutes, [each / fast for each in one["timeline"]], linewidth=0.8)
    axes.axvspan(0, 10, alpha=0.15, color="red")
    axes.set(
        xlabel="minutes of the agents' time; Placement answers 503 in the first ten",
        title=f"requests a second of {results['hosts']} hosts, of which 1 % change each minute",
        ylim=(0, None),
    )
    return figure


def _overload(results: Mapping[str, Any]) -> Any:
    figure = Figure(figsize=(6.4, 4.6), layout="constrained")
    sent, right = figure.subplots(2, 1, sharex=True)
    for name, one in results["variants"].items():
        minutes = [at * BIN / PERIOD for at in range(len(one["sent"]))]
        sent.plot(minutes, [count / BIN for count in one["sent"]], linewidth=0.8, label=name)
        done = [100 * hosts / one["hosts"] for hosts in accumulate(one["right"])]
        right.plot(minutes, done, linewidth=0.8)
    sent.axhline(one["rate"], color="grey", linewidth=0.8)
    quiet = one["hosts"] * (1 + PROVIDERS) / PERIOD
    sent.axhline(quiet, color="black", linestyle="--", label="Nova 34, nothing happens (formula)")
    sent.set(yscale="log", title="requests sent a second; grey: what Placement can carry out")
    sent.legend(fontsize=7)
    right.set(xlabel="minutes after the change", title="% of the hosts that are right")
    return figure


def _release(results: Mapping[str, Any]) -> Any:
    one = results["scenarios"][-1]
    figure = Figure(figsize=(6.4, 2.8), layout="constrained")
    axes = figure.subplots()
    seconds = [
        sum(one["timeline"][at : at + BIN]) / BIN for at in range(len(one["timeline"]) - BIN)
    ]
    axes.plot(range(len(seconds)), seconds, linewidth=0.8, label="measured")
    quiet = nova.A_SECOND * one["hosts"] * results["compressed"]
    axes.axhline(quiet, color="black", linestyle="--", label="Nova 34, nothing happens (formula)")
    axes.set(
        yscale="log",
        xlabel="seconds after the release",
        title=f"requests a second that Placement carries out for {one['hosts']} hosts",
    )
    axes.legend()
    return figure


def _axes(title: str) -> tuple[Any, Any]:
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", xlabel="hosts", title=title)
    axes.minorticks_off()
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main(sys.argv[1:])
