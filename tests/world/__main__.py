"""``python -m tests.world``: run simulated histories by their seeds, or replay one of them."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence

from tests.world.story import Failure, failure, reduced
from tests.world.world import many_histories

FIXED = "PYTHONHASHSEED"
RENEWED_AFTER, CHUNK = 2000, 20
"""Histories that a worker process runs before it is replaced, so that memory does not grow, and
histories that it gets at a time."""


def main(args: Sequence[str] | None = None) -> int:
    options = _options(args)
    with many_histories():
        return _run_seeds(options) if options.seed is None else _run_seed(options)


def _run_seeds(options: argparse.Namespace) -> int:
    first, _, last = options.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    progress, failed = Progress(len(seeds)), 0
    for result in _failures(seeds, options.jobs):
        progress.add_one()
        if result is None:
            continue
        failed += 1
        print(f"\nSeed {result.seed}\n{result}", flush=True)
        if failed >= options.stop_after and not options.keep_going:
            break
    print(f"{progress}, {failed} failed")
    return 1 if failed else 0


class Progress:
    """Counts the histories that were run and prints the count to standard error every half minute."""

    EVERY = 30.0

    def __init__(self, wanted: int) -> None:
        self._wanted, self._done, self._began = wanted, 0, time.monotonic()
        self._printed_at = self._began

    def add_one(self) -> None:
        self._done += 1
        if time.monotonic() - self._printed_at > self.EVERY:
            self._printed_at = time.monotonic()
            print(f"{self} of {self._wanted}", file=sys.stderr, flush=True)

    def __str__(self) -> str:
        seconds = time.monotonic() - self._began
        return f"{self._done} histories, {seconds:.0f} s, {self._done / seconds:.1f} a second"


def _options(args: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument(
        "--seeds", default="1..1000", metavar="A..B", help="seeds of the histories to run"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--stop-after", type=int, default=10, help="stop after this many failures")
    parser.add_argument("--keep-going", action="store_true", help="do not stop after failures")
    parser.add_argument("--seed", type=int, help="run one history and print a failure")
    parser.add_argument("--only", help="only these events, by number, or none")
    parser.add_argument("--log", action="store_true", help="print the log of the agents")
    return parser.parse_args(args)


def _run_seed(options: argparse.Namespace) -> int:
    only = None
    if options.only is not None:
        only = [int(each) for each in options.only.split(",") if each.isdigit()]
    result = failure(options.seed, only, log=options.log)
    if result is None:
        print("No rule was violated.")
        return 0
    print(result if only is not None else reduced(result))
    return 1


def _reduced_failure(seed: int) -> Failure | None:
    result = failure(seed)
    return None if result is None else reduced(result)


def _failures(seeds: Sequence[int], jobs: int) -> Iterator[Failure | None]:
    if jobs == 1 and len(seeds) <= RENEWED_AFTER:
        yield from map(_reduced_failure, seeds)
        return
    with multiprocessing.Pool(jobs, maxtasksperchild=RENEWED_AFTER // CHUNK) as pool:
        yield from pool.imap_unordered(_reduced_failure, seeds, chunksize=CHUNK)


if __name__ == "__main__":
    if os.environ.get(FIXED) != "0":  # so that sets have the same order in each run
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.world", *sys.argv[1:]],
            {**os.environ, FIXED: "0"},
        )
    sys.exit(main())
