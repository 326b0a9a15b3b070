"""``python -m tests.world``: live histories by their seeds, or one of them again."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence

from tests.world.story import Failure, failure, shortest
from tests.world.world import many

FIXED = "PYTHONHASHSEED"
RENEWED_AFTER, CHUNK = 2000, 20
"""Histories of one process: however many are lived, memory does not grow."""


def main(args: Sequence[str] | None = None) -> int:
    options = _options(args)
    with many():
        return _many(options) if options.seed is None else _again(options)


def _many(options: argparse.Namespace) -> int:
    first, _, last = options.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    progress, failed = Progress(len(seeds)), 0
    for found in _lived(seeds, options.jobs):
        progress.one_more()
        if found is None:
            continue
        failed += 1
        print(f"\nSeed {found.seed}\n{found}", flush=True)
        if failed >= options.stop_after and not options.keep_going:
            break
    print(f"{progress}, {failed} failed")
    return 1 if failed else 0


class Progress:
    """Said on a terminal's error stream from time to time."""

    EVERY = 30.0

    def __init__(self, wanted: int) -> None:
        self._wanted, self._done, self._began = wanted, 0, time.monotonic()
        self._said = self._began

    def one_more(self) -> None:
        self._done += 1
        if time.monotonic() - self._said > self.EVERY:
            self._said = time.monotonic()
            print(f"{self} of {self._wanted}", file=sys.stderr, flush=True)

    def __str__(self) -> str:
        seconds = time.monotonic() - self._began
        return f"{self._done} histories, {seconds:.0f} s, {self._done / seconds:.1f} each second"


def _options(args: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--seeds", default="1..1000", metavar="A..B", help="histories to live")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--stop-after", type=int, default=10, help="failures")
    parser.add_argument("--keep-going", action="store_true", help="however many failures")
    parser.add_argument("--seed", type=int, help="one history, told")
    parser.add_argument("--only", help="of its events these, by their numbers, or none")
    parser.add_argument("--log", action="store_true", help="with what the agents log")
    return parser.parse_args(args)


def _again(options: argparse.Namespace) -> int:
    only = None
    if options.only is not None:
        only = [int(each) for each in options.only.split(",") if each.isdigit()]
    found = failure(options.seed, only, log=options.log)
    if found is None:
        print("All is well.")
        return 0
    print(found if only is not None else shortest(found))
    return 1


def _one(seed: int) -> Failure | None:
    found = failure(seed)
    return None if found is None else shortest(found)


def _lived(seeds: Sequence[int], jobs: int) -> Iterator[Failure | None]:
    if jobs == 1 and len(seeds) <= RENEWED_AFTER:
        yield from map(_one, seeds)
        return
    with multiprocessing.Pool(jobs, maxtasksperchild=RENEWED_AFTER // CHUNK) as pool:
        yield from pool.imap_unordered(_one, seeds, chunksize=CHUNK)


if __name__ == "__main__":
    if os.environ.get(FIXED) != "0":  # or sets would have another order in each run
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.world", *sys.argv[1:]],
            {**os.environ, FIXED: "0"},
        )
    sys.exit(main())
