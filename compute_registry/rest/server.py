"""The HTTP server: waitress, with a deadline for the arrival of each request.

waitress reads all connections in one thread and answers in others, so a slow client holds no
thread.  But it waits without a limit while bytes arrive now and then, and accepts no connection
while too many are open.  Here a whole request has to arrive in time, and with too many connections
the one that has waited longest for its client is closed.
"""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any
from wsgiref.types import WSGIApplication

import waitress
from waitress.channel import HTTPChannel
from waitress.server import BaseWSGIServer

from agent.registry.opts import RegistryConfigError, RegistrySettings
from compute_registry.rest.request import LONGEST_BODY

THREADS = 32
"""Requests that are answered at the same time, including those that wait for an agent."""
REQUEST_WITHIN = 10.0
"""Seconds from the first byte of a request to its last, and from a connection to its first."""
IDLE_WITHIN = 60
"""Seconds that a connection stays open between two requests."""
CONNECTIONS = 400
"""Open connections.  With as many that are closing: below the limit of 1,024 open files."""
LONGEST_HEADERS = 65536
CHECK_EVERY = 1
PROXY_HEADERS = "x-forwarded-for x-forwarded-proto x-forwarded-host"


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection; ``since`` is when the server began to wait for its client (monotonic)."""

    begun = True
    """Whether the client has to send its first request, or the rest of a request."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.since = time.monotonic()

    def received(self, data: bytes) -> bool:
        """Process bytes from the client; they may hold parts of several requests."""
        if not self.begun:
            self.begun, self.since = True, time.monotonic()
        accepted: bool = super().received(data)
        if self.request is None:
            self.begun, self.since = False, time.monotonic()
        return accepted


def listen(application: WSGIApplication, settings: RegistrySettings) -> Any:
    """Return a server that listens; it answers once ``run`` is called.

    :raises RegistryConfigError: the address or the port can't be used.
    """
    where = f"{settings.rest_bind}:{settings.rest_port}"
    listeners: dict[int, Any] = {}
    try:
        server = waitress.create_server(
            application,
            map=listeners,
            host=settings.rest_bind,
            port=settings.rest_port,
            threads=THREADS,
            ident=None,
            asyncore_use_poll=True,
            cleanup_interval=CHECK_EVERY,
            channel_timeout=IDLE_WITHIN,
            connection_limit=2 * CONNECTIONS,
            max_request_header_size=LONGEST_HEADERS,
            max_request_body_size=LONGEST_BODY,
            trusted_proxy=settings.trusted_proxy,
            trusted_proxy_headers=PROXY_HEADERS if settings.trusted_proxy else "",
        )
    except (OSError, ValueError) as err:
        why = getattr(err, "strerror", None) or err
        raise RegistryConfigError(
            f"[registry] rest_bind, rest_port: can't listen on {where}: {why}"
        ) from err
    for listener in listeners.values():
        if isinstance(listener, BaseWSGIServer):
            listener.channel_class = Channel
            listener.maintenance = partial(_close_late, listener, listener.maintenance)
            listener.handle_accept = partial(_make_room, listener, listener.handle_accept)
    return server


def _close_late(server: Any, close_idle: Any, now: float) -> None:
    close_idle(now)
    late = time.monotonic() - REQUEST_WITHIN
    for channel in _waiting(server):
        if channel.begun and channel.since < late:
            channel.will_close = True


def _make_room(server: Any, accept: Any) -> None:
    if len(server.active_channels) >= CONNECTIONS:
        oldest = min(_waiting(server), key=lambda channel: channel.since, default=None)
        if oldest is not None:
            oldest.will_close = True
    accept()


def _waiting(server: Any) -> Iterator[Channel]:
    for channel in server.active_channels.values():
        if not channel.requests and not channel.total_outbufs_len and not channel.will_close:
            yield channel
