"""The message bus: the only file that imports oslo.messaging.

oslo.messaging blocks where an agent must not: a server's ``start`` while the broker is away,
a ``call`` beyond its time-out.  Here both run in threads, and the caller waits for them no
longer than its own time-out.  The threading backend has to be chosen before oslo.messaging
is imported, and eventlet, which it would otherwise load where it is installed, is blocked.

It takes some 6 MiB and half a second, so it is imported only where there is a message bus.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from oslo_config import cfg

sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]  # "not there"

from oslo_service import backend

from agent.bus.listener import guard_replies, send
from agent.bus.signing import OpenAnswer, Sign
from agent.errors import (
    CallRefused,
    NoAnswer,
    NotPermitted,
    RemoteFault,
    TransportUnavailable,
)
from agent.loop import in_thread

backend.init_backend(backend.BackendType.THREADING)

import oslo_messaging
from oslo_messaging import opts as messaging_opts
from oslo_messaging.rpc import dispatcher, server

__all__ = ["RpcClient", "Target", "dispatcher", "oslo_messaging", "server", "transport"]

Target = oslo_messaging.Target
RABBIT = "oslo_messaging_rabbit"
DEFAULTS = {"rabbit_qos_prefetch_count": 100, "kombu_missing_consumer_retry_timeout": 0}
"""Defaults of options of that group.  The broker sends a server no more messages before some are
acknowledged.  An answer is sent once: by default it would be tried for a minute if its queue is not
there, and the sender of a call names that queue."""
CALLS_AT_ONCE = 16
"""Calls of one client at the same time, including those that timed out here and still run."""
RETRIES = 0
"""No retries: a call that is sent late could undo a later one."""
PROBE = "probe"
"""A topic without listeners."""
PORT = "a port is not a number; in a user or password write / as %2F, ? as %3F, # as %23"
"""The error of a URL."""
GRACE = 1.0
"""Seconds beyond its time-out after which a call is given up."""


def transport(url: str, config_files: Sequence[str] = ()) -> Any:
    """Return a transport for servers and clients, not connected yet.

    ``config_files`` have oslo.messaging's own options, such as TLS, which it reads from the
    global configuration only.

    :raises TransportUnavailable: the URL or one of those options can't be used.
    """
    if not url:
        raise TransportUnavailable("transport_url is empty: there is no message bus")
    try:
        cfg.CONF([], project="", default_config_files=list(config_files), default_config_dirs=[])
        for host in oslo_messaging.TransportURL.parse(cfg.CONF, url).hosts:
            if host.port is not None and not 0 < host.port < 65536:
                raise ValueError(f"port {host.port} is out of range")  # noqa: TRY301  one text
        rabbit = dict(messaging_opts.list_opts())[RABBIT]
        cfg.CONF.register_opts(rabbit, RABBIT)
        for name, default in DEFAULTS.items():
            cfg.CONF.set_default(name, default, RABBIT)
        return oslo_messaging.get_rpc_transport(cfg.CONF, url)
    except (cfg.Error, ValueError, oslo_messaging.MessagingException) as err:
        # For a wrong port oslo.messaging has only the error of int(), which may show a password.
        text = PORT if "invalid literal for int()" in str(err) else str(err)
        raise TransportUnavailable(f"transport_url: {text}") from err


@dataclass(slots=True)
class RpcClient:
    """An RPC client whose calls end in time, whatever the broker does."""

    transport: Any
    target: Any
    timeout: float
    """Seconds for one call."""
    monitor: float | None = None
    """Seconds between heartbeats of the server during a long call (``call_monitor_timeout``)."""
    reached: threading.Event = field(default_factory=threading.Event)
    """Set while the broker accepts messages."""
    slots: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(CALLS_AT_ONCE))
    sign: Sign | None = None
    """Adds the signature that proves who calls."""
    open_answer: OpenAnswer | None = None
    """Checks who answered."""

    def call(
        self,
        method: str,
        *,
        server: str | None = None,
        context: Mapping[str, Any] | None = None,
        answered: bool = True,
        **arguments: Any,
    ) -> Any:
        """Return the answer of one server.

        Without ``answered`` this only sends the call; the broker drops it unless a server fetches
        it within the time-out.

        :raises NoAnswer: none came in time.
        :raises TransportUnavailable: the broker can't be reached, or no thread can be started.
        :raises RemoteFault: the other side failed.
        :raises NotPermitted: somebody else answered.
        """
        sent, to = dict(context or {}), server or self.target.topic
        if self.sign is not None:
            sent = self.sign(to, method, arguments, sent)

        def over(client: Any) -> Any:
            if answered:
                return client.call(sent, method, **arguments)
            return send(self.transport, client, sent, method, arguments)

        if not self.slots.acquire(blocking=False):
            raise TransportUnavailable("too many calls have no answer yet: is the broker up?")
        try:
            called = in_thread(partial(self._call, over, server, f"{method} on {to}"), f"call {to}")
        except RuntimeError as err:
            self.slots.release()
            raise TransportUnavailable(f"{method}: no thread for the call: {err}") from err
        called.add_done_callback(lambda _: self.slots.release())
        try:
            answer = called.result(self.timeout + GRACE)
        except (TimeoutError, TransportUnavailable) as err:
            self.reached.clear()
            if isinstance(err, TransportUnavailable):
                raise
            what = f"{method}: the broker accepted no call for {self.timeout:g} s"
            raise TransportUnavailable(what) from err
        if self.open_answer is None or not answered:
            return answer
        return self.open_answer(to, sent, answer)

    def _call(self, over: Callable[[Any], Any], server: str | None, to: str) -> Any:
        client = oslo_messaging.get_rpc_client(self.transport, self.target, retry=RETRIES)
        times = {"timeout": self.timeout, "call_monitor_timeout": self.monitor}
        called = client.prepare(server=server, **times)
        if not self.reached.is_set():
            self._reach(client, to)
        began = time.monotonic()
        try:
            return over(called)
        except oslo_messaging.MessagingTimeout as err:
            waited = time.monotonic() - began  # less than the time-out without signs of life
            raise NoAnswer(f"{to}: no answer in {waited:.0f} s") from err
        except oslo_messaging.RemoteError as err:
            kind = CallRefused if err.exc_type == NotPermitted.__name__ else RemoteFault
            raise kind(f"{to}: {err.exc_type}: {err.value}") from err
        except (oslo_messaging.MessagingException, OSError) as err:
            raise TransportUnavailable(f"{to}: {err}") from err
        except Exception as err:  # a built-in class that was raised there
            text = str(err).partition("\n")[0]
            raise RemoteFault(f"{to}: {type(err).__name__}: {text}") from err

    def _reach(self, client: Any, to: str) -> None:
        """Connect to the broker with a message that may arrive late.

        oslo.messaging does not give up the first call on a connection, whatever ``retry`` is:
        it would wait for the broker, and send the call after its caller has gone.
        """
        try:
            client.prepare(topic=PROBE).cast({}, PROBE)
            guard_replies(self.transport)
        except Exception as err:
            raise TransportUnavailable(f"{to}: {str(err) or type(err).__name__}") from err
        self.reached.set()
