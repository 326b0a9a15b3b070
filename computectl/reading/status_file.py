"""Read ``status.json``, which :mod:`agent.reporting.status` writes."""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from agent.reporting.condition import Condition, Severity
from agent.reporting.status import VERSION, AgentStatus, NodeStatus, ServiceFacts, started_at

T = TypeVar("T")


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
        pending = tuple(node["reshape_pending"])
        its = _conditions(node)
        nodes.append(_record(NodeStatus, node, conditions=its, reshape_pending=pending))
    roots = tuple(service["roots"])
    facts = _record(ServiceFacts, service, roots=roots, conditions=_conditions(service))
    return _record(AgentStatus, data, nodes=tuple(nodes), service=facts)


def _conditions(data: Mapping[str, Any]) -> tuple[Condition, ...]:
    return tuple(
        _record(Condition, each, severity=Severity(each["severity"])) for each in data["conditions"]
    )


def _record(kind: Callable[..., T], data: Mapping[str, Any], **parsed: Any) -> T:
    """Return the record of a JSON object, with ``parsed`` fields; unknown ones are ignored."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in data.items() if name in names} | parsed)


def lives(pid: int, started: int | None) -> bool:
    """Return whether the process runs, and began at ``started``: pids are used again."""
    if None not in (now := started_at(pid), started):
        return now == started
    try:
        os.kill(pid, 0)
    except OSError as err:
        return isinstance(err, PermissionError)
    return True
