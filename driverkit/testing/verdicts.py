"""A pytest plugin for ``driverkit.check``: a line of JSON for each verdict.

Loaded by name in that child process only.
"""

import json
import os
import sys
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from driverkit.check import checked_here
from driverkit.rulebook import Rule
from driverkit.testing.contract import RuleFailed


def pytest_configure() -> None:
    """The driver works where it would for the agent; pytest was started somewhere else."""
    os.chdir(checked_here()[0].directory)


def pytest_runtest_setup(item: pytest.Function) -> None:
    """Which rule is looked at: should the process end, it is known what it ended in."""
    rule: Rule | None = getattr(item.function, "driver_rule", None)
    if rule is not None:
        _say({"rule": rule.name})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Print a line for each test of a rule."""
    report = yield
    rule: Rule | None = getattr(item.function, "driver_rule", None)
    if rule is not None and (report.when == "call" or not report.passed):
        _say({"rule": rule.name, **_verdict(report, call)})
        if getattr(call.excinfo and call.excinfo.value, "hangs", False):
            why = f"nothing more was asked: the driver hung in the rule {rule.name}"
            _say({"rule": rule.name, "ended": why})
            item.session.shouldstop = why
    return report


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """A thread of the driver's that does not end holds nobody up."""
    os.close(checked_here()[1])
    sys.stdout.flush()
    os._exit(0)


def _say(line: Mapping[str, Any]) -> None:
    os.write(checked_here()[1], (json.dumps(line) + "\n").encode())


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
