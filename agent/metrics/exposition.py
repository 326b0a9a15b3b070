"""Where numbers and health go: a port, a unix socket, a file; whoever tells them."""

import logging
import threading
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from prometheus_client import CollectorRegistry, exposition, generate_latest

from agent.metrics.opts import MonitoringSettings
from agent.metrics.server import Answer, Pages, PageServer, over_tcp, over_unix
from agent.state import files

LOG = logging.getLogger(__name__)

TEXT = "text/plain; charset=utf-8"
EVERY = 15.0
"""Seconds between two writes of the textfile."""
READABLE = 0o644
"""node_exporter runs as somebody else, whatever our umask."""


@dataclass(slots=True)
class Exposition:
    """One process's."""

    settings: MonitoringSettings
    every: float = EVERY
    _servers: list[PageServer] = field(default_factory=list)
    _wake: threading.Event = field(default_factory=threading.Event)
    _ended: bool = False
    _unwritable: bool = False

    @property
    @abstractmethod
    def collected(self) -> CollectorRegistry:
        """All numbers."""

    @abstractmethod
    def healthz(self, _: str = "") -> Answer:
        """Whether it lives and makes progress; what it needs may be away."""

    @abstractmethod
    def readyz(self, _: str = "") -> Answer:
        """Whether all parts are well, each in a line."""

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


def said(wrong: Sequence[str], well: Sequence[str] = ()) -> Answer:
    """Well, unless something is ``wrong``."""
    status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
    return status, TEXT, "".join(f"{line}\n" for line in wrong or well).encode()
