"""/metrics, /healthz and /readyz, on a loopback port or a unix socket.

A port that another program has, or a directory that is not there, keeps no agent from
reporting: it is said in the log, and tried again.
"""

import logging
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from socketserver import BaseServer, UnixStreamServer
from socketserver import TCPServer as TcpServer
from typing import Any

LOG = logging.getLogger(__name__)

AGAIN = 10.0
"""Seconds until a port or path that could not be had is tried again."""
PATIENCE = 10
"""Seconds for one request: who connects and says nothing shall keep no thread."""
AT_ONCE = 8
"""Connections at the same time."""
SOCKET_MODE = 0o660

Answer = tuple[HTTPStatus, str, bytes]
"""Status, content type, body."""
Pages = Mapping[str, Callable[[str], Answer]]
"""By path; each gets what the client accepts."""


@dataclass(slots=True)
class PageServer:
    """Serves pages from threads of its own until :meth:`stop`."""

    where: str
    option: str
    """The option that says where."""
    make: Callable[[], BaseServer]
    again: float = AGAIN
    ended: threading.Event = field(default_factory=threading.Event)
    """Set once the server is to stop."""
    _server: BaseServer | None = None
    """The one that serves, or is about to: no other can be told to end."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Return at once."""
        threading.Thread(target=self._run, name="metrics", daemon=True).start()

    def stop(self) -> None:
        """Take no more requests."""
        with self._lock:
            self.ended.set()
            server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def _run(self) -> None:
        said = ""
        while not self.ended.is_set():
            try:
                server = self.make()
            except OSError as err:
                why = err.strerror or str(err)
                if why != said:
                    LOG.warning(
                        "Metrics and health can't be served at %s: %s ([monitoring] %s); retrying",
                        self.where,
                        why,
                        self.option,
                    )
                said = why
                self.ended.wait(self.again)
                continue
            with self._lock:
                if self.ended.is_set():
                    server.server_close()
                    return
                self._server = server
            LOG.info("Metrics and health at %s", self.where)
            server.serve_forever()
            return


def over_tcp(address: str, port: int, pages: Pages) -> PageServer:
    """On a loopback address."""

    def make() -> BaseServer:
        return _Tcp((address, port), _handler(pages))

    shown = f"[{address}]" if ":" in address else address
    return PageServer(f"http://{shown}:{port}/metrics", "listen_port", make)


def over_unix(path: Path, pages: Pages) -> PageServer:
    """On a unix socket; the one that an agent left there before is replaced."""

    def make() -> BaseServer:
        with suppress(FileNotFoundError):
            _refuse_others(path)
            path.unlink()
        return UnixServer(str(path), _handler(pages))

    return PageServer(str(path), "listen_socket", make)


def _refuse_others(path: Path) -> None:
    """:raises OSError: there is no socket of an agent that has ended, but something else."""
    if not path.is_socket() and path.exists():
        raise FileExistsError(17, "exists, and is not a socket")
    with socket.socket(socket.AF_UNIX) as probe, suppress(ConnectionRefusedError):
        probe.settimeout(PATIENCE)
        probe.connect(str(path))
        raise FileExistsError(17, "another process listens there")


class _Threads(BaseServer):
    """At most ``AT_ONCE`` connections, each with a thread: a further one ends the oldest, so that
    connections on which nothing is asked keep nobody from asking.
    """

    def __init__(self, *args: Any) -> None:
        self._free = threading.Semaphore(AT_ONCE)
        self._connections: dict[Any, None] = {}
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            for oldest in list(self._connections)[:1]:
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._free.acquire()
        self._connections[request] = None
        serve = threading.Thread(target=self._serve, args=[request, client_address], daemon=True)
        serve.start()

    def _serve(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001  of one request
            self.handle_error(request, client_address)
        finally:
            self._connections.pop(request, None)
            self.shutdown_request(request)
            self._free.release()

    def handle_error(self, *_: Any) -> None:
        """Whoever goes away in the middle is no news."""
        LOG.debug("A request for metrics failed: %s", sys.exception())


class _Tcp(_Threads, TcpServer):
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        if ip_address(address[0]).version == 6:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)


class UnixServer(_Threads, UnixStreamServer):
    """On a socket in the file system, for one group."""

    bound = False

    def server_bind(self) -> None:
        """For who shares the group: an exporter, a proxy."""
        super().server_bind()
        self.bound = True
        Path(str(self.server_address)).chmod(SOCKET_MODE)

    def server_close(self) -> None:
        """With its path, where that is this server's: it is closed as well if it had none."""
        if self.bound:
            Path(str(self.server_address)).unlink(missing_ok=True)
        super().server_close()


def _handler(pages: Pages) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE
        server_version = "compute-agent"
        sys_version = ""

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            if page is None:
                self.send_error(HTTPStatus.NOT_FOUND, explain=f"There are {', '.join(pages)}.")
                return
            try:
                status, kind, body = page(self.headers.get("Accept", ""))
            except Exception:
                LOG.exception("%s %s", self.command, self.path.partition("?")[0])
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain="The log has all of it.")
                return
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815  likewise

        def address_string(self) -> str:
            return "-"  # a unix socket has none

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  likewise
            LOG.debug(format, *args)

    return Handler
