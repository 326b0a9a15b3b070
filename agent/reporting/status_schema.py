"""The schema of ``status.json``.

A reader passes over fields that it does not know, and takes the default of one that is not
there; so a field that is added needs no new version, and ``VERSION`` grows only where one
changes its meaning or goes.  Times are seconds since the epoch.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar

from agent.reporting.conditions import Check, Condition, Severity

FILE_NAME = "status.json"
VERSION = 1
SERVING, NO_RPC = "serving", "none"
"""How the service's calls over RPC are when all is well."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """The state of the service, for all nodes."""

    disabled: bool | None = None
    reason: str | None = None
    registry: str | None = None
    """Why the registry does not serve this host."""
    rpc: str | None = None
    attached: bool = False
    """Whether the roots belong to another service."""
    hypervisor: str | None = None
    """Why the connection to the hypervisor is lost."""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The state of one node after its last period or switch."""

    node: str
    ok: bool
    last_ok: float | None = None
    occasion: str = "period"
    """``period`` or ``switch``."""
    seconds: float | None = None
    """How long that took."""
    calls: int = 0
    changes: str = ""
    took: Mapping[str, float] | None = None
    """Seconds by source of the drivers."""
    conditions: tuple[Condition, ...] = ()
    reshape_pending: tuple[str, ...] = ()
    """The drivers that wait for one."""

    def texts(self, *severities: Severity) -> list[str]:
        """The conditions of these severities, each as a sentence."""
        return [str(one) for one in self.conditions if one.severity in severities]


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """All of it.  ``pid`` and ``started`` (in clock ticks since boot) tell the process."""

    host: str
    pid: int
    started: int | None
    updated: float
    interval: float | None
    nodes: tuple[NodeStatus, ...]
    agent_version: str = ""
    service: ServiceFacts | None = None
    checks: tuple[Check, ...] = ()
    """Each part of its health."""


class LaterVersion(ValueError):
    """A later version of the agent wrote it, with fields that mean something else here."""


def to_json(status: AgentStatus) -> dict[str, Any]:
    """For the file."""
    data = asdict(status)
    for node in data["nodes"]:
        for condition in node["conditions"]:
            condition["severity"] = condition["severity"].value
    return {"version": VERSION, **data}


def from_json(data: Any) -> AgentStatus:
    """Return the status that a file has.

    :raises LaterVersion: this one can't know what it says.
    :raises ValueError: it is no such file; or TypeError, LookupError, AttributeError.
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
        _made(AgentStatus, {**data, "nodes": tuple(map(_node, data["nodes"]))}),
        service=_made(ServiceFacts, facts) if facts else None,
        checks=tuple(_made(Check, one) for one in data.get("checks") or ()),
    )


def _node(data: Mapping[str, Any]) -> NodeStatus:
    if not isinstance(data.get("took") or {}, dict):
        raise TypeError("took is no object")
    conditions = tuple(
        _made(Condition, {**one, "severity": Severity(one["severity"])})
        for one in data["conditions"]
    )
    pending = tuple(data.get("reshape_pending") or ())
    return _made(NodeStatus, {**data, "conditions": conditions, "reshape_pending": pending})


def _made(kind: Callable[..., T], data: Mapping[str, Any]) -> T:
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in data.items() if name in names})
