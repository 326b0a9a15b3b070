"""Measure both clients with the same scenarios, each case with new Placements, in one run.

    python -m benchmarks.compare [--reference PYTHON] [--quick] [--repeats N] --out DIRECTORY

``--reference`` is the Python interpreter of a virtual environment that has nova; without it
only this client is measured.  Writes ``measured.json``, and tables of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.placement import LoggedPlacement
from benchmarks.results import Case, Results, medians
from benchmarks.table import write_tables

REPOSITORY = Path(__file__).resolve().parents[1]
SIZES = [(1, 0), (1, 50), (11, 0), (11, 50), (33, 0), (33, 50), (131, 0), (131, 50), (131, 200)]
QUICK_SIZES = [(3, 5)]
CHUNK = 50
TIMEOUT = 1800.0
"""Timeout in seconds of one case of one client."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and write."""
    options = _parser().parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    results = _measured(options)
    text = json.dumps(results.as_dict(), indent=1)
    (options.out / "measured.json").write_text(text + "\n", encoding="utf-8")
    write_tables(results, options.out)


def _measured(options: argparse.Namespace) -> Results:
    started = time.monotonic()
    sizes = QUICK_SIZES if options.quick else SIZES
    repeats = options.repeats or (1 if options.quick else 3)
    cases = [_case(size, repeats, options.reference) for size in sizes]
    conditions = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "processors": str(os.cpu_count()),
        "repeats": str(repeats),
        "minutes": f"{(time.monotonic() - started) / 60:.1f}",
    }
    return Results(_versions(options.reference), conditions, cases)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.compare")
    parser.add_argument(
        "--reference", metavar="PYTHON", help="interpreter of an environment with nova"
    )
    parser.add_argument("--quick", action="store_true", help="one small case, once")
    parser.add_argument("--repeats", type=int, help="runs of each case (default 3)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIRECTORY")
    return parser


def _case(size: tuple[int, int], repeats: int, reference: str | None) -> Case:
    """Run one case; runs of both clients alternate, so that other load affects both alike."""
    ours, theirs = [], []
    for repeat in range(repeats):
        sys.stderr.write(f"{size[0]} providers, {size[1]} consumers, run {repeat + 1}\n")
        ours.append(run_with_placement(sys.executable, "ours", size))
        ours.append(run_with_placement(sys.executable, "ours", size, str(CHUNK)))
        if reference:
            theirs.append(run_with_placement(reference, "reference", size))
    return Case(*size, ours=medians(ours), reference=medians(theirs))


def run_with_placement(python: str, module: str, size: tuple[int, int], *more: str) -> Any:
    """Run one of these modules with a Placement of its own, and return the JSON that it prints."""
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-") as directory,
        LoggedPlacement(Path(directory)) as server,
    ):
        return run_side(python, module, server.url, server.log_of_requests, *size, *more)


def run_side(python: str, module: str, *arguments: object) -> Any:
    """Run one of these modules with an interpreter, and return the JSON that it prints."""
    done = subprocess.run(  # our own modules
        [python, "-W", "ignore", "-m", f"benchmarks.{module}", *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"benchmarks.{module} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def _versions(reference: str | None) -> dict[str, str]:
    versions = {
        "Python": platform.python_version(),
        **_installed(sys.executable, ["compute-agent", "openstack-placement", "keystoneauth1"]),
    }
    if reference:
        theirs = _installed(reference, ["nova", "keystoneauth1", "openstacksdk"])
        versions.update({f"{name} (reference)": value for name, value in theirs.items()})
    return versions


def _installed(python: str, names: Sequence[str]) -> dict[str, str]:
    if python == sys.executable:
        return {name: metadata.version(name) for name in names}
    ask = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    printed = subprocess.run(  # the interpreter that was given
        [python, "-c", ask, *names], capture_output=True, text=True, check=True
    )
    return dict(zip(names, printed.stdout.split(), strict=True))


if __name__ == "__main__":
    main()
