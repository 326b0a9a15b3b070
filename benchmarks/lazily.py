"""Count the calls of Nova's quiet period: unchanged, and with allocations read lazily.

    python -m benchmarks.lazily --reference PYTHON

``--reference`` is the Python interpreter of a virtual environment that has nova.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare import run_side
from benchmarks.placement import LoggedPlacement

PROVIDERS, CONSUMERS = 11, 5


def quiet_calls(reference: str, *how: str) -> Any:
    """Return the calls of a quiet period, with a Placement of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="lazily-") as directory,
        LoggedPlacement(Path(directory)) as server,
    ):
        return run_side(
            reference,
            "lazily_reference",
            server.url,
            server.log_of_requests,
            PROVIDERS,
            CONSUMERS,
            *how,
        )


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
