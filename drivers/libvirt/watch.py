"""Watch: says when libvirt is lost and when it is back, and while it is lost asks for it.

What is noticed comes from anywhere: libvirt's own word that the connection was closed,
and each question that was answered or not.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from drivers.errors import DriverNotReady

LOG = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds between two questions; the host spaces attempts to connect by itself."""

Tell = Callable[[str | None], None]


class Watch:
    """``probe`` asks libvirt something; ``tell`` hears of changes, and of what is known first."""

    def __init__(self, probe: Callable[[], object], tell: Tell, pause: float = PAUSE) -> None:
        self._probe = probe
        self._tell = tell
        self._pause = pause
        self._lock = threading.Lock()
        self._there: bool | None = None
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
        """It can't be reached, or does not answer."""
        self._note(False, why)
        self._wake.set()

    def there(self) -> None:
        """It has answered."""
        self._note(True, None)

    def _note(self, there: bool, why: str | None) -> None:
        # Told under the lock, so that changes are told in their order.
        with self._lock:
            if self._there is not there and not self._ended.is_set():
                self._there = there
                self._tell(why)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._wake.clear()
            if self._there:
                self._wake.wait()
            else:
                self._ask()
                self._ended.wait(self._pause)

    def _ask(self) -> None:
        try:
            self._probe()
        except DriverNotReady as err:
            LOG.debug("still waiting for libvirt: %s", err)
