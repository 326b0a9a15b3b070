"""Count the calls of Nova's quiet period: unchanged, and with allocations read lazily.

    python -m benchmarks.lazily --reference PYTHON

``--reference`` is the Python interpreter of a virtual environment that has nova.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.compare import run_with_placement

PROVIDERS, CONSUMERS = 11, 5


def quiet_calls(reference: str, *how: str) -> Any:
    """Return the calls of a quiet period."""
    return run_with_placement(reference, "lazily_reference", (PROVIDERS, CONSUMERS), *how)


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
