"""Where numbers and health go: a port, a unix socket, a file; whoever tells them."""

import logging
import threading
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from prometheus_client import CollectorRegistry, exposition, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from agent.metrics.opts import MonitoringSettings
from agent.metrics.server import Answer, Pages, PageServer, over_tcp, over_unix
from agent.reporting.conditions import Check
from agent.state import files

LOG = logging.getLogger(__name__)

TEXT = "text/plain; charset=utf-8"
EVERY = 15.0
"""Seconds between two writes of the textfile."""
READABLE = 0o644
"""node_exporter runs as somebody else, whatever our umask."""
SHORT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LONG = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Upper bounds of the buckets, in seconds: of a call, and of a period."""
STARTING = "no period was done yet"
Rows = Iterable[tuple[tuple[str, ...], float | None]]
"""Values by their labels; ``None``: not known."""


@dataclass(slots=True)
class Exposition:
    """The metrics of one process, served over HTTP and written to a file."""

    settings: MonitoringSettings
    every: float = EVERY
    _servers: list[PageServer] = field(default_factory=list)
    _wake: threading.Event = field(default_factory=threading.Event)
    _ended: bool = False
    _unwritable: bool = False
    _writing: threading.Lock = field(default_factory=threading.Lock)
    """The textfile is written by its thread, and at the end."""

    @property
    @abstractmethod
    def collected(self) -> CollectorRegistry:
        """All numbers."""

    @abstractmethod
    def checks(self) -> Sequence[Check]:
        """How each part is; empty before that can be told."""

    def stuck(self) -> str | None:
        """Why it makes no progress; ``None`` where it does."""
        return None

    def healthz(self, _: str = "") -> Answer:
        """Whether it lives and makes progress; what it needs may be away."""
        why = self.stuck()
        return _answer([why or "ok"], well=why is None)

    def readyz(self, _: str = "") -> Answer:
        """Whether all parts are well, each in a line: what ``computectl status`` says."""
        checks, why = self.checks(), self.stuck()
        lines = [*filter(None, [why]), *map(str, checks)]
        well = bool(checks) and why is None and all(one.ok for one in checks)
        return _answer(lines or [STARTING], well=well)

    def start(self) -> None:
        """Serve, and write; returns at once."""
        pages: Pages = {"/metrics": self.metrics, "/healthz": self.healthz, "/readyz": self.readyz}
        if self.settings.port:
            self._servers.append(over_tcp(self.settings.listen, self.settings.port, pages))
        if self.settings.socket is not None:
            self._servers.append(over_unix(self.settings.socket, pages))
        for server in self._servers:
            server.start()
        if self.settings.textfile is not None:
            threading.Thread(target=self._write_on, name="textfile", daemon=True).start()

    def stop(self) -> None:
        """Stop serving, and write the file once more: its timestamps then grow old."""
        self._ended = True
        self._wake.set()
        for server in self._servers:
            server.stop()
        self.write()

    def metrics(self, accept: str) -> Answer:
        """In the format that the client prefers."""
        encode, kind = exposition.choose_encoder(accept)
        return HTTPStatus.OK, kind, encode(self.collected)

    # -- the textfile

    def write(self) -> None:
        """Now; a disk that is full is logged once."""
        path = self.settings.textfile
        if path is None:
            return
        try:
            with self._writing:
                self._replace(path)
        except OSError as err:
            if not self._unwritable:
                LOG.warning("[monitoring] textfile %s can't be written: %s", path, err.strerror)
            self._unwritable = True
        else:
            self._unwritable = False

    def _replace(self, path: Path) -> None:
        files.replace(path, generate_latest(self.collected), durable=False, mode=READABLE)

    def note(self, _: object) -> None:
        """There are new numbers: they are written soon."""
        self._wake.set()

    def _write_on(self) -> None:
        while not self._ended:
            self._wake.clear()
            self.write()
            self._wake.wait(self.every)


def _answer(lines: Iterable[str], *, well: bool) -> Answer:
    status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
    return status, TEXT, "".join(f"{line}\n" for line in lines).encode()


def gauge(name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    """Return a gauge of values read just now; ``name`` is its full name."""
    made = GaugeMetricFamily(name, text, labels=labels)
    for values, number in rows:
        if number is not None:
            made.add_metric(values, number)
    return made
