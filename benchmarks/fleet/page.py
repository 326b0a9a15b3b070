"""Generates build/fleet/results.rst from build/fleet/on-*.json.

python -m benchmarks.fleet.page
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.fleet import nova
from benchmarks.fleet.__main__ import RESULTS
from benchmarks.fleet.centre import PERIOD
from benchmarks.fleet.extrapolated import Unit, agent_calls
from benchmarks.fleet.extrapolated import cores as busy

SIZES = (10_000, 100_000)
HEAD = (
    "scenario", "calls", "writes among them", "Nova's calls", "calls/s in the worst minute",
    "p95 in Placement, ms", "p95 seen by agents, ms", "all correct after, s", "in periods",
    "lost heartbeats",
    "messages left in queues",
)  # fmt: skip
PARTS = (
    "placement", "placement's database", "broker", "registry", "registry's database", "hosts",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Write the page beside the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet.page", description=__doc__)
    parser.add_argument("--measured", type=Path, default=RESULTS, help="a directory")
    directory: Path = parser.parse_args(arguments).measured
    (directory / "results.rst").write_text("\n".join(page(runs(directory))) + "\n")


def runs(directory: Path) -> list[dict[str, Any]]:
    """Return the results, the largest fleet first."""
    every = [json.loads(path.read_text()) for path in sorted(directory.glob("on-*.json"))]
    return sorted(every, key=lambda results: -results["hosts"])


def page(every: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the page."""
    yield ".. Written by benchmarks/fleet/page.py; do not edit."
    for results in every:
        yield ""
        yield from _run(results)
    yield ""
    yield "Extrapolated from the first run, if nothing changes, with a heartbeat every 10 s:"
    yield ""
    rows = (_extrapolated(Unit.of(every[0]), size) for size in SIZES)
    head = ("requests/s, without and with aggregates", "Nova's requests/s", *PARTS[:-1])
    yield from _table(("hosts", *head), rows)


def _run(results: Mapping[str, Any]) -> Iterator[str]:
    title = f"{results['hosts']} hosts"
    yield from (title, "~" * len(title), "")
    yield (
        f"Run on {results['date']} at commit {results['commit']} with {results['hosts']} hosts of "
        f"{results['providers']} providers and {results['guests']} guests each; {results['rack']} "
        f"of the hosts are a cold rack. Placement used {results['workers']} processes; it and the "
        f"registry used MariaDB. Servers and hosts "
        f"shared a machine with {results['processors']} processors; its load average over 15 "
        f"minutes was {results['load']}. The agents' intervals towards Placement were "
        f"{results['compressed']} times shorter than usual; heartbeats came every "
        f"{results['heartbeat']} s."
    )
    yield ""
    yield from _table(
        HEAD, (_row(scenario, results["compressed"]) for scenario in results["scenarios"])
    )
    yield ""
    yield "CPU time in milliseconds for each host of the scenario, and memory at its end:"
    yield ""
    yield from _table(("scenario", *PARTS), map(_cpu, results["scenarios"]))
    yield ""
    for scenario in results["scenarios"]:
        for what, value in scenario.get("also", {}).items():
            yield f"- {scenario['name']}: {what}: {value:g}"


def _row(scenario: Mapping[str, Any], compressed: int) -> tuple[object, ...]:
    after = scenario["right_after"]
    right = ("", "") if after is None else (f"{after:g}", f"{after * compressed / PERIOD:.1f}")
    return (
        scenario["name"], scenario["calls"], scenario["writes"], _of_nova(scenario, compressed),
        scenario["worst_minute"],
        scenario["in_placement"].get("p95", ""), scenario["seen_by_agents"].get("p95", ""),
        *right,
        f"{scenario['heartbeats_lost']} of {scenario['heartbeats']}", scenario["queued"],
    )  # fmt: skip


def _of_nova(scenario: Mapping[str, Any], compressed: int) -> str:
    seconds, hosts = scenario["seconds"] * compressed, scenario["hosts"]
    always = nova.CALLS.get(scenario["name"], nova.A_SECOND) * seconds * hosts
    return f"{always + nova.CALLS_ONCE.get(scenario['name'], 0) * hosts:.0f}"


def _cpu(scenario: Mapping[str, Any]) -> tuple[object, ...]:
    cells = (
        f"{1000 * scenario['cpu'][part] / scenario['hosts']:.0f}; "
        f"{scenario['memory'][part]:.0f} MiB"
        for part in PARTS
    )
    return (scenario["name"], *cells)


def _extrapolated(unit: Unit, hosts: int) -> tuple[object, ...]:
    calls = f"{agent_calls(hosts, 1):.0f}, {agent_calls(hosts, 2):.0f}"
    parts = (f"{busy(unit, part, hosts):.2f} cores" for part in PARTS[:-1])
    return (hosts, calls, f"{nova.A_SECOND * hosts:.0f}", *parts)


def _table(head: tuple[str, ...], rows: Iterator[tuple[object, ...]]) -> Iterator[str]:
    yield from (".. list-table::", "   :header-rows: 1", "")
    for row in (head, *rows):
        for number, cell in enumerate(row):
            yield f"   {'* -' if number == 0 else '  -'} {cell}".rstrip()


if __name__ == "__main__":
    main(sys.argv[1:])
