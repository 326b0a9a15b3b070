"""Heartbeats: the agent reports to the registry, and gets its host's service record back.

They run in a thread of their own, since the registry may answer late or not at all; then
this host keeps its last known status.  Over RPC most of them report nothing new, and are not
answered.  How many have to be answered does not depend on whether the registry answers: after an
outage they are as few as ever.

Whether this host follows its record is chosen once: a :class:`Heartbeat` only reports, as in attach
mode, where Nova's service has the status; a :class:`FollowingHeartbeat` makes record and status
agree.
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
from typing import ClassVar

from agent import version
from agent.errors import Changed, HostTaken, RegistryError, UnknownHost
from agent.registry.checks import LONGEST, HeartbeatMessage, StatusChange, degraded_text
from agent.registry.record import DOWN_AFTER, Registry, ServiceRecord, rivals
from agent.switching.host_status import HostStatus
from agent.switching.machine import Verdict, change_of, is_made, verdict
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

Reported = tuple[str | None, tuple[str, ...]]
"""RPC version and roots: what is new in them is reported at once."""


@dataclass(slots=True)
class Heartbeat:
    """Heartbeats of one host that follow no record.

    ``roots`` returns the UUIDs of its root providers.
    """

    attached: ClassVar[bool] = True
    """Whether the service is nova-compute's."""
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
        """Read the record without sending a heartbeat, if this host follows it.  Never raises."""

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
                self.denied = {**self.denied, **dict.fromkeys(asked, ""), **now}
            except RegistryError as err:
                self._is_lost(err)
        if not asked <= self.denied.keys():
            return None
        return {root: self.denied[root] for root in asked if self.denied[root]}

    def beat(self) -> None:
        """Send a heartbeat and act on its answer.  Never raises."""
        began = time.monotonic()
        try:
            if self._exchange(self.connect()):
                if self.name_conflict is not None:
                    LOG.info("No other agent has the name of this host any more")
                elif self.status.registry_lost is not None:
                    LOG.info("The registry answers again")
                self.name_conflict = None
                self.answered.set()
                self.status.registry_answers()
        except HostTaken as err:
            self._note_conflict(str(err), began)
        except Exception as err:  # noqa: BLE001  such as one of a driver that names the roots
            self._is_lost(err)
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

    def _run(self) -> None:
        while not self._ended.is_set():
            self.wake.clear()
            self.beat()
            # Random, so that hosts that were started together spread out.
            self.wake.wait(self.every * random.uniform(EARLIEST_BEAT, LATEST_BEAT))

    def _exchange(self, registry: Registry) -> bool:
        """Send a heartbeat; return whether the registry answered."""
        return self._send(registry) is not None

    def _send(self, registry: Registry) -> ServiceRecord | None:
        """Send a heartbeat; return the host's record, ``None``: it is not awaited."""
        reported = (self.rpc_version(), tuple(self.roots()))
        # Another record may give up a root at any time, as that of a renamed host's old name does.
        news = reported != self._reported or not self.granted.issuperset(reported[1])
        known, self._unanswered = None, self._unanswered - 1
        if self._unanswered < 0:
            self._unanswered = random.randint(FEWEST_UNANSWERED, MOST_UNANSWERED)
        elif not news and self.name_conflict is None:
            known = self._known_version()
        about = self.attached, version(), degraded_text(self.degraded())
        report = HeartbeatMessage(self.host, self.address, *(reported + about), known_version=known)
        try:
            record = registry.heartbeat(report)
        except Changed:  # the agent with this name was at another address, and is down
            last = registry.get_service(self.host).last_seen
            replaces = last.isoformat() if last is not None else ""
            record = registry.heartbeat(replace(report, replaces=replaces))
        if record is not None:
            self.hosts, self._reported = record.hosts, reported
            self.granted = frozenset(record.roots)
        return record

    def _known_version(self) -> int | None:
        """Return the version of the record that is known, ``None`` if it has to be read."""
        return 0

    def _is_lost(self, err: Exception) -> None:
        before, self.status.registry_lost = self.status.registry_lost, error_text(err)
        if not isinstance(err, RegistryError) and self.status.registry_lost != before:
            LOG.error("A heartbeat failed", exc_info=err)
        elif before is None:
            text = "The registry does not answer, this host keeps its last known status: %s"
            LOG.warning(text, err)


@dataclass(slots=True)
class FollowingHeartbeat(Heartbeat):
    """Heartbeats of a host whose record and status follow each other."""

    attached = False
    _tried: StatusChange | None = None
    """The last change of the record by this agent, until an answer has shown whether it was made.
    """

    def read_once(self) -> None:
        """Read the record without sending a heartbeat.  Never raises."""
        expected = self.status.current
        try:
            with suppress(UnknownHost):
                record = self.connect().get_service(self.host)
                if verdict(expected, record) in (Verdict.RECORD, Verdict.RECORD_CHANGED):
                    self.status.adopt(record, expected)
        except RegistryError as err:
            self._is_lost(err)

    def _exchange(self, registry: Registry) -> bool:
        """Send heartbeats until record and status agree, or ``ROUNDS`` are over.

        Return whether the registry answered.
        """
        for _ in range(ROUNDS):
            expected = self.status.current
            record = self._send(registry)
            if record is None:
                return False
            if self.status.current is not expected:
                continue  # an RPC call came meanwhile, maybe with a later record
            if self._tried is not None and is_made(self._tried, record):
                # The reply was lost, or arrived after a later call.
                expected = self.status.acknowledge(record.version)
            decided = verdict(expected, record)
            if decided in (Verdict.RECORD_CHANGED, Verdict.STATUS_IS_LATER):
                LOG.warning(decided.value, record.status)
            with suppress(Changed):
                if decided in (Verdict.STATUS, Verdict.STATUS_IS_LATER):
                    self._tried = change = change_of(self.host, expected, record)
                    record = registry.set_status(change)
                if self.status.adopt(record, expected):
                    self._tried = None  # a later record may have the same values
                    return True
        LOG.debug("Status and record changed in each try; retrying at the next heartbeat")
        return True

    def _known_version(self) -> int | None:
        return self.status.current.record_version if self.status.registered.is_set() else None


def agent_address(state_path: Path, *, root: Path = Path("/")) -> str:
    """Return the address of an agent: machine name, boot id and state directory.

    It is the same after a restart of the agent.  The boot id tells cloned machines apart.
    """
    try:
        boot = (root / BOOT_ID.lstrip("/")).read_text(encoding="ascii").strip()
    except OSError:
        boot = "?"
    return f"{socket.gethostname()} (boot {boot}, {state_path.absolute()})"[:LONGEST]
