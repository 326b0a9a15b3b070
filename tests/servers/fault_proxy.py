"""A proxy between the agent and a real Placement that does harm where a test says so.

    with FaultProxy(placement.port) as proxy:
        proxy.harm("POST", "/reshaper", lost_reply)
        …  # the agent talks to proxy.url

A fault is a function of one exchange; it decides whether the request is forwarded and
what, if anything, comes back.  Everything that no fault meets passes unchanged.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers.ports import free_port

REQUEST_ID = "req-00000000-0000-4000-8000-00000000fa17"
"""What answers that the proxy makes up call themselves."""

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Cut(Exception):
    """The connection ends here, with a reset."""


@dataclass
class Exchange:
    """One request while a fault has it."""

    method: str
    path: str
    handler: BaseHTTPRequestHandler
    body: bytes
    proxy: FaultProxy
    up: http.client.HTTPConnection

    def forward(self) -> Reply:
        """Let Placement do it."""
        headers = {k: v for k, v in self.handler.headers.items() if k.lower() not in _HOP_BY_HOP}
        headers["X-Auth-Token"] = "admin"  # whatever a test's Keystone gave out
        self.up.request(self.method, self.path, self.body or None, headers)
        response = self.up.getresponse()
        kept = {k: v for k, v in response.getheaders() if k.lower() not in _HOP_BY_HOP}
        return Reply(response.status, response.read(), kept)

    def send(self, reply: Reply, *, only: int | None = None) -> None:
        """Answer; ``only`` so many bytes of the body, though all are announced."""
        handler = self.handler
        handler.send_response_only(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        if reply.status != 204:
            handler.send_header("Content-Length", str(len(reply.body)))
        handler.end_headers()
        handler.wfile.write(reply.body[:only])

    def drip(self, reply: Reply, seconds: float) -> None:
        """Answer byte by byte, one every ``seconds``."""
        self.send(reply, only=0)
        for byte in reply.body:
            self.handler.wfile.write(bytes([byte]))
            self.hold(seconds)

    def hold(self, seconds: float) -> None:
        """Let the client wait; ends early with the proxy."""
        self.proxy.closing.wait(seconds)


Fault = Callable[[Exchange], None]


@dataclass
class Harm:
    method: str
    path: re.Pattern[str]
    fault: Fault
    times: int

    def meets(self, method: str, path: str) -> bool:
        return self.times > 0 and method == self.method and bool(self.path.search(path))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    proxy: FaultProxy

    def shutdown_request(self, request: Any) -> None:
        request.close()  # no FIN before it: a reset stays a reset

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is no news here."""


class FaultProxy:
    """``upstream`` is the port of Placement.  ``seen`` are the requests, harmed or not."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.port = 0
        self.seen: list[tuple[str, str]] = []
        self.closing = threading.Event()
        self._harms: list[Harm] = []
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._links: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def harm(self, method: str, path: str, fault: Fault, times: int = 1) -> Harm:
        """Do ``fault`` to the next ``times`` requests whose path matches the expression."""
        self._harms.append(Harm(method, re.compile(path), fault, times))
        return self._harms[-1]

    def will_hold(self, method: str, path: str) -> bool:
        """Whether this request, if it is the next, waits for longer than any client should."""
        harm = next((h for h in self._harms if h.meets(method, path)), None)
        return harm is not None and hasattr(harm.fault, "holds")

    def heal(self) -> None:
        """No more faults; listens again if it had stopped."""
        self._harms.clear()
        self.listen()

    def listen(self) -> None:
        """Take connections, on the same port as before."""
        if self._server is not None:
            return
        self.closing.clear()
        self.port = self.port or free_port()
        server = _Server(("127.0.0.1", self.port), _Handler)
        server.proxy = self
        self._server = server
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def refuse(self) -> None:
        """Close the listener and all connections: from now on connections are refused."""
        server, self._server = self._server, None
        if server is None:
            return
        server.shutdown()
        server.server_close()
        self.closing.set()
        with self._lock:
            links = list(self._links)
        for link in links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> FaultProxy:
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()

    def fault_for(self, method: str, path: str) -> Fault | None:
        """What to do to this request; it counts."""
        with self._lock:
            self.seen.append((method, path))
            harm = next((h for h in self._harms if h.meets(method, path)), None)
            if harm is None:
                return None
            harm.times -= 1
            return harm.fault

    @contextmanager
    def linked(self, link: socket.socket) -> Iterator[None]:
        """Know a connection while it lasts."""
        with self._lock:
            self._links.add(link)
        try:
            yield
        finally:
            with self._lock:
                self._links.discard(link)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def handle(self) -> None:
        proxy = self.server.proxy
        upstream = http.client.HTTPConnection("127.0.0.1", proxy.upstream, timeout=60)
        with proxy.linked(self.connection), closing(upstream) as self.up:
            with contextlib.suppress(ConnectionError):
                super().handle()

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy = self.server.proxy
        exchange = Exchange(self.command, self.path, self, body, proxy, self.up)
        fault = proxy.fault_for(self.command, self.path) or passed
        try:
            fault(exchange)
        except Cut:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
        except ConnectionError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


# -- faults


def passed(exchange: Exchange) -> None:
    """None at all."""
    exchange.send(exchange.forward())


def reset_before(exchange: Exchange) -> None:
    """The request never reached Placement."""
    raise Cut


def lost_reply(exchange: Exchange) -> None:
    """Placement did it, and nobody heard."""
    exchange.forward()
    raise Cut


def reset_mid_reply(exchange: Exchange) -> None:
    """The connection ends in the middle of the body, or of the headers where there is none."""
    reply = exchange.forward()
    if reply.body:
        exchange.send(reply, only=len(reply.body) // 2)
    else:
        exchange.handler.wfile.write(b"HTTP/1.1 20")
    exchange.hold(0.02)  # let the client read what came
    raise Cut


def gone_away(exchange: Exchange) -> None:
    """The connection ends, and new ones are refused until the proxy is healed."""
    threading.Thread(target=exchange.proxy.refuse, daemon=True).start()
    exchange.hold(5)  # until it no longer listens
    raise Cut


def held(seconds: float, *, done: bool = False) -> Fault:
    """No answer for so long; nothing is done, or all is (``done``)."""

    def fault(exchange: Exchange) -> None:
        if done:
            exchange.forward()
        exchange.hold(seconds)
        raise Cut

    fault.holds = True
    return fault


def dripping(seconds: float) -> Fault:
    """The right answer, one byte every ``seconds``."""

    def fault(exchange: Exchange) -> None:
        exchange.drip(exchange.forward(), seconds)

    return fault


def answered(reply: Reply) -> Fault:
    """Something in between answered; Placement was not asked."""

    def fault(exchange: Exchange) -> None:
        exchange.send(reply)

    return fault


def done_and_answered(body: Callable[[bytes], bytes], **headers: str) -> Fault:
    """Placement did it; its answer came through damaged, with status 200."""

    def fault(exchange: Exchange) -> None:
        exchange.send(Reply(200, body(exchange.forward().body), dict(headers)))

    return fault


# -- replies


def in_placements_words(
    status: int, code: str = "placement.undefined_code", **headers: str
) -> Reply:
    """An error as Placement spells it."""
    error = {
        "status": status,
        "detail": "made up by a test",
        "code": code,
        "request_id": REQUEST_ID,
    }
    return Reply(
        status,
        json.dumps({"errors": [error]}).encode(),
        {"Content-Type": "application/json", "x-openstack-request-id": REQUEST_ID, **headers},
    )


def html(status: int, **headers: str) -> Reply:
    """A page of some proxy's."""
    page = f"<html><head><title>{status}</title></head><body>Sorry.</body></html>"
    return Reply(status, page.encode(), {"Content-Type": "text/html", **headers})


def unauthorized() -> Reply:
    """As keystonemiddleware in front of Placement says it."""
    said = {"error": {"code": 401, "title": "Unauthorized", "message": "requires authentication"}}
    headers = {"Content-Type": "application/json", "WWW-Authenticate": 'Keystone uri="http://k"'}
    return Reply(401, json.dumps(said).encode(), headers)
