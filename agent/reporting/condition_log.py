"""Log reports: what was written, and each condition when it begins, changes and ends."""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.reporting.condition import DRIVERS, Condition, Severity
from agent.reporting.reports import ENDS_PERIOD, Report

LOG = logging.getLogger("compute_agent.placement")
LOG_OF_DRIVERS = logging.getLogger("compute_agent.drivers")

_VOLATILE = re.compile(
    r"\(request [^)]*\)|\b\d+(?:\.\d+)? ?s(?:ec(?:onds?)?)?\b|\b(?:GET|PUT|POST|DELETE) /\S*"
    r"|was not called: still waiting for an earlier call.*|has not returned within.*"
)
"""Parts of a text that differ between periods for the same problem: ids, seconds, calls."""
Key = tuple[str, tuple[str, str]]
"""A node, and the identity of a condition."""


@dataclass(slots=True)
class ConditionLog:
    """Logs reports; ``logged`` are the present conditions."""

    logged: dict[Key, Condition] = field(default_factory=dict)

    def log_reports(self, reports: Iterable[Report]) -> None:
        """Log changes (INFO), new or changed conditions, and their ends (INFO).

        A condition is a WARNING, one of severity ``INFO`` is none.
        """
        present, errors = dict[Key, Condition](), dict[Key, BaseException]()
        for report in reports:
            node, level = report.node, logging.INFO if report.done else logging.DEBUG
            LOG.log(level, "Node %s: %s", node, report.sentence())
            if report.error is not None:  # the period can't end conditions
                logged = self.logged.items()
                present |= {
                    key: it for key, it in logged if key[0] == node and it.kind not in ENDS_PERIOD
                }
            present |= {(node, each.identity): each for each in report.conditions}
            for name, err in report.driver_errors.items():
                errors[node, (DRIVERS, f"driver {name}")] = err
        for key, each in present.items():
            if key not in self.logged or lasting(each) != lasting(self.logged[key]):
                level = logging.INFO if each.severity is Severity.INFO else logging.WARNING
                _log_of(each).log(level, "Node %s: %s", key[0], each.sentence)
                if key in errors:
                    LOG_OF_DRIVERS.debug("Node %s: %s", key[0], each, exc_info=errors[key])
        for key in self.logged.keys() - present.keys():
            ended = self.logged[key]
            _log_of(ended).info("Node %s: resolved: %s", key[0], ended)
        self.logged = present


def _log_of(condition: Condition) -> logging.Logger:
    """Return the logger of a condition: what a driver has to do with is not Placement's."""
    of_driver = condition.kind == DRIVERS or condition.severity is Severity.DEGRADED
    return LOG_OF_DRIVERS if of_driver else LOG


def lasting(problem: Condition | str) -> str:
    """Return a problem without the parts of its text that differ between periods."""
    return getattr(problem, "severity", "") + _VOLATILE.sub("", str(problem))
