"""Heartbeats: the agent says that it is alive, and hears whether its host is disabled.

They run in a thread of their own, since a registry may take long to answer, or not
answer at all; then the last known status holds.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent.registry.api import Registry
from agent.registry.errors import Changed, HostTaken, RegistryError, UnknownHost
from agent.registry.record import ServiceRecord
from agent.switching.standing import Standing
from agent.switching.switch import Switch

LOG = logging.getLogger(__name__)

ROUNDS = 5
"""How often one beat starts anew after somebody asked or wrote in between."""

EARLIEST_BEAT, LATEST_BEAT = 0.8, 1.2
"""Intervals between two heartbeats."""


@dataclass(slots=True)
class Heartbeat:
    """One host's heartbeats; ``roots`` tells the UUIDs of its root providers."""

    connect: Callable[[], Registry]
    """Opens the registry; tried again until it succeeds."""
    host: str
    address: str
    roots: Callable[[], Sequence[str]]
    switch: Switch
    rpc_version: Callable[[], str | None] = lambda: None
    """``None`` while nobody could call us."""
    every: float = 10.0
    heard: threading.Event = field(default_factory=threading.Event)
    """Set once the registry has answered, or refused us."""
    lost: str | None = None
    """Why the registry does not answer."""
    taken: str | None = None
    """Who else uses this host's name."""
    _registry: Registry | None = None
    _tried: tuple[int, bool, str | None] | None = None
    """Version, status and reason of the record, should our last write have come through."""
    _wake: threading.Event = field(default_factory=threading.Event)
    _in_step: threading.Event = field(default_factory=threading.Event)
    _ended: bool = False

    def start(self) -> None:
        """Return at once."""
        threading.Thread(target=self._run, name="heartbeat", daemon=True).start()

    def stop(self) -> None:
        """Send no more; one that is under way ends with the process."""
        self._ended = True
        self._wake.set()

    def soon(self) -> None:
        """There is something to tell."""
        self._in_step.clear()
        self._wake.set()

    def in_step(self, within: float) -> bool:
        """Wait until the registry has what was asked here; not for one that is away."""
        return self._in_step.wait(0 if self.lost else within)

    def look(self) -> None:
        """Read the record without saying that anybody is alive.  Never raises."""
        seen = self.switch.standing
        try:
            record = self._opened().get_service(self.host)
        except UnknownHost:
            return
        except RegistryError as err:
            self._is_lost(err)
            return
        if (seen.told or seen.yields_to(record)) and not seen.outlives(record):
            self.switch.adopt(record, seen)

    def beat(self) -> None:
        """One heartbeat, and what follows from its answer.  Never raises."""
        try:
            self._exchange()
        except HostTaken as err:
            self._is_taken(err)
        except RegistryError as err:
            self._is_lost(err)
        except Exception as err:
            LOG.exception("A heartbeat failed")
            self.lost = str(err)
        else:
            self._is_back()

    def _run(self) -> None:
        while not self._ended:
            self._wake.clear()
            self.beat()
            # Spread, so that hosts that were started together do not stay in step.
            self._wake.wait(self.every * random.uniform(EARLIEST_BEAT, LATEST_BEAT))

    def _exchange(self) -> None:
        registry = self._opened()
        for _ in range(ROUNDS):
            before = self.switch.standing
            record = registry.heartbeat(
                self.host, self.address, self.rpc_version(), tuple(self.roots())
            )
            if self.switch.standing is not before:
                continue  # a call came meanwhile, maybe with a later record than this one
            seen = self._seen_with(record, before)
            settled = self._settled(record, seen)
            if settled is not None and self.switch.adopt(settled, seen):
                return
        LOG.debug("The status does not settle; the next heartbeat goes on")

    def _opened(self) -> Registry:
        if self._registry is None:
            self._registry = self.connect()
        return self._registry

    def _seen_with(self, record: ServiceRecord, before: Standing) -> Standing:
        """What was asked so far; a change of the record that we made is no stranger's.

        We may not know that we made it: the reply can be lost, or be overtaken by
        somebody who asks again.
        """
        tried, now = self._tried, (record.version, record.disabled, record.disabled_reason)
        if tried is not None and tried == now:
            self._tried = None
            return self.switch.acknowledge(record.version)
        return before

    def _settled(self, record: ServiceRecord, seen: Standing) -> ServiceRecord | None:
        """The record once it says what holds; ``None``: begin again."""
        if seen.outlives(record):
            LOG.warning(
                "The registry has an older record than before (%s): what is known here holds",
                record.status,
            )
            return self._tell(record, seen)
        if seen.told or seen.agrees_with(record):
            return record
        if seen.yields_to(record):
            LOG.warning("The record was changed meanwhile, and holds: %s", record.status)
            return record
        return self._tell(record, seen)

    def _tell(self, record: ServiceRecord, seen: Standing) -> ServiceRecord | None:
        """What was asked of this host, to the registry; ``None`` if another was quicker."""
        self._tried = (record.version + 1, bool(seen.disabled), seen.reason)
        try:
            return self._opened().set_status(
                self.host,
                disabled=bool(seen.disabled),
                reason=seen.reason,
                expected_version=record.version,
            )
        except Changed:
            return None

    def _is_back(self) -> None:
        if self.lost or self.taken:
            LOG.info("The registry answers again")
        self.lost = self.taken = None
        self.heard.set()
        if self.switch.standing.told:
            self._in_step.set()
            if not self.switch.standing.told:  # asked between the two lines above
                self._in_step.clear()

    def _is_lost(self, err: Exception) -> None:
        if self.lost is None:
            LOG.warning("The registry does not answer, the last known status holds: %s", err)
        self.lost = str(err)

    def _is_taken(self, err: HostTaken) -> None:
        if self.taken is None:
            LOG.error("%s", err)
        self.taken = str(err)
        self.heard.set()
