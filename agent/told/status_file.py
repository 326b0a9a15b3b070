"""``status.json`` in the state directory: how the agent is, for ``computectl status``.

Replaced as a whole after each period, and when what it says of the service changes.  Times
are seconds since the epoch.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.state import files
from agent.switching.host_status import FactsChanged, Notice
from agent.told.reports import Report
from agent.version import version

LOG = logging.getLogger(__name__)

FILE_NAME = "status.json"
VERSION = 1
SERVING, NO_RPC = "serving", "none"
"""How the service's calls over RPC are when all is well."""
ENDED = -1
"""In place of a start: nothing that runs has it."""
_DEAD = frozenset("ZX")


@dataclass(slots=True)
class StatusFile:
    """A listener of the service; remembers when each node was last well."""

    directory: Path
    host: str
    interval: float | None
    clock: Callable[[], float]
    service: Callable[[], dict[str, Any]] = dict
    """What is to be said about the service as such."""
    well: dict[str, float] = field(default_factory=dict)
    unwritable: bool = False
    written: dict[str, Any] = field(default_factory=dict)

    def __call__(self, reports: Sequence[Report]) -> None:
        """Write how this period went."""
        now = self.clock()
        self.well.update({report.node: now for report in reports if report.ok})
        self.written = {
            "version": VERSION,
            "agent_version": version(),
            "host": self.host,
            "pid": os.getpid(),
            "started": started_at(os.getpid()),
            "updated": now,
            "interval": self.interval,
            "service": self.service(),
            "nodes": [self._node(report) for report in reports],
        }
        self._write()

    def hear(self, notice: Notice) -> None:
        """Write what is otherwise with the service as such; the last period stays as it was."""
        if isinstance(notice, FactsChanged) and self.written:
            self.written["service"] = self.service()
            self._write()

    def _write(self) -> None:
        """A full disk is logged once and stops nothing."""
        try:
            data = json.dumps(self.written, indent=1).encode() + b"\n"
            files.replace(self.directory / FILE_NAME, data, durable=False)
        except OSError as err:
            if not self.unwritable:
                LOG.warning("The status can't be written to %s: %s", self.directory, err)
            self.unwritable = True
        else:
            self.unwritable = False

    def _node(self, report: Report) -> dict[str, Any]:
        return {
            "node": report.node,
            "ok": report.ok,
            "last_ok": self.well.get(report.node),
            "calls": report.calls,
            "changes": report.changes(),
            "took": {name: round(seconds, 5) for name, seconds in report.took.items()},
            "complaints": list(report.wrong().values()),
            "draining": report.drains(),
            "reshape_pending": list(report.reshape_pending),
        }


def started_at(pid: int) -> int | None:
    """When this process began, in clock ticks since boot: with the pid, it is nobody else's.

    ``None`` if that can't be read, ``ENDED`` if it ended and nobody has taken note yet.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The second field is the program's name, and may hold spaces and parentheses.
        fields = text.rpartition(")")[2].split()
        return ENDED if fields[0] in _DEAD else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
