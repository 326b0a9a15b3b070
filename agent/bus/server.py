"""Calls that are answered here; and those that waited, told from fresh ones.

A call waits in this host's queue while its agent is down, hung or cut off; by the time it is
fetched, somebody may have decided otherwise.  AMQP carries no time of sending, but it says
what waited:

- what is in the queue at the moment when it is declared, which oslo.messaging does at the
  start and again after each loss of the connection;
- what is delivered a second time: oslo.messaging acknowledges a call as soon as it has it,
  so a call that comes again was sent to a connection that was dead.

oslo.messaging has no public place for either; what is used of its RabbitMQ driver is below.
Other drivers, which have none of it, are left as they are.
"""

import inspect
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from functools import partial
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
from agent.in_thread import in_thread
from reportclient.plain_text import error_text
from reportclient.schedule import doubled

LOG = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Seconds between two attempts to start a server that the broker refuses."""
REDELIVERED = "redelivered"
"""AMQP's own mark; put on what waited as well."""


UNKNOWN = "unknown"
"""In place of the name of a method that is none: anybody may send any name."""
Answered = Callable[[str, str, float], object]
"""Hears of each call that was answered: its method, what became of it, and its seconds."""


def _uncounted(*_: object) -> None:
    """Nobody counts."""


def _well(_: object) -> str:
    """Whatever was answered."""
    return OK


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
    on_serving: Callable[[], object] = lambda: None
    """Called when it is set."""
    permit: Permit | None = None
    """Raises :class:`NotPermitted` for a call that its sender may not make."""
    answered: Answered = _uncounted
    judged: Callable[[Any], str] = _well
    """What became of a call that has this answer."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _server: Any = None

    def start(self) -> None:
        """Return at once; the broker is waited for in a thread."""
        in_thread(self._start, f"start RPC {self.target.topic}")

    def _start(self) -> None:
        """Until it is done: wrong credentials may become right ones at the broker."""
        said, tries = "", 0
        while not self._stopping.is_set():
            try:
                server = self._make()
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
                self.on_serving()
                return
            pause = doubled(FIRST_PAUSE, tries, LONGEST_PAUSE)
            self._stopping.wait(pause * random.uniform(0.5, 1))
            tries += 1

    def _make(self) -> Any:
        return messaging.oslo_messaging.get_rpc_server(
            self.transport,
            self.target,
            list(self.endpoints),
            access_policy=messaging.oslo_messaging.DefaultRPCAccessPolicy,
            server_cls=partial(
                _Server,
                judge=partial(
                    _Dispatcher, permit=self.permit, answered=self.answered, judged=self.judged
                ),
            ),
        )

    def is_connected(self) -> bool:
        """Whether calls arrive: they can be answered, and the broker has not been lost since."""
        return self.serving.is_set() and is_connected(self._server.listener)

    def stop(self, within: float = 5.0) -> bool:
        """Finish the calls under way; whether that was done within that many seconds."""
        self._stopping.set()
        if self._server is None or not self.serving.is_set():
            return True
        stopped = in_thread(self._stop, f"stop RPC {self.target.topic}")
        return stopped in wait([stopped], within).done

    def _stop(self) -> None:
        self._server.stop()
        self._server.wait()


class _Server(messaging.server.RPCServer):  # type: ignore[misc]  # it has no types
    """oslo.messaging's, which also tells what waited before it listened."""

    def __init__(
        self,
        transport: Any,
        target: Any,
        calls: Any,
        executor: Any = None,
        *,
        judge: Callable[[Any], Any],
    ) -> None:
        super().__init__(transport, target, judge(calls), executor)

    def _create_listener(self) -> Any:
        listener = super()._create_listener()
        mark_what_waits(listener, f"{self._target.topic}.{self._target.server}")
        return listener


@dataclass(frozen=True, slots=True)
class _Dispatcher:
    """oslo.messaging's, for which a wrong call is its caller's error and no traceback of ours."""

    calls: Any
    permit: Permit | None = None
    answered: Answered = _uncounted
    judged: Callable[[Any], str] = _well

    def dispatch(self, incoming: Any) -> Any:
        """The answer.  :raises dispatcher.ExpectedException: holds what its caller gets."""
        began, outcome = time.monotonic(), FAILED
        try:
            answer = self._dispatch(incoming)
            outcome = self.judged(answer)
        except messaging.dispatcher.ExpectedException:
            outcome = REFUSED
            raise
        finally:
            method = incoming.message.get("method")
            name = method if self._method(method) is not None else UNKNOWN
            self.answered(name, outcome, time.monotonic() - began)
        return answer

    def _dispatch(self, incoming: Any) -> Any:
        if waited(incoming):
            incoming.ctxt = {**incoming.ctxt, WAITED: True}
        try:
            self._check(incoming)
            if self.permit is not None:
                said = incoming.message
                self.permit(str(said.get("method")), said.get("args", {}), incoming.ctxt)
            return self.calls.dispatch(incoming)
        except _WRONG_CALLS as err:
            LOG.warning("Refused a call of %r: %s", incoming.message.get("method"), error_text(err))
            raise messaging.dispatcher.ExpectedException from err

    def _check(self, incoming: Any) -> None:
        name, arguments = incoming.message.get("method"), incoming.message.get("args", {})
        method = self._method(name)
        if method is None:
            # oslo.messaging would send signs of life for it, for ever.
            incoming.client_timeout = None
            return
        try:
            inspect.signature(method).bind({}, **arguments)
        except TypeError as err:
            raise _WrongArguments(f"{name}: {err}") from err

    def _method(self, name: Any) -> Any:
        """``None``: no such one can be called."""
        method = next((getattr(one, str(name), None) for one in self.calls.endpoints), None)
        return method if callable(method) else None


class _WrongArguments(MessagingError, TypeError):
    """A method was called with arguments that it has not."""


_WRONG_CALLS = (
    messaging.dispatcher.RPCDispatcherError,
    ValueError,
    _WrongArguments,
    NotPermitted,
)
"""What a caller has done, and not this program."""


def mark_what_waits(listener: Any, queue: str) -> None:
    """Have what waits in ``queue`` marked, now and whenever the broker comes back.

    ``listener`` is what oslo.messaging made, and has not begun to consume.
    """
    connection = _connection(listener)
    for consumer in list(getattr(connection, "_consumers", ())):
        if consumer.queue_name == queue:
            _mark_after_declaring(consumer)
            _fetch(consumer, connection)


def waited(incoming: Any) -> bool:
    """Whether this call is one of those."""
    raw = getattr(incoming.message, "_raw_message", None)
    return bool(getattr(raw, "delivery_info", {}).get(REDELIVERED))


def is_connected(listener: Any) -> bool:
    """Whether the connection over which calls come is there, as far as this side knows."""
    connection = getattr(_connection(listener), "connection", None)
    return bool(getattr(connection, "connected", True))


def _connection(listener: Any) -> Any:
    """The RabbitMQ driver's, which has a connection of kombu's."""
    pooled = getattr(getattr(listener, "_poll_style_listener", None), "conn", None)
    return getattr(pooled, "connection", None)


def _mark_after_declaring(consumer: Any) -> None:
    declare = consumer.declare

    def declare_and_fetch(connection: Any) -> None:
        declare(connection)
        _fetch(consumer, connection)

    consumer.declare = declare_and_fetch


def _fetch(consumer: Any, connection: Any) -> None:
    """Before anything is consumed: one by one, until there is no more."""
    number = 0
    while (message := connection.channel.basic_get(consumer.queue_name)) is not None:
        message.delivery_info[REDELIVERED] = True
        consumer._callback(message)  # noqa: SLF001  as if it had been consumed
        number += 1
    if number:
        LOG.warning("%d calls waited while nobody listened: the last known status holds", number)
