"""Log reports: what was written, and each condition when it begins, changes and ends."""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.reporting.reports import ENDED, Condition, Report, Severity

LOG = logging.getLogger("compute_agent.placement")
DRIVERS = logging.getLogger("compute_agent.drivers")

_PASSING = re.compile(
    r"\(request [^)]*\)|\b\d+(?:\.\d+)? ?s(?:ec(?:onds?)?)?\b|\b(?:GET|PUT|POST|DELETE) /\S*"
)
"""Parts of a text that differ between periods for the same problem: ids, seconds, calls."""


@dataclass(slots=True)
class Narrator:
    """Logs reports; ``logged`` are the present conditions, by node and key."""

    logged: dict[tuple[str, str], Condition] = field(default_factory=dict)

    def log_reports(self, reports: Iterable[Report]) -> None:
        """Log changes (INFO), new or changed conditions, and their ends (INFO).

        A condition is a WARNING, one of severity ``INFO`` is none.
        """
        now: dict[tuple[str, str], Condition] = {}
        for report in reports:
            node, level = report.node, logging.INFO if report.done else logging.DEBUG
            LOG.log(level, "Node %s: %s", node, report.sentence())
            if report.error is not None:  # the period can't end conditions
                logged = self.logged.items()
                now |= {key: each for key, each in logged if key[0] == node and key[1] != ENDED}
            now |= {(node, key): each for key, each in report.conditions().items()}
            for name, err in report.driver_errors.items():
                if (node, f"driver {name}") not in self.logged:
                    DRIVERS.debug("Driver %s", name, exc_info=err)
        for key, each in now.items():
            if key not in self.logged or _lasting(each) != _lasting(self.logged[key]):
                level = logging.INFO if each.severity is Severity.INFO else logging.WARNING
                _log_of(key).log(level, "Node %s: %s", key[0], each.sentence)
        for key in self.logged.keys() - now.keys():
            _log_of(key).info("Node %s: resolved: %s", key[0], self.logged[key])
        self.logged = now


def _log_of(key: tuple[str, str]) -> logging.Logger:
    """Return the logger of a condition: what a driver has to do with is not Placement's."""
    return DRIVERS if key[1].startswith(("driver ", "ill ")) else LOG


def _lasting(condition: Condition) -> str:
    return condition.severity + _PASSING.sub("", str(condition))
