"""python -m benchmarks.fleet: all scenarios, and a JSON file of what they cost."""

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
from tests.servers.databases import MariaDB, PostgreSQL

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "fleet"
DATABASES = {"mariadb": MariaDB, "postgresql": PostgreSQL}


def main(arguments: list[str] | None = None) -> None:
    """All scenarios."""
    asked = _parser().parse_args(arguments)
    shape = Shape(
        asked.hosts,
        asked.rack,
        asked.compressed,
        asked.heartbeat,
        asked.workers,
        asked.processes,
        DATABASES[asked.placement_on],
        DATABASES[asked.registry_on],
    )
    found = []
    for end in (signal.SIGTERM, signal.SIGINT):  # in the background, too, all servers end
        signal.signal(end, lambda *_: sys.exit("ended early"))
    with (
        tempfile.TemporaryDirectory(prefix="fleet-", ignore_cleanup_errors=True) as directory,
        Centre(shape, Path(directory)) as centre,
    ):
        for one in Scenarios(centre, asked.quiet_minutes).run():
            right = "" if one.right_after is None else f", right after {one.right_after} s"
            said = f"{one.name}: {one.calls} calls{right}\n"
            sys.stderr.write(said)
            found.append(one.as_dict())
            _write(asked, found)


def _write(asked: argparse.Namespace, found: list[dict[str, Any]]) -> None:
    """After each scenario: a run may be ended early."""
    out = asked.out or RESULTS / f"on-{asked.placement_on}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({**_about(asked), "scenarios": found}, indent=1) + "\n")


def _about(asked: argparse.Namespace) -> dict[str, Any]:
    options = {name: value for name, value in vars(asked).items() if name != "out"}
    git = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607
        capture_output=True, text=True, check=False, cwd=RESULTS,
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
    parser.add_argument("--rack", type=int, default=20, help="hosts of them that boot cold")
    parser.add_argument("--compressed", type=int, default=10, help="how fast, towards Placement")
    parser.add_argument("--heartbeat", type=int, default=10, help="seconds, not compressed")
    parser.add_argument("--quiet-minutes", type=int, default=15, help="of the agents' time")
    parser.add_argument("--workers", type=int, default=2, help="processes of Placement")
    parser.add_argument("--processes", type=int, default=3, help="processes of hosts")
    parser.add_argument("--placement-on", choices=DATABASES, default="mariadb")
    parser.add_argument("--registry-on", choices=DATABASES, default="postgresql")
    parser.add_argument("--out", type=Path, help="where the JSON goes; docs/fleet/on-DATABASE.json")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
