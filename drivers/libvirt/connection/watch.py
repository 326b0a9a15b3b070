"""Watch: reports when libvirt is lost and when it is back, and probes it while it is lost.

A loss is reported by libvirt's close callback and by each call without an answer.  Only the watch's
own probe finds that libvirt is back, since an answer may be another host's.
"""

import logging
import threading
from collections.abc import Callable

from drivers.errors import DriverNotReady
from drivers.libvirt.connection.session import CallSkipped, ErrorReply

LOG = logging.getLogger("compute_agent.drivers")

PAUSE = 1.0
"""Seconds between two probes; the host limits attempts to connect itself."""

Notify = Callable[[str | None], None]


class Watch:
    """``probe`` raises ``DriverNotReady`` unless libvirt answers for the expected host; ``notify``
    is called at each change, and when the state is first known: with a reason, or ``None`` if
    libvirt is there.
    """

    def __init__(self, probe: Callable[[], object], notify: Notify, pause: float = PAUSE) -> None:
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
