"""The message bus: the only file that imports oslo.messaging.

oslo.messaging blocks where an agent must not: a server's ``start`` for as long as the
broker is away, a ``call`` past its time-out.  Here both happen in threads that nobody
waits for longer than he said.  Its threading backend has to be chosen before it is
imported, and eventlet, which it would load wherever that is installed, kept away.
"""

from __future__ import annotations

import inspect
import logging
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from oslo_config import cfg

sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]  # "not there"

from oslo_service import backend  # noqa: E402  without eventlet

backend.init_backend(backend.BackendType.THREADING)

import oslo_messaging  # noqa: E402  after the backend
from oslo_messaging.rpc import dispatcher, server  # noqa: E402

from agent.bus import waiting_calls  # noqa: E402
from drivers.loaded import words  # noqa: E402

LOG = logging.getLogger(__name__)

Target = oslo_messaging.Target
Permit = Callable[[str, Mapping[str, Any], Mapping[str, Any]], None]
"""Of a method, its arguments, and the context of the call."""
Sign = Callable[[str, str, Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]
"""Of the receiver, a method, its arguments and a context: the context with a signature."""
CALLS_AT_ONCE = 16
"""Calls that one client has under way, those included that nobody waits for any more."""
RETRIES = 0
"""A call that can't be sent at once is given up: sent late, it would undo what came after it."""
WAITED = "waited_unheard"
"""In the context of a call that waited while nobody listened here."""
PROBE = "probe"
"""A topic that nobody listens on."""
GRACE = 1.0
"""Seconds that a call may take beyond its time-out before it is given up."""
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Seconds between two attempts to start a server that the broker refuses."""


class MessagingError(Exception):
    """The root of what goes wrong on the bus."""


class TransportUnavailable(MessagingError):
    """The transport URL can't be used, or the broker is not there."""


class NoAnswer(MessagingError):
    """Nobody answered in time: no such server, or it is down, slow, or cut off."""


class NotPermitted(MessagingError):
    """Who sent this call may not make it, or has not proved who he is."""


class RemoteFault(MessagingError):
    """The other side answered with an error."""


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
    found = re.fullmatch(r"invalid literal for int\(\) with base 10: (.*)", str(err))
    return f"the port {found[1]} is no number" if found else str(err)


@dataclass(slots=True)
class RpcServer:
    """Answers calls with the methods of ``endpoints``, once the broker is there.

    An endpoint may carry a ``target`` of its own, with namespace and version.
    """

    transport: Any
    target: Any
    endpoints: Sequence[Any]
    serving: threading.Event = field(default_factory=threading.Event)
    """Set when calls can be answered; it stays set when the broker is lost."""
    told: Callable[[], object] = lambda: None
    """Called when it is set."""
    permit: Permit | None = None
    """Raises :class:`NotPermitted` for a call that its sender may not make."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _server: Any = None

    def start(self) -> None:
        """Return at once; the broker is waited for in a thread."""
        _thread(self._start, f"start RPC {self.target.topic}")

    def _start(self) -> None:
        """Until it is done: wrong credentials may become right ones at the broker."""
        said, pause = "", FIRST_PAUSE
        while not self._stopping.is_set():
            server = self._make()
            try:
                server.start()
            except Exception as err:  # noqa: BLE001  it shall not end the waiting
                why = str(err) or type(err).__name__
                if why != said:
                    LOG.warning("No RPC on topic %s yet: %s", self.target.topic, why)
                said = why
            else:
                self._server = server
                self.serving.set()
                LOG.info("Answering calls on topic %s", self.target.topic)
                self.told()
                return
            self._stopping.wait(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _make(self) -> Any:
        return oslo_messaging.get_rpc_server(
            self.transport,
            self.target,
            list(self.endpoints),
            access_policy=oslo_messaging.DefaultRPCAccessPolicy,
            server_cls=partial(_Server, permit=self.permit),
        )

    def is_connected(self) -> bool:
        """Whether calls arrive: they can be answered, and the broker has not been lost since."""
        return self.serving.is_set() and waiting_calls.is_connected(self._server.listener)

    def stop(self, within: float = 5.0) -> bool:
        """Finish the calls under way; whether that was done within that many seconds."""
        self._stopping.set()
        if self._server is None or not self.serving.is_set():
            return True
        thread = _thread(self._stop, f"stop RPC {self.target.topic}")
        thread.join(within)
        return not thread.is_alive()

    def _stop(self) -> None:
        self._server.stop()
        self._server.wait()


class _Server(server.RPCServer):  # type: ignore[misc]  # it has no types
    """oslo.messaging's, which also tells what waited before it listened."""

    def __init__(
        self,
        transport: Any,
        target: Any,
        calls: Any,
        executor: Any = None,
        permit: Permit | None = None,
    ) -> None:
        super().__init__(transport, target, _Dispatcher(calls, permit), executor)

    def _create_listener(self) -> Any:
        listener = super()._create_listener()
        waiting_calls.mark_what_waits(listener, f"{self._target.topic}.{self._target.server}")
        return listener


@dataclass(frozen=True, slots=True)
class _Dispatcher:
    """oslo.messaging's, for which a wrong call is its caller's error and no traceback of ours."""

    calls: Any
    permit: Permit | None = None

    def dispatch(self, incoming: Any) -> Any:
        """The answer.  :raises dispatcher.ExpectedException: holds what its caller gets."""
        if waiting_calls.waited(incoming):
            incoming.ctxt = {**incoming.ctxt, WAITED: True}
        try:
            self._check(incoming)
            if self.permit is not None:
                said = incoming.message
                self.permit(str(said.get("method")), said.get("args", {}), incoming.ctxt)
            return self.calls.dispatch(incoming)
        except (dispatcher.RPCDispatcherError, ValueError, _WrongArguments, NotPermitted) as err:
            LOG.warning("Refused a call of %r: %s", incoming.message.get("method"), words(err))
            raise dispatcher.ExpectedException from err

    def _check(self, incoming: Any) -> None:
        name, arguments = incoming.message.get("method"), incoming.message.get("args", {})
        method = next((getattr(one, str(name), None) for one in self.calls.endpoints), None)
        if not callable(method):
            # oslo.messaging would send signs of life for it, for ever.
            incoming.client_timeout = None
            return
        try:
            inspect.signature(method).bind({}, **arguments)
        except TypeError as err:
            raise _WrongArguments(f"{name}: {err}") from err


class _WrongArguments(MessagingError, TypeError):
    """A method was called with arguments that it has not."""


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
        work = _Work(lambda: self._call(method, server, said, arguments), self.slots.release)
        _thread(work.run, f"call {method}")
        if not work.done.wait(self.timeout + GRACE):
            self.reached.clear()
            raise TransportUnavailable(f"{method}: the broker took no call for {self.timeout:g} s")
        if work.error is not None:
            if isinstance(work.error, TransportUnavailable):
                self.reached.clear()
            raise work.error
        return work.answer

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


@dataclass(slots=True)
class _Work:
    """One call in a thread of its own; whoever waits may have gone."""

    job: Callable[[], Any]
    finally_do: Callable[[], object]
    done: threading.Event = field(default_factory=threading.Event)
    answer: Any = None
    error: Exception | None = None

    def run(self) -> None:
        try:
            self.answer = self.job()
        except Exception as err:  # noqa: BLE001  it is raised where somebody waits
            self.error = err
        finally:
            self.finally_do()
            self.done.set()


def _thread(job: Callable[[], None], name: str) -> threading.Thread:
    """A daemon: a process that ends waits for none of these."""
    thread = threading.Thread(target=job, name=name, daemon=True)
    thread.start()
    return thread
