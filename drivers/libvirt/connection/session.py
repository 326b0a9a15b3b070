"""Session: one libvirt connection.

It belongs to the worker thread of a queue.  Nothing outside that thread may hold the connection:
when the last reference to a virConnect is dropped it is closed, and that can hang.  For the same
reason libvirt's exceptions, whose tracebacks hold the connection, are caught here.
"""

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

from drivers.errors import DriverNotReady
from drivers.libvirt.connection.events import EVENT_KINDS, EventKind, Events

LOG = logging.getLogger("compute_agent.drivers")

CLOSED_BY_US = 3
"""VIR_CONNECT_CLOSE_REASON_CLIENT"""
CLOSE_REASONS = (
    "an error on the connection",
    "libvirtd closed the connection",
    "libvirtd did not answer keepalive messages",
)
"""By libvirt's numbers (virConnectCloseReason)."""

NOT_PERMITTED = tuple(f"VIR_ERR_AUTH_{why}" for why in ("FAILED", "CANCELLED", "UNAVAILABLE"))

T = TypeVar("T")


class ConnectionFailed(DriverNotReady):
    """The connection could not be opened: nothing listens, or access was denied."""


class CallSkipped(DriverNotReady):
    """libvirt was not called: an earlier call is still running, or others took all the time."""


class ErrorReply(DriverNotReady):
    """libvirt answered with an error, or unusably; ``unsupported``: this hypervisor lacks the
    call.
    """

    def __init__(self, message: str, *, unsupported: bool = False) -> None:
        super().__init__(message)
        self.unsupported = unsupported


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Timeouts and intervals in seconds; ``keepalive_interval`` 0 switches keepalive off."""

    connect: float = 10.0
    call: float = 30.0
    keepalive_interval: int = 5
    keepalive_count: int = 3

    @classmethod
    def from_conf(cls, group: Any) -> Self:
        """Return the deadlines by the options of ``[libvirt]``."""
        return cls(
            group.connection_timeout,
            group.call_timeout,
            group.keepalive_interval,
            group.keepalive_count,
        )


class Session:
    """A connection that is opened on demand.

    The host's main session has ``events``, which receives libvirt's, and ``on_lost``, which is
    called with the reason when the connection ends without ``close``; side sessions have neither.
    """

    def __init__(
        self,
        binding: Any,
        uri: str,
        deadlines: Deadlines,
        on_lost: Callable[[str], None] | None = None,
        events: Events | None = None,
    ) -> None:
        self._binding = binding
        self._uri = uri
        self._deadlines = deadlines
        self._on_lost = on_lost
        self._events = events
        self._registered: list[tuple[EventKind, int]] = []
        self._connection: Any = None

    def ensure_open(self) -> None:
        """Connect unless connected; set up keepalive, events and the close callback.

        :raises ConnectionFailed: with libvirt's message.
        """
        if self._is_alive():
            return
        where = f"libvirt at {self._uri}"
        if self._connection is not None:
            self._log(logging.WARNING, f"the connection to {where} was lost, connecting again")
            self.close()
        problem = self._open(where)
        if problem is not None:
            raise ConnectionFailed(f"no connection to libvirt at {self._uri}: {problem}")
        interval, count = self._deadlines.keepalive_interval, self._deadlines.keepalive_count
        if interval:  # libvirt then ends calls to a daemon that does not respond
            self._attempt(
                "keepalive was not set", lambda: self._connection.setKeepAlive(interval, count)
            )
        if self._on_lost is not None:
            callback = _close_callback(self._on_lost)
            self._attempt(
                "the close callback was not registered",
                lambda: self._connection.registerCloseCallback(callback, None),
            )
        if self._events is not None:
            self._subscribe(self._events)
        self._log(logging.INFO, f"connected to {where}")

    def run_call(self, what: str, call: Callable[[Any], T]) -> T:
        """Return ``call(connection)``; ``what`` names it in errors.

        :raises ErrorReply: libvirt answered with an error, or with something unusable.
        :raises DriverNotReady: the connection was lost meanwhile.
        """
        try:
            return call(self._connection)
        except (ValueError, LookupError) as err:  # not UTF-8, not a document, a missing number
            message, unsupported = unusable_answer(err), False
        except AttributeError as err:
            if err.obj is not self._connection:
                raise
            message, unsupported = f"this libvirt-python has no {err.name}", True
        except self._binding.libvirtError as err:
            message = _message(err)
            unsupported = err.get_error_code() == self._binding.VIR_ERR_NO_SUPPORT
        if not self._is_alive():
            self.close()
            raise DriverNotReady(
                f"lost the connection to libvirt at {self._uri} while reading {what}: {message}"
            )
        if self._on_lost is None and not unsupported:
            self.close()  # it lives on where a modular daemon behind it was restarted
        raise ErrorReply(
            f"libvirt at {self._uri}: reading {what} failed: {message}", unsupported=unsupported
        )

    def close(self) -> None:
        """Close the connection; it can be opened again."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        registered, self._registered = self._registered, []
        for kind, number in registered:
            deregister = getattr(connection, f"{kind.methods}EventDeregisterAny")
            self._attempt(f"{kind.event} was not unregistered", partial(deregister, number))
        if self._on_lost is not None:
            self._attempt(
                "the close callback was not unregistered", connection.unregisterCloseCallback
            )
        self._attempt("the connection was not closed", connection.close)

    def _open(self, where: str) -> str | None:
        """Open read-write, else read-only; return what went wrong, or ``None``.

        A read-only connection answers everything but domain capabilities.
        """
        binding = self._binding
        try:
            self._connection = binding.open(self._uri)
        except binding.libvirtError as err:
            code, number = err.get_error_code(), err.get_int1()
            no_access = code == binding.VIR_ERR_SYSTEM_ERROR and number == errno.EACCES
            if not no_access and code not in {getattr(binding, name) for name in NOT_PERMITTED}:
                return _message(err)
        if self._connection is None:
            try:
                self._connection = binding.openReadOnly(self._uri)
            except binding.libvirtError as err:
                return _message(err)
            self._log(
                logging.WARNING,
                f"{where} grants read-only access only: domain capabilities are not available",
            )
        return None

    def _subscribe(self, events: Events) -> None:
        """Register for all events, and note the topics of which every event is delivered."""
        refused = set()
        for kind in EVENT_KINDS:
            event = getattr(self._binding, kind.event)
            register = getattr(self._connection, f"{kind.methods}EventRegisterAny")
            try:
                number = register(None, event, kind.callback(events.changed), None)
                self._registered.append((kind, number))
            except self._binding.libvirtError as err:  # this hypervisor does not have this event
                LOG.debug("no events of %s: %s", kind.topic, err)
                refused.add(kind.topic)
        events.opened({kind.topic for kind in EVENT_KINDS} - refused)

    def _attempt(self, problem: str, call: Callable[[], object]) -> None:
        """Make a call that may fail, since some hypervisors lack it; ``problem`` is logged then."""
        try:
            call()
        except self._binding.libvirtError as err:
            LOG.debug("%s (%s): %s", problem, self._uri, _message(err))

    def _is_alive(self) -> bool:
        if self._connection is None:
            return False
        try:
            return bool(self._connection.isAlive())
        except self._binding.libvirtError:
            return False

    def _log(self, level: int, message: str) -> None:
        """Log at ``level`` for the host's main connection, at DEBUG for side connections."""
        LOG.log(level if self._on_lost is not None else logging.DEBUG, "%s", message)


def _close_callback(on_lost: Callable[[str], None]) -> Callable[[Any, int, object], None]:
    """Return what libvirt's event loop calls when the connection ends.

    Like the events' callbacks it holds no session, which would hold the connection.
    """

    def closed(_connection: Any, reason: int, _opaque: object) -> None:
        if reason != CLOSED_BY_US:
            on_lost(CLOSE_REASONS[reason if reason < len(CLOSE_REASONS) else 0])

    return closed


def unusable_answer(err: Exception) -> str:
    """Return why an answer can't be used, as the end of a sentence."""
    if isinstance(err, UnicodeDecodeError):
        return f"gave a text that is not UTF-8 (byte {err.start})"
    return f"gave {err}" if isinstance(err, ValueError) else f"its answer lacks {err}"


def _message(err: Any) -> str:
    return str(err.get_error_message() or err)
