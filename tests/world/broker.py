"""The message bus with the behaviour of RabbitMQ and oslo.messaging: queues, timeouts, redelivery.

A call to a host waits in its queue until the host's agent listens, at most as long as the caller
waits for the answer.  A message that has waited is marked when it is delivered.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent.bus.errors import WAITED, NoAnswer, RemoteFault, TransportUnavailable
from tests.world.scheduler import Event, Owner, Promise, Scheduler

REGISTRY = "registry"
LATENCY = 0.02
Answers = Callable[[str, dict[str, Any], dict[str, Any]], Any]
"""Answers a call: method, context, arguments."""


@dataclass(frozen=True)
class Message:
    method: str
    context: dict[str, Any]
    arguments: dict[str, Any]
    expires: float
    reply: Promise
    waited: bool = False


@dataclass(frozen=True)
class Listener:
    """``answers`` runs in a task of ``owner``; without an owner it runs at once and must not wait."""

    answers: Answers
    owner: Owner | None


@dataclass
class Broker:
    scheduler: Scheduler
    dice: random.Random
    up: bool = True
    listeners: dict[str, Listener] = field(default_factory=dict)
    waiting: dict[str, list[Message]] = field(default_factory=dict)
    waited: Counter[str] = field(default_factory=Counter)
    """Number of messages by queue that were answered after they had waited."""
    faults: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """Faults of the next messages by queue: kind and seconds."""
    late: list[tuple[str, Message]] = field(default_factory=list)
    """Delayed messages, each with its queue."""

    # -- clients

    def call(
        self,
        queue: str,
        method: str,
        context: Mapping[str, Any],
        arguments: Mapping[str, Any],
        timeout: float,
        *,
        answered: bool = True,
    ) -> Any:
        """As :class:`agent.bus.messaging.RpcClient`.  :raises MessagingError:"""
        if not self.up:
            raise TransportUnavailable(f"{method} on {queue}: the broker is away")
        reply = Promise(self.scheduler)
        expires = self.scheduler.now + timeout
        message = Message(method, dict(context), dict(arguments), expires, reply)
        self._send(queue, message)
        if not answered:
            return None
        try:
            return reply.result(timeout)
        except TimeoutError:
            raise NoAnswer(f"{method} on {queue}: no answer in {timeout:g} s") from None

    def _send(self, queue: str, message: Message) -> None:
        kind, seconds = self._fault(queue)
        if kind == "lost":
            return
        first = message
        if kind == "unanswered":
            first = replace(message, reply=Promise(self.scheduler))
        if kind == "late":
            self.late.append((queue, first))
            self.scheduler.stray(lambda: self._deliver_late(queue, first), seconds)
        else:
            self._later(self.dice.uniform(0, LATENCY), lambda: self._deliver(queue, first))
        if kind == "doubled":
            again = replace(message, reply=Promise(self.scheduler), waited=True)
            self.scheduler.stray(lambda: self._deliver(queue, again), seconds)

    def _fault(self, queue: str) -> tuple[str, float]:
        armed = self.faults.get(queue)
        return armed.pop(0) if armed else ("", 0.0)

    def _later(self, seconds: float, work: Callable[[], object]) -> None:
        self.scheduler.call(work, seconds)

    def _deliver_late(self, queue: str, message: Message) -> None:
        self.late.remove((queue, message))
        self._deliver(queue, message)

    def _deliver(self, queue: str, message: Message) -> None:
        listener = self.listeners.get(queue)
        if not self.up or listener is None:
            self.waiting.setdefault(queue, []).append(replace(message, waited=True))
            return
        if listener.owner is None:
            self._answer(listener, message)
        else:
            self.waited[queue] += message.waited
            self.scheduler.spawn(lambda: self._answer(listener, message), listener.owner)

    def _answer(self, listener: Listener, message: Message) -> None:
        context = {**message.context, **({WAITED: True} if message.waited else {})}
        try:
            answer = listener.answers(message.method, context, message.arguments)
        except Exception as err:
            fault = RemoteFault(f"{message.method}: {type(err).__name__}: {err}")
            self._reply(message, lambda: message.reply.set_exception(fault))
        else:
            self._reply(message, lambda: message.reply.set_result(answer))

    def _reply(self, message: Message, how: Callable[[], None]) -> None:
        if self.up:
            self._later(self.dice.uniform(0, LATENCY), how)

    # -- servers

    def listen(self, queue: str, answers: Answers, owner: Owner | None) -> None:
        """Deliver messages of a queue to this listener, first those that have waited."""
        self.listeners[queue] = Listener(answers, owner)
        self._fetch(queue)

    def leave(self, queue: str, owner: Owner | None) -> None:
        if queue in self.listeners and self.listeners[queue].owner is owner:
            del self.listeners[queue]

    def _fetch(self, queue: str) -> None:
        for message in self.waiting.pop(queue, []):
            if message.expires > self.scheduler.now:
                self._deliver(queue, message)

    # -- what happens to it

    def go(self) -> None:
        self.up = False

    def come_back(self, *, with_queues: bool = True) -> None:
        self.up = True
        if not with_queues:
            self.waiting.clear()
        for queue in list(self.listeners):
            self._fetch(queue)


@dataclass
class Client:
    """In place of :class:`agent.bus.messaging.RpcClient`, to one topic."""

    broker: Broker
    timeout: float
    topic: str = ""
    step: Callable[[], object] = lambda: None

    def call(
        self,
        method: str,
        *,
        server: str | None = None,
        context: Mapping[str, Any] | None = None,
        answered: bool = True,
        **arguments: Any,
    ) -> Any:
        self.step()
        queue, sent = server or self.topic, context or {}
        return self.broker.call(queue, method, sent, arguments, self.timeout, answered=answered)


@dataclass
class Server:
    """In place of :class:`agent.bus.server.RpcServer`, for one host."""

    broker: Broker
    host: str
    endpoint: Any
    owner: Owner
    serving: Event
    on_serving: Callable[[], object]

    def start(self) -> None:
        self.broker.listen(self.host, self._answer, self.owner)
        self.serving.set()
        self.on_serving()

    def stop(self) -> bool:
        self.broker.leave(self.host, self.owner)
        return True

    def is_connected(self) -> bool:
        return self.broker.up

    def _answer(self, method: str, context: dict[str, Any], arguments: dict[str, Any]) -> Any:
        return getattr(self.endpoint, method)(context, **arguments)
