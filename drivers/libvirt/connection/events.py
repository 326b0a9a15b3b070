"""Events: what libvirt says has changed, and who is woken by it.

An answer about a topic may be kept for as long as its count stays the same.  A topic
that this connection tells nothing about has no count: what belongs to it is asked anew.
Any thread may call.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable

CONNECTION = "connection"
"""What holds as long as libvirtd runs; ends with the connection."""
DEVICES = "node devices"
POOLS = "storage pools"
GUESTS = "guests"

GATHER = 0.3
"""Seconds from an event until somebody is woken: what comes together is told together."""


def _nobody() -> None:
    """Stands where nobody listens."""


class Events:
    """Counts changes by topic; wakes whoever listens, once for many of them."""

    def __init__(self, gather: float = GATHER) -> None:
        self._gather = gather
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._covered: frozenset[str] = frozenset()
        self._opened = 0
        self._wake: Callable[[], object] = _nobody
        self._timer: threading.Timer | None = None

    def listen(self, wake: Callable[[], object]) -> None:
        """From now on ``wake`` is called, in a thread of its own, some time after an event."""
        with self._lock:
            self._wake = wake

    def stop(self) -> None:
        """Wake nobody any more."""
        with self._lock:
            self._wake = _nobody
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def opened(self, covered: Iterable[str]) -> None:
        """A connection is there, which will tell of these topics; nobody knows what was missed."""
        with self._lock:
            self._covered = frozenset({CONNECTION, *covered})
            self._counts.update(self._covered)
            self._opened += 1
            if self._opened > 1:
                self._wake_soon()

    def closed(self) -> None:
        """The connection has ended."""
        with self._lock:
            self._covered = frozenset()
            self._wake_soon()

    def changed(self, topic: str) -> None:
        """Something of this topic is new, different or gone."""
        with self._lock:
            self._counts[topic] += 1
            self._wake_soon()

    def count(self, topic: str) -> int | None:
        """A number that changes with the topic; ``None`` if nobody would tell."""
        with self._lock:
            return self._counts[topic] if topic in self._covered else None

    def _wake_soon(self) -> None:
        if self._wake is _nobody or self._timer is not None:
            return
        self._timer = threading.Timer(self._gather, self._wake_now)
        self._timer.name = "libvirt-gather"
        self._timer.daemon = True
        self._timer.start()

    def _wake_now(self) -> None:
        with self._lock:
            wake, self._timer = self._wake, None
        wake()
