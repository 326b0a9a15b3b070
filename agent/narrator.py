"""Turn reports into log lines: what changed, and each trouble once when it comes and goes."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.report import Report

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Narrator:
    """Remembers which troubles were told."""

    told: dict[tuple[str, str], str] = field(default_factory=dict)

    def tell(self, reports: Iterable[Report]) -> None:
        """One INFO line per root that changed; a warning per new trouble; INFO when it is over."""
        now: dict[tuple[str, str], str] = {}
        for report in reports:
            _tell_changes(report)
            now.update({(report.node, key): text for key, text in report.complaints().items()})
            self._tell_errors(report)
        for key in now.keys() - self.told.keys():
            LOG.warning("Node %s: %s", key[0], now[key])
        for key in self.told.keys() - now.keys():
            LOG.info("Node %s: over: %s", key[0], self.told[key])
        self.told = now

    def _tell_errors(self, report: Report) -> None:
        """The traceback of a driver's error, once; an operator may not need it, its author does."""
        for name, err in report.driver_errors.items():
            if (report.node, f"driver {name}") not in self.told:
                LOG.debug("Driver %s", name, exc_info=err)


def _tell_changes(report: Report) -> None:
    if report.done:
        LOG.info(
            "Node %s: reported %s in %d calls to Placement",
            report.node,
            report.changes(),
            report.calls,
        )
    else:
        LOG.debug("Node %s: nothing to report, %d calls to Placement", report.node, report.calls)
