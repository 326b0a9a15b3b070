"""All that uses private names of oslo.messaging, whose public interfaces have nothing for it.

Every user of the broker can write to every queue.  oslo.messaging takes a message apart before it
calls anything of ours, and an exception there closes the channel, and stops the listener for a
second.  So a door stands before each consumer of its RabbitMQ driver: it drops what is too large,
compressed or malformed, and marks calls that have waited in this host's queue while its agent was
down, hung or cut off, since a later decision may already hold.  AMQP has no time of sending; these
calls have waited:

- as many of the first deliveries as the queue had messages when it was declared, which
  oslo.messaging does at the start and after each loss of the connection;
- those that are delivered a second time: a call is acknowledged as soon as it arrives, so the
  first delivery went to a dead connection.

The private names, and what a service does without them, after a warning that has the name:

- ``_poll_style_listener``, ``conn``, ``connection``, ``_consumers``; of a consumer ``queue_name``,
  ``_callback``, ``callback``, ``declare``: no call is dropped or marked;
- ``consume``: an idle server takes more CPU time; ``connected``: it always counts as connected;
- ``_driver``, ``_get_reply_q``, ``_reply_q_conn``: no reply is dropped;
- ``_make_message``, ``_send``: a call without an answer does not expire in the queue.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from agent.bus.incoming import LARGEST, WAITED, check_call, check_reply
from reportclient.plain_text import error_text

LOG = logging.getLogger("compute_agent.registry")
REFUSED_LOG = LOG.getChild("refused")
"""Has a line for each message or call that is refused; ``limit_repeats`` drops repeated ones."""

WAKES_EVERY = 1.0
"""Seconds after which a server without messages looks whether it is to stop."""
_DIFFERENT = re.compile(
    r"inequivalent arg '(.+?)' for (\w+) '(.+?)' in vhost '(.+?)': "
    r"received (.+) but current is (.+)"
)


@contextmanager
def _private_names(without: str) -> Iterator[None]:
    try:
        yield
    except AttributeError as err:
        number = metadata.version("oslo.messaging")
        LOG.warning("With oslo.messaging %s %s: %s", number, without, err)


@dataclass(slots=True)
class Door:
    """Takes the messages of a consumer of oslo.messaging, all in the same thread."""

    consumer: Any
    check: Callable[[Mapping[str, Any]], object]
    """Raises an error about a malformed message."""
    largest: int = LARGEST
    """Bytes of a message."""
    compressed: bool = False
    """Whether compressed messages are expected; they can be of any size."""
    waiting: int = 0
    """How many of the next deliveries have waited."""
    _has_waited: bool = False

    def __post_init__(self) -> None:
        consumer = self.consumer
        parse, receive = consumer._callback, consumer.callback
        consumer._callback = lambda raw: self._parse(parse, raw)
        consumer.callback = lambda message: self._pass_on(receive, message)

    def count_waiting(self, connection: Any) -> None:
        """Mark the messages that wait in the queue, now and after each reconnection."""
        declare = self.consumer.declare

        def declare_and_count(connection: Any) -> None:
            declare(connection)
            self._count(connection)

        self.consumer.declare = declare_and_count
        self._count(connection)

    def _count(self, connection: Any) -> None:
        queue = connection.channel.queue_declare(self.consumer.queue_name, passive=True)
        self.waiting = queue.message_count
        if self.waiting:
            text = "%d RPC calls waited in the queue while this service did not listen"
            LOG.warning(text, self.waiting)

    def _parse(self, parse: Callable[[Any], object], raw: Any) -> object:
        """Parse a message as it came, unless it is too large; ``parse`` raises nothing."""
        self._has_waited = self.waiting > 0 or bool(raw.delivery_info.get("redelivered"))
        self.waiting = max(0, self.waiting - 1)
        if len(raw.body) > self.largest:
            why = f"{len(raw.body)} bytes, of at most {self.largest}"
        elif not self.compressed and (raw.headers or {}).get("compression"):
            why = "it is compressed; [oslo_messaging_rabbit] kombu_compression is not set here"
        else:
            return parse(raw)
        REFUSED_LOG.warning("Dropped a message: %s", why)
        return raw.channel.basic_ack(raw.delivery_tag)

    def _pass_on(self, receive: Callable[[Any], object], message: Any) -> None:
        """Have oslo.messaging receive a parsed message, unless it is malformed."""
        try:
            self.check(message)
            if self._has_waited:
                message[f"_context_{WAITED}"] = True
            receive(message)
        except Exception as err:  # noqa: BLE001  oslo.messaging takes the context apart
            REFUSED_LOG.warning("Dropped a message: %s", error_text(err))
            with suppress(Exception):  # it may be acknowledged already
                message.acknowledge()


@dataclass(slots=True)
class Arrivals:
    """The connection over which a server's calls arrive."""

    listener: Any
    """oslo.messaging's, before it begins to consume."""
    queue: str
    """The queue whose calls wait for this server only."""
    largest: int
    """Bytes of a call."""
    problem: str = ""
    """Why calls can't arrive, as far as the broker has said."""
    _connection: Any = None
    _doors: list[Door] = field(default_factory=list)

    def __post_init__(self) -> None:
        with _private_names("malformed calls are not dropped, calls that waited not ignored"):
            polled = self.listener._poll_style_listener
            self._connection = connection = polled.conn.connection
            compressed = polled.driver.conf.oslo_messaging_rabbit.kombu_compression is not None
            for consumer in connection._consumers:
                self._doors.append(Door(consumer, check_call, self.largest, compressed))
                if consumer.queue_name == self.queue:
                    self._doors[-1].count_waiting(connection)
            consume = connection.consume

            def consume_longer(timeout: float | None = None) -> None:
                """Wait for the next message, instead of a millisecond at first.

                oslo.messaging looks that often for acknowledgements to send, which only
                notifications have; at 200 messages a second this takes a fifth of a server's CPU
                time.
                """
                try:
                    consume(WAKES_EVERY)
                except Exception as err:
                    self.problem = describe(err) if _DIFFERENT.search(str(err)) else ""
                    for door in self._doors:
                        door.waiting = 0  # all of them were delivered, or are counted again
                    raise
                self.problem = ""

            connection.consume = consume_longer

    def is_connected(self) -> bool:
        """Return whether the connection is up, as far as this side knows."""
        return bool(getattr(getattr(self._connection, "connection", None), "connected", True))


def describe(err: Exception) -> str:
    """Return an error of the broker, with the command if another has replaced a shared queue."""
    found = _DIFFERENT.search(error_text(err))
    if found is None:
        return error_text(err)
    option, kind, name, vhost, declared, existing = found.groups()
    delete = f"rabbitmqctl delete_queue -p {vhost} {name}"
    if kind != "queue":
        delete = f"rabbitmqadmin -V {vhost} delete {kind} name={name}"
    return (
        f"{kind} {name} has another {option} than this service declares: {existing.rstrip('.')}, "
        f"not {declared}; another user of the broker may have made it. Delete it, then it is made "
        f"again: {delete}"
    )


def guard_replies(transport: Any) -> None:
    """Have ``transport`` drop malformed replies; connects to the broker."""
    with _private_names("malformed replies are not dropped"):
        driver = transport._driver
        driver._get_reply_q()
        for consumer in driver._reply_q_conn.connection._consumers:
            if not hasattr(consumer, "door"):
                consumer.door = Door(consumer, check_reply)


def send(
    transport: Any, client: Any, context: dict[str, Any], method: str, arguments: dict[str, Any]
) -> None:
    """Send a call without an answer; the broker drops it after the client's time-out.

    ``client``: what ``prepare`` returned.  ``cast`` would do the same without that time.
    """
    with _private_names("a call without an answer does not expire"):
        message = client._make_message(context, method, arguments)
        within, retry = client.timeout, client.retry
        transport._send(client.target, context, message, timeout=within, retry=retry)
        return
    client.cast(context, method, **arguments)
