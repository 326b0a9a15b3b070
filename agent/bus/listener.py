"""A server's incoming messages: malformed ones are dropped, calls that waited are marked.

A call waits in this host's queue while its agent is down, hung or cut off; when it is fetched,
a later decision may already hold.  AMQP has no time of sending, but these calls have waited:

- those in the queue when it is declared, which oslo.messaging does at the start and again
  after each loss of the connection;
- those that are delivered a second time: oslo.messaging acknowledges a call as soon as it has
  it, so the first delivery went to a dead connection.

oslo.messaging has no public interface for this: the functions use its RabbitMQ driver's objects.
With other drivers no call is marked or dropped.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from agent.bus.incoming import LARGEST, check_call, check_reply
from reportclient.plain_text import error_text

LOG = logging.getLogger("compute_agent.registry")
REFUSED_LOG = LOG.getChild("refused")
"""Has a line for each message or call that is refused; ``limit_repeats`` drops repeated ones."""

REDELIVERED = "redelivered"
"""AMQP's flag of a second delivery; set here also on calls that waited."""
WAKES_EVERY = 1.0
"""Seconds after which a server without messages looks whether it is to stop."""


def refuse_malformed(listener: Any) -> None:
    """Have ``listener`` drop malformed messages, and not wait for reply queues that are not there.

    By default it would try to send an answer for a minute, and its sender chooses the queue.
    ``listener`` is oslo.messaging's, before it begins to consume.
    """
    connection = _connection(listener)
    if connection is None:
        return
    driver = listener._poll_style_listener.driver  # noqa: SLF001
    driver.missing_destination_retry_timeout = 0.0
    compressed = driver.conf.oslo_messaging_rabbit.kombu_compression is not None
    for consumer in connection._consumers:  # noqa: SLF001
        consumer._callback = partial(_parse, consumer._callback, compressed)  # noqa: SLF001
        consumer.callback = partial(_pass_on, consumer.callback, check_call)


def refuse_malformed_replies(transport: Any) -> None:
    """Have ``transport`` drop malformed replies; connects to the broker."""
    driver = transport._driver  # noqa: SLF001
    if hasattr(driver, "_get_reply_q"):
        driver._get_reply_q()  # noqa: SLF001  its name is unknown to everybody yet
        for consumer in driver._reply_q_conn.connection._consumers:  # noqa: SLF001
            if not isinstance(consumer.callback, partial):
                consumer.callback = partial(_pass_on, consumer.callback, check_reply)


def _parse(parse: Callable[[Any], object], compressed: bool, raw: Any) -> None:
    """Parse a message as it came, unless it is too large; ``parse`` raises nothing.

    ``compressed``: compressed messages are expected.  They can be of any size.
    """
    if len(raw.body) > LARGEST:
        why = f"{len(raw.body)} bytes, of at most {LARGEST}"
    elif not compressed and (raw.headers or {}).get("compression"):
        why = "it is compressed; [oslo_messaging_rabbit] kombu_compression is not set here"
    else:
        parse(raw)
        return
    REFUSED_LOG.warning("Dropped a message: %s", why)
    raw.channel.basic_ack(raw.delivery_tag)


def _pass_on(
    receive: Callable[[Any], object], check: Callable[[Any], object], message: Any
) -> None:
    """Have oslo.messaging receive a parsed message, unless it is malformed.

    Whatever is raised here would close the channel, and stop the listener for a second.
    """
    try:
        check(message)
        receive(message)
    except Exception as err:  # noqa: BLE001  oslo.messaging takes the context apart
        REFUSED_LOG.warning("Dropped a message: %s", error_text(err))
        with suppress(Exception):  # it may be acknowledged already
            message.acknowledge()


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


def wait_for_messages(listener: Any) -> None:
    """Have ``listener`` wait for the next message, instead of a millisecond at first.

    oslo.messaging looks that often for acknowledgements to send, which only notifications have; at
    200 messages a second this takes a fifth of a server's CPU time.
    """
    connection = _connection(listener)
    if connection is not None:
        consume = connection.consume
        connection.consume = lambda timeout: consume(WAKES_EVERY)  # noqa: ARG005


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
