"""Log reports: what was written, and each condition when it begins, changes and ends."""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.reporting.reports import ENDED, Report

LOG = logging.getLogger(__name__)

_PASSING = re.compile(
    r"\(request [^)]*\)|\b\d+(?:\.\d+)? ?s(?:ec(?:onds?)?)?\b|\b(?:GET|PUT|POST|DELETE) /\S*"
)
"""Parts of a text that differ between periods for the same problem: ids, seconds, calls."""


@dataclass(slots=True)
class Narrator:
    """Logs reports; ``logged`` are the texts of present conditions, by node and key."""

    logged: dict[tuple[str, str], str] = field(default_factory=dict)

    def log_reports(self, reports: Iterable[Report]) -> None:
        """Log changes (INFO), new or changed conditions (WARNING), and their ends (INFO)."""
        now: dict[tuple[str, str], str] = {}
        for report in reports:
            _log_changes(report)
            if report.error is not None:
                now.update(self._logged_of(report.node))
            conditions = report.conditions().items()
            now.update({(report.node, key): str(condition) for key, condition in conditions})
            self._log_errors(report)
        for key, text in now.items():
            if key not in self.logged or _lasting(text) != _lasting(self.logged[key]):
                LOG.warning("Node %s: %s", key[0], text)
        for key in self.logged.keys() - now.keys():
            LOG.info("Node %s: resolved: %s", key[0], self.logged[key])
        self.logged = now

    def _logged_of(self, node: str) -> dict[tuple[str, str], str]:
        """Return the node's logged conditions; a period with an error can't end them."""
        return {
            key: text for key, text in self.logged.items() if key[0] == node and key[1] != ENDED
        }

    def _log_errors(self, report: Report) -> None:
        """Log the traceback of a driver's error once, at DEBUG."""
        for name, err in report.driver_errors.items():
            if (report.node, f"driver {name}") not in self.logged:
                LOG.debug("Driver %s", name, exc_info=err)


def _lasting(text: str) -> str:
    return _PASSING.sub("", text)


def _log_changes(report: Report) -> None:
    if report.done:
        LOG.info(
            "Node %s: reported %s in %s to Placement",
            report.node,
            report.changes(),
            _calls(report),
        )
    else:
        LOG.debug("Node %s: nothing to report, %s to Placement", report.node, _calls(report))


def _calls(report: Report) -> str:
    return "1 call" if report.calls == 1 else f"{report.calls} calls"
