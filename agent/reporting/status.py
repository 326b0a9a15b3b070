"""``status.json`` in the state directory: the agent's health, for ``computectl status``.

The file is replaced after each period and each switch, and when the state of the service changes.
Readers ignore unknown fields.  A field that is added later has a default for files without it, so
it needs no new ``VERSION``; that grows only if a field changes its meaning or is removed.  Times
are seconds since the epoch.
"""

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from agent import version
from agent.reporting.condition import (
    CHECKS,
    REGISTRY,
    Condition,
    Severity,
    of_disk,
    summarized,
    texts_of,
)
from agent.reporting.reports import Occasion, Report
from agent.state import files
from reportclient.plain_text import ago

LOG = logging.getLogger("compute_agent.service")

FILE_NAME = "status.json"
VERSION = 1
SERVING, NO_RPC, WAITING = "serving", "none", "waiting"
"""Values of ``ServiceFacts.rpc``: calls are answered; there is no bus; a condition says why not."""
LATE_AFTER = 3
"""Number of intervals without a finished period after which an agent counts as stuck."""

_OF_THE_REPORT = ("node", "ok", "occasion", "calls", "conditions", "reshape_pending")
"""Fields of a node's status that are those of its last report."""


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """The state of the service, for all nodes."""

    disabled: bool | None = None
    reason: str | None = None
    rpc: str = NO_RPC
    attached: bool = False
    """Whether the roots belong to another service."""
    roots: tuple[str, ...] = ()
    """The UUIDs of the root providers."""
    placement: str = ""
    """The endpoint of Placement; empty until it has answered."""
    conditions: tuple[Condition, ...] = ()
    """Conditions that are none of a node."""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The state of one node after its last period or switch."""

    node: str
    ok: bool
    last_ok: float | None = None
    """When the node was last reported fully."""
    occasion: str = Occasion.PERIOD
    """``period`` or ``switch``."""
    seconds: float = 0.0
    """Duration of the period or switch."""
    calls: int = 0
    changes: str = ""
    took: Mapping[str, float] = field(default_factory=dict)
    """Seconds that each source of the drivers took when it was last read."""
    conditions: tuple[Condition, ...] = ()
    reshape_pending: tuple[str, ...] = ()
    """Drivers that wait for a reshape."""

    @classmethod
    def from_report(cls, report: Report, last_ok: float | None) -> "NodeStatus":
        """Return the state of the node after this report."""
        return cls(
            **{name: getattr(report, name) for name in _OF_THE_REPORT},
            last_ok=last_ok,
            seconds=round(report.seconds, 3),
            changes=report.changes(),
            took={name: round(seconds, 5) for name, seconds in report.took.items()},
        )


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """The file; ``pid`` and ``started`` (clock ticks since boot) identify the process."""

    host: str
    pid: int
    started: int | None
    updated: float
    interval: float | None
    nodes: tuple[NodeStatus, ...]
    agent_version: str = ""
    service: ServiceFacts = ServiceFacts()
    since: float | None = None
    """When the agent started to report."""
    first_due: float | None = None
    """When the first report is due; ``None`` once there is one."""

    @property
    def checks(self) -> dict[str, str]:
        """What is wrong by check of ``/readyz``; empty texts where nothing is."""
        every = [*self.service.conditions, *chain(*(node.conditions for node in self.nodes))]
        wrong = {name: [it for it in every if it.kind == name] for name in CHECKS}
        reported = [f"{it.node} is not reported fully" for it in self.nodes if not it.ok]
        if not self.nodes:
            reported = ["the first report is not finished yet"]
        failed = {
            name: summarized(it.text if it.subject == name else str(it) for it in found)
            for name, found in wrong.items()
        }
        return {**failed, "nodes": summarized(reported)}

    def problems(self) -> list[str]:
        """Return the conditions that are errors or degraded, for the registry.

        It knows by itself whether it serves the host.
        """
        own = (each for each in self.service.conditions if each.kind != REGISTRY)
        conditions = chain(own, *(node.conditions for node in self.nodes))
        severe = texts_of(conditions, Severity.ERROR, Severity.DEGRADED)
        return list(dict.fromkeys(severe)) if self.nodes else []

    def stuck(self, now: float) -> str | None:
        """Return a text if the agent is stuck, else ``None``."""
        age = max(0.0, now - max(self.updated, self.first_due or 0.0))
        if self.interval and age > LATE_AFTER * self.interval:
            return f"stuck: no period has ended for {ago(age)}"
        return None

    def as_json(self) -> dict[str, Any]:
        """Return the fields and the checks as values of JSON."""
        checks = [{"name": name, "text": text} for name, text in self.checks.items()]
        return {**asdict(self), "checks": checks}


@dataclass(slots=True)
class StatusFile:
    """Writes ``status.json``; ``last_ok`` is when each node was last reported fully."""

    directory: Path
    host: str
    interval: float | None
    clock: Callable[[], float]
    service: Callable[[], ServiceFacts] = ServiceFacts
    """Returns the state of the service."""
    disk: Callable[[], Iterable[Condition]] = tuple
    """Returns why other files of ``state_path`` can't be written."""
    last_ok: dict[str, float] = field(default_factory=dict)
    written: AgentStatus | None = None
    """The last status, even if it could not be written."""
    _silence: Condition | None = None
    """Why a period does not end now, while Placement does not answer."""
    _unwritable: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _since: float | None = None

    def started(self, first_in: float) -> None:
        """Write the status of an agent whose first report is due in so many seconds."""
        self._since = self.clock()
        self._write((), first_due=self._since + first_in)

    def __call__(self, reports: Sequence[Report]) -> None:
        """Write the status after a period or switch."""
        now, self._silence = self.clock(), None
        self.last_ok |= {report.node: now for report in reports if report.ok}
        self._write(
            tuple(NodeStatus.from_report(each, self.last_ok.get(each.node)) for each in reports)
        )

    def problems(self) -> list[str]:
        """Return :meth:`AgentStatus.problems` of the last status; empty before there is one.

        The state of the service is that of now.  Any thread may call it.
        """
        if self.written is None:
            return []
        return replace(self.written, service=self._service()).problems()

    def write_service(self) -> None:
        """Write the changed state of the service; that of the nodes stays as it was."""
        if self.written is not None:
            self._save(self.written)

    def note_silence(self, why: Condition | None) -> None:
        """Log and write, while a period waits for Placement, why it does not end; ``None``: it may.

        Any thread may call it.
        """
        if self._silence == why:
            return
        self._silence = why
        if why is not None:
            LOG.warning("%s", why)
        self.write_service()

    def _write(self, nodes: tuple[NodeStatus, ...], first_due: float | None = None) -> None:
        pid, now, since = os.getpid(), self.clock(), self._since
        status = AgentStatus(self.host, pid, started_at(pid), now, self.interval, nodes, version())
        self._save(replace(status, since=since, first_due=first_due))

    def _save(self, status: AgentStatus) -> None:
        """Write the file with the present state of the service; errors are logged once."""
        path = self.directory / FILE_NAME
        with self._lock:
            self.written = self._dated(replace(status, service=self._service()))
            try:
                data = json.dumps({"version": VERSION, **self.written.as_json()}, indent=1)
                files.replace(path, data.encode() + b"\n", durable=False)
            except OSError as err:
                why = files.describe_error(err)
                if not self._unwritable:
                    LOG.warning("The status can't be written to %s: %s", self.directory, why)
                own = of_disk(f"{path} can't be written: {why}")
                self.written = self._dated(replace(status, service=self._service(own)))
                self._unwritable = True
            else:
                if self._unwritable:
                    LOG.info("resolved: The status can't be written to %s", self.directory)
                self._unwritable = False

    def _service(self, *more: Condition) -> ServiceFacts:
        """Return the present state of the service with all its conditions."""
        facts, silence = self.service(), (self._silence,) if self._silence is not None else ()
        return replace(facts, conditions=(*facts.conditions, *silence, *more, *self.disk()))

    def _dated(self, status: AgentStatus) -> AgentStatus:
        """Return a status whose conditions have the time at which they began."""
        now, before = self.clock(), dict[tuple[str, tuple[str, str]], float | None]()
        if self.written is not None:
            before = {("", it.identity): it.since for it in self.written.service.conditions}
            for node in self.written.nodes:
                before |= {(node.node, it.identity): it.since for it in node.conditions}

        def dated(owner: str, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
            return tuple(
                replace(it, since=it.since or before.get((owner, it.identity)) or now)
                for it in conditions
            )

        service = replace(status.service, conditions=dated("", status.service.conditions))
        nodes = (replace(it, conditions=dated(it.node, it.conditions)) for it in status.nodes)
        return replace(status, service=service, nodes=tuple(nodes))


ENDED = -1
"""The start time of a process that has ended."""


def started_at(pid: int) -> int | None:
    """Return when the process began, in clock ticks since boot; with the pid that identifies it.

    ``None`` if that can't be read, ``ENDED`` for a zombie.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The second field is the program's name, and may hold spaces and parentheses.
        fields = text.rpartition(")")[2].split()
        return ENDED if fields[0] in {"Z", "X"} else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
