"""A pytest plugin that writes each verdict as a line of JSON, for ``driverkit.check``.

Only the child process of ``driverkit.check`` loads it.
"""

import json
import os
import sys
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from driverkit.check import driver_under_check
from driverkit.rulebook import Rule
from driverkit.testing.contract import RuleFailed


def pytest_configure() -> None:
    """Change to the driver's working directory; pytest is started in another one."""
    os.chdir(driver_under_check()[0].directory)


def pytest_runtest_setup(item: pytest.Function) -> None:
    """Write which rule begins: the parent process reports it if this process ends."""
    rule: Rule | None = getattr(item.function, "driver_rule", None)
    if rule is not None:
        _write({"rule": rule.name})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write a line for each test of a rule."""
    report = yield
    rule: Rule | None = getattr(item.function, "driver_rule", None)
    if rule is not None and (report.when == "call" or not report.passed):
        _write({"rule": rule.name, **_verdict(report, call)})
        if getattr(call.excinfo and call.excinfo.value, "hangs", False):
            why = f"not judged: the driver hung in the rule {rule.name}"
            _write({"rule": rule.name, "ended": why})
            item.session.shouldstop = why
    return report


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Exit at once, without waiting for threads of the driver that do not end."""
    os.close(driver_under_check()[1])
    sys.stdout.flush()
    os._exit(0)


def _write(line: Mapping[str, Any]) -> None:
    os.write(driver_under_check()[1], (json.dumps(line) + "\n").encode())


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
