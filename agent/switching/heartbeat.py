"""Heartbeats: the agent reports to the registry, and gets its host's service record back.

They run in a thread of their own, since the registry may answer late or not at all; then
this host keeps its last known status.
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
"""Tries of one heartbeat, where the status or the record is changed in between."""

EARLIEST_BEAT, LATEST_BEAT = 0.8, 1.2
"""Limits of the random time between two heartbeats, in units of ``every``."""

WARNINGS = {
    Verdict.RECORD_CHANGED: "The service record was changed later than this host's status, "
    "which is replaced: %s",
    Verdict.OURS_IS_LATER: "The registry has an older record than before (%s), perhaps "
    "from a backup: this host's own status is written into the record",
}
"""Log lines for verdicts, with the record's status."""


@dataclass(slots=True)
class Heartbeat:
    """Heartbeats of one host; ``roots`` returns the UUIDs of its root providers."""

    connect: Callable[[], Registry]
    """Opens the registry; called again until it succeeds."""
    host: str
    address: str
    roots: Callable[[], Sequence[str]]
    status: HostStatus
    rpc_version: Callable[[], str | None] = lambda: None
    """Returns the version of the calls that are answered, ``None`` while none can be."""
    every: float = 10.0
    attached: bool = False
    """Whether the service is nova-compute's: then the record decides nothing here."""
    beside: Callable[[Callable[[], None], str], object] = in_thread
    """Starts a function in a thread of this name."""
    answered: threading.Event = field(default_factory=threading.Event)
    """Set once the registry has answered, or has refused this host name."""
    wake: threading.Event = field(default_factory=threading.Event)
    """Set to send the next heartbeat now."""
    name_conflict: str | None = None
    """The error that names another agent with this host name, if there is one."""
    _registry: Registry | None = None
    _tried: tuple[int, bool, str | None] | None = None
    """Version, status and reason that the record has if this agent's last write succeeded."""
    _ended: bool = False

    def start(self) -> None:
        """Start the thread."""
        self.beside(self._run, "heartbeat")

    def stop(self) -> None:
        """Send no further heartbeat; a running one ends with the process."""
        self._ended = True
        self.wake.set()

    def follow(self, connect: Callable[[], Registry], every: float) -> None:
        """Use another registry and interval, from a heartbeat now."""
        self.connect, self.every, self._registry = connect, every, None
        self.wake.set()

    def on_notice(self, notice: Notice) -> None:
        """Send a heartbeat now if the status changed or calls can be answered."""
        if isinstance(notice, Decided | Serving):
            self.wake.set()

    def read_once(self) -> None:
        """Read the record without sending a heartbeat.  Never raises."""
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
            self._name_is_taken(err)
        except RegistryError as err:
            self._is_lost(err)
        except Exception as err:
            LOG.exception("A heartbeat failed")
            self.status.registry_lost = str(err)
        else:
            self._is_back()
        error = self.name_conflict or self.status.registry_lost
        self.status.publish(HeartbeatDone(time.monotonic() - began, error))

    def _run(self) -> None:
        while not self._ended:
            self.wake.clear()
            self.beat()
            # Random, so that hosts that were started together spread out.
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
                continue  # an RPC call came meanwhile, maybe with a later record
            seen = self._seen_with(record, before)
            settled = self._settled(record, seen)
            if settled is not None and self.status.adopt(settled, seen):
                self._tried = None  # a later record may have the same values
                return
        LOG.debug("Status and record changed in each try; retrying at the next heartbeat")

    def _opened(self) -> Registry:
        if self._registry is None:
            self._registry = self.connect()
        return self._registry

    def _seen_with(self, record: ServiceRecord, before: ServiceStatus) -> ServiceStatus:
        """Return the status to compare with a record: acknowledged if this agent wrote it.

        The reply to that write can be lost, or arrive after a later call.
        """
        tried, now = self._tried, (record.version, record.disabled, record.disabled_reason)
        if tried is not None and tried == now:
            return self.status.acknowledge(record.version)
        return before

    def _settled(self, record: ServiceRecord, seen: ServiceStatus) -> ServiceRecord | None:
        """Return the record once it and the status agree; ``None``: start again."""
        decided = verdict(seen, record)
        if decided in WARNINGS:
            LOG.warning(WARNINGS[decided], record.status)
        if decided in (Verdict.RECORD, Verdict.RECORD_CHANGED):
            return record
        return self._write_record(record, seen)

    def _write_record(self, record: ServiceRecord, seen: ServiceStatus) -> ServiceRecord | None:
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
        if self.status.registry_lost or self.name_conflict:
            LOG.info("The registry answers again")
        self.name_conflict = None
        self.answered.set()
        self.status.registry_answers()

    def _is_lost(self, err: Exception) -> None:
        if self.status.registry_lost is None:
            LOG.warning(
                "The registry does not answer, this host keeps its last known status: %s", err
            )
        self.status.registry_lost = str(err)

    def _name_is_taken(self, err: HostTaken) -> None:
        if self.name_conflict is None:
            LOG.error("%s", err)
        self.name_conflict = str(err)
        self.answered.set()
