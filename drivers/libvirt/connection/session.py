"""Session: one libvirt connection.

It belongs to the worker thread of a queue, and nothing outside that thread may hold
the connection: the last one to let go of a virConnect closes it, and that can hang.
For the same reason libvirt's exceptions end here (their tracebacks hold it).
"""

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from drivers.errors import DriverNotReady
from drivers.libvirt.connection.events import Events, Subscriptions

LOG = logging.getLogger(__name__)

CLOSED_BY_US = 3
"""VIR_CONNECT_CLOSE_REASON_CLIENT"""
WHY_CLOSED = ("an error on the connection", "libvirtd has gone", "libvirtd gives no sign of life")
"""By libvirt's numbers for the reasons."""

T = TypeVar("T")


class Unconnected(DriverNotReady):
    """libvirt was asked for a connection and said no: nothing listens, or not to us."""


class NotTried(DriverNotReady):
    """libvirt was not asked: an earlier question has not come back, or others take too long."""


class Refused(DriverNotReady):
    """libvirt answered, with an error; ``unsupported``: this hypervisor never will."""

    def __init__(self, message: str, *, unsupported: bool = False) -> None:
        super().__init__(message)
        self.unsupported = unsupported


@dataclass(frozen=True, slots=True)
class Deadlines:
    """In seconds; ``keepalive_interval`` 0 asks a connection for no sign of life."""

    connect: float = 10.0
    call: float = 30.0
    keepalive_interval: int = 5
    keepalive_count: int = 3

    @classmethod
    def of(cls, group: Any) -> Self:
        """Return the deadlines by the options of ``[libvirt]``."""
        return cls(
            group.connection_timeout,
            group.call_timeout,
            group.keepalive_interval,
            group.keepalive_count,
        )


class Session:
    """Opens when asked, and answers questions."""

    def __init__(
        self,
        binding: Any,
        uri: str,
        deadlines: Deadlines,
        on_lost: Callable[[str], None] | None = None,
        events: Events | None = None,
    ) -> None:
        """``on_lost`` is told why a connection ended that nobody here closed, ``events`` what
        changes meanwhile.
        """
        self._binding = binding
        self._uri = uri
        self._deadlines = deadlines
        self._on_lost = on_lost
        self._events = events
        self._subscriptions = Subscriptions(binding, events.changed) if events is not None else None
        self._connection: Any = None

    def ensure_open(self) -> None:
        """Connect unless connected.

        :raises Unconnected: with libvirt's words.
        """
        if self._is_alive():
            return
        if self._connection is not None:
            self._say(
                logging.WARNING,
                f"the connection to libvirt at {self._uri} was lost, connecting again",
            )
            self.close()
        problem = self._try_open()
        if problem is not None:
            raise Unconnected(f"no connection to libvirt at {self._uri}: {problem}")
        self._say(logging.INFO, f"connected to libvirt at {self._uri}")

    def ask(self, what: str, question: Callable[[Any], T]) -> T:
        """``question(connection)``.

        :raises Refused: libvirt answered with an error, or with what can't be made sense of.
        :raises DriverNotReady: the connection was lost meanwhile.
        """
        try:
            return question(self._connection)
        except (ValueError, LookupError) as err:  # no UTF-8, no document, a number that is missing
            words, unsupported = nonsense(err), False
        except AttributeError as err:
            if err.obj is not self._connection:
                raise
            words, unsupported = f"this libvirt-python has no {err.name}", True
        except self._binding.libvirtError as err:
            words = _words(err)
            unsupported = err.get_error_code() == self._binding.VIR_ERR_NO_SUPPORT
        if not self._is_alive():
            self.close()
            raise DriverNotReady(f"libvirt at {self._uri} went away when asked for {what}: {words}")
        raise Refused(f"libvirt at {self._uri}, asked for {what}: {words}", unsupported=unsupported)

    def close(self) -> None:
        """Drop the connection; it can be opened again."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._subscriptions is not None:
            self._subscriptions.end(connection)
        if self._on_lost is not None:
            self._attempt("no callback to take back", connection.unregisterCloseCallback)
        self._attempt("closing the connection", connection.close)

    def _attempt(self, what: str, call: Callable[[], object]) -> None:
        """Make a call that may fail: hypervisors without a daemon lack some calls."""
        try:
            call()
        except self._binding.libvirtError as err:
            LOG.debug("%s (%s): %s", what, self._uri, _words(err))

    def _is_alive(self) -> bool:
        if self._connection is None:
            return False
        try:
            return bool(self._connection.isAlive())
        except self._binding.libvirtError:
            return False

    def _try_open(self) -> str | None:
        """Read-write, as domain capabilities need it; else read-only, where those are
        refused and all else is answered.  Returns what went wrong.
        """
        try:
            self._connection = self._binding.open(self._uri)
        except self._binding.libvirtError as err:
            if not self._is_about_permission(err):
                return _words(err)
        if self._connection is None:
            try:
                self._connection = self._binding.openReadOnly(self._uri)
            except self._binding.libvirtError as err:
                return _words(err)
            self._say(
                logging.WARNING,
                f"libvirt at {self._uri} allows us to read only:"
                " domain capabilities can't be asked for",
            )
        self._opened()
        return None

    def _say(self, level: int, words: str) -> None:
        """Once of a host: connections beside the first are of no interest to operators."""
        LOG.log(level if self._on_lost is not None else logging.DEBUG, "%s", words)

    def _is_about_permission(self, err: Any) -> bool:
        if err.get_error_code() == self._binding.VIR_ERR_SYSTEM_ERROR:
            return bool(err.get_int1() == errno.EACCES)
        return err.get_error_code() in {
            self._binding.VIR_ERR_AUTH_FAILED,
            self._binding.VIR_ERR_AUTH_CANCELLED,
            self._binding.VIR_ERR_AUTH_UNAVAILABLE,
        }

    def _opened(self) -> None:
        interval, count = self._deadlines.keepalive_interval, self._deadlines.keepalive_count
        if interval:  # libvirt itself ends calls to a daemon that is silent for too long
            self._attempt("no keepalive", lambda: self._connection.setKeepAlive(interval, count))
        if self._on_lost is not None:
            self._notice_loss(self._on_lost)
        if self._events is not None and self._subscriptions is not None:
            self._events.opened(self._subscriptions.begin(self._connection))

    def _notice_loss(self, on_lost: Callable[[str], None]) -> None:
        """Have libvirt's event loop say when the connection ends.

        What it calls must not hold this session, which holds the connection.
        """

        def closed(_connection: Any, reason: int, _opaque: object) -> None:
            if reason != CLOSED_BY_US:
                on_lost(WHY_CLOSED[reason if reason < len(WHY_CLOSED) else 0])

        self._attempt(
            "no word of a lost connection",
            lambda: self._connection.registerCloseCallback(closed, None),
        )


def nonsense(err: Exception) -> str:
    """Return why an answer is of no use, as the end of a sentence."""
    if isinstance(err, UnicodeDecodeError):
        return f"gave a text that is not UTF-8 (byte {err.start})"
    return f"gave {err}" if isinstance(err, ValueError) else f"its answer lacks {err}"


def _words(err: Any) -> str:
    return str(err.get_error_message() or err)
