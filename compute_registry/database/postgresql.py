"""A time-out for PostgreSQL on this side: libpq waits for ever for a server that has stopped."""

import select
import time
from typing import Any

from psycopg2 import OperationalError, extensions

ANSWER_WITHIN = 5.0
"""Seconds that a connection or a statement may take: more than the server's statement_timeout."""
_EVENTS = {extensions.POLL_READ: select.POLLIN, extensions.POLL_WRITE: select.POLLOUT}


def bound_answers() -> None:
    """Have the connections of this process wait as :func:`wait_for_answer` does."""
    extensions.set_wait_callback(wait_for_answer)


def wait_for_answer(connection: Any) -> None:
    """Wait until ``connection`` is open, or has the answer to its statement.

    psycopg2 closes a connection for which this raises an error.

    :raises OperationalError: it took longer than ``ANSWER_WITHIN``.
    """
    give_up = time.monotonic() + ANSWER_WITHIN
    while (state := connection.poll()) in _EVENTS:
        ready = select.poll()
        ready.register(connection.fileno(), _EVENTS[state])
        if not ready.poll(max(0.0, give_up - time.monotonic()) * 1000):
            raise OperationalError(f"timed out: no answer within {ANSWER_WITHIN:g} s")
    if state != extensions.POLL_OK:
        raise OperationalError(f"unexpected state {state} of the connection")
