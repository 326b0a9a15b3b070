"""The schema of ``status.json``.

Readers ignore unknown fields and use the defaults of missing ones.  So a new field needs no new
``VERSION``; that grows only if a field changes its meaning or is removed.  Times are seconds since
the epoch.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar

from agent.reporting.conditions import Check, Condition, Severity

FILE_NAME = "status.json"
VERSION = 1
SERVING, NO_RPC = "serving", "none"
"""Values of ``ServiceFacts.rpc`` that are no problem: calls are answered; there is no bus."""

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


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The state of one node after its last period or switch."""

    node: str
    ok: bool
    last_ok: float | None = None
    occasion: str = "period"
    """``period`` or ``switch``."""
    seconds: float | None = None
    """Duration of the period or switch."""
    calls: int = 0
    changes: str = ""
    took: Mapping[str, float] | None = None
    """Seconds that each source of the drivers took when it was last read."""
    conditions: tuple[Condition, ...] = ()
    reshape_pending: tuple[str, ...] = ()
    """Drivers that wait for a reshape."""

    def texts(self, *severities: Severity) -> list[str]:
        """Return the texts of the conditions of these severities."""
        return [str(each) for each in self.conditions if each.severity in severities]


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
    service: ServiceFacts | None = None
    checks: tuple[Check, ...] = ()
    """The health of each part."""


class LaterVersion(ValueError):
    """The file is of a later ``VERSION``, so that its fields may have other meanings."""


def to_json(status: AgentStatus) -> dict[str, Any]:
    """Return the status as JSON data."""
    data = asdict(status)
    for node in data["nodes"]:
        for condition in node["conditions"]:
            condition["severity"] = condition["severity"].value
    return {"version": VERSION, **data}


def from_json(data: Any) -> AgentStatus:
    """Return the status from JSON data.

    :raises LaterVersion: a later agent wrote the file.
    :raises ValueError: (or TypeError, LookupError, AttributeError) the data is no status.
    """
    version = data["version"]
    if isinstance(version, int) and version > VERSION:
        raise LaterVersion(version)
    if version != VERSION:
        raise ValueError(f"it has version {version!r}, not {VERSION}")
    numbers = isinstance(data["pid"], int) and isinstance(data["updated"], int | float)
    if not numbers or not isinstance(data["interval"], int | float | None):
        raise ValueError("pid, updated or interval is not a number")
    facts = data.get("service")
    return replace(
        _record(AgentStatus, {**data, "nodes": tuple(map(_node, data["nodes"]))}),
        service=_record(ServiceFacts, facts) if facts else None,
        checks=tuple(_record(Check, check) for check in data.get("checks") or ()),
    )


def _node(data: Mapping[str, Any]) -> NodeStatus:
    if not isinstance(data.get("took") or {}, dict):
        raise TypeError("took is not an object")
    conditions = tuple(
        _record(Condition, {**condition, "severity": Severity(condition["severity"])})
        for condition in data["conditions"]
    )
    pending = tuple(data.get("reshape_pending") or ())
    return _record(NodeStatus, {**data, "conditions": conditions, "reshape_pending": pending})


def _record(kind: Callable[..., T], data: Mapping[str, Any]) -> T:
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in data.items() if name in names})
