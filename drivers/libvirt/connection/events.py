"""Events: libvirt's events, counted by topic, and the listener that they wake.

An answer about a topic may be cached until the topic's count changes.  A topic whose events this
connection does not deliver has no count, and nothing of it is cached.  Any thread may call.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

CONNECTION = "connection"
"""For what holds as long as libvirtd runs: its count changes with each connection."""
DEVICES = "node devices"
POOLS = "storage pools"
GUESTS = "guests"

GUEST_EVENTS = frozenset({0, 1, 2, 5})
"""virDomainEventType: defined, undefined, started, stopped."""

GATHER = 0.3
"""Seconds from an event until the listener is woken, to collect those that come together."""


@dataclass(frozen=True, slots=True)
class EventKind:
    """A libvirt event: ``event`` is the constant's name, ``methods`` the prefix of the connection's
    methods to register and unregister it.
    """

    topic: str
    event: str
    methods: str
    only: frozenset[int] | None = None
    """Event types that count; ``None``: all."""

    def callback(self, changed: Callable[[str], None]) -> Callable[..., None]:
        """Return what libvirt calls at each event; it calls ``changed`` with the topic."""

        def called(_connection: object, _subject: object, event: object = None, *_: object) -> None:
            if self.only is None or event in self.only:
                changed(self.topic)

        return called


EVENT_KINDS = (
    EventKind(DEVICES, "VIR_NODE_DEVICE_EVENT_ID_LIFECYCLE", "nodeDevice"),
    EventKind(DEVICES, "VIR_NODE_DEVICE_EVENT_ID_UPDATE", "nodeDevice"),
    EventKind(POOLS, "VIR_STORAGE_POOL_EVENT_ID_LIFECYCLE", "storagePool"),
    EventKind(POOLS, "VIR_STORAGE_POOL_EVENT_ID_REFRESH", "storagePool"),
    EventKind(GUESTS, "VIR_DOMAIN_EVENT_ID_LIFECYCLE", "domain", GUEST_EVENTS),
    EventKind(GUESTS, "VIR_DOMAIN_EVENT_ID_DEVICE_ADDED", "domain"),
)


class Events:
    """Counts changes by topic, and wakes the listener once for several of them."""

    def __init__(self, gather: float = GATHER) -> None:
        self._gather = gather
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._covered: frozenset[str] = frozenset()
        self._opened = 0
        self._wake: Callable[[], object] | None = None
        self._timer: threading.Timer | None = None

    def listen(self, wake: Callable[[], object]) -> None:
        """Set the listener: ``wake`` is called in a thread of its own, a moment after an event."""
        with self._lock:
            self._wake = wake

    def stop(self) -> None:
        """Remove the listener."""
        with self._lock:
            self._wake = None
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def opened(self, covered: Iterable[str]) -> None:
        """Note a new connection and the topics ``covered`` by its events; all may have changed."""
        with self._lock:
            self._covered = frozenset({CONNECTION, *covered})
            self._counts.update(self._covered)
            self._opened += 1
            if self._opened > 1:
                self._wake_soon()

    def closed(self) -> None:
        """Note that the connection has ended."""
        with self._lock:
            self._covered = frozenset()
            self._wake_soon()

    def changed(self, topic: str) -> None:
        """Note a change of this topic."""
        with self._lock:
            self._counts[topic] += 1
            self._wake_soon()

    def count(self, topic: str) -> int | None:
        """Return a number that changes with the topic; ``None`` if its events are not delivered."""
        with self._lock:
            return self._counts[topic] if topic in self._covered else None

    def _wake_soon(self) -> None:
        if self._wake is None or self._timer is not None:
            return
        self._timer = threading.Timer(self._gather, self._wake_now)
        self._timer.name = "libvirt-gather"
        self._timer.daemon = True
        self._timer.start()

    def _wake_now(self) -> None:
        with self._lock:
            wake, self._timer = self._wake, None
        if wake is not None:
            wake()
