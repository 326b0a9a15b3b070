"""Heartbeats: the agent reports to the registry, and gets its host's service record back.

They run in a thread of their own, since the registry may answer late or not at all; then
this host keeps its last known status.  Over RPC most of them report nothing new, and are not
answered.  How many have to be answered does not depend on whether the registry answers: after an
outage they are as few as ever.
"""

from __future__ import annotations

import logging
import random
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent import version
from agent.errors import Changed, HostTaken, RegistryError, UnknownHost
from agent.registry.checks import LONGEST, HeartbeatMessage, StatusChange, degraded_text
from agent.registry.record import DOWN_AFTER, Registry, ServiceRecord, rivals
from agent.switching.host_status import HostStatus
from agent.switching.machine import ServiceStatus, Verdict, verdict
from agent.threads import keep_running
from reportclient.plain_text import error_text

LOG = logging.getLogger("compute_agent.registry")

ROUNDS = 5
"""Tries of one heartbeat, where the status or the record is changed in between."""

EARLIEST_BEAT, LATEST_BEAT = 0.8, 1.2
"""Limits of the random time between two heartbeats, in units of ``every``."""

FEWEST_UNANSWERED, MOST_UNANSWERED = 4, 12
"""Limits of the random number of heartbeats over RPC between two that have to be answered."""

BOOT_ID = "/proc/sys/kernel/random/boot_id"

WARNINGS = {
    Verdict.RECORD_CHANGED: "The service record was changed later than this host's status, "
    "which is replaced: %s",
    Verdict.STATUS_IS_LATER: "The registry has an older record than before (%s), perhaps "
    "from a backup: this host's own status is written into the record",
}
"""Log lines for verdicts, with the record's status."""


Reported = tuple[str | None, tuple[str, ...]]
"""RPC version and roots: what is new in them is reported at once."""


@dataclass(slots=True)
class Heartbeat:
    """Heartbeats of one host; ``roots`` returns the UUIDs of its root providers."""

    connect: Callable[[], Registry]
    """Returns the registry."""
    host: str
    address: str
    roots: Callable[[], Sequence[str]]
    status: HostStatus
    rpc_version: Callable[[], str | None] = lambda: None
    """Returns the version of the calls that are answered, ``None`` while none can be."""
    degraded: Callable[[], Iterable[str]] = tuple
    """Returns what does not work on this host, a text for each condition."""
    every: float = 10.0
    attached: bool = False
    """Whether the service is nova-compute's: then the record decides nothing here."""
    run: Callable[[Callable[[], None], str, threading.Event], object] = keep_running
    """Runs a function in a thread of this name until an event."""
    answered: threading.Event = field(default_factory=threading.Event)
    """Set once the registry has answered, or has refused this host name."""
    wake: threading.Event = field(default_factory=threading.Event)
    """Set to send the next heartbeat now."""
    name_conflict: str | None = None
    """The error that names another agent with this host name, if there is one."""
    on_done: Callable[[float, str | None], object] = lambda *_: None
    """Called after each heartbeat, in its thread, with its seconds and why it failed, if so."""
    down_after: float = DOWN_AFTER
    """Seconds without a heartbeat after which the registry counts an agent as down."""
    granted: frozenset[str] = frozenset()
    """The UUIDs of the roots that the registry has for this host."""
    denied: Mapping[str, str] = field(default_factory=dict)
    """Why this host may not write to roots, by UUID, as the registry said last; empty: it may."""
    hosts: int | None = None
    """Number of hosts of the fleet that are up, as the registry last said; ``None`` if unknown."""
    _reported: Reported | None = None
    """RPC version and roots of the last heartbeat that the registry answered."""
    _waits_until: float = 0.0
    """When another agent with this name can't be an earlier one of this host any more."""
    _unanswered: int = 0
    """How many heartbeats need no answer yet, if nothing changes."""
    _tried: tuple[int, bool, str | None] | None = None
    """Version, status and reason that the record has if this agent's last write succeeded."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Start the thread.  :raises agent.threads.NoThread: it can't be started."""
        self.run(self._run, "heartbeat", self._ended)

    def stop(self) -> None:
        """Send no further heartbeat; a running one ends with the process."""
        self._ended.set()
        self.wake.set()

    def follow(self, connect: Callable[[], Registry], every: float) -> None:
        """Use another registry and interval, from a heartbeat now."""
        self.connect, self.every, self._reported = connect, every, None
        self.wake.set()

    def read_once(self) -> None:
        """Read the record without sending a heartbeat.  Never raises."""
        if self.attached:
            return
        expected = self.status.current
        try:
            with suppress(UnknownHost):
                record = self.connect().get_service(self.host)
                if verdict(expected, record) in (Verdict.RECORD, Verdict.RECORD_CHANGED):
                    self.status.adopt(record, expected)
        except RegistryError as err:
            self._is_lost(err)

    def denied_of(self, roots: Collection[str]) -> Mapping[str, str] | None:
        """Return why this host may not write to these roots, by UUID; ``None``: nobody knows.

        The registry is asked about those that no heartbeat has brought into this host's record.
        While it does not answer, what it said last of them holds.
        """
        asked = frozenset(roots) - self.granted
        if asked and self.status.registry_lost is None:
            report = HeartbeatMessage(self.host, self.address, roots=tuple(asked))
            try:
                now = rivals(self.connect().holders(report), report, self.down_after)
            except RegistryError as err:
                self._is_lost(err)
            else:
                self.denied = {**self.denied, **dict.fromkeys(asked, ""), **now}
        if not asked <= self.denied.keys():
            return None
        return {root: self.denied[root] for root in asked if self.denied[root]}

    def beat(self) -> None:
        """Send a heartbeat and act on its answer.  Never raises."""
        began = time.monotonic()
        try:
            answered = self._exchange()
        except HostTaken as err:
            self._note_conflict(str(err), began)
        except Exception as err:  # noqa: BLE001  such as one of a driver that names the roots
            self._is_lost(err)
        else:
            if answered:
                self._note_answer()
        error = self.name_conflict or self.status.registry_lost
        self.on_done(time.monotonic() - began, error)

    def _note_conflict(self, error: str, now: float) -> None:
        """Note another agent; until it counts as down, it may be this host's of before a boot."""
        if self.name_conflict is None:
            self._waits_until = now + self.down_after
        level = logging.ERROR
        if now < self._waits_until:
            level, wait = logging.WARNING, f"waiting up to {self.down_after:g} s"
            error = f"{wait} for an earlier agent to count as down: {error}"
        if error != self.name_conflict:
            LOG.log(level, "%s", error)
        self.name_conflict, self.granted = error, frozenset()
        self.answered.set()

    def _note_answer(self) -> None:
        if self.name_conflict is not None:
            LOG.info("No other agent has the name of this host any more")
        elif self.status.registry_lost is not None:
            LOG.info("The registry answers again")
        self.name_conflict = None
        self.answered.set()
        self.status.registry_answers()

    def _run(self) -> None:
        while not self._ended.is_set():
            self.wake.clear()
            self.beat()
            # Random, so that hosts that were started together spread out.
            self.wake.wait(self.every * random.uniform(EARLIEST_BEAT, LATEST_BEAT))

    def _exchange(self) -> bool:
        """Send heartbeats until record and status agree, or ``ROUNDS`` are over.

        Return whether the registry answered.
        """
        registry = self.connect()
        for _ in range(ROUNDS):
            expected = self.status.current
            reported = (self.rpc_version(), tuple(self.roots()))
            record = self._send(registry, reported)
            if record is None:
                return False
            self.hosts, self._reported = record.hosts, reported
            self.granted = frozenset(record.roots)
            if self.attached:
                return True
            if self.status.current is not expected:
                continue  # an RPC call came meanwhile, maybe with a later record
            if self._tried == (record.version, record.disabled, record.disabled_reason):
                # This agent wrote it; the reply was lost, or arrived after a later call.
                expected = self.status.acknowledge(record.version)
            decided = verdict(expected, record)
            if decided in WARNINGS:
                LOG.warning(WARNINGS[decided], record.status)
            with suppress(Changed):
                if decided in (Verdict.STATUS, Verdict.STATUS_IS_LATER):
                    record = self._write(registry, expected, record.version)
                if self.status.adopt(record, expected):
                    self._tried = None  # a later record may have the same values
                    return True
        LOG.debug("Status and record changed in each try; retrying at the next heartbeat")
        return True

    def _write(self, registry: Registry, status: ServiceStatus, version: int) -> ServiceRecord:
        self._tried = new, disabled, reason = version + 1, bool(status.disabled), status.reason
        versions = {"expected_version": version, "new_version": new}
        change = StatusChange(self.host, disabled=disabled, reason=reason, **versions)
        return registry.set_status(change)

    def _send(self, registry: Registry, reported: Reported) -> ServiceRecord | None:
        """Send a heartbeat; ``None``: its answer is not awaited."""
        report = HeartbeatMessage(
            self.host,
            self.address,
            *reported,
            attached=self.attached,
            agent_version=version(),
            degraded=degraded_text(self.degraded()),
            known_version=self._known_version(reported),
        )
        try:
            return registry.heartbeat(report)
        except Changed:  # the agent with this name was at another address, and is down
            last = registry.get_service(self.host).last_seen
            replaces = last.isoformat() if last is not None else ""
            return registry.heartbeat(replace(report, replaces=replaces))

    def _known_version(self, reported: Reported) -> int | None:
        """Return the version of the record that is known, ``None`` if an answer is needed."""
        # Another record may give up a root at any time, as that of a renamed host's old name does.
        news = reported != self._reported or not self.granted.issuperset(reported[1])
        self._unanswered -= 1
        if self._unanswered < 0:
            self._unanswered = random.randint(FEWEST_UNANSWERED, MOST_UNANSWERED)
        elif not news and self.name_conflict is None:
            if self.attached:
                return 0
            if self.status.registered.is_set():
                return self.status.current.record_version
        return None

    def _is_lost(self, err: Exception) -> None:
        before, self.status.registry_lost = self.status.registry_lost, error_text(err)
        if not isinstance(err, RegistryError) and self.status.registry_lost != before:
            LOG.error("A heartbeat failed", exc_info=err)
        elif before is None:
            text = "The registry does not answer, this host keeps its last known status: %s"
            LOG.warning(text, err)


def agent_address(state_path: Path, *, root: Path = Path("/")) -> str:
    """Return the address of an agent: machine name, boot id and state directory.

    It is the same after a restart of the agent.  The boot id tells cloned machines apart.
    """
    try:
        boot = (root / BOOT_ID.lstrip("/")).read_text(encoding="ascii").strip()
    except OSError:
        boot = "?"
    return f"{socket.gethostname()} (boot {boot}, {state_path.absolute()})"[:LONGEST]
