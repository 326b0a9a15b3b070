"""The running service: its drivers opened and closed, its periods told to whoever listens."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent.narrator import Narrator
from agent.nodes import Nodes
from agent.report import Report
from agent.systemd import Systemd
from drivers.errors import DriverError, DriverNotReady
from drivers.loader import LoadedDriver

LOG = logging.getLogger(__name__)

Listener = Callable[[Sequence[Report]], None]


@dataclass(slots=True)
class Service:
    """All roots of this host, period by period."""

    host: str
    nodes: Nodes
    systemd: Systemd
    stop: Callable[[], bool]
    clock: Callable[[], float] = time.monotonic
    narrator: Narrator = field(default_factory=Narrator)
    listeners: list[Listener] = field(default_factory=list)
    _ready: bool = False

    def open(self) -> None:
        """Let the drivers open what they need.

        :raises DriverError: one of them can't; DriverNotReady if it may later.
        """
        for loaded in self.nodes.drivers:
            if loaded.lifecycle is not None:
                _open(loaded, self.host)

    def close(self) -> None:
        """Let the drivers close what they opened; what fails is logged."""
        for loaded in self.nodes.drivers:
            if loaded.lifecycle is not None:
                try:
                    loaded.lifecycle.cleanup_host(self.host)
                except Exception:
                    LOG.exception("Driver %s could not clean up", loaded.name)

    def period(self) -> bool:
        """One period of every root; whether everything was reported.

        :raises Exception: what must not go on until somebody has looked.
        """
        self.systemd.feed()
        reports = self.nodes.period(self.clock(), stop=self.stop)
        self.narrator.tell(reports)
        for listener in self.listeners:
            listener(reports)
        self._tell_systemd(_status(reports))
        for report in reports:
            if report.fatal and report.error is not None:
                raise report.error
        return all(report.ok for report in reports)

    def ready_anyway(self, why: str) -> None:
        """Tell systemd that the service is up, before a first period was done."""
        if not self._ready:
            self._tell_systemd(why)

    def _tell_systemd(self, status: str) -> None:
        if self._ready:
            self.systemd.status(status)
        else:
            self.systemd.ready(status)
            self._ready = True


def _open(loaded: LoadedDriver, host: str) -> None:
    assert loaded.lifecycle is not None
    try:
        loaded.lifecycle.init_host(host)
    except DriverError:
        raise
    except Exception as err:
        LOG.debug("Driver %s", loaded.name, exc_info=True)
        raise DriverNotReady(f"driver {loaded.name} could not start: {err}") from err


def _status(reports: Sequence[Report]) -> str:
    """One line for ``systemctl status``."""
    wrong = [text for report in reports for text in report.complaints().values()]
    if wrong:
        return f"degraded: {wrong[0]}" + (f" (and {len(wrong) - 1} more)" if wrong[1:] else "")
    return f"{len(reports)} node{'s' if len(reports) != 1 else ''} reported to Placement"
