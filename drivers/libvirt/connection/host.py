"""Host: calls this machine's libvirt and reads its files, in bounded time.

The only module that imports libvirt; which calls are made is up to the facts.  Every call ends by
its deadline: with an answer, or with ``DriverNotReady``, which names the URI, the call and
libvirt's message.  A lost connection is opened again by the next call; while libvirtd is down, one
attempt a second is made.
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
from drivers.extras import missing
from drivers.libvirt.connection.events import Events
from drivers.libvirt.connection.session import (
    CallSkipped,
    ConnectionFailed,
    Deadlines,
    ErrorReply,
    Session,
)

LOG = logging.getLogger("compute_agent.drivers")

RECONNECT_PAUSE = 1.0
"""Seconds at least between attempts to connect."""

PROBE_PAUSE = 1.0
"""Seconds between two probes of a libvirt that is lost."""

Notify = Callable[[str | None], None]

_USUAL_URIS = {
    "lxc": "lxc:///system",
    "parallels": "parallels:///system",
    "test": "test:///default",
}

T = TypeVar("T")
D = TypeVar("D")

LibvirtCall = Callable[[Any], T]
"""Called with an open connection; its result holds none of libvirt's objects."""


def load_binding() -> Any:
    """Return the libvirt module, with its event loop running.

    :raises DriverLoadFailed: libvirt-python is not installed.
    """
    try:
        import libvirt  # noqa: PLC0415  # optional: only this driver's hosts need it
    except ImportError as err:
        what = missing("libvirt", "libvirt") or f"{err}: install libvirt0"
        raise DriverLoadFailed(f"the libvirt driver can't be used: {what}") from err
    _run_event_loop(libvirt)
    return libvirt


@functools.cache  # libvirt has one loop for the whole process, and it never ends
def _run_event_loop(binding: Any) -> None:
    """Run libvirt's event loop, which sends keepalives; needed before a connection is opened."""

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


def libvirt_uri(group: Any) -> str:
    """Return libvirt's URI by the options of ``[libvirt]``."""
    return group.connection_uri or _USUAL_URIS.get(group.virt_type, "qemu:///system")


class Host:
    """libvirt connections with deadlines, and the file systems below ``root``."""

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
        self.clock = clock
        self._deadlines = deadlines
        self._queue = CallQueue("libvirt", self._main_session)
        # A hanging file server must not block calls to libvirt.
        self._files = CallQueue("host-files", nullcontext)
        self._side_queues: dict[str, CallQueue[Session]] = {}
        self._next_attempt = 0.0
        self._last_problem = ""
        self._watch: Watch | None = None

    def watch(self, notify: Notify, probe: Callable[[], object] | None = None) -> None:
        """Call ``notify`` with a reason when libvirt is lost, and with ``None`` when it is back.

        ``probe`` raises ``DriverNotReady`` while libvirt is not back; default: read the host name.
        """
        self._watch = Watch(probe or self.hostname, notify)
        self._watch.start()

    def lost(self, why: str) -> None:
        """Count the connection as lost, and notify the watcher of ``why``."""
        if self._watch is not None:
            self._watch.lost(why)

    def close(self) -> None:
        """Close the connections, in bounded time."""
        if self._watch is not None:
            self._watch.stop()
        self.events.stop()
        for queue in (self._queue, *self._side_queues.values()):
            queue.close(self._deadlines.connect)
        self._files.close(self._deadlines.connect)

    def hostname(self) -> str:
        """Return the host's name as libvirt reports it."""
        return self.call_libvirt(
            "its host name", lambda c: require_value(str(c.getHostname()), "name")
        )

    # -- calls

    def call_libvirt(self, what: str, call: LibvirtCall[T]) -> T:
        """Return the answer of ``call``; ``what`` names it in errors.

        :raises DriverNotReady: there is no answer, and why.
        """
        try:
            self._ensure_connected()
            return self._bounded(what, lambda session: session.run_call(what, call))
        except (CallSkipped, ErrorReply):
            raise  # neither means that libvirt is lost
        except DriverNotReady as err:
            self.lost(str(err))
            raise

    def call_if_supported(
        self, what: str, call: LibvirtCall[T], default: D, *, isolated: bool = False
    ) -> T | D:
        """Like ``call_libvirt``, but return ``default`` if the hypervisor lacks the call.

        ``isolated``: as ``call_isolated``.
        """
        try:
            return self.call_isolated(what, call) if isolated else self.call_libvirt(what, call)
        except ErrorReply as err:
            if err.unsupported:
                return default
            raise

    def read_files(self, what: str, job: Callable[[Path], T]) -> T:
        """Return the result of ``job``, which gets the root of this host's file systems.

        :raises DriverNotReady: it did not end by its deadline.
        """
        try:
            return self._files.call(what, lambda _: job(self._root), self._deadlines.call)
        except (Overdue, Blocked) as err:
            raise DriverNotReady(f"{what}: {err}") from None

    def call_isolated(self, what: str, call: LibvirtCall[T]) -> T:
        """Like ``call_libvirt``, over a side connection, one for each ``what``.

        A call for a pool whose server hangs, or for a device whose firmware does, can block for any
        time; there it blocks no other call, and libvirt does not count as lost.
        """
        self._ensure_connected()
        if what not in self._side_queues:
            self._side_queues[what] = CallQueue(
                f"libvirt-{what.rsplit(maxsplit=1)[-1]}",
                lambda: closing(Session(self.binding, self.uri, self._deadlines)),
            )
        queue = self._side_queues[what]
        try:
            queue.call("a connection", Session.ensure_open, self._deadlines.connect)
            return queue.call(what, lambda s: s.run_call(what, call), self._deadlines.call)
        except (Overdue, Blocked) as err:
            raise DriverNotReady(f"libvirt at {self.uri}: reading {what} failed: {err}") from None

    def _main_session(self) -> closing[Session]:
        on_main = self._note_closed, self.events
        return closing(Session(self.binding, self.uri, self._deadlines, *on_main))

    def _note_closed(self, why: str) -> None:
        """Run in libvirt's event loop."""
        self.events.closed()
        self.lost(f"the connection to libvirt at {self.uri} was lost: {why}")

    def _ensure_connected(self) -> None:
        if self.clock() < self._next_attempt:
            raise DriverNotReady(self._last_problem)
        try:
            self._bounded("a connection", Session.ensure_open, self._deadlines.connect)
        except ConnectionFailed as err:
            self._next_attempt, self._last_problem = self.clock() + RECONNECT_PAUSE, str(err)
            raise

    def _bounded(self, what: str, job: Callable[[Session], T], deadline: float | None = None) -> T:
        try:
            return self._queue.call(what, job, deadline or self._deadlines.call)
        except Overdue as err:
            raise DriverNotReady(f"libvirt at {self.uri}: reading {what} failed: {err}") from None
        except Blocked as err:
            raise CallSkipped(f"libvirt at {self.uri}: {err}") from None


def file_text(file: Path) -> str:
    """Return the text of a file of the kernel's or the system's; empty if it can't be read."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def require_value(answer: T, what: str) -> T:
    """Return ``answer``.

    :raises ValueError: it is empty, 0 or negative.
    """
    if not answer or (isinstance(answer, int) and answer < 0):
        raise ValueError(f"no {what}")
    return answer


class Watch:
    """Reports when libvirt is lost and when it is back, and probes it while it is lost.

    A loss is reported by libvirt's close callback and by each call without an answer.  Only the
    watch's own probe finds that libvirt is back, since an answer may be another host's.

    ``probe`` raises ``DriverNotReady`` unless libvirt answers for the expected host; ``notify``
    is called at each change, and when the state is first known: with a reason, or ``None`` if
    libvirt is there.
    """

    def __init__(
        self, probe: Callable[[], object], notify: Notify, pause: float = PROBE_PAUSE
    ) -> None:
        self._probe = probe
        self._notify = notify
        self._pause = pause
        self._lock = threading.Lock()
        self._reachable: bool | None = None
        self._losses = 0
        self._wake = threading.Event()
        self._ended = threading.Event()

    def start(self) -> None:
        """Start the thread: it probes until libvirt answers, and again after each loss."""
        threading.Thread(target=self._run, name="libvirt-watch", daemon=True).start()

    def stop(self) -> None:
        """Stop probing and notifying."""
        self._ended.set()
        self._wake.set()

    def lost(self, why: str) -> None:
        """Note that libvirt is unreachable, does not answer, or answers for another host."""
        with self._lock:
            self._losses += 1
            self._set_reachable(False, why)
        self._wake.set()

    def _set_reachable(self, reachable: bool, why: str | None) -> None:
        """Set the state and notify; called under the lock, so that notifications are in order."""
        if self._reachable is not reachable and not self._ended.is_set():
            self._reachable = reachable
            self._notify(why)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._wake.clear()
            if self._reachable:
                self._wake.wait()
            else:
                self.probe_once()
                self._ended.wait(self._pause)

    def probe_once(self) -> None:
        """Probe libvirt once, and note the result."""
        losses = self._losses
        try:
            self._probe()
        except ErrorReply as err:
            LOG.debug("libvirt is back: it answered with an error: %s", err)
        except CallSkipped:
            return
        except DriverNotReady as err:
            LOG.debug("still waiting for libvirt: %s", err)
            self.lost(str(err))
            return
        with self._lock:
            if self._losses == losses:  # not lost again since the probe began
                self._set_reachable(True, None)
