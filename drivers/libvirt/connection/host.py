"""Host: asks this machine and its libvirt, in bounded time.

The only module that imports libvirt.  What is asked is the facts' business.  Every question
ends by its deadline: with an answer, or with ``DriverNotReady`` that says what was asked of
which URI and what libvirt said.  A connection that was lost is opened again by the next
question; while libvirtd is down, one attempt a second is made.
"""

import functools
import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from drivers.deadline import Blocked, CallQueue, Overdue
from drivers.errors import DriverLoadFailed, DriverNotReady
from drivers.libvirt.connection.events import Events
from drivers.libvirt.connection.session import (
    Deadlines,
    NotTried,
    Refused,
    Session,
    Unconnected,
)
from drivers.libvirt.connection.watch import Tell, Watch

LOG = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds at least between attempts to connect."""

_USUAL_URIS = {
    "lxc": "lxc:///system",
    "parallels": "parallels:///system",
    "test": "test:///default",
}

T = TypeVar("T")
D = TypeVar("D")

Question = Callable[[Any], T]
"""Asks an open connection; what it returns holds none of libvirt's objects."""


def load_binding() -> Any:
    """The libvirt module, with its event loop running.

    :raises DriverLoadFailed: libvirt-python is not installed.
    """
    try:
        import libvirt  # noqa: PLC0415  # optional: only this driver's hosts need it
    except ImportError as err:
        raise DriverLoadFailed(
            f"the libvirt driver needs libvirt-python: install compute-agent[libvirt] ({err})"
        ) from err
    _run_event_loop(libvirt)
    return libvirt


@functools.cache  # libvirt has one loop for the whole process, and it never ends
def _run_event_loop(binding: Any) -> None:
    """Keepalive is sent and checked by libvirt's event loop; it has to be registered
    before the first connection is opened.
    """

    def run() -> None:
        while True:
            try:
                binding.virEventRunDefaultImpl()
            except binding.libvirtError:
                LOG.exception("libvirt's event loop")
                time.sleep(1)

    # We log errors ourselves; libvirt would print them to stderr as well.
    binding.registerErrorHandler(lambda _context, _error: None, None)
    binding.virEventRegisterDefaultImpl()
    threading.Thread(target=run, name="libvirt-events", daemon=True).start()


def uri_of(group: Any) -> str:
    """Return libvirt's URI by the options of ``[libvirt]``."""
    return group.connection_uri or _USUAL_URIS.get(group.virt_type, "qemu:///system")


class Host:
    """A supervised libvirt connection, and the file systems below ``root``."""

    def __init__(
        self,
        uri: str,
        binding: Any,
        deadlines: Deadlines,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.uri = uri
        self.binding = binding
        self.events = Events()
        self._root = root
        self._clock = clock
        self._deadlines = deadlines
        self._queue = CallQueue("libvirt", lambda: closing(self._session()))
        # A file server that hangs must not keep us from asking libvirt.
        self._files = CallQueue("host-files", nullcontext)
        self._sides: dict[str, CallQueue[Session]] = {}
        self._not_before = 0.0
        self._last_problem = ""
        self._watch: Watch | None = None

    def watch(self, tell: Tell, probe: Callable[[], object] | None = None) -> None:
        """From now on ``tell`` hears when libvirt is lost (why) and when it is back (``None``).

        ``probe`` asks whether it is back, and raises ``DriverNotReady`` while it is not.
        """
        self._watch = Watch(probe or self.hostname, tell)
        self._watch.start()

    def lost(self, why: str) -> None:
        """Count the connection as lost, and notify the watcher."""
        if self._watch is not None:
            self._watch.lost(why)

    def close(self) -> None:
        """Close the connections, in bounded time."""
        if self._watch is not None:
            self._watch.stop()
        self.events.stop()
        for queue in (self._queue, *self._sides.values()):
            queue.close(self._deadlines.connect)
        self._files.close(self._deadlines.connect)

    def hostname(self) -> str:
        """The host's name as its libvirt gives it."""
        return self.ask("its host name", lambda c: some(str(c.getHostname()), "name"))

    # -- how questions are asked

    def ask(self, what: str, question: Question[T]) -> T:
        """Ask now.  :raises DriverNotReady: no answer, and why."""
        try:
            self._ensure_connected()
            return self._bounded(what, lambda session: session.ask(what, question))
        except (NotTried, Refused):
            raise  # neither says that libvirt is lost
        except DriverNotReady as err:
            self.lost(str(err))
            raise

    def ask_if_able(self, what: str, question: Question[T], otherwise: D) -> T | D:
        """``otherwise`` from a hypervisor that never answers this."""
        return _if_able(lambda: self.ask(what, question), otherwise)

    def ask_over_side_connection(self, what: str, question: Question[T], otherwise: D) -> T | D:
        """The same over a side connection, one for each ``what``.

        A pool whose server hangs, or a device whose firmware does, blocks whoever asks for it
        for as long as it likes.  That shall cost what was asked for, and neither the rest of a
        report nor the verdict that libvirt itself is lost.
        """
        self._ensure_connected()
        return _if_able(lambda: self._over_side_connection(what, question), otherwise)

    def on_files(self, what: str, job: Callable[[Path], T]) -> T:
        """Return the result of ``job`` below the root of this host's file system."""
        try:
            return self._files.call(what, lambda _: job(self._root), self._deadlines.call)
        except (Overdue, Blocked) as err:
            raise DriverNotReady(f"{what}: {err}") from None

    def _over_side_connection(self, what: str, question: Question[T]) -> T:
        def make() -> closing[Session]:
            return closing(Session(self.binding, self.uri, self._deadlines))

        queue = self._sides.setdefault(
            what, CallQueue(f"libvirt-{what.rsplit(maxsplit=1)[-1]}", make)
        )
        try:
            queue.call("a connection", Session.ensure_open, self._deadlines.connect)
            return queue.call(what, lambda s: s.ask(what, question), self._deadlines.call)
        except (Overdue, Blocked) as err:
            raise DriverNotReady(f"libvirt at {self.uri}, asked for {what}: {err}") from None

    def _session(self) -> Session:
        return Session(self.binding, self.uri, self._deadlines, self._note_closed, self.events)

    def _note_closed(self, why: str) -> None:
        """In libvirt's event loop."""
        self.events.closed()
        self.lost(f"the connection to libvirt at {self.uri} was lost: {why}")

    def _ensure_connected(self) -> None:
        if self._clock() < self._not_before:
            raise DriverNotReady(self._last_problem)
        try:
            self._bounded("a connection", Session.ensure_open, self._deadlines.connect)
        except Unconnected as err:
            self._not_before, self._last_problem = self._clock() + PAUSE, str(err)
            raise

    def _bounded(self, what: str, job: Callable[[Session], T], deadline: float | None = None) -> T:
        try:
            return self._queue.call(what, job, deadline or self._deadlines.call)
        except Overdue as err:
            raise DriverNotReady(f"libvirt at {self.uri}, asked for {what}: {err}") from None
        except Blocked as err:
            raise NotTried(f"libvirt at {self.uri}: {err}") from None


def _if_able(ask: Callable[[], T], otherwise: D) -> T | D:
    try:
        return ask()
    except Refused as err:
        if err.unsupported:
            return otherwise
        raise


def some(answer: T, what: str) -> T:
    """:raises ValueError: none; a host that answers has some."""
    if not answer:
        raise ValueError(f"no {what}")
    return answer
