"""``status.json`` in the state directory: the agent's health, for ``computectl status``.

The file is replaced after each period and each switch, and when the state of the service changes.
Its schema is in ``agent/reporting/status_schema.py``.
"""

import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.reporting.health import checks, started_at
from agent.reporting.reports import Report
from agent.reporting.status_schema import (
    FILE_NAME,
    AgentStatus,
    NodeStatus,
    ServiceFacts,
    to_json,
)
from agent.state import files
from agent.switching.notices import FactsChanged, Notice
from agent.version import version

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class StatusFile:
    """Writes ``status.json``; ``well`` is when each node was last reported fully (epoch)."""

    directory: Path
    host: str
    interval: float | None
    clock: Callable[[], float]
    service: Callable[[], ServiceFacts] = ServiceFacts
    """Returns the state of the service."""
    well: dict[str, float] = field(default_factory=dict)
    unwritable: bool = False
    written: AgentStatus | None = None
    """The last status, even if it could not be written."""
    disk: Callable[[], Sequence[str]] = tuple
    """Returns why other files of ``state_path`` can't be written."""
    _reports: Sequence[Report] = ()

    def __call__(self, reports: Sequence[Report]) -> None:
        """Write the status after a period or switch."""
        now = self.clock()
        self._reports = reports
        self.well.update({report.node: now for report in reports if report.ok})
        self._write(
            AgentStatus(
                host=self.host,
                pid=os.getpid(),
                started=started_at(os.getpid()),
                updated=now,
                interval=self.interval,
                nodes=tuple(self._node(report) for report in reports),
                agent_version=version(),
                service=self.service(),
            )
        )

    def on_notice(self, notice: Notice) -> None:
        """Write the changed state of the service; that of the nodes stays as it was."""
        if isinstance(notice, FactsChanged) and self.written is not None:
            self._write(replace(self.written, service=self.service()))

    def _write(self, status: AgentStatus) -> None:
        """Write the file; errors are logged once."""
        self.written = self._checked(status, self.disk())
        try:
            data = json.dumps(to_json(self.written), indent=1).encode() + b"\n"
            files.replace(self.directory / FILE_NAME, data, durable=False)
        except OSError as err:
            if not self.unwritable:
                LOG.warning(
                    "The status can't be written to %s: %s",
                    self.directory,
                    files.describe_error(err),
                )
            self.unwritable = True
            why = f"{self.directory / FILE_NAME} can't be written: {files.describe_error(err)}"
            self.written = self._checked(status, [why, *self.disk()])
        else:
            self.unwritable = False

    def _checked(self, status: AgentStatus, disk: Sequence[str]) -> AgentStatus:
        facts = status.service or ServiceFacts()
        return replace(status, checks=checks(self._reports, facts, disk))

    def _node(self, report: Report) -> NodeStatus:
        return NodeStatus(
            node=report.node,
            ok=report.ok,
            last_ok=self.well.get(report.node),
            occasion=report.occasion.value,
            seconds=round(report.seconds, 3),
            calls=report.calls,
            changes=report.changes(),
            took={name: round(seconds, 5) for name, seconds in report.took.items()},
            conditions=tuple(report.conditions().values()),
            reshape_pending=report.reshape_pending,
        )
