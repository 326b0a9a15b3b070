"""How the services log: by oslo.log, whose options Nova's operators know.

Two things are added.  Whatever a message holds of names and reasons from outside makes neither
a line of its own nor an escape sequence.  And where standard error is systemd's journal, each
line gets ``<4>`` at its start for its priority (sd-daemon(3)), and by default no second time.
"""

import copy
import logging
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from oslo_log import log as oslo_log

from agent.version import version
from reportclient.plain_text import plain

CONTINUED = "  "
"""Before the lines of a traceback in the journal, so that none looks like another message."""
_FOR_JOURNAL = {
    "logging_default_format_string": "%(levelname)s %(name)s %(message)s",
    "logging_context_format_string": "%(levelname)s %(name)s [%(global_request_id)s "
    "%(request_id)s %(user_identity)s] %(message)s",
    "logging_exception_prefix": CONTINUED,
}
"""The journal knows the time and the process."""
LONGEST_MESSAGE = 20_000
"""Characters of one message; the middle of a longer one is left out."""
_QUIET = (
    *("alembic", "amqp", "keystoneauth", "keystonemiddleware", "kombu", "oslo.messaging"),
    *("oslo_db", "oslo_messaging", "oslo_metrics", "sqlalchemy", "stevedore", "urllib3"),
    "waitress",
)
"""What these libraries say at INFO is for their authors."""
_CHOSEN = ("log_file", "log_dir", "use_stderr", "use_journal", "use_syslog", "log_config_append")
_PRIORITIES = (
    (logging.CRITICAL, 2),
    (logging.ERROR, 3),
    (logging.WARNING, 4),
    (logging.INFO, 6),
)
_DEBUG = 7


class LogsUnusable(Exception):
    """The options of oslo.log can't be used; the text says why."""


def register(conf: Any) -> None:
    """oslo.log's options, those of the command line included."""
    quiet = [f"{name}=WARN" for name in _QUIET]
    oslo_log.set_defaults(default_log_levels=quiet)
    before = list(logging.getLogger().handlers)
    oslo_log.register_options(conf)
    if not before:  # a handler for what is said before there is one: nothing of ours is
        logging.getLogger().handlers.clear()
    if is_journal():
        for name, default in _FOR_JOURNAL.items():
            conf.set_default(name, default)


def start(conf: Any, name: str, *, quiet: bool = False) -> None:
    """Log as the configuration says from now on; by default to standard error.

    ``quiet`` is for terminals on which something else says what happens.

    :raises LogsUnusable: it can't be.
    """
    if not any(getattr(conf, option) for option in _CHOSEN):
        conf.set_default("use_stderr", True)  # oslo.log's is standard output
    try:
        oslo_log.setup(conf, name, version(), fix_eventlet=False)
    except (oslo_log.LogConfigError, OSError, RuntimeError, TypeError, ValueError) as err:
        said = ", ".join((*_CHOSEN, "default_log_levels"))
        raise LogsUnusable(f"logging can't be set up ({said}): {err}") from err
    root = logging.getLogger()
    for handler in root.handlers:
        to_journal = getattr(handler, "stream", None) is sys.stderr and is_journal()
        handler.setFormatter(Lines(handler.formatter or logging.Formatter(), journal=to_journal))
    if quiet and not conf.debug:
        root.setLevel(logging.WARNING)


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
    """A formatter around another one that escapes control characters."""

    def __init__(self, inner: logging.Formatter, *, journal: bool) -> None:
        super().__init__()
        self._inner, self._journal = inner, journal

    def format(self, record: logging.LogRecord) -> str:
        """The message in one line whatever is in it, a traceback in more."""
        record = copy.copy(record)
        record.msg, record.args = _bounded(plain(record.getMessage())), None
        record.exc_text = None  # of another formatter
        text = self._without_summary(self._inner.format(record), record)
        mark = f"<{_priority(record.levelno)}>" if self._journal else ""
        return "\n".join(mark + plain(line, keep="\t") for line in text.split("\n"))

    def _without_summary(self, text: str, record: logging.LogRecord) -> str:
        """Oslo.log adds the error that is being handled, with its line breaks; our texts say it.

        A format that asks for it gets it, in one line.
        """
        summary = getattr(record, "error_summary", "")
        if not summary:
            return text
        conf = self._inner.conf  # type: ignore[attr-defined]  # of a ContextFormatter
        formats = conf.logging_default_format_string + conf.logging_context_format_string
        if "%(error_summary)s" in formats:
            return text.replace(summary, plain(summary), 1)
        return text.replace(f": {summary}", "", 1)


def _bounded(text: str) -> str:
    if len(text) <= LONGEST_MESSAGE:
        return text
    half, left = LONGEST_MESSAGE // 2, len(text) - LONGEST_MESSAGE
    return f"{text[:half]}... ({left:,} characters left out) ...{text[-half:]}"


def _priority(level: int) -> int:
    return next((number for least, number in _PRIORITIES if level >= least), _DEBUG)


OUTAGES = "oslo.messaging._drivers.impl_rabbit"
"""Says every second that the broker is away."""
SELDOM = 60.0
"""Seconds between two such lines that are let through, where they give the same reason."""


def quiet_bus() -> None:
    """Say seldom what does not change."""
    logging.getLogger(OUTAGES).addFilter(RepeatFilter(SELDOM))


@dataclass(slots=True, eq=False)
class RepeatFilter(logging.Filter):
    """Lets a line through, and the next with its reason after so many seconds.

    That it is away is one reason, however connections notice.
    """

    every: float
    clock: Callable[[], float] = time.monotonic
    _next: dict[str, float] = field(default_factory=dict)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is time."""
        now, reason = self.clock(), _reason(record)
        self._next = {each: at for each, at in self._next.items() if now < at}
        if reason in self._next:
            return False
        self._next[reason] = now + self.every
        return True


def _reason(record: logging.LogRecord) -> str:
    """Return the reason in a line of oslo.messaging, without connection and delay."""
    said = record.args if isinstance(record.args, Mapping) else {}
    err = said.get("err_str")
    why = "" if _says_only_that_it_is_away(err) else err
    return f"{record.msg} {said.get('hostname')} {said.get('port')} {why}"


def _says_only_that_it_is_away(err: object) -> bool:
    """Reset, closed and refused follow each other while a broker ends; amqp's own have a code."""
    told = isinstance(err, ssl.SSLError | socket.gaierror)
    return (isinstance(err, OSError) and not told) or getattr(err, "code", None) == 0
