"""What the libraries of the message bus log, less what is of no use to an operator."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

OUTAGES = "oslo.messaging._drivers.impl_rabbit"
"""Says every second that the broker is away."""
SELDOM = 60.0
"""Seconds between two such lines that are let through."""
CHATTY = ("oslo.messaging", "oslo_messaging", "amqp", "kombu", "oslo_metrics")


def quiet_logs(level: int = logging.WARNING) -> None:
    """What the libraries say at INFO is for their authors."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(level)
    logging.getLogger(OUTAGES).addFilter(Seldom(SELDOM))


@dataclass(slots=True, eq=False)
class Seldom(logging.Filter):
    """Lets one line through, and the next after so many seconds."""

    every: float
    clock: Callable[[], float] = time.monotonic
    _next: float = 0.0

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002  all of them are alike
        """Whether it is time."""
        now = self.clock()
        if now < self._next:
            return False
        self._next = now + self.every
        return True
