"""A pytest plugin for the child process of ``driverkit.check``.

It lets a test class judge the installed driver, and writes each verdict as a line of JSON.
"""

import json
import os
import sys
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from driverkit.check import driver_under_check
from driverkit.stage import MakeDriver
from driverkit.testing.contract import DriverContract, RuleFailed
from drivers import loader
from drivers.api import DriverContext


def pytest_configure() -> None:
    """Change to the driver's working directory; pytest is started in another one."""
    os.chdir(driver_under_check()[0].directory)


@pytest.fixture
def make_driver(self: object, driver_context: DriverContext) -> MakeDriver:  # noqa: ARG001
    """Return a callable that creates the driver as the agent does."""
    name = driver_under_check()[0].name
    return lambda: loader.load_drivers([name], driver_context)[0].driver


def pytest_pycollect_makeitem(obj: object) -> None:
    """Let a test class create the installed driver, whatever its own ``make_driver`` creates."""
    if isinstance(obj, type) and issubclass(obj, DriverContract):
        obj.make_driver = make_driver  # type: ignore[method-assign]


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Function]) -> None:
    """Keep the tests of the rules, of one class of the file; end if it has none."""
    rules = [it for it in items if hasattr(it.obj, "driver_rule")]
    own = [it for it in rules if it.cls.__module__ == it.module.__name__]
    # Prefer a test class: the others may be its base classes.
    own.sort(key=lambda it: not it.cls.__name__.startswith("Test"))
    items[:] = [it for it in own if it.cls is own[0].cls]
    if not items and not session.testsfailed:
        file = driver_under_check()[0].fixtures
        what = "has no class that derives from driverkit.testing.DriverContract"
        pytest.exit(f"{file} {what}")


def pytest_runtest_setup(item: pytest.Function) -> None:
    """Write which rule begins: the parent process reports it if this process ends."""
    _write({"rule": item.obj.driver_rule.name})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write a line for each test of a rule."""
    report = yield
    if report.when == "call" or not report.passed:
        rule = item.obj.driver_rule
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
