"""Runs the contract on an installed driver: the child process of ``computectl driver check``.

    python -m driverkit.installed NAME HOST [--config-file=FILE ...] [--config-dir=DIR ...]

The driver is created as the agent creates it, with the options of the agent's configuration.
With ``--facts=FILE`` no rule is checked: FILE gets what the driver reports, with ``--state-path``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from driverkit import BY_PYTEST
from driverkit.contract import DriverContract
from driverkit.evidence import differences, facts
from driverkit.host import MakeDriver, configuration, starting
from drivers import loader
from drivers.api import DriverContext
from drivers.deadline import DriverHangs
from reportclient.testing.fake_placement import FakePlacement

SEEDS = ("1", "2", "3", "4", "5")
"""Values of PYTHONHASHSEED; a set of two texts has the same order under all of them once in 32."""
LIMIT = 120.0
"""Seconds in which a process with such a value has to report."""


class TestDriver(DriverContract):
    """DriverContract on the driver that the command line names."""

    @pytest.fixture
    def driver_context(self, checked: argparse.Namespace, tmp_path: Path) -> DriverContext:
        """Return a context with the agent's configuration, and a state path of its own."""
        return _context(checked, tmp_path)

    @pytest.fixture
    def make_driver(self, checked: argparse.Namespace, driver_context: DriverContext) -> MakeDriver:
        """Return a callable that creates the driver as the agent does."""
        return _maker(checked, driver_context)

    def test_the_order_of_sets_makes_no_difference(
        self, checked: argparse.Namespace, tmp_path: Path
    ) -> None:
        """A new process reports the same names, UUIDs and inventories.

        Why: Python orders a set of texts anew in each process.  What is numbered in this order has
        another name after a restart, and guests hold what the agent then removes.

        Mend: sort what you number: ``enumerate(sorted(devices))``.
        """
        facts, file = _facts(checked, tmp_path), tmp_path / "facts.json"
        command = [sys.executable, "-P", "-m", "driverkit.installed", *sys.argv[1:]]
        command += [f"--facts={file}", f"--state-path={tmp_path}"]
        for seed in SEEDS:
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            code = subprocess.call(command, env=environment, timeout=LIMIT)
            assert code == BY_PYTEST, "a new process of the driver failed: see its output"
            lines = differences(facts, json.loads(file.read_text(encoding="utf-8")))
            assert not lines, f"a new process, whose sets have another order:\n{lines}"


def _context(given: argparse.Namespace, state_path: Path) -> DriverContext:
    conf = configuration(given.config_file, given.config_dir)
    return DriverContext(given.host, state_path, conf)


def _maker(given: argparse.Namespace, context: DriverContext) -> MakeDriver:
    return lambda: loader.load_drivers([given.driver], context)[0].driver


def _facts(given: argparse.Namespace, state_path: Path) -> dict[str, str]:
    """Return what a new driver says of its nodes on an empty Placement; it is closed then."""
    context = _context(given, state_path)
    with starting(_maker(given, context), context, FakePlacement()) as start:
        host = start()
        nodes = (facts(host.edited(node)).items() for node in host.nodes())
        return dict(chain.from_iterable(nodes))


class Plugin:
    """A pytest plugin with the command line; ends the run once the driver hangs."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._directory = Path.cwd()

    def pytest_sessionstart(self) -> None:
        """Return to the directory in which relative paths of options start."""
        os.chdir(self._directory)

    @pytest.fixture
    def checked(self) -> argparse.Namespace:
        """Return the command line."""
        return self._given

    def pytest_exception_interact(self, node: Any, call: pytest.CallInfo[Any]) -> None:
        """End the run: no further call of a driver that hangs returns."""
        if call.excinfo is not None and isinstance(call.excinfo.value, DriverHangs):
            node.session.shouldstop = "the driver hangs, the other rules were not checked"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the broken rules by their cause: one cause often breaks several."""
        stats, causes = terminalreporter.stats, dict[str, list[str]]()
        for report in (*stats.get("failed", ()), *stats.get("error", ())):
            crash = getattr(report.longrepr, "reprcrash", None)
            cause = crash.message.partition("\n")[0] if crash else str(report.longrepr)
            causes.setdefault(cause, []).append(report.nodeid.rpartition("::test_")[2])
        kept, skipped = (len(stats.get(kind, ())) for kind in ("passed", "skipped"))
        broken = sum(map(len, causes.values()))
        terminalreporter.section(
            f"driver {self._given.driver}, rules: {broken} broken, {kept} kept, {skipped} skipped"
        )
        for cause, rules in causes.items():
            terminalreporter.write_line(f"{', '.join(rules)}: {cause}")


def main(arguments: Sequence[str]) -> int:
    """Run pytest with no configuration, cache or plugins of others; return its exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("driver")
    parser.add_argument("host")
    parser.add_argument("--config-file", action="append", default=[])
    parser.add_argument("--config-dir", action="append", default=[])
    parser.add_argument("--facts", type=Path)
    parser.add_argument("--state-path", type=Path)
    given = parser.parse_args(arguments)
    if given.facts is not None:
        given.facts.write_text(json.dumps(_facts(given, given.state_path)), encoding="utf-8")
        return 0
    plugin = Plugin(given)
    os.chdir(Path(__file__).parent)  # else each verdict begins with the way to this file
    with tempfile.TemporaryDirectory(prefix="driver-check-") as directory:
        options = ["-c", os.devnull, "--rootdir", ".", "--basetemp", f"{directory}/tests"]
        options += ["-p", "no:cacheprovider", "--no-header", "--disable-warnings", "-v", "-rfEs"]
        code = int(pytest.main([*options, Path(__file__).name], [plugin]))
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    os._exit(BY_PYTEST + main(sys.argv[1:]))  # threads that the driver left may never end
