"""The HTTP server: waitress, with deadlines for requests that come slowly or never end.

waitress reads all connections in one thread and answers in others, so a slow sender holds
no thread.  But it waits for him as long as a byte comes now and then, and accepts nobody
else once too many wait.  Here a request has to be there as a whole in time, and where there
are too many connections, the one that has been waited for longest goes.
"""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import waitress
from waitress.channel import HTTPChannel
from waitress.server import BaseWSGIServer

from agent.registry.opts import RegistryConfigError, RegistrySettings
from compute_registry.rest.application import Application
from compute_registry.rest.request import LONGEST_BODY

THREADS = 32
"""Requests that are answered at once; one that waits for an agent holds one of them."""
REQUEST_WITHIN = 10.0
"""Seconds from the first byte of a request to its last, and from a connection to its first."""
IDLE_WITHIN = 60
"""Seconds that a connection stays open between two requests."""
CONNECTIONS = 400
"""With as many again on their way out, below the 1,024 files that a process may open."""
LONGEST_HEADERS = 65536
CHECK_EVERY = 1
PROXY_HEADERS = "x-forwarded-for x-forwarded-proto x-forwarded-host"


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection that knows since when its peer has had the next step."""

    begun = True
    """A request is due: its first bytes, or the rest of it."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.since = time.monotonic()

    def received(self, data: bytes) -> bool:
        """Some bytes of one request, or of several."""
        if not self.begun:
            self.begun, self.since = True, time.monotonic()
        taken: bool = super().received(data)
        if self.request is None:
            self.begun, self.since = False, time.monotonic()
        return taken


def listen(application: Application, settings: RegistrySettings) -> Any:
    """A server that listens, and answers once it runs.

    :raises RegistryConfigError: it can't have the address or the port.
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
            **_proxy(settings.trusted_proxy),
        )
    except (OSError, ValueError) as err:
        why = getattr(err, "strerror", None) or err
        raise RegistryConfigError(
            f"[registry] rest_bind, rest_port: can't listen on {where}: {why}"
        ) from err
    for each in listeners.values():
        if isinstance(each, BaseWSGIServer):
            each.channel_class = Channel
            each.maintenance = partial(_close_the_late, each, each.maintenance)
            each.handle_accept = partial(_make_room, each, each.handle_accept)
    return server


def _proxy(address: str | None) -> dict[str, Any]:
    if address is None:
        return {}
    return {"trusted_proxy": address, "trusted_proxy_headers": PROXY_HEADERS}


def _close_the_late(server: Any, close_the_idle: Any, now: float) -> None:
    close_the_idle(now)
    late = time.monotonic() - REQUEST_WITHIN
    for channel in _waited_for(server):
        if channel.begun and channel.since < late:
            channel.will_close = True


def _make_room(server: Any, accept: Any) -> None:
    if len(server.active_channels) >= CONNECTIONS:
        eldest = min(_waited_for(server), key=lambda channel: channel.since, default=None)
        if eldest is not None:
            eldest.will_close = True
    accept()


def _waited_for(server: Any) -> Iterator[Channel]:
    for channel in server.active_channels.values():
        if not channel.requests and not channel.total_outbufs_len and not channel.will_close:
            yield channel
