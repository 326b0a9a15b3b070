"""Events: what libvirt says has changed, and who is woken by it.

An answer about a topic may be kept for as long as its count stays the same.  A topic
that this connection tells nothing about has no count: what belongs to it is asked anew.
Any thread may call.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

LOG = logging.getLogger(__name__)

CONNECTION = "connection"
"""What holds as long as libvirtd runs; ends with the connection."""
DEVICES = "node devices"
POOLS = "storage pools"
GUESTS = "guests"

GUEST_EVENTS = frozenset({0, 1, 2, 5})
"""Of a guest's life: defined, undefined, started, stopped."""

GATHER = 0.3
"""Seconds from an event until somebody is woken: what comes together is told together."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """``methods`` is what the methods of a connection begin with, ``event`` a constant."""

    topic: str
    event: str
    methods: str
    only: frozenset[int] | None = None
    """Numbers of what happened; of others nothing is told.  ``None``: all count."""


_KINDS = (
    _Kind(DEVICES, "VIR_NODE_DEVICE_EVENT_ID_LIFECYCLE", "nodeDevice"),
    _Kind(DEVICES, "VIR_NODE_DEVICE_EVENT_ID_UPDATE", "nodeDevice"),
    _Kind(POOLS, "VIR_STORAGE_POOL_EVENT_ID_LIFECYCLE", "storagePool"),
    _Kind(POOLS, "VIR_STORAGE_POOL_EVENT_ID_REFRESH", "storagePool"),
    _Kind(GUESTS, "VIR_DOMAIN_EVENT_ID_LIFECYCLE", "domain", GUEST_EVENTS),
    _Kind(GUESTS, "VIR_DOMAIN_EVENT_ID_DEVICE_ADDED", "domain"),
)


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


class Subscriptions:
    """A connection's events, as topics, on its worker thread.

    The callbacks must hold neither the connection nor the session: see ``session``.
    """

    def __init__(self, binding: Any, changed: Callable[[str], None]) -> None:
        self._binding = binding
        self._changed = changed
        self._taken: list[tuple[_Kind, int]] = []

    def begin(self, connection: Any) -> frozenset[str]:
        """Subscribe; returns the topics of which all changes will be told."""
        refused = {kind.topic for kind in _KINDS if not self._take(kind, connection)}
        return frozenset(kind.topic for kind in _KINDS) - refused

    def end(self, connection: Any) -> None:
        """Take all back: before the connection is closed."""
        taken, self._taken = self._taken, []
        for kind, number in taken:
            try:
                getattr(connection, f"{kind.methods}EventDeregisterAny")(number)
            except self._binding.libvirtError as err:
                LOG.debug("%s can't be taken back: %s", kind.event, err)

    def _take(self, kind: _Kind, connection: Any) -> bool:
        event = getattr(self._binding, kind.event)
        register = getattr(connection, f"{kind.methods}EventRegisterAny")
        try:
            number = register(None, event, _teller(kind, self._changed), None)
        except self._binding.libvirtError as err:  # this hypervisor has none of them
            LOG.debug("no events of %s: %s", kind.topic, err)
            return False
        self._taken.append((kind, number))
        return True


def _teller(kind: _Kind, changed: Callable[[str], None]) -> Callable[..., None]:
    def told(_connection: object, _subject: object, event: object = None, *_more: object) -> None:
        if kind.only is None or event in kind.only:
            changed(kind.topic)

    return told
