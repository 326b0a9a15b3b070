"""The message bus: the only file that imports oslo.messaging.

oslo.messaging blocks where an agent must not: a server's ``start`` while the broker is away,
a ``call`` beyond its time-out.  Here both run in threads, and the caller waits for them no
longer than its own time-out.  The threading backend has to be chosen before oslo.messaging
is imported, and eventlet, which it would otherwise load where it is installed, is blocked.

It takes some 6 MiB and half a second, so it is imported only where there is a message bus.
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

from agent.bus.errors import (  # noqa: E402
    CallRefused,
    NoAnswer,
    NotPermitted,
    OpenAnswer,
    RemoteFault,
    Sign,
    TransportUnavailable,
)
from agent.bus.listener import refuse_malformed_replies  # noqa: E402
from agent.loop import in_slot  # noqa: E402

backend.init_backend(backend.BackendType.THREADING)

import oslo_messaging  # noqa: E402  after the backend
from oslo_messaging.rpc import dispatcher, server  # noqa: E402

__all__ = ["RpcClient", "Target", "dispatcher", "oslo_messaging", "server", "transport"]

Target = oslo_messaging.Target
CALLS_AT_ONCE = 16
"""Calls of one client at the same time, including those that timed out here and still run."""
RETRIES = 0
"""No retries: a call that is sent late could undo a later one."""
PROBE = "probe"
"""A topic without listeners."""
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
        return oslo_messaging.get_rpc_transport(cfg.CONF, url)
    except (cfg.Error, ValueError, oslo_messaging.MessagingException) as err:
        # For a wrong port oslo.messaging has only the error of int().
        match = re.fullmatch(r"invalid literal for int\(\) with base 10: (.*)", str(err))
        text = f"the port {match[1]} is not a number" if match else str(err)
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
        :raises TransportUnavailable: the broker can't be reached.
        :raises RemoteFault: the other side failed.
        :raises NotPermitted: somebody else answered.
        """
        sent = dict(context or {})
        if self.sign is not None:
            sent = self.sign(server or self.target.topic, method, arguments, sent)
        called = in_slot(
            self.slots,
            lambda: self._call(method, server, sent, arguments, answered),
            f"call {server or self.target.topic}",
        )
        if called is None:
            raise TransportUnavailable("too many calls have no answer yet: is the broker up?")
        try:
            answer = called.result(self.timeout + GRACE)
        except TimeoutError as err:
            self.reached.clear()
            what = f"{method}: the broker accepted no call for {self.timeout:g} s"
            raise TransportUnavailable(what) from err
        except TransportUnavailable:
            self.reached.clear()
            raise
        if self.open_answer is None or not answered:
            return answer
        return self.open_answer(server or self.target.topic, sent, answer)

    def _call(
        self,
        method: str,
        server: str | None,
        context: dict[str, Any],
        arguments: dict[str, Any],
        answered: bool,
    ) -> Any:
        options = {"timeout": self.timeout, "call_monitor_timeout": self.monitor}
        client = oslo_messaging.get_rpc_client(self.transport, self.target, retry=RETRIES)
        called = client.prepare(**({"server": server} if server else {}), **options)
        to = f"{method} on {server or self.target.topic}"
        if not self.reached.is_set():
            self._reach(client, to)
        began = time.monotonic()
        try:
            if answered:
                return called.call(context, method, **arguments)
            # cast() would do the same without a time after which the broker drops it.
            message = called._make_message(context, method, arguments)  # noqa: SLF001
            send = self.transport._send  # noqa: SLF001
            return send(called.target, context, message, timeout=self.timeout, retry=RETRIES)
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
            refuse_malformed_replies(self.transport)
        except Exception as err:
            raise TransportUnavailable(f"{to}: {str(err) or type(err).__name__}") from err
        self.reached.set()
