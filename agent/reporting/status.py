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
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from agent import version
from agent.reporting.reports import (
    Check,
    Condition,
    Occasion,
    Report,
    Severity,
    texts_of,
    with_agents_step,
)
from agent.state import files
from reportclient.errors import PlacementError
from reportclient.plain_text import ago, error_text

LOG = logging.getLogger("compute_agent.service")

FILE_NAME = "status.json"
VERSION = 1
SERVING, NO_RPC = "serving", "none"
"""Values of ``ServiceFacts.rpc`` that are no problem: calls are answered; there is no bus."""
_OWN = ("hypervisor", "broker", "disk")
"""Checks whose failure is no condition of a node."""
LATE_AFTER = 3
"""Number of intervals without a finished period after which an agent counts as stuck."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """The state of the service, for all nodes."""

    disabled: bool | None = None
    reason: str | None = None
    registry: str | None = None
    """Why the registry does not serve this host; ``None`` if it does."""
    rpc: str | None = None
    attached: bool = False
    """Whether the roots belong to another service."""
    hypervisor: str | None = None
    """Why the connection to the hypervisor is lost; ``None`` if it is not."""
    roots: tuple[str, ...] = ()
    """The UUIDs of the root providers."""
    placement: str = ""
    """The endpoint of Placement; empty until it has answered."""

    @property
    def broker(self) -> str | None:
        """Why calls do not reach the agent; ``None`` if they do, or if there is no bus."""
        return None if self.rpc in (SERVING, NO_RPC) else self.rpc


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
            node=report.node,
            ok=report.ok,
            last_ok=last_ok,
            occasion=report.occasion,
            seconds=round(report.seconds, 3),
            calls=report.calls,
            changes=report.changes(),
            took={name: round(seconds, 5) for name, seconds in report.took.items()},
            conditions=tuple(report.conditions().values()),
            reshape_pending=report.reshape_pending,
        )

    def texts(self, *severities: Severity) -> list[str]:
        """Return the texts of the conditions of these severities."""
        return texts_of(self.conditions, *severities)


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
    checks: tuple[Check, ...] = ()
    """The health of each part."""
    since: float | None = None
    """When the agent started to report."""
    first_due: float | None = None
    """When the first report is due; ``None`` once there is one."""

    def problems(self) -> list[str]:
        """Return the conditions that are errors or degraded, and the failed checks without any.

        The registry, which gets this, knows whether it serves the host.
        """
        if not self.nodes:
            return []
        severe = Severity.ERROR, Severity.DEGRADED
        conditions = (text for node in self.nodes for text in node.texts(*severe))
        own = (str(each) for each in self.checks if not each.ok and each.name in _OWN)
        return list(dict.fromkeys(chain(own, conditions)))

    def stuck(self, now: float) -> str | None:
        """Return a text if the agent is stuck, else ``None``."""
        age = max(0.0, now - max(self.updated, self.first_due or 0.0))
        if self.interval and age > LATE_AFTER * self.interval:
            return f"stuck: no period has ended for {ago(age)}"
        return None


@dataclass(slots=True)
class StatusFile:
    """Writes ``status.json``; ``last_ok`` is when each node was last reported fully."""

    directory: Path
    host: str
    interval: float | None
    clock: Callable[[], float]
    service: Callable[[], ServiceFacts] = ServiceFacts
    """Returns the state of the service."""
    disk: Callable[[], Sequence[str]] = tuple
    """Returns why other files of ``state_path`` can't be written."""
    last_ok: dict[str, float] = field(default_factory=dict)
    written: AgentStatus | None = None
    """The last status, even if it could not be written."""
    silence: str = ""
    """Why a period does not end now, while Placement does not answer."""
    _unwritable: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _reports: Sequence[Report] = ()
    _since: float | None = None

    def started(self, first_in: float) -> None:
        """Write the status of an agent whose first report is due in so many seconds."""
        self._since = self.clock()
        self._write(replace(self._status(), first_due=self._since + first_in))

    def __call__(self, reports: Sequence[Report]) -> None:
        """Write the status after a period or switch."""
        now = self.clock()
        self._reports, self.silence = reports, ""
        self.last_ok |= {report.node: now for report in reports if report.ok}
        self._write(self._status())

    def _status(self) -> AgentStatus:
        now = self.clock()
        return AgentStatus(
            host=self.host,
            pid=os.getpid(),
            started=started_at(os.getpid()),
            updated=now,
            interval=self.interval,
            nodes=tuple(
                NodeStatus.from_report(each, self.last_ok.get(each.node)) for each in self._reports
            ),
            agent_version=version(),
            service=self.service(),
            since=self._since,
        )

    def problems(self) -> list[str]:
        """Return :meth:`AgentStatus.problems` of the last status; empty before there is one.

        The state of the service is that of now.  Any thread may call it.
        """
        if self.written is None:
            return []
        now = checks(self._reports, self.service(), self.disk())
        return replace(self.written, checks=now).problems()

    def write_service(self) -> None:
        """Write the changed state of the service; that of the nodes stays as it was."""
        if self.written is not None:
            self._write(replace(self.written, service=self.service()))

    def note_silence(self, why: str | None) -> None:
        """Log and write, while a period waits for Placement, why it does not end; ``None``: it may.

        Any thread may call it.
        """
        if self.silence == (why or ""):
            return
        self.silence = why or ""
        if why:
            LOG.warning("%s", why)
        self.write_service()

    def _write(self, status: AgentStatus) -> None:
        """Write the file with the health of each part; errors are logged once."""
        with self._lock:
            self._write_alone(status)

    def _write_alone(self, status: AgentStatus) -> None:
        path, disk = self.directory / FILE_NAME, self.disk()
        status = replace(status, checks=self._checks(status, disk))
        self.written = status
        try:
            data = json.dumps({"version": VERSION, **asdict(self.written)}, indent=1)
            files.replace(path, data.encode() + b"\n", durable=False)
        except OSError as err:
            why = files.describe_error(err)
            if not self._unwritable:
                LOG.warning("The status can't be written to %s: %s", self.directory, why)
            self._unwritable = True
            disk = [f"{path} can't be written: {why}", *disk]
            self.written = replace(status, checks=self._checks(status, disk))
        else:
            self._unwritable = False

    def _checks(self, status: AgentStatus, disk: Sequence[str]) -> tuple[Check, ...]:
        return checks(self._reports, status.service, disk, self.silence)


def checks(
    reports: Sequence[Report], service: ServiceFacts, disk: Iterable[str], silence: str = ""
) -> tuple[Check, ...]:
    """Return the health of each part.

    ``reports`` are those of the last period, ``disk`` the reasons why files of ``state_path`` can't
    be written, ``silence`` why a period does not end now.
    """
    wrong: Mapping[str, Iterable[str | None]] = {
        "placement": [
            silence,
            *(with_agents_step(r.error) for r in reports if isinstance(r.error, PlacementError)),
        ],
        "drivers": [
            f"driver {name}: {error_text(err)}"
            for report in reports
            for name, err in report.driver_errors.items()
        ],
        "hypervisor": [service.hypervisor],
        "registry": [service.registry],
        "broker": [service.broker],
        "disk": disk,
        "nodes": [f"{r.node} is not reported fully" for r in reports if not r.ok]
        if reports
        else ["the first report is not finished yet"],
    }
    result = []
    for name, texts in wrong.items():
        distinct = list(dict.fromkeys(" ".join(text.split()) for text in texts if text))
        more = f" (and {len(distinct) - 1} more)" if distinct[1:] else ""
        result.append(Check(name, f"{distinct[0]}{more}" if distinct else ""))
    return tuple(result)


class LaterVersion(ValueError):
    """The file is of a later ``VERSION``, so that its fields may have other meanings."""


def from_json(data: Any) -> AgentStatus:
    """Return the status from JSON data.

    :raises LaterVersion: a later agent wrote the file.
    :raises ValueError: (or TypeError, LookupError, AttributeError) the data is no status.
    """
    if isinstance(data["version"], int) and data["version"] > VERSION:
        raise LaterVersion(data["version"])
    numbers = isinstance(data["pid"], int) and isinstance(data["updated"], int | float)
    objects = all(isinstance(node["took"], dict) for node in data["nodes"])
    well = numbers and objects and isinstance(data["interval"], int | float | None)
    if data["version"] != VERSION or not well:
        raise ValueError(f"it has version {data['version']!r}, not {VERSION}, or wrong types")
    nodes, service = [], data["service"]
    for node in data["nodes"]:
        conditions = tuple(
            _record(Condition, each, severity=Severity(each["severity"]))
            for each in node["conditions"]
        )
        pending = tuple(node["reshape_pending"])
        nodes.append(_record(NodeStatus, node, conditions=conditions, reshape_pending=pending))
    return _record(
        AgentStatus,
        data,
        nodes=tuple(nodes),
        service=_record(ServiceFacts, service, roots=tuple(service.get("roots", ()))),
        checks=tuple(_record(Check, check) for check in data["checks"]),
    )


def _record(kind: Callable[..., T], data: Mapping[str, Any], **parsed: Any) -> T:
    """Return the record of a JSON object, with ``parsed`` fields; unknown ones are ignored."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in data.items() if name in names} | parsed)


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


def lives(pid: int, started: int | None) -> bool:
    """Return whether the process runs, and began at ``started``: pids are used again."""
    if None not in (now := started_at(pid), started):
        return now == started
    try:
        os.kill(pid, 0)
    except OSError as err:
        return isinstance(err, PermissionError)
    return True
