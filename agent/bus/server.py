"""The RPC server; it marks calls that waited in the queue while it did not listen.

A call waits in this host's queue while its agent is down, hung or cut off; when it is fetched,
a later decision may already hold.  AMQP has no time of sending, but these calls have waited:

- those in the queue when it is declared, which oslo.messaging does at the start and again
  after each loss of the connection;
- those that are delivered a second time: oslo.messaging acknowledges a call as soon as it has
  it, so the first delivery went to a dead connection.

oslo.messaging has no public interface for either; the functions at the end use its RabbitMQ
driver's objects.  With other drivers no call is marked.
"""

import inspect
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from agent.bus import messaging
from agent.bus.errors import (
    FAILED,
    OK,
    REFUSED,
    WAITED,
    MessagingError,
    NotPermitted,
    Permit,
)
from agent.loop import in_thread
from agent.retrying import until_it_works
from reportclient.plain_text import error_text

LOG = logging.getLogger("compute_agent.registry")

LONGEST_PAUSE = 60.0
"""Seconds between two attempts to start a server that the broker refuses, at most."""
REDELIVERED = "redelivered"
"""AMQP's flag of a second delivery; set here also on calls that waited."""


UNKNOWN = "unknown"
"""Stands for each unknown method, so that senders can't create metric labels."""
CallListener = Callable[[str, str, float], object]
"""Called after each answer with the method, the outcome, and the seconds it took."""


@dataclass(slots=True)
class RpcServer:
    """Answers calls with the methods of ``endpoints``, once the broker can be reached.

    An endpoint may carry a ``target`` of its own, with namespace and version.
    """

    transport: Any
    target: Any
    endpoints: Sequence[Any]
    serving: threading.Event = field(default_factory=threading.Event)
    """Set when calls can be answered; it stays set when the broker is lost."""
    on_serving: Callable[[], object] = lambda: None
    """Called when ``serving`` is set."""
    at_once: frozenset[str] = frozenset()
    """Methods that wait for nothing: they run in the thread that receives the calls."""
    permit: Permit | None = None
    """Raises :class:`NotPermitted` for a call that its sender may not make."""
    on_answered: CallListener = lambda *_: None
    outcome_of: Callable[[Any], str] = lambda _: OK
    """Return the outcome of a call from its answer."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _server: Any = None

    def start(self) -> None:
        """Start in a thread, which waits for the broker."""
        in_thread(self._start, f"start RPC {self.target.topic}")

    def _start(self) -> None:
        """Try until it works: an operator may correct credentials at the broker."""
        topic = self.target.topic
        log = partial(LOG.warning, "Can't serve RPC calls on topic %s, retrying: %s", topic)
        self._server = until_it_works(self._started, self._stopping, log, LONGEST_PAUSE)
        if self._server is not None:
            self.serving.set()
            LOG.info("Serving RPC calls on topic %s", topic)
            self.on_serving()

    def _started(self) -> Any:
        server = messaging.oslo_messaging.get_rpc_server(
            self.transport,
            self.target,
            list(self.endpoints),
            access_policy=messaging.oslo_messaging.DefaultRPCAccessPolicy,
            server_cls=partial(_Server, rpc=self),
        )
        server.start()
        return server

    def is_connected(self) -> bool:
        """Return whether calls arrive: the server has started and is connected to the broker."""
        return self.serving.is_set() and is_connected(self._server.listener)

    def stop(self, within: float = 5.0) -> bool:
        """Finish running calls; return whether they ended within ``within`` seconds."""
        self._stopping.set()
        if self._server is None or not self.serving.is_set():
            return True
        stopped = in_thread(self._stop, f"stop RPC {self.target.topic}")
        return stopped in wait([stopped], within).done

    def _stop(self) -> None:
        self._server.stop()
        self._server.wait()


class _Server(messaging.server.RPCServer):  # type: ignore[misc]  # it has no types
    """oslo.messaging's server, which also marks calls that waited before it listened."""

    def __init__(
        self,
        transport: Any,
        target: Any,
        calls: Any,
        executor: Any = None,
        *,
        rpc: RpcServer,
    ) -> None:
        super().__init__(transport, target, _Dispatcher(calls, rpc), executor)
        self._at_once = rpc.at_once

    def _on_incoming(self, incoming: Any) -> None:
        if incoming[0].message.get("method") in self._at_once:
            self._process_incoming(incoming)
        else:
            super()._on_incoming(incoming)

    def _create_listener(self) -> Any:
        listener = super()._create_listener()
        mark_waiting_calls(listener, f"{self._target.topic}.{self._target.server}")
        return listener


@dataclass(frozen=True, slots=True)
class _Dispatcher:
    """oslo.messaging's dispatcher, which answers a wrong call with an error, no traceback."""

    calls: Any
    rpc: RpcServer

    def dispatch(self, incoming: Any) -> Any:
        """Return the answer.  :raises dispatcher.ExpectedException: with the caller's error."""
        began, outcome = time.monotonic(), FAILED
        name, arguments = incoming.message.get("method"), incoming.message.get("args", {})
        endpoints = self.calls.endpoints
        method = next((getattr(endpoint, str(name), None) for endpoint in endpoints), None)
        try:
            if has_waited(incoming):
                incoming.ctxt = {**incoming.ctxt, WAITED: True}
            if callable(method):
                try:
                    _signature(method).bind({}, **arguments)
                except TypeError as err:
                    raise _WrongArguments(f"{name}: {err}") from err
            else:
                # Otherwise oslo.messaging would send heartbeats for this call for ever.
                incoming.client_timeout = None
            if self.rpc.permit is not None:
                self.rpc.permit(str(name), arguments, incoming.ctxt)
            answer = self.calls.dispatch(incoming)
            outcome = self.rpc.outcome_of(answer)
        except _WRONG_CALLS as err:
            outcome = REFUSED
            LOG.warning("Refused a call of %r: %s", name, error_text(err))
            raise messaging.dispatcher.ExpectedException from err
        finally:
            seconds = time.monotonic() - began
            self.rpc.on_answered(name if callable(method) else UNKNOWN, outcome, seconds)
        return answer


@lru_cache(64)
def _signature(method: Any) -> inspect.Signature:
    return inspect.signature(method)


class _WrongArguments(MessagingError, TypeError):
    """A method was called with arguments that it does not have."""


_WRONG_CALLS = (
    messaging.dispatcher.RPCDispatcherError,
    ValueError,
    _WrongArguments,
    NotPermitted,
)
"""Errors that the caller caused."""


def mark_waiting_calls(listener: Any, queue: str) -> None:
    """Mark the calls that wait in ``queue``, now and after each reconnection to the broker.

    ``listener`` is oslo.messaging's, before it begins to consume.
    """
    connection = _connection(listener)
    for consumer in list(getattr(connection, "_consumers", ())):
        if consumer.queue_name == queue:
            declare = consumer.declare

            def declare_and_fetch(
                connection: Any, declare: Any = declare, consumer: Any = consumer
            ) -> None:
                declare(connection)
                _fetch(consumer, connection)

            consumer.declare = declare_and_fetch
            _fetch(consumer, connection)


def has_waited(incoming: Any) -> bool:
    """Return whether this call waited in the queue while the server did not listen."""
    raw = getattr(incoming.message, "_raw_message", None)
    return bool(getattr(raw, "delivery_info", {}).get(REDELIVERED))


def is_connected(listener: Any) -> bool:
    """Return whether the connection over which calls arrive is up, as far as this side knows."""
    connection = getattr(_connection(listener), "connection", None)
    return bool(getattr(connection, "connected", True))


def _connection(listener: Any) -> Any:
    """Return the connection of oslo.messaging's RabbitMQ driver, ``None`` for other drivers."""
    pooled = getattr(getattr(listener, "_poll_style_listener", None), "conn", None)
    return getattr(pooled, "connection", None)


def _fetch(consumer: Any, connection: Any) -> None:
    """Fetch and mark all calls in the queue, before the consumer starts."""
    number = 0
    while (message := connection.channel.basic_get(consumer.queue_name)) is not None:
        message.delivery_info[REDELIVERED] = True
        consumer._callback(message)  # noqa: SLF001  as if it had been consumed
        number += 1
    if number:
        LOG.warning("%d RPC calls waited in the queue while this service did not listen", number)
