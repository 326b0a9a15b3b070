"""Runs a fleet against an overloaded Placement in virtual time; writes docs/fleet/overload.json.

    python -m benchmarks.fleet.overload --hosts 10000

Each provider of each host changes within a minute: five times what Placement can carry out.
"""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

from benchmarks.fleet.__main__ import RESULTS
from benchmarks.fleet.virtual import Fleet
from reportclient.schedule import PERIOD

CHILDREN = 4
TIMES = 5
"""How many times more is sent in a period than Placement carries out in that time."""
QUIET = 600.0
"""Seconds before the change."""
LONGEST = 900.0
"""Seconds after which a run ends."""
VARIANTS: dict[str, dict[str, float]] = {
    "all requests wait": {},
    "503 beyond 500 waiting": {"room": 500},
    "all requests wait, hosts give up after 30 s": {"timeout": 30.0},
}


def fleet(hosts: int, room: float = inf, **more: Any) -> Fleet:
    """Return a fleet that is quiet, at a Placement of a size for it."""
    rate = hosts * (1 + CHILDREN) / PERIOD / TIMES
    result = Fleet(hosts, rate, room * hosts / 10_000, CHILDREN, **more)
    result.until(QUIET)
    return result


def main(arguments: list[str] | None = None) -> None:
    """Run all variants."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet.overload")
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "overload.json")
    asked = parser.parse_args(arguments)
    results: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "variants": {}}
    for name, more in VARIANTS.items():
        overload = fleet(asked.hosts, **more).change(LONGEST)
        sys.stderr.write(
            f"{name}: {overload.seconds} s, {sum(overload.sent)} sent, {overload.refused} refused, "
            f"{overload.given_up} given up, {overload.writes} needed\n"
        )
        results["variants"][name] = asdict(overload)
        asked.out.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
