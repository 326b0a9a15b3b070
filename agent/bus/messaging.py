"""The message bus: the only file that imports oslo.messaging.

oslo.messaging blocks where an agent must not: a server's ``start`` for as long as the
broker is away, a ``call`` past its time-out.  Here both happen in threads that nobody
waits for longer than he said.  Its threading backend has to be chosen before it is
imported, and eventlet, which it would load wherever that is installed, kept away.

It is loaded by who has a message bus only: it takes some 6 MiB and half a second.
"""

import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oslo_config import cfg

sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]  # "not there"

from oslo_service import backend  # noqa: E402  without eventlet

backend.init_backend(backend.BackendType.THREADING)

import oslo_messaging  # noqa: E402  after the backend
from oslo_messaging.rpc import dispatcher, server  # noqa: E402

from agent.bus.errors import NoAnswer, RemoteFault, Sign, TransportUnavailable  # noqa: E402
from agent.in_thread import in_thread  # noqa: E402

__all__ = ["RpcClient", "Target", "dispatcher", "oslo_messaging", "server", "transport"]

Target = oslo_messaging.Target
CALLS_AT_ONCE = 16
"""Calls that one client has under way, those included that nobody waits for any more."""
RETRIES = 0
"""A call that can't be sent at once is given up: sent late, it would undo what came after it."""
PROBE = "probe"
"""A topic that nobody listens on."""
GRACE = 1.0
"""Seconds that a call may take beyond its time-out before it is given up."""


def transport(url: str, config_files: Sequence[str] = (), *, option: str = "transport_url") -> Any:
    """A transport for servers and clients; nothing is connected yet.

    The files are those with oslo.messaging's own options, such as TLS, which it reads
    from the global configuration only.  ``option`` says where the URL was set.

    :raises TransportUnavailable: the URL or one of those options can't be used.
    """
    if not url:
        raise TransportUnavailable(f"{option} is empty: there is no message bus")
    try:
        cfg.CONF([], project="", default_config_files=list(config_files), default_config_dirs=[])
        _check_ports(oslo_messaging.TransportURL.parse(cfg.CONF, url))
        return oslo_messaging.get_rpc_transport(cfg.CONF, url)
    except (cfg.Error, ValueError, oslo_messaging.MessagingException) as err:
        raise TransportUnavailable(f"{option}: {_of_a_port(err)}") from err


def _check_ports(url: Any) -> None:
    for each in url.hosts:
        if each.port is not None and not 0 < each.port < 65536:
            raise ValueError(f"there is no port {each.port}")


def _of_a_port(err: Exception) -> str:
    """oslo.messaging says of a wrong port only which function did not take it."""
    match = re.fullmatch(r"invalid literal for int\(\) with base 10: (.*)", str(err))
    return f"the port {match[1]} is no number" if match else str(err)


@dataclass(slots=True)
class RpcClient:
    """Calls that end when they have to, whatever the broker does."""

    transport: Any
    target: Any
    timeout: float
    """Seconds for one call."""
    monitor: float | None = None
    """Seconds between the signs of life that a long call needs; ``None`` for none."""
    reached: threading.Event = field(default_factory=threading.Event)
    """Set while the broker takes what is sent."""
    slots: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(CALLS_AT_ONCE))
    sign: Sign | None = None
    """Proves to the other side who calls."""

    def call(
        self,
        method: str,
        *,
        server: str | None = None,
        context: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> Any:
        """The answer of one server.

        :raises NoAnswer: in time there was none.
        :raises TransportUnavailable: the broker can't be reached.
        :raises RemoteFault: the other side failed.
        """
        if not self.slots.acquire(blocking=False):
            raise TransportUnavailable("too many calls are stuck: is the broker there?")
        said = dict(context or {})
        if self.sign is not None:
            said = self.sign(server or self.target.topic, method, arguments, said)
        called = in_thread(lambda: self._call(method, server, said, arguments), f"call {method}")
        called.add_done_callback(lambda _: self.slots.release())
        try:
            return called.result(self.timeout + GRACE)
        except TimeoutError as err:
            self.reached.clear()
            what = f"{method}: the broker took no call for {self.timeout:g} s"
            raise TransportUnavailable(what) from err
        except TransportUnavailable:
            self.reached.clear()
            raise

    def _call(
        self, method: str, server: str | None, context: dict[str, Any], arguments: dict[str, Any]
    ) -> Any:
        options = {"timeout": self.timeout, "call_monitor_timeout": self.monitor}
        client = oslo_messaging.get_rpc_client(self.transport, self.target, retry=RETRIES)
        called = client.prepare(**({"server": server} if server else {}), **options)
        to = f"{method} on {server or self.target.topic}"
        if not self.reached.is_set():
            self._reach(client, to)
        began = time.monotonic()
        try:
            return called.call(context, method, **arguments)
        except oslo_messaging.MessagingTimeout as err:
            waited = time.monotonic() - began  # less than the time-out without signs of life
            raise NoAnswer(f"{to}: no answer in {waited:.0f} s") from err
        except oslo_messaging.RemoteError as err:
            raise RemoteFault(f"{to}: {err.exc_type}: {err.value}") from err
        except (oslo_messaging.MessagingException, OSError) as err:
            raise TransportUnavailable(f"{to}: {err}") from err
        except Exception as err:  # a built-in class that was raised there
            text = str(err).partition("\n")[0]
            raise RemoteFault(f"{to}: {type(err).__name__}: {text}") from err

    def _reach(self, client: Any, to: str) -> None:
        """See whether the broker is there, by what may arrive late.

        The first call on a connection is not given up by oslo.messaging, whatever the
        retries: it would wait for the broker, and be sent when nobody expects it.
        """
        try:
            client.prepare(topic=PROBE).cast({}, PROBE)
        except Exception as err:
            raise TransportUnavailable(f"{to}: {str(err) or type(err).__name__}") from err
        self.reached.set()
