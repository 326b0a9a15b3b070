"""Serve metrics and health on a port or a unix socket, and write metrics to a file."""

import logging
import threading
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from prometheus_client import (
    CollectorRegistry,
    disable_created_metrics,
    exposition,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric

from agent.metrics.opts import MonitoringSettings
from agent.metrics.server import Answer, Pages, PageServer, over_tcp, over_unix
from agent.reporting.reports import Check
from agent.state import files

LOG = logging.getLogger("compute_agent.service")

TEXT = "text/plain; charset=utf-8"
EVERY = 15.0
"""Seconds between two writes of the textfile."""
READABLE = 0o644
"""Mode of the textfile, whatever the umask: node_exporter runs as another user."""
SHORT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LONG = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Upper bounds of histogram buckets in seconds: SHORT for calls, LONG for periods."""
Rows = Iterable[tuple[tuple[str, ...], float | None]]
"""Label values with a number; ``None`` if it is not known."""


@dataclass(slots=True)
class Exposition:
    """The metrics of one process, served over HTTP and written to a file."""

    settings: MonitoringSettings
    _servers: list[PageServer] = field(default_factory=list)
    _wake: threading.Event = field(default_factory=threading.Event)
    _ended: bool = False
    _unwritable: bool = False
    _writing: threading.Lock = field(default_factory=threading.Lock)
    """Held while the textfile is written: by its thread, and at the end by another."""

    def __post_init__(self) -> None:
        # One more series for each counter and histogram; the library has one switch for all.
        disable_created_metrics()  # type: ignore[no-untyped-call]

    @property
    @abstractmethod
    def collected(self) -> CollectorRegistry:
        """The registry of all metrics."""

    @abstractmethod
    def checks(self) -> Sequence[Check]:
        """Return the health of each part; empty before it is known."""

    def stuck(self) -> str | None:
        """Return why the process makes no progress; ``None`` if it does."""
        return None

    def healthz(self, _: str = "") -> Answer:
        """Answer 200 if the process makes progress, whatever other services do."""
        why = self.stuck()
        return _answer([why or "ok"], well=why is None)

    def readyz(self, _: str = "") -> Answer:
        """Answer 200 if all parts are healthy, with a line for each, as ``computectl status``."""
        checks, why = self.checks(), self.stuck()
        lines = [*filter(None, [why]), *map(str, checks)]
        well = bool(checks) and why is None and all(check.ok for check in checks)
        return _answer(lines or ["no period has ended yet"], well=well)

    def start(self) -> None:
        """Start to serve and to write, in threads."""
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
        """Stop serving, and write the file once more; from then on its timestamps age."""
        self._ended = True
        self._wake.set()
        for server in self._servers:
            server.stop()
        self.write()

    def metrics(self, accept: str) -> Answer:
        """Answer with the metrics, in the format of the Accept header."""
        encode, kind = exposition.choose_encoder(accept)
        return HTTPStatus.OK, kind, encode(self.collected)

    # -- the textfile

    def write(self) -> None:
        """Write the textfile now; errors are logged once."""
        path = self.settings.textfile
        if path is None:
            return
        try:
            with self._writing:
                text = generate_latest(self.collected)
                files.replace(path, text, durable=False, mode=READABLE)
        except OSError as err:
            if not self._unwritable:
                LOG.warning("[monitoring] textfile %s can't be written: %s", path, err.strerror)
            self._unwritable = True
        else:
            self._unwritable = False

    def note(self, _: object) -> None:
        """Write the textfile soon: there are new numbers."""
        self._wake.set()

    def _write_on(self) -> None:
        while not self._ended:
            self._wake.clear()
            self.write()
            self._wake.wait(EVERY)


def _answer(lines: Iterable[str], *, well: bool) -> Answer:
    status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
    return status, TEXT, "".join(f"{line}\n" for line in lines).encode()


def gauge(name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    """Return a gauge with these values; ``name`` is its full name."""
    metric = GaugeMetricFamily(name, text, labels=labels)
    for values, number in rows:
        if number is not None:
            metric.add_metric(values, number)
    return metric
