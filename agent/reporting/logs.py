"""Logging of the services: oslo.log with its options, as in Nova, and two additions.

Line breaks and escape sequences in a message, such as of names and reasons, are escaped.  If
standard error is systemd's journal, each line begins with its priority, such as ``<4>``
(sd-daemon(3)), and the default formats have no time.
"""

import copy
import logging
import os
import re
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from oslo_log import log as oslo_log

from agent import version
from reportclient.plain_text import plain

CONTINUED = "  "
"""Prefix of a traceback's lines in the journal, so that none looks like another message."""
_FOR_JOURNAL = {
    "logging_default_format_string": "%(levelname)s %(name)s %(message)s",
    "logging_context_format_string": "%(levelname)s %(name)s [%(global_request_id)s "
    "%(request_id)s %(user_identity)s] %(message)s",
    "logging_exception_prefix": CONTINUED,
}
"""Defaults of options in the journal, which records time and process itself."""
_FOR_OTHERS = {
    "logging_exception_prefix": "%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s "
}
"""Defaults elsewhere: oslo.log's prefix has ERROR also where a traceback is for debug."""
LONGEST_MESSAGE = 20_000
"""Most characters of one message; of a longer one the middle is left out."""
SHORT = 8
"""Secrets with fewer characters may be parts of words."""
_QUIET = (
    *("amqp", "keystoneauth", "keystonemiddleware", "kombu", "oslo.messaging"),
    *("oslo_db", "oslo_messaging", "oslo_metrics", "sqlalchemy", "stevedore", "urllib3"),
    "waitress",
)
"""Libraries that log from WARNING on by default."""
_CHOSEN = ("log_file", "log_dir", "use_stderr", "use_journal", "use_syslog", "log_config_append")
_PRIORITIES = ((50, 2), (40, 3), (30, 4), (20, 6), (0, 7))
"""Priorities of the journal by least level: from CRITICAL (50) to NOTSET."""


class LogsUnusable(Exception):
    """The options of oslo.log can't be used; the text says why."""


def register(conf: Any) -> None:
    """Register oslo.log's options, those of the command line included."""
    quiet = [f"{name}=WARN" for name in _QUIET]
    # It warns, with a traceback, of each error of a database that its caller explains.
    quiet.append("oslo_db.sqlalchemy.exc_filters=ERROR")
    oslo_log.set_defaults(default_log_levels=quiet)
    before = list(logging.getLogger().handlers)
    oslo_log.register_options(conf)
    if not before:  # oslo.log's handler for messages before the setup; we log none
        logging.getLogger().handlers.clear()
    for name, default in (_FOR_JOURNAL if is_journal() else _FOR_OTHERS).items():
        conf.set_default(name, default)


def start(conf: Any, name: str, *, quiet: bool = False) -> None:
    """Set up logging as configured, by default to standard error.

    ``quiet``: only warnings and errors, unless ``debug`` is set; for --dev, which draws the tree.

    :raises LogsUnusable: an option of oslo.log can't be used.
    """
    if not any(getattr(conf, option) for option in _CHOSEN):
        conf.set_default("use_stderr", True)  # oslo.log's is standard output
    try:
        oslo_log.setup(conf, name, version(), fix_eventlet=False)
    except (oslo_log.LogConfigError, OSError, RuntimeError, TypeError, ValueError) as err:
        options = ", ".join((*_CHOSEN, "default_log_levels"))
        raise LogsUnusable(f"logging can't be set up ({options}): {err}") from err
    for handler in _handlers():
        to_journal = getattr(handler, "stream", None) is sys.stderr and is_journal()
        handler.setFormatter(Lines(handler.formatter or logging.Formatter(), journal=to_journal))
    if quiet and not conf.debug:
        logging.getLogger().setLevel(logging.WARNING)


def complain(text: str) -> None:
    """Write the error that ends a service to standard error; it may have several lines."""
    mark = "<3>" if is_journal() else ""
    lines = [mark + plain(line) for line in without_secrets(text).split("\n")]
    sys.stderr.write("\n".join(lines) + "\n")


def hide(secrets: Iterable[str]) -> None:
    """Have every log, ``complain`` and :func:`without_secrets` write ``***`` for these values.

    Call it after :func:`start`.
    """
    found = set(secrets)
    for lines in _formatters():
        lines.secrets |= found
        lines.hidden = pattern(lines.secrets)


def without_secrets(text: str) -> str:
    """Return the text with ``***`` for each value that is hidden in the logs."""
    for lines in _formatters():
        text = lines.hidden.sub("***", text)
    return text


def pattern(secrets: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of these values, as they are or quoted.

    A short one counts where it stands by itself, so that the rest remains readable.
    """
    forms = {form for text in secrets for form in (text, unquote(text), repr(text)[1:-1])} - {""}
    parts = [
        re.escape(form) if len(form) >= SHORT else rf"(?<!\w){re.escape(form)}(?!\w)"
        for form in sorted(forms, key=len, reverse=True)
    ]
    return re.compile("|".join(parts) or r"(?!)")


def _handlers() -> list[logging.Handler]:
    """Return the handlers of all loggers: a file of log_config_append may have any."""
    loggers = [logging.getLogger(), *logging.root.manager.loggerDict.values()]
    return [each for it in loggers if isinstance(it, logging.Logger) for each in it.handlers]


def _formatters() -> list["Lines"]:
    return [each.formatter for each in _handlers() if isinstance(each.formatter, Lines)]


def is_journal() -> bool:
    """Return whether standard error is systemd's journal (JOURNAL_STREAM, systemd.exec(5))."""
    try:
        stderr = os.fstat(2)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{stderr.st_dev}:{stderr.st_ino}"


class Lines(logging.Formatter):
    """Wraps another formatter: escapes control characters, hides secrets, adds priorities."""

    def __init__(self, inner: logging.Formatter, *, journal: bool) -> None:
        super().__init__()
        self._inner, self._journal = inner, journal
        self.secrets: set[str] = set()
        self.hidden = pattern(())

    def format(self, record: logging.LogRecord) -> str:
        """Return the message in one line, followed by the lines of a traceback."""
        record = copy.copy(record)
        message = plain(self.hidden.sub("***", record.getMessage()))
        if len(message) > LONGEST_MESSAGE:
            half, omitted = LONGEST_MESSAGE // 2, len(message) - LONGEST_MESSAGE
            message = f"{message[:half]}... ({omitted:,} characters left out) ...{message[-half:]}"
        record.msg, record.args = message, None
        record.exc_text = None  # of another formatter
        text = self.hidden.sub("***", self._without_summary(self._inner.format(record), record))
        priority = next(number for least, number in _PRIORITIES if record.levelno >= least)
        mark = f"<{priority}>" if self._journal else ""
        return "\n".join(mark + plain(line, keep="\t") for line in text.split("\n"))

    def _without_summary(self, text: str, record: logging.LogRecord) -> str:
        """Remove the summary of the current exception that oslo.log appends: our messages have it.

        A format that contains ``%(error_summary)s`` gets it, in one line.
        """
        summary = getattr(record, "error_summary", "")
        if not summary:
            return text
        conf = self._inner.conf  # type: ignore[attr-defined]  # of a ContextFormatter
        formats = conf.logging_default_format_string + conf.logging_context_format_string
        if "%(error_summary)s" in formats:
            return text.replace(summary, plain(summary), 1)
        return text.replace(f": {summary}", "", 1)


REPEATING = (
    *("oslo.messaging._drivers.impl_rabbit", "oslo_messaging._drivers.amqpdriver"),
    *("oslo_messaging.rpc.dispatcher", "oslo_messaging.rpc.server"),
    "compute_agent.registry.refused",
)
"""Loggers that write a line each second while the broker is unreachable, and a line for each
message or call that is refused, or whose answer has nowhere to go."""
REPEAT_EVERY = 300.0
"""Seconds between two such lines with the same reason."""
REASONS = 20
"""Reasons of a logger at the same time: senders can invent any number."""


def limit_repeats(*loggers: str) -> None:
    """Log a reason once in five minutes instead of each time, in ``REPEATING`` and ``loggers``."""
    for name in (*REPEATING, *loggers):
        logging.getLogger(name).addFilter(RepeatFilter(REPEAT_EVERY))


@dataclass(slots=True, eq=False)
class RepeatFilter(logging.Filter):
    """Passes a line, and the next one with the same reason after ``every`` seconds.

    That one has the number of those between.  Of more than ``REASONS`` reasons, those of the same
    line of code count as one, as do different errors of connections to a broker that is away.
    """

    every: float
    clock: Callable[[], float] = time.monotonic
    _next: dict[str, tuple[float, int]] = field(default_factory=dict)
    """The time at which a line passes again, and the number of those that did not, by reason."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is logged."""
        now, reason, place = self.clock(), _reason(record), f"{record.pathname}:{record.lineno}"
        if reason not in self._next and len(self._next) >= REASONS:
            known = list(self._next.items())  # at once: other threads add to it
            self._next = {each: it for each, it in known if now < it[0] or each == place}
            if len(self._next) >= REASONS:
                reason = place
        at, skipped = self._next.get(reason, (now, 0))
        if now < at:
            self._next[reason] = at, skipped + 1
            return False
        self._next[reason] = now + self.every, 0
        if skipped:
            record.msg, record.args = f"{record.getMessage()} ({skipped} more since the last)", ()
        return True


def _reason(record: logging.LogRecord) -> str:
    if record.exc_info:
        return f"{record.msg} {record.exc_info[1]!r}"
    if not isinstance(record.args, Mapping):
        return re.sub(r" \(retrying in [\d.]+ seconds\)", "", record.getMessage())
    err = record.args.get("err_str")
    # Reset, closed or refused, not for its certificate or name; amqp's own have the code 0.
    is_specific = isinstance(err, ssl.SSLError | socket.gaierror)
    is_lost = (isinstance(err, OSError) and not is_specific) or getattr(err, "code", None) == 0
    why = "" if is_lost else err
    return f"{record.msg} {record.args.get('hostname')} {record.args.get('port')} {why}"
