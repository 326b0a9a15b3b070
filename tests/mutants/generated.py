"""Run the fast tests against generated mutants: ``python -m tests.mutants.generated [PATH...]``.

mutmut makes the mutants of each function below these paths (all packages unless given).
``--sample N`` runs N of them, the same ones for the same ``--seed``.  All fast tests run once
under coverage; then each mutant is put into a process forked after the tests were imported,
which runs the tests that execute the mutated statement, the quickest first, up to the first
failure.  Prints each survivor as a diff, and a table by package.  Needs ``pip install mutmut==3.8.1``.
"""

from __future__ import annotations

import argparse
import ast
import collections
import difflib
import gc
import importlib
import os
import pickle
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import CodeType, FunctionType

import pytest

os.environ |= {"COMPUTE_AGENT_TEST_FAST": "yes", "HYPOTHESIS_PROFILE": "fast"}

from tests.mutants.mutants import ROOT

PACKAGES = ("agent", "compute_registry", "computectl", "driverkit", "drivers", "reportclient")
OPTIONS = ("-q", "-s", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:tests.sharing")
TIMEOUT = ("--timeout=30", "--timeout-method=thread")
SECONDS = 30.0
"""What the tests of one mutant take together, at most, without it."""
HANGS = 180
"""Seconds after which a mutant is noticed, since its tests hang."""


@dataclass(frozen=True, slots=True)
class Generated:
    """One mutant: the source of ``path`` with one change, in the function ``old``."""

    path: Path
    original: str
    mutated: str
    old: CodeType
    new: CodeType

    @property
    def package(self) -> str:
        return self.path.relative_to(ROOT).parts[0]

    @property
    def module(self) -> str:
        """The dotted name."""
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts)

    @property
    def lines(self) -> range:
        """The lines of the statement that is changed, without the body of one like ``if``."""
        both = zip(self.original.splitlines(), self.mutated.splitlines(), strict=False)
        first = next((n for n, (one, other) in enumerate(both, 1) if one != other), 1)
        found = range(first, first + 1)
        for node in ast.walk(ast.parse(self.original)):
            if isinstance(node, ast.stmt) and node.lineno <= first <= (node.end_lineno or 0):
                body = getattr(node, "body", None)
                end = body[0].lineno - 1 if body else node.end_lineno or first
                if first <= max(end, node.lineno):
                    found = range(node.lineno, max(end, node.lineno) + 1)
        return found

    @property
    def diff(self) -> str:
        name = str(self.path.relative_to(ROOT))
        both = self.original.splitlines(), self.mutated.splitlines()
        return "\n".join(difflib.unified_diff(*both, name, self.old.co_qualname, "", "", 1, ""))

    def put_in(self) -> None:
        """Let each function of this process that has the code run the mutant's."""
        gc.unfreeze()  # the agent's modules freeze what they import
        for found in gc.get_objects():
            if isinstance(found, FunctionType) and found.__code__.co_filename == str(self.path):
                code = found.__code__
                if (code.co_qualname, code.co_firstlineno) == (
                    self.old.co_qualname,
                    self.old.co_firstlineno,
                ):
                    found.__code__ = self.new


def mutants(files: list[Path], seed: int | None) -> Iterator[Generated]:
    """Yield the mutants of files that compile to another function, shuffled if there is a seed."""
    from mutmut.mutation.file_mutation import create_mutations, deep_replace

    changes = []
    for path in files:
        module, found, *_ = create_mutations(str(path), path.read_text())
        changes += [(path, module, change) for change in found]
    print(f"{len(changes)} mutants of {len(files)} files", flush=True)
    if seed is not None:
        random.Random(seed).shuffle(changes)
    for path, module, change in changes:
        mutated = deep_replace(module, change.original_node, change.mutated_node).code
        with suppress(SyntaxError):
            functions = _functions(compile(module.code, str(path), "exec"))
            others = _functions(compile(mutated, str(path), "exec"))
            # The lines of later functions may have moved: the first one that differs is it.
            old, new = next(
                ((old, new) for old, new in zip(functions, others, strict=True) if old != new),
                (None, None),
            )
            if old and new and old.co_freevars == new.co_freevars:
                yield Generated(path, module.code, mutated, old, new)


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Yield the functions and methods below a module's code, not those within them."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & 2:  # CO_NEWLOCALS: a function; a class's body has it not
                yield constant
            else:
                yield from _functions(constant)


class Runner:
    """A plugin of pytest that runs mutants in place of the tests that were collected."""

    def __init__(self, chosen: list[Generated], jobs: int) -> None:
        self.chosen, self.jobs = chosen, jobs
        self.noticed: dict[Generated, bool] = {}
        """Those that a fast test executes."""
        self.unreached = collections.Counter[str]()
        """How many no fast test executes, by package."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        import agent.bus.messaging  # noqa: F401 - it chooses the threads of oslo.service

        for mutant in self.chosen:
            with suppress(
                Exception
            ):  # a script of Alembic's, or what only a process of its own reads
                importlib.import_module(mutant.module)
        executed, seconds = self._trace(session)
        items = sorted(session.items, key=lambda item: seconds.get(item.nodeid, 0.0))
        print(f"{len(session.items)} tests, {sum(seconds.values()):.0f} s", flush=True)
        running: dict[int, tuple[Generated, str]] = {}
        for mutant in [*self.chosen, None]:
            while running and (mutant is None or len(running) == self.jobs):
                process, status = os.wait()
                ended, directory = running.pop(process)
                shutil.rmtree(directory, ignore_errors=True)
                self.noticed[ended] = status != 0
                print(f"{len(self.noticed)} ran", end="\r", flush=True)
            if mutant is None:
                break
            lines = executed.get(str(mutant.path), {})
            names = {name for line in mutant.lines for name in lines.get(line, ())}
            left, total = [], 0.0
            for item in items:
                if item.nodeid in names and item.nodeid in seconds:
                    total += seconds[item.nodeid]
                    left.append(item)
                if total > SECONDS:
                    break
            if not left:
                self.unreached[mutant.package] += 1
                continue
            directory = tempfile.mkdtemp(prefix="compute-agent-mutant-")
            process = os.fork()
            if not process:
                self._run(session, left, mutant, directory)
            running[process] = mutant, directory
        return True

    def _run(
        self, session: pytest.Session, items: list[pytest.Item], mutant: Generated, directory: str
    ) -> None:
        """Run the tests in this process with a mutant, and end it with 0 if all pass."""
        status = 1
        try:
            os.setsid()
            signal.alarm(HANGS)
            os.environ["TMPDIR"] = tempfile.tempdir = directory
            nowhere = os.open(os.devnull, os.O_RDWR)
            for descriptor in 0, 1, 2:
                os.dup2(nowhere, descriptor)
            mutant.put_in()
            session.items[:] = items
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    break
            status = int(session.testsfailed > 0)
        finally:
            os._exit(status)

    def _trace(
        self, session: pytest.Session
    ) -> tuple[dict[str, dict[int, list[str]]], dict[str, float]]:
        """Return which tests execute each line of each file, and the seconds of those that pass."""
        with tempfile.NamedTemporaryFile() as result:
            process = os.fork()
            if not process:
                try:
                    import coverage

                    seconds: dict[str, float] = {}
                    traced = coverage.Coverage(
                        data_file=None, source=[str(ROOT / name) for name in PACKAGES]
                    )
                    traced.start()
                    session.config.option.maxfail = 0
                    for item, following in zip(
                        session.items, [*session.items[1:], None], strict=True
                    ):
                        traced.switch_context(item.nodeid)
                        begun, failed = time.monotonic(), session.testsfailed
                        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                        session.shouldfail = False
                        if session.testsfailed == failed:
                            seconds[item.nodeid] = time.monotonic() - begun
                    traced.stop()
                    data = traced.get_data()
                    executed = {
                        name: data.contexts_by_lineno(name) for name in data.measured_files()
                    }
                    with open(result.name, "wb") as file:
                        pickle.dump((executed, seconds), file)
                finally:
                    os._exit(0)
            os.waitpid(process, 0)
            with open(result.name, "rb") as file:
                found: tuple[dict[str, dict[int, list[str]]], dict[str, float]] = pickle.load(file)
            return found


def main() -> int:
    """Return 1 if a mutant survives, 2 if none could run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants.generated",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", default=[*PACKAGES])
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="+", default=["tests"], metavar="PATH")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if find_spec("mutmut") is None:
        parser.error("mutmut is not installed: pip install mutmut==3.8.1")
    files = []
    for name in options.paths:
        below = ROOT / name
        if not below.exists():
            parser.error(f"{name}: there is no such file or directory")
        files += sorted(below.rglob("*.py")) if below.is_dir() else [below]
    seed = options.seed if options.sample else None
    chosen = list(islice(mutants(files, seed), options.sample))
    runner = Runner(chosen, options.j)
    os.chdir(ROOT)
    status = pytest.main([*OPTIONS, *TIMEOUT, "-W", "ignore", *options.tests], plugins=[runner])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED):
        return 2  # pytest has said why
    table = collections.defaultdict[str, list[bool]](list)
    for mutant, noticed in runner.noticed.items():
        table[mutant.package].append(noticed)
        if not noticed:
            print(f"survives:\n{mutant.diff}\n")
    table["all"] = list(runner.noticed.values())
    runner.unreached["all"] = runner.unreached.total()
    for package, results in sorted(table.items()):
        share = 100 * sum(results) / max(len(results), 1)
        more = f"{runner.unreached[package]} more are executed by no fast test"
        print(f"{package:18} {sum(results):4} of {len(results):4} noticed ({share:.1f} %), {more}")
    return int(not all(runner.noticed.values()))


if __name__ == "__main__":
    raise SystemExit(main())
