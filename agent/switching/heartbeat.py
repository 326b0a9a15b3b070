"""Heartbeats: the agent says that it is alive, and hears whether its host is disabled.

They run in a thread of their own, since a registry may take long to answer, or not
answer at all; then the last known status holds.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent.in_thread import in_thread
from agent.registry.api import Registry
from agent.registry.errors import Changed, HostTaken, RegistryError, UnknownHost
from agent.registry.record import ServiceRecord
from agent.switching.host_status import HostStatus
from agent.switching.machine import ServiceStatus, Verdict, verdict
from agent.switching.notices import Decided, HeartbeatDone, Notice, Serving

LOG = logging.getLogger(__name__)

ROUNDS = 5
"""How often one beat starts anew after somebody decided or wrote in between."""

EARLIEST_BEAT, LATEST_BEAT = 0.8, 1.2
"""Intervals between two heartbeats."""

SAID = {
    Verdict.RECORD_CHANGED: "The record was changed meanwhile, and holds: %s",
    Verdict.OURS_IS_LATER: "The registry has an older record than before (%s): "
    "what is known here holds",
}
"""Warnings, with the record's status."""


@dataclass(slots=True)
class Heartbeat:
    """Heartbeats of one host; ``roots`` returns the UUIDs of its root providers."""

    connect: Callable[[], Registry]
    """Opens the registry; tried again until it succeeds."""
    host: str
    address: str
    roots: Callable[[], Sequence[str]]
    status: HostStatus
    rpc_version: Callable[[], str | None] = lambda: None
    """``None`` while nobody could call us."""
    every: float = 10.0
    attached: bool = False
    """The service is nova-compute's: heartbeats say that, and its record decides nothing here."""
    beside: Callable[[Callable[[], None], str], object] = in_thread
    """Runs what has a name beside everything else."""
    answered: threading.Event = field(default_factory=threading.Event)
    """Set once the registry has answered, or refused us."""
    wake: threading.Event = field(default_factory=threading.Event)
    """Set where the next heartbeat is not to wait."""
    taken: str | None = None
    """Who else uses this host's name."""
    _registry: Registry | None = None
    _tried: tuple[int, bool, str | None] | None = None
    """Version, status and reason of the record, should our last write have come through."""
    _ended: bool = False

    def start(self) -> None:
        """Return at once."""
        self.beside(self._run, "heartbeat")

    def stop(self) -> None:
        """Send no more; one that is under way ends with the process."""
        self._ended = True
        self.wake.set()

    def follow(self, connect: Callable[[], Registry], every: float) -> None:
        """From the next heartbeat on, which comes now."""
        self.connect, self.every, self._registry = connect, every, None
        self.wake.set()

    def hear(self, notice: Notice) -> None:
        """Beat soon: there is something to tell."""
        if isinstance(notice, Decided | Serving):
            self.wake.set()

    def read_once(self) -> None:
        """Read the record without saying that anybody is alive.  Never raises."""
        if self.attached:
            return
        seen = self.status.current
        try:
            record = self._opened().get_service(self.host)
        except UnknownHost:
            return
        except RegistryError as err:
            self._is_lost(err)
            return
        if verdict(seen, record) in (Verdict.RECORD, Verdict.RECORD_CHANGED):
            self.status.adopt(record, seen)

    def beat(self) -> None:
        """Send a heartbeat and act on its answer.  Never raises."""
        began = time.monotonic()
        try:
            self._exchange()
        except HostTaken as err:
            self._is_taken(err)
        except RegistryError as err:
            self._is_lost(err)
        except Exception as err:
            LOG.exception("A heartbeat failed")
            self.status.registry_lost = str(err)
        else:
            self._is_back()
        wrong = self.taken or self.status.registry_lost
        self.status.publish(HeartbeatDone(time.monotonic() - began, wrong))

    def _run(self) -> None:
        while not self._ended:
            self.wake.clear()
            self.beat()
            # Spread, so that hosts that were started together do not stay in step.
            self.wake.wait(self.every * random.uniform(EARLIEST_BEAT, LATEST_BEAT))

    def _exchange(self) -> None:
        registry = self._opened()
        for _ in range(ROUNDS):
            before = self.status.current
            record = registry.heartbeat(
                self.host,
                self.address,
                self.rpc_version(),
                tuple(self.roots()),
                attached=self.attached,
            )
            if self.attached:
                return
            if self.status.current is not before:
                continue  # a call came meanwhile, maybe with a later record than this one
            seen = self._seen_with(record, before)
            settled = self._settled(record, seen)
            if settled is not None and self.status.adopt(settled, seen):
                self._tried = None  # or an old record that says the same would pass for it
                return
        LOG.debug("The status does not settle; the next heartbeat goes on")

    def _opened(self) -> Registry:
        if self._registry is None:
            self._registry = self.connect()
        return self._registry

    def _seen_with(self, record: ServiceRecord, before: ServiceStatus) -> ServiceStatus:
        """Return the status to compare with a record: acknowledged if this agent wrote it.

        We may not know that we made it: the reply can be lost, or be overtaken by
        somebody who asks again.
        """
        tried, now = self._tried, (record.version, record.disabled, record.disabled_reason)
        if tried is not None and tried == now:
            return self.status.acknowledge(record.version)
        return before

    def _settled(self, record: ServiceRecord, seen: ServiceStatus) -> ServiceRecord | None:
        """The record once it says what holds; ``None``: begin again."""
        who_is_right = verdict(seen, record)
        if who_is_right in SAID:
            LOG.warning(SAID[who_is_right], record.status)
        if who_is_right in (Verdict.RECORD, Verdict.RECORD_CHANGED):
            return record
        return self._tell(record, seen)

    def _tell(self, record: ServiceRecord, seen: ServiceStatus) -> ServiceRecord | None:
        """Write the status to the registry; return ``None`` if the record was changed meanwhile."""
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
        if self.status.registry_lost or self.taken:
            LOG.info("The registry answers again")
        self.taken = None
        self.answered.set()
        self.status.registry_answers()

    def _is_lost(self, err: Exception) -> None:
        if self.status.registry_lost is None:
            LOG.warning("The registry does not answer, the last known status holds: %s", err)
        self.status.registry_lost = str(err)

    def _is_taken(self, err: HostTaken) -> None:
        if self.taken is None:
            LOG.error("%s", err)
        self.taken = str(err)
        self.answered.set()
