"""docs/fleet/results.rst out of docs/fleet/on-*.json.

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
    "what happens", "calls", "of them writes", "Nova's calls", "worst minute, a second",
    "p95 in Placement, ms", "p95 seen by agents, ms", "right after, s", "periods",
    "heartbeats lost",
    "messages left",
)  # fmt: skip
PARTS = (
    "placement", "placement's database", "broker", "registry", "registry's database", "hosts",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Written beside what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet.page", description=__doc__)
    parser.add_argument("--measured", type=Path, default=RESULTS, help="a directory")
    directory: Path = parser.parse_args(arguments).measured
    (directory / "results.rst").write_text("\n".join(page(runs(directory))) + "\n")


def runs(directory: Path) -> list[dict[str, Any]]:
    """What was measured, the largest fleet first."""
    every = [json.loads(path.read_text()) for path in sorted(directory.glob("on-*.json"))]
    return sorted(every, key=lambda one: -one["hosts"])


def page(every: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The lines."""
    yield ".. Written by benchmarks/fleet/page.py; do not edit."
    for results in every:
        yield ""
        yield from _one(results)
    yield ""
    yield "Extrapolated from the first, when nothing happens, with a heartbeat each 10 s:"
    yield ""
    rows = (_extrapolated(Unit.of(every[0]), size) for size in SIZES)
    said = ("requests/s, without and with aggregates", "Nova's requests/s", *PARTS[:-1])
    yield from _table(("hosts", *said), rows)


def _one(results: Mapping[str, Any]) -> Iterator[str]:
    title = f"Placement on {results['placement_on']}"
    yield from (title, "~" * len(title), "")
    yield (
        f"Run on {results['date']} at commit {results['commit']} with {results['hosts']} hosts, "
        f"{results['rack']} of them a cold rack, {results['providers']} providers and "
        f"{results['guests']} guests each; Placement on {results['placement_on']} with "
        f"{results['workers']} processes, the registry on {results['registry_on']}. The machine "
        f"has {results['processors']} processors for all of it, the hosts included; the load over "
        f"15 minutes was {results['load']}. Towards Placement the agents' time ran "
        f"{results['compressed']} times as fast, heartbeats came every {results['heartbeat']} s of "
        "the wall."
    )
    yield ""
    yield from _table(HEAD, (_row(one, results["compressed"]) for one in results["scenarios"]))
    yield ""
    yield "CPU in milliseconds for each host that it is about, and memory at the end of it:"
    yield ""
    yield from _table(("what happens", *PARTS), map(_cpu, results["scenarios"]))
    yield ""
    for one in results["scenarios"]:
        for what, value in one.get("also", {}).items():
            yield f"- {one['name']}: {what}: {value:g}"


def _row(one: Mapping[str, Any], compressed: int) -> tuple[object, ...]:
    after = one["right_after"]
    right = ("", "") if after is None else (f"{after:g}", f"{after * compressed / PERIOD:.1f}")
    return (
        one["name"], one["calls"], one["writes"], _of_nova(one, compressed), one["worst_minute"],
        one["in_placement"].get("p95", ""), one["seen_by_agents"].get("p95", ""),
        *right,
        f"{one['heartbeats_lost']} of {one['heartbeats']}", one["queued"],
    )  # fmt: skip


def _of_nova(one: Mapping[str, Any], compressed: int) -> str:
    seconds, hosts = one["seconds"] * compressed, one["hosts"]
    always = nova.CALLS.get(one["name"], nova.A_SECOND) * seconds * hosts
    return f"{always + nova.CALLS_ONCE.get(one['name'], 0) * hosts:.0f}"


def _cpu(one: Mapping[str, Any]) -> tuple[object, ...]:
    cells = (
        f"{1000 * one['cpu'][part] / one['hosts']:.0f}; {one['memory'][part]:.0f} MiB"
        for part in PARTS
    )
    return (one["name"], *cells)


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
