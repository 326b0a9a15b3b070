"""How the services log: to a terminal or a file with the time, to the journal with priorities.

The journal knows the time by itself, and takes ``<4>`` at the start of a line for its
priority (sd-daemon(3)).  Whatever a message holds of names and reasons from outside makes
neither a line of its own nor an escape sequence.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reportclient.plain_text import plain

FORMAT = "%(levelname)s %(name)s %(message)s"
WITH_TIME = f"%(asctime)s {FORMAT}"
CONTINUED = "  "
"""Before the lines of a traceback, so that none of them looks like another message."""
_PRIORITIES = (
    (logging.CRITICAL, 2),
    (logging.ERROR, 3),
    (logging.WARNING, 4),
    (logging.INFO, 6),
)
_DEBUG = 7


def start(level: int) -> None:
    """Log to standard error from now on."""
    logging.basicConfig(level=level)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(Lines(journal=is_journal()))


def set_level(level: int) -> None:
    """Log so much from now on."""
    logging.getLogger().setLevel(level)


def complain(text: str) -> None:
    """The last words of a service that can't go on; the text may have several lines."""
    mark = "<3>" if is_journal() else ""
    lines = [mark + plain(line) for line in text.split("\n")]
    sys.stderr.write("\n".join(lines) + "\n")


def is_journal(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether standard error goes straight to systemd's journal (systemd.exec(5))."""
    try:
        found = os.fstat(2)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


class Lines(logging.Formatter):
    """One line for a message; those of a traceback are set in below it."""

    def __init__(self, *, journal: bool) -> None:
        super().__init__(FORMAT if journal else WITH_TIME)
        self._journal = journal

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's name
        """The message, in one line whatever is in it."""
        return plain(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802  logging's name
        """The traceback, set in."""
        return _set_in(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:  # noqa: N802  logging's name
        """Likewise."""
        return _set_in(stack_info)

    def format(self, record: logging.LogRecord) -> str:
        """Each line with its priority, for the journal."""
        record.exc_text = None  # of another formatter
        text = super().format(record)
        if not self._journal:
            return text
        mark = f"<{_priority(record.levelno)}>"
        return "\n".join(mark + line for line in text.split("\n"))


def _set_in(text: str) -> str:
    return "\n".join(CONTINUED + plain(line) for line in text.split("\n"))


def _priority(level: int) -> int:
    return next((number for least, number in _PRIORITIES if level >= least), _DEBUG)


OUTAGES = "oslo.messaging._drivers.impl_rabbit"
"""Says every second that the broker is away."""
SELDOM = 60.0
"""Seconds between two such lines that are let through."""
CHATTY = ("oslo.messaging", "oslo_messaging", "amqp", "kombu", "oslo_metrics")


def quiet_bus(level: int = logging.WARNING) -> None:
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
