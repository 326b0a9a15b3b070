"""Watch: says when libvirt is lost and when it is back, and while it is lost asks for it.

A loss is noticed anywhere: by libvirt's own word that the connection was closed, and by each
question that is not answered.  That it is back, the watch finds out by itself: an answer may
be another host's.
"""

import logging
import threading
from collections.abc import Callable

from drivers.errors import DriverNotReady
from drivers.libvirt.connection.session import NotTried, Refused

LOG = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds between two questions; the host spaces attempts to connect by itself."""

Tell = Callable[[str | None], None]


class Watch:
    """``probe`` asks libvirt whether it is there, and the host that it was before; ``tell`` hears
    of changes, and of what is known first.
    """

    def __init__(self, probe: Callable[[], object], tell: Tell, pause: float = PAUSE) -> None:
        self._probe = probe
        self._tell = tell
        self._pause = pause
        self._lock = threading.Lock()
        self._there: bool | None = None
        self._losses = 0
        self._wake = threading.Event()
        self._ended = threading.Event()

    def start(self) -> None:
        """Ask until it is known whether libvirt is there, and whenever it is not."""
        threading.Thread(target=self._run, name="libvirt-watch", daemon=True).start()

    def stop(self) -> None:
        """Tell no more."""
        self._ended.set()
        self._wake.set()

    def lost(self, why: str) -> None:
        """Note that libvirt is unreachable, does not answer, or is another one."""
        with self._lock:
            self._losses += 1
            self._note(False, why)
        self._wake.set()

    def _note(self, there: bool, why: str | None) -> None:
        """Under the lock, so that changes are told in their order."""
        if self._there is not there and not self._ended.is_set():
            self._there = there
            self._tell(why)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._wake.clear()
            if self._there:
                self._wake.wait()
            else:
                self.ask()
                self._ended.wait(self._pause)

    def ask(self) -> None:
        """Probe the connection once, and note what that says of it."""
        losses = self._losses
        try:
            self._probe()
        except Refused as err:
            LOG.debug("an error is an answer: %s", err)
        except NotTried:
            return
        except DriverNotReady as err:
            LOG.debug("still waiting for libvirt: %s", err)
            self.lost(str(err))
            return
        with self._lock:
            if self._losses == losses:  # not lost again meanwhile
                self._note(True, None)
