"""Reports with the conditions that a tracker makes of errors."""

from collections.abc import Mapping
from itertools import starmap
from typing import Any

from agent.reporting.condition import of_drain, of_driver, of_part, of_write
from agent.reporting.reports import Report

NOTHING: Mapping[str, Any] = {}


def report_with(
    node: str = "host1",
    *,
    driver_errors: Mapping[str, BaseException] = NOTHING,
    failed: Mapping[str, BaseException] = NOTHING,
    draining: Mapping[str, BaseException] = NOTHING,
    ill: Mapping[str, str] = NOTHING,
    names: Mapping[str, str] = NOTHING,
    error: Exception | None = None,
    **fields: Any,
) -> Report:
    """Return a report; errors of drivers, of writes and of drains are by name or UUID."""
    conditions = (
        *starmap(of_driver, driver_errors.items()),
        *(of_write(key, err, names, node) for key, err in failed.items()),
        *(of_drain(key, err, names, None) for key, err in draining.items()),
        *starmap(of_part, ill.items()),
    )
    report = Report(node, driver_errors=driver_errors, conditions=conditions, **fields)
    return report.with_error(error)
