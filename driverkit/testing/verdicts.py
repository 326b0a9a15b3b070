"""A pytest plugin for ``driverkit.check``: which driver, and a file of verdicts.

Loaded by name in that child process only, so that its options are in nobody's way.
"""

from __future__ import annotations

import json
from collections.abc import Generator
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """One line for each test that has a rule, as it comes: a hang loses only what follows."""
    report = yield
    rule: Rule | None = getattr(item.function, "driver_rule", None)
    if rule is not None and (report.when == "call" or not report.passed):
        line = {"rule": rule.name, **_verdict(report, call)}
        with Path(item.config.getoption("--verdicts")).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return report


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
