"""/metrics, /healthz and /readyz, on a loopback port or a unix socket.

If the port is taken or the directory is missing, that is logged and retried within 10 s; the agent
reports to Placement meanwhile.
"""

import logging
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from socketserver import BaseServer, UnixStreamServer
from socketserver import TCPServer as TcpServer
from typing import Any

from agent.retrying import until_it_works

LOG = logging.getLogger("compute_agent.service")

LONGEST_PAUSE = 10.0
"""Seconds until a port or path that could not be opened is tried again, at most."""
PATIENCE = 10
"""Seconds until a silent connection is closed."""
AT_ONCE = 8
"""Most connections at the same time."""
SOCKET_MODE = 0o660

Answer = tuple[HTTPStatus, str, bytes]
"""Status, content type, body."""
Pages = Mapping[str, Callable[[str], Answer]]
"""Functions by path; their argument is the request's Accept header."""


@dataclass(slots=True)
class PageServer:
    """Serves pages from threads of its own until :meth:`stop`."""

    where: str
    """URL or path, for the log."""
    option: str
    """Name of the option that sets it."""
    make: Callable[[], BaseServer]
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when the server has to stop."""
    _server: BaseServer | None = None
    """The server that :meth:`stop` has to shut down."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Start to serve, in a thread."""
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
        text = "Metrics and health can't be served at %s ([monitoring] %s), retrying: %s"
        log = partial(LOG.warning, text, self.where, self.option)
        server = until_it_works(self.make, self.ended, log, LONGEST_PAUSE, OSError)
        if server is None:
            return
        with self._lock:
            if self.ended.is_set():
                server.server_close()
                return
            self._server = server
        LOG.info("Metrics and health at %s", self.where)
        server.serve_forever()


def over_tcp(address: str, port: int, pages: Pages) -> PageServer:
    """Return a server on a loopback address."""

    def make() -> BaseServer:
        return _Tcp((address, port), _handler(pages))

    shown = f"[{address}]" if ":" in address else address
    return PageServer(f"http://{shown}:{port}/metrics", "listen_port", make)


def over_unix(path: Path, pages: Pages) -> PageServer:
    """Return a server on a unix socket; a socket that an ended agent left is replaced."""

    def make() -> BaseServer:
        if path.exists() and not path.is_socket():
            raise FileExistsError(17, "exists, and is not a socket")
        with socket.socket(socket.AF_UNIX) as probe, suppress(FileNotFoundError):
            probe.settimeout(PATIENCE)
            with suppress(ConnectionRefusedError):
                probe.connect(str(path))
                raise FileExistsError(17, "another process listens on it")
            path.unlink()
        return UnixServer(str(path), _handler(pages))

    return PageServer(str(path), "listen_socket", make)


class _Threads(BaseServer):
    """Serves at most ``AT_ONCE`` connections, each in a thread.

    A further one closes the oldest, so that idle connections do not block new ones.
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
        """Log at DEBUG only: mostly a client that disconnected."""
        LOG.debug("A request for metrics failed: %s", sys.exception())


class _Tcp(_Threads, TcpServer):
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        if ip_address(address[0]).version == 6:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)


class UnixServer(_Threads, UnixStreamServer):
    """A server on a unix socket that its group may use."""

    bound = False

    def server_bind(self) -> None:
        """Bind, and set the mode: the group is for an exporter or a proxy."""
        super().server_bind()
        self.bound = True
        Path(str(self.server_address)).chmod(SOCKET_MODE)

    def server_close(self) -> None:
        """Close, and remove the path if this server has bound it."""
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
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain="See the log.")
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
