"""Events: libvirt's events, counted by topic, and the listener that they wake.

An answer about a topic may be cached until the topic's count changes.  A topic whose events this
connection does not deliver has no count, and nothing of it is cached.  Any thread may call.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

LOG = logging.getLogger(__name__)

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
class _Kind:
    """A libvirt event: ``event`` is the constant's name, ``methods`` the prefix of the connection's
    methods to register and unregister it.
    """

    topic: str
    event: str
    methods: str
    only: frozenset[int] | None = None
    """Event types that count; ``None``: all."""


_KINDS = (
    _Kind(DEVICES, "VIR_NODE_DEVICE_EVENT_ID_LIFECYCLE", "nodeDevice"),
    _Kind(DEVICES, "VIR_NODE_DEVICE_EVENT_ID_UPDATE", "nodeDevice"),
    _Kind(POOLS, "VIR_STORAGE_POOL_EVENT_ID_LIFECYCLE", "storagePool"),
    _Kind(POOLS, "VIR_STORAGE_POOL_EVENT_ID_REFRESH", "storagePool"),
    _Kind(GUESTS, "VIR_DOMAIN_EVENT_ID_LIFECYCLE", "domain", GUEST_EVENTS),
    _Kind(GUESTS, "VIR_DOMAIN_EVENT_ID_DEVICE_ADDED", "domain"),
)


def _no_listener() -> None:
    """Stand in for the listener while there is none."""


class Events:
    """Counts changes by topic, and wakes the listener once for several of them."""

    def __init__(self, gather: float = GATHER) -> None:
        self._gather = gather
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._covered: frozenset[str] = frozenset()
        self._opened = 0
        self._wake: Callable[[], object] = _no_listener
        self._timer: threading.Timer | None = None

    def listen(self, wake: Callable[[], object]) -> None:
        """Set the listener: ``wake`` is called in a thread of its own, a moment after an event."""
        with self._lock:
            self._wake = wake

    def stop(self) -> None:
        """Remove the listener."""
        with self._lock:
            self._wake = _no_listener
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
        if self._wake is _no_listener or self._timer is not None:
            return
        self._timer = threading.Timer(self._gather, self._wake_now)
        self._timer.name = "libvirt-gather"
        self._timer.daemon = True
        self._timer.start()

    def _wake_now(self) -> None:
        with self._lock:
            wake, self._timer = self._wake, None
        wake()


class Subscriptions:
    """Registers for a connection's events, on its worker thread.

    The callbacks must hold neither the connection nor the session: see ``session``.
    """

    def __init__(self, binding: Any, changed: Callable[[str], None]) -> None:
        self._binding = binding
        self._changed = changed
        self._registered: list[tuple[_Kind, int]] = []

    def subscribe(self, connection: Any) -> frozenset[str]:
        """Register for all events; return the topics of which every event is delivered."""
        refused = {kind.topic for kind in _KINDS if not self._register(kind, connection)}
        return frozenset(kind.topic for kind in _KINDS) - refused

    def unsubscribe(self, connection: Any) -> None:
        """Unregister all, before the connection is closed."""
        registered, self._registered = self._registered, []
        for kind, number in registered:
            try:
                getattr(connection, f"{kind.methods}EventDeregisterAny")(number)
            except self._binding.libvirtError as err:
                LOG.debug("%s was not unregistered: %s", kind.event, err)

    def _register(self, kind: _Kind, connection: Any) -> bool:
        event = getattr(self._binding, kind.event)
        register = getattr(connection, f"{kind.methods}EventRegisterAny")
        try:
            number = register(None, event, _callback(kind, self._changed), None)
        except self._binding.libvirtError as err:  # this hypervisor does not have this event
            LOG.debug("no events of %s: %s", kind.topic, err)
            return False
        self._registered.append((kind, number))
        return True


def _callback(kind: _Kind, changed: Callable[[str], None]) -> Callable[..., None]:
    def callback(
        _connection: object, _subject: object, event: object = None, *_more: object
    ) -> None:
        if kind.only is None or event in kind.only:
            changed(kind.topic)

    return callback
