"""Calls that waited in this host's queue while nobody listened, told from fresh ones.

A call waits while its agent is down, hung or cut off; by the time it is fetched, somebody
may have decided otherwise.  AMQP carries no time of sending, but it says what waited:

- what is in the queue at the moment when it is declared, which oslo.messaging does at the
  start and again after each loss of the connection;
- what is delivered a second time: oslo.messaging acknowledges a call as soon as it has it,
  so a call that comes again was sent to a connection that was dead.

oslo.messaging has no public place for either; what is used of its RabbitMQ driver is here.
Other drivers, which have none of it, are left as they are.
"""

from __future__ import annotations

import logging
from typing import Any

LOG = logging.getLogger(__name__)

REDELIVERED = "redelivered"
"""AMQP's own mark; put on what waited as well."""


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
