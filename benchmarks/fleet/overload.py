"""Runs a fleet against an overloaded Placement in virtual time; writes build/fleet/overload.json.

    python -m benchmarks.fleet.overload --hosts 2000

Each provider of each host changes within a minute: five times what Placement can carry out.
"""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.fleet.__main__ import RESULTS
from benchmarks.fleet.virtual import overload

VARIANTS: dict[str, dict[str, Any]] = {
    "all requests wait": {},
    "503 beyond 500 waiting": {"room": 500},
    "all requests wait, hosts give up after 30 s": {"timeout": 30.0},
}


def main(arguments: list[str] | None = None) -> None:
    """Run all variants."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet.overload")
    parser.add_argument("--hosts", type=int, default=2_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "overload.json")
    asked = parser.parse_args(arguments)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "variants": {}}
    for name, more in VARIANTS.items():
        result = overload(asked.hosts, **more)
        sys.stderr.write(
            f"{name}: {result.seconds} s, {sum(result.sent)} sent, {sum(result.done)} done, "
            f"{result.refused} refused, {result.given_up} given up, {result.writes} needed, "
            f"{result.worst_minute:.2f} of the rate in the worst minute\n"
        )
        results["variants"][name] = asdict(result)
        asked.out.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
