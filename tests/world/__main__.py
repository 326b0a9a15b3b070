"""``python -m tests.world``: live histories by their seeds, or one of them again."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence

from tests.world.story import Failure, failure, shortest

FIXED = "PYTHONHASHSEED"


def main(args: Sequence[str] | None = None) -> int:
    options = _options(args)
    if options.seed is not None:
        return _again(options)
    began, failed = time.monotonic(), 0
    first, _, last = options.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    for found in _failures(seeds, options.jobs):
        failed += 1
        print(f"\nSeed {found.seed}\n{found}", flush=True)
        if failed >= options.stop_after:
            break
    print(f"{len(seeds)} histories, {failed} failed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def _options(args: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--seeds", default="1..1000", metavar="A..B", help="histories to live")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--stop-after", type=int, default=10, help="failures")
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


def _failures(seeds: Sequence[int], jobs: int) -> Iterator[Failure]:
    if jobs == 1:
        yield from filter(None, map(_one, seeds))
        return
    with multiprocessing.Pool(jobs, maxtasksperchild=5000) as pool:
        yield from filter(None, pool.imap_unordered(_one, seeds, chunksize=20))


if __name__ == "__main__":
    if os.environ.get(FIXED) != "0":  # or sets would have another order in each run
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.world", *sys.argv[1:]],
            {**os.environ, FIXED: "0"},
        )
    sys.exit(main())
