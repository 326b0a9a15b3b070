"""Count the calls of Nova's quiet period: unchanged, and with allocations read lazily.

    python -m benchmarks.lazily --reference PYTHON

``--reference`` is the Python interpreter of a virtual environment that has nova.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.compare import REPOSITORY
from driverkit.placement.server import PlacementServer

PROVIDERS, CONSUMERS = 11, 5


def quiet_calls(reference: str, *how: str) -> int:
    """Return the calls of a quiet period, with a Placement of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="lazily-") as directory,
        PlacementServer(Path(directory)) as server,
    ):
        log = str(Path(directory) / "requests.jsonl")
        command = [reference, "-W", "ignore", "-m", "benchmarks.lazily_reference", server.url, log]
        done = subprocess.run(  # noqa: S603  # our own module
            [*command, str(PROVIDERS), str(CONSUMERS), *how],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return int(done.stdout)


def main(argv: Sequence[str]) -> None:
    """Run both variants and print the numbers of calls."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lazily")
    parser.add_argument("--reference", required=True, metavar="PYTHON")
    reference = parser.parse_args(argv).reference
    eager, lazy = quiet_calls(reference), quiet_calls(reference, "lazy")
    sys.stdout.write(
        f"{PROVIDERS} providers, {CONSUMERS} consumers: a quiet period is {eager} calls, and "
        f"{lazy} when allocations are read lazily\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
