"""Runs the contract on an installed driver: the child process of ``computectl driver check``.

    python -m driverkit.installed NAME HOST [--config-file=FILE ...] [--config-dir=DIR ...]

The driver is created as the agent creates it, with the options of the agent's configuration.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from driverkit import BY_PYTEST
from driverkit.contract import DriverContract
from driverkit.host import MakeDriver, configuration
from drivers import loader
from drivers.api import DriverContext
from drivers.deadline import DriverHangs


class TestDriver(DriverContract):
    """DriverContract on the driver that the command line names."""

    @pytest.fixture
    def driver_context(self, checked: argparse.Namespace, tmp_path: Path) -> DriverContext:
        """Return a context with the agent's configuration, and a state path of its own."""
        conf = configuration(checked.config_file, checked.config_dir)
        return DriverContext(checked.host, tmp_path, conf)

    @pytest.fixture
    def make_driver(self, checked: argparse.Namespace, driver_context: DriverContext) -> MakeDriver:
        """Return a callable that creates the driver as the agent does."""
        return lambda: loader.load_drivers([checked.driver], driver_context)[0].driver


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
    plugin = Plugin(parser.parse_args(arguments))
    os.chdir(Path(__file__).parent)  # else each verdict begins with the way to this file
    with tempfile.TemporaryDirectory(prefix="driver-check-") as directory:
        options = ["-c", os.devnull, "--rootdir", ".", "--basetemp", f"{directory}/tests"]
        options += ["-p", "no:cacheprovider", "--no-header", "--disable-warnings", "-v", "-rfEs"]
        code = int(pytest.main([*options, Path(__file__).name], [plugin]))
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    os._exit(BY_PYTEST + main(sys.argv[1:]))  # threads that the driver left may never end
