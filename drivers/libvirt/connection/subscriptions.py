"""Subscriptions: a connection's events, as topics.

The callbacks must hold neither the connection nor the session: see ``session``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drivers.libvirt.connection.events import DEVICES, GUESTS, POOLS

LOG = logging.getLogger(__name__)

GUEST_EVENTS = frozenset({0, 1, 2, 5})
"""Of a guest's life: defined, undefined, started, stopped."""


@dataclass(frozen=True, slots=True)
class Kind:
    """``register`` and ``deregister`` are methods of a connection, ``event`` a constant."""

    topic: str
    event: str
    register: str
    deregister: str
    only: frozenset[int] | None = None
    """Numbers of what happened; of others nothing is told.  ``None``: all count."""


def _kind(topic: str, event: str, methods: str, only: frozenset[int] | None = None) -> Kind:
    return Kind(topic, event, f"{methods}EventRegisterAny", f"{methods}EventDeregisterAny", only)


KINDS = (
    _kind(DEVICES, "VIR_NODE_DEVICE_EVENT_ID_LIFECYCLE", "nodeDevice"),
    _kind(DEVICES, "VIR_NODE_DEVICE_EVENT_ID_UPDATE", "nodeDevice"),
    _kind(POOLS, "VIR_STORAGE_POOL_EVENT_ID_LIFECYCLE", "storagePool"),
    _kind(POOLS, "VIR_STORAGE_POOL_EVENT_ID_REFRESH", "storagePool"),
    _kind(GUESTS, "VIR_DOMAIN_EVENT_ID_LIFECYCLE", "domain", GUEST_EVENTS),
    _kind(GUESTS, "VIR_DOMAIN_EVENT_ID_DEVICE_ADDED", "domain"),
)


class Subscriptions:
    """Of one connection, on its worker thread."""

    def __init__(self, binding: Any, changed: Callable[[str], None]) -> None:
        self._binding = binding
        self._changed = changed
        self._taken: list[tuple[Kind, int]] = []

    def begin(self, connection: Any) -> frozenset[str]:
        """Subscribe; returns the topics of which all changes will be told."""
        refused = {kind.topic for kind in KINDS if not self._take(kind, connection)}
        return frozenset(kind.topic for kind in KINDS) - refused

    def end(self, connection: Any) -> None:
        """Take all back: before the connection is closed."""
        taken, self._taken = self._taken, []
        for kind, number in taken:
            try:
                getattr(connection, kind.deregister)(number)
            except self._binding.libvirtError as err:
                LOG.debug("%s can't be taken back: %s", kind.event, err)

    def _take(self, kind: Kind, connection: Any) -> bool:
        event = getattr(self._binding, kind.event)
        told = _teller(kind, self._changed)
        try:
            number = getattr(connection, kind.register)(None, event, told, None)
        except self._binding.libvirtError as err:  # this hypervisor has none of them
            LOG.debug("no events of %s: %s", kind.topic, err)
            return False
        self._taken.append((kind, number))
        return True


def _teller(kind: Kind, changed: Callable[[str], None]) -> Callable[..., None]:
    topic, only = kind.topic, kind.only

    def told(_connection: object, _subject: object, event: object = None, *_more: object) -> None:
        if only is None or event in only:
            changed(topic)

    return told
