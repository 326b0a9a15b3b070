"""``status.json`` in the state directory: how the agent is, for ``computectl status``.

Replaced as a whole after each period and each switch, and when what it says of the service
changes.  What it says: ``agent/reporting/status_schema.py``.
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
    """A listener of the service; remembers when each node was last well."""

    directory: Path
    host: str
    interval: float | None
    clock: Callable[[], float]
    service: Callable[[], ServiceFacts] = ServiceFacts
    """What is to be said about the service as such."""
    well: dict[str, float] = field(default_factory=dict)
    unwritable: bool = False
    written: AgentStatus | None = None
    """What was said last, also where it can't be written."""
    disk: Callable[[], Sequence[str]] = tuple
    """Why other files of ``state_path`` can't be written."""
    _reports: Sequence[Report] = ()

    def __call__(self, reports: Sequence[Report]) -> None:
        """Write how this period went."""
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

    def hear(self, notice: Notice) -> None:
        """Write what is otherwise with the service as such; the last period stays as it was."""
        if isinstance(notice, FactsChanged) and self.written is not None:
            self._write(replace(self.written, service=self.service()))

    def _write(self, status: AgentStatus) -> None:
        """A full disk is logged once and stops nothing."""
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
