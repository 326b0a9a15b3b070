"""Numbers and health, put together: who tells them, and where they go."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path

from prometheus_client import ProcessCollector, exposition, generate_latest

from agent.loop import Loop
from agent.metrics.calls import Measured
from agent.metrics.facts import Facts
from agent.metrics.numbers import PREFIX, Numbers
from agent.metrics.opts import MonitoringSettings
from agent.metrics.server import Answer, Pages, PageServer, over_tcp, over_unix
from agent.service import Service
from agent.state import files
from agent.switching.host_status import HostStatus
from agent.told.health import stuck
from agent.told.reports import Report
from agent.told.status_schema import AgentStatus
from drivers.loader import LoadedDriver
from reportclient.http import API

LOG = logging.getLogger(__name__)

TEXT = "text/plain; charset=utf-8"
EVERY = 15.0
"""Seconds between two writes of the textfile."""
READABLE = 0o644
"""node_exporter runs as somebody else, whatever our umask."""
STARTING = "no period was done yet"


@dataclass(slots=True)
class Monitoring:
    """One agent's; made before the parts that it listens to."""

    settings: MonitoringSettings
    numbers: Numbers = field(default_factory=Numbers)
    clock: Callable[[], float] = time.time
    every: float = EVERY
    _status: Callable[[], AgentStatus | None] = lambda: None
    _servers: list[PageServer] = field(default_factory=list)
    _wake: threading.Event = field(default_factory=threading.Event)
    _ended: bool = False
    _unwritable: bool = False

    def measured(self, api: API) -> API:
        """The same API to Placement; its calls are counted."""
        return Measured(api, self.numbers.placement_called)

    def listen(
        self,
        service: Service,
        host: HostStatus,
        loop: Loop,
        status: Callable[[], AgentStatus | None],
    ) -> None:
        """From now on all of them are heard; ``status`` is what ``status.json`` says."""
        self._status = status
        service.listeners.append(self.numbers)
        host.subscribe(self.numbers.hear)
        self._hear_drivers(service.nodes.drivers)
        self.numbers.registry.register(Facts(status, service.nodes, loop))
        ProcessCollector(namespace=PREFIX, registry=self.numbers.registry)
        if self.settings.textfile is not None:
            service.listeners.append(self._note)

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
        """What is written last stays: its timestamps grow old, which alerts look at."""
        self._ended = True
        self._wake.set()
        for server in self._servers:
            server.stop()
        if self.settings.socket is not None:
            self.settings.socket.unlink(missing_ok=True)
        self.write()

    # -- pages

    def metrics(self, accept: str) -> Answer:
        """In the format that the client prefers."""
        encode, kind = exposition.choose_encoder(accept)
        return HTTPStatus.OK, kind, encode(self.numbers.registry)

    def healthz(self, _: str = "") -> Answer:
        """Whether it lives and makes progress; what it reports to may be away."""
        status = self._status()
        why = stuck(status.updated, status.interval, self.clock()) if status is not None else None
        return _said([why] if why else [], ["ok"])

    def readyz(self, _: str = "") -> Answer:
        """Whether all parts are well, each in a line: what ``computectl status`` says."""
        status = self._status()
        if status is None:
            return _said([STARTING])
        why = stuck(status.updated, status.interval, self.clock())
        lines = [str(one) for one in status.checks]
        wrong = [*([why] if why else []), *(str(one) for one in status.checks if not one.ok)]
        return _said([why, *lines] if why else lines if wrong else [], lines)

    # -- the textfile

    def write(self) -> None:
        """Now; a disk that is full is logged once."""
        path = self.settings.textfile
        if path is None:
            return
        try:
            self._replace(path)
        except OSError as err:
            if not self._unwritable:
                LOG.warning("[monitoring] textfile %s can't be written: %s", path, err.strerror)
            self._unwritable = True
        else:
            self._unwritable = False

    def _replace(self, path: Path) -> None:
        files.replace(path, generate_latest(self.numbers.registry), durable=False, mode=READABLE)

    def _note(self, _: Sequence[Report]) -> None:
        self._wake.set()

    def _write_on(self) -> None:
        while not self._ended:
            self._wake.clear()
            self.write()
            self._wake.wait(self.every)

    def _hear_drivers(self, drivers: Iterable[LoadedDriver]) -> None:
        for loaded in drivers:
            loaded.calls.told = partial(self.numbers.driver_called, loaded.name)


def _said(wrong: Sequence[str], well: Sequence[str] = ()) -> Answer:
    status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
    return status, TEXT, "".join(f"{line}\n" for line in wrong or well).encode()
