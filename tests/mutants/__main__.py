"""Run the fast tests of each boundary against its mutants: ``python -m tests.mutants [BOUNDARY...]``.

Prints which mutants survive, and a table.  ``--wider PATH...`` runs these tests as well
against the mutants that survive their own.  ``-j`` is how many run at the same time.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.mutants import ROOT, Mutant, boundaries, mutants_of

LONGEST = 300.0
"""Seconds for the tests of one mutant; one that makes them hang is noticed, too."""
FAST = {"COMPUTE_AGENT_TEST_FAST": "yes", "HYPOTHESIS_PROFILE": "fast"}
PYTEST = (
    "-m",
    "pytest",
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--timeout=60",
    "--timeout-method=thread",
    "-k",
    "not test_structure",  # a file that is longer than was decided is no fault that a user sees
)


def copied() -> Path:
    """Return a new directory with what git tracks, and what it does not ignore."""
    copy = Path(tempfile.mkdtemp(prefix="compute-agent-mutants-"))
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    return copy


def passes(copy: Path, tests: Sequence[str]) -> bool:
    """Run tests in a copy; those that are not there are left out."""
    there = [name for name in tests if (copy / name).exists()]
    environment = {**os.environ, **FAST, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *PYTEST, *there]
    with subprocess.Popen(
        command, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        try:
            output, _ = running.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            running.kill()
            return False
    if running.returncode not in (0, 1, 2):
        raise SystemExit(f"pytest ended with {running.returncode}:\n{output.decode()[-2000:]}")
    return running.returncode == 0


def survives(mutant: Mutant, tests: Sequence[str], copies: SimpleQueue[Path]) -> bool:
    """Whether the tests pass in spite of it."""
    copy = copies.get()
    try:
        mutant.apply(copy)
        return passes(copy, tests)
    finally:
        shutil.copy2(ROOT / mutant.file, copy / mutant.file)
        copies.put(copy)


def main() -> int:
    """Return 1 if any mutant survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("boundaries", nargs="*", metavar="BOUNDARY", help=", ".join(boundaries()))
    parser.add_argument("--wider", nargs="+", default=[], metavar="PATH")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    for name in options.boundaries:
        if name not in boundaries():
            parser.error(f"no boundary {name!r}; known are {', '.join(boundaries())}")
    copies: SimpleQueue[Path] = SimpleQueue()
    made = [copied() for _ in range(options.j)]
    for copy in made:
        copies.put(copy)
    rows = []
    try:
        with ThreadPoolExecutor(options.j) as pool:
            for boundary in options.boundaries or boundaries():
                mutants = list(mutants_of(boundary))
                if not passes(made[0], mutants[0].tests):
                    raise SystemExit(f"the tests of {boundary} fail without any mutant")
                left = [
                    one
                    for one, survived in zip(
                        mutants,
                        pool.map(lambda m: survives(m, m.tests, copies), mutants),
                        strict=True,
                    )
                    if survived
                ]
                own = len(mutants) - len(left)
                if options.wider:
                    stays = pool.map(lambda m: survives(m, options.wider, copies), left)
                    left = [one for one, survived in zip(left, stays, strict=True) if survived]
                rows.append((boundary, len(mutants), own, len(mutants) - len(left)))
                for one in left:
                    print(f"survives: {boundary}: {one.loses} ({one.file})", flush=True)
    finally:
        for copy in made:
            shutil.rmtree(copy)
    for boundary, number, own, all_of_them in rows:
        wider = f", {all_of_them} by the wider tests" if options.wider else ""
        print(f"{boundary:12} {own} of {number} noticed by the tests of the boundary{wider}")
    return int(any(number != noticed for _, number, _, noticed in rows))


if __name__ == "__main__":
    raise SystemExit(main())
