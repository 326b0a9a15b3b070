"""Serve metrics and health on a port, and write metrics to a file.

If the port is taken, that is logged and retried within 10 s; the agent reports to Placement
meanwhile.
"""

import logging
import sys
import threading
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from socket import AF_INET6
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication

from prometheus_client import (
    CollectorRegistry,
    disable_created_metrics,
    generate_latest,
    make_wsgi_app,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import ThreadingWSGIServer

from agent.opts import MonitoringSettings
from agent.retrying import until_it_works
from agent.state import files
from agent.threads import keep_running

LOG = logging.getLogger("compute_agent.service")

OK, UNHEALTHY, NOT_FOUND = "200 OK", "503 Service Unavailable", "404 Not Found"
HEADERS = [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")]
LONGEST_PAUSE = 10.0
"""Seconds until a port that could not be opened is tried again, at most."""
LOOKS_EVERY = 0.5
"""Seconds without a request after which the server looks whether it is to stop."""
EVERY = 15.0
"""Seconds between two writes of the textfile."""
READABLE = 0o644
"""Mode of the textfile, whatever the umask: node_exporter runs as another user."""
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Upper bounds of histogram buckets in seconds."""
Answer = tuple[str, list[str]]
"""The status of a page of health, and its lines."""
Rows = Iterable[tuple[tuple[str, ...], float | None]]
"""Label values with a number; ``None`` if it is not known."""


class Server(ThreadingWSGIServer):
    """prometheus_client's server; what ends a connection early is logged at DEBUG."""

    def handle_error(self, *_: Any) -> None:
        """See :class:`socketserver.BaseServer`."""
        LOG.debug("A request for metrics failed: %s", sys.exception())


class ServerOverIPv6(Server):
    """The server of metrics on an IPv6 address."""

    address_family = AF_INET6


class Requests(WSGIRequestHandler):
    """Requests that are logged at DEBUG only."""

    timeout = 10
    """Seconds until a silent connection is closed."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """See :class:`http.server.BaseHTTPRequestHandler`."""
        LOG.debug(format, *args)


@dataclass(slots=True, eq=False)
class Exposition:
    """The metrics of one process, served over HTTP and written to a file."""

    settings: MonitoringSettings
    _ended: threading.Event = field(default_factory=threading.Event)
    _wake: threading.Event = field(default_factory=threading.Event)
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
    def checks(self) -> Mapping[str, str]:
        """Return what is wrong with each part, empty texts where nothing is; empty if unknown."""

    def stuck(self) -> str | None:
        """Return why the process makes no progress; ``None`` if it does."""
        return None

    def healthz(self) -> Answer:
        """Answer 200 if the process makes progress, whatever other services do."""
        why = self.stuck()
        return OK if why is None else UNHEALTHY, [why or "ok"]

    def readyz(self) -> Answer:
        """Answer 200 if all parts are healthy, with a line for each, as ``computectl status``."""
        checks, why = self.checks(), self.stuck()
        lines = [*filter(None, [why]), *(f"{name}: {it or 'ok'}" for name, it in checks.items())]
        well = bool(checks) and why is None and not any(checks.values())
        return OK if well else UNHEALTHY, lines or ["no period has ended yet"]

    def start(self) -> None:
        """Start to serve and to write, in threads.

        :raises agent.threads.NoThread: no thread can be started.
        """
        if self.settings.port:
            keep_running(self._serve, "metrics", self._ended)
        if self.settings.textfile is not None:
            keep_running(self._write_on, "textfile", self._ended)

    def stop(self) -> None:
        """Stop serving, and write the file once more; from then on its timestamps age."""
        self._ended.set()
        self._wake.set()
        self.write()

    def _serve(self) -> None:
        address, port = self.settings.listen, self.settings.port
        where = f"http://{f'[{address}]' if ':' in address else address}:{port}/metrics"
        text = "Metrics and health can't be served at %s ([monitoring] listen_port), retrying: %s"
        log = partial(LOG.warning, text, where)
        server = until_it_works(self._listen, self._ended, log, LONGEST_PAUSE, OSError)
        if server is not None:
            LOG.info("Metrics and health at %s", where)
            server.timeout = LOOKS_EVERY
            with server:
                while not self._ended.is_set():
                    server.handle_request()

    def _listen(self) -> WSGIServer:
        address, port = self.settings.listen, self.settings.port
        kind = ServerOverIPv6 if ":" in address else Server
        # Not start_wsgi_server: it would answer a probe that is early with metrics.
        return make_server(
            address, port, self._with_health(make_wsgi_app(self.collected)), kind, Requests
        )

    def _with_health(self, metrics: Any) -> WSGIApplication:
        """Return an application with the pages of health beside those of ``metrics``."""
        pages = {"/healthz": self.healthz, "/readyz": self.readyz}

        def application(environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
            path = environ["PATH_INFO"]
            if path == "/metrics":
                answer: Iterable[bytes] = metrics(environ, start)
                return answer
            page = pages.get(path)
            status, lines = page() if page else (NOT_FOUND, ["/metrics, /healthz, /readyz"])
            start(status, [*HEADERS])  # wsgiref adds to it
            return ["".join(f"{line}\n" for line in lines).encode()]

        return application

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
        while not self._ended.is_set():
            self._wake.clear()
            self.write()
            self._wake.wait(EVERY)


def gauge(name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    """Return a gauge with these values; ``name`` is its full name."""
    metric = GaugeMetricFamily(name, text, labels=labels)
    for values, number in rows:
        if number is not None:
            metric.add_metric(values, number)
    return metric
