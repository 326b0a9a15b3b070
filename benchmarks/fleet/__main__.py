"""python -m benchmarks.fleet: run all scenarios and write their costs to a JSON file."""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.fleet import large_host
from benchmarks.fleet.centre import Centre, Shape
from benchmarks.fleet.scenarios import Scenarios

RESULTS = Path(__file__).resolve().parents[2] / "build" / "fleet"


def main(arguments: list[str] | None = None) -> None:
    """Run all scenarios."""
    asked = _parser().parse_args(arguments)
    shape = Shape(
        asked.hosts,
        asked.rack,
        asked.compressed,
        asked.heartbeat,
        asked.workers,
        asked.processes,
    )
    results = []
    for end in (
        signal.SIGTERM,
        signal.SIGINT,
    ):  # end all servers, also in the background
        signal.signal(end, lambda *_: sys.exit("ended early"))
    with (
        tempfile.TemporaryDirectory(prefix="fleet-", ignore_cleanup_errors=True) as directory,
        Centre(shape, Path(directory)) as centre,
    ):
        for scenario in Scenarios(centre, asked.quiet_minutes, asked.only).run():
            right = (
                ""
                if scenario.right_after is None
                else f", all correct after {scenario.right_after} s"
            )
            sys.stderr.write(f"{scenario.name}: {scenario.calls} calls{right}\n")
            results.append(scenario.as_dict())
            _write(asked, results)


def _write(asked: argparse.Namespace, results: list[dict[str, Any]]) -> None:
    """Write the results so far, after each scenario, since a run may be ended early."""
    out = asked.out or RESULTS / "on-mariadb.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({**_about(asked), "scenarios": results}, indent=1) + "\n")


def _about(asked: argparse.Namespace) -> dict[str, Any]:
    options = {name: value for name, value in vars(asked).items() if name != "out"}
    git = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607
        capture_output=True, text=True, check=False, cwd=RESULTS.parents[1],
    )  # fmt: skip
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": git.stdout.strip(),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[2], 1),
        "providers": large_host.PROVIDERS,
        "guests": large_host.GUESTS,
        **options,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--rack", type=int, default=20, help="number of these hosts that boot cold")
    parser.add_argument(
        "--compressed", type=int, default=10, help="how many times faster the agents run"
    )
    parser.add_argument(
        "--heartbeat", type=int, default=10, help="seconds between heartbeats, not compressed"
    )
    parser.add_argument(
        "--quiet-minutes",
        type=int,
        default=15,
        help="length of the quiet time, in the agents' time",
    )
    parser.add_argument("--only", default="", help="a method of Scenarios, run after the boot")
    parser.add_argument("--workers", type=int, default=2, help="number of Placement processes")
    parser.add_argument(
        "--processes", type=int, default=3, help="number of processes that run the hosts"
    )
    parser.add_argument(
        "--out", type=Path, help="the JSON file; default: build/fleet/on-mariadb.json"
    )
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
