"""A pytest plugin for ``driverkit.check``: which driver, and a file of verdicts.

Loaded by name in that child process only, so that its options are in nobody's way.
"""

import json
import os
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from driverkit.context import configuration
from driverkit.rulebook import Rule
from driverkit.testing.contract import RuleFailed
from drivers.api import DriverContext


def pytest_addoption(parser: pytest.Parser) -> None:
    """What the parent process says."""
    group = parser.getgroup("computectl driver check")
    group.addoption("--installed-driver")
    group.addoption("--agent-host")
    group.addoption("--agent-config-file", action="append", default=[])
    group.addoption("--agent-config-dir", action="append", default=[])
    group.addoption("--verdicts")


@pytest.fixture
def installed_driver(request: pytest.FixtureRequest) -> str:
    """The name of its entry point."""
    return str(request.config.getoption("--installed-driver"))


@pytest.fixture
def installed_driver_context(request: pytest.FixtureRequest, tmp_path: Path) -> DriverContext:
    """The operator's configuration; nothing is written to the agent's state path."""
    option = request.config.getoption
    conf = configuration(option("--agent-config-file"), option("--agent-config-dir"))
    return DriverContext(option("--agent-host"), tmp_path, conf)


def pytest_runtest_setup(item: pytest.Function) -> None:
    """Which rule is looked at: should the process end, it is known what it ended in."""
    rule: Rule | None = getattr(item.function, "driver_rule", None)
    if rule is not None:
        _say(item.config, {"rule": rule.name})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """One line for each test that has a rule, as it comes."""
    report = yield
    rule: Rule | None = getattr(item.function, "driver_rule", None)
    if rule is not None and (report.when == "call" or not report.passed):
        _say(item.config, {"rule": rule.name, **_verdict(report, call)})
        if getattr(call.excinfo and call.excinfo.value, "hangs", False):
            why = f"nothing more was asked: the driver hung in the rule {rule.name}"
            _say(item.config, {"rule": rule.name, "ended": why})
            item.session.shouldstop = why
    return report


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """A thread of the driver's that does not end holds nobody up."""
    os.close(int(config.getoption("--verdicts")))
    sys.stdout.flush()
    os._exit(0)


def _say(config: pytest.Config, line: Mapping[str, Any]) -> None:
    os.write(int(config.getoption("--verdicts")), (json.dumps(line) + "\n").encode())


def _verdict(report: pytest.TestReport, call: pytest.CallInfo[None]) -> dict[str, Any]:
    if report.passed:
        return {"verdict": "kept", "seen": ""}
    err = None if call.excinfo is None else call.excinfo.value
    if report.skipped:
        _, _, reason = str(getattr(err, "msg", "")).partition(": ")
        return {"verdict": "skipped", "seen": reason}
    if isinstance(err, RuleFailed):
        return {"verdict": err.verdict, "seen": err.seen}
    return {"verdict": "not judged", "seen": f"{report.when}: {err}"}
