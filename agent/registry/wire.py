"""Messages between the registry and its clients.  Pure.

Answers are ``{"value": ...}`` or ``{"error": {"kind": ..., "text": ...}}``.  Unknown
fields are ignored, so that instances of two versions work together.
"""

import dataclasses
from datetime import datetime
from typing import Any

from agent.bus.incoming import FAILED, OK, REFUSED
from agent.errors import RegistryError, RegistryUnavailable
from agent.registry.record import ServiceRecord

EXCHANGE = TOPIC = NAMESPACE = "compute-registry"
VERSION = "1.0"
PAGE = 500
"""Records in one answer, of some 400 bytes each."""

_KINDS = {kind.__name__: kind for kind in RegistryError.__subclasses__()}
_TIMES = ("last_seen", "disabled_at")
_FIELDS = tuple(field.name for field in dataclasses.fields(ServiceRecord))


def to_wire(record: ServiceRecord) -> dict[str, Any]:
    """Return a record as JSON values."""
    data = {name: getattr(record, name) for name in _FIELDS}
    times = {name: data[name] and data[name].isoformat() for name in _TIMES}
    return data | times | {"roots": list(record.roots)}


def from_wire(data: dict[str, Any]) -> ServiceRecord:
    """Return a record from JSON values."""
    fields = {name: value for name, value in data.items() if name in _FIELDS}
    for name in _TIMES:
        at = fields.get(name)
        fields[name] = datetime.fromisoformat(at) if at else None
    return ServiceRecord(**fields | {"roots": tuple(fields.get("roots", ()))})


def failure(err: RegistryError) -> dict[str, Any]:
    """Return the answer that carries an error."""
    return {"error": {"kind": type(err).__name__, "text": str(err)}}


def outcome(answer: dict[str, Any]) -> str:
    """Return the outcome of a call, for metrics."""
    if "error" not in answer:
        return OK
    return FAILED if answer["error"]["kind"] == RegistryUnavailable.__name__ else REFUSED


def value_of(answer: dict[str, Any]) -> Any:
    """Return the value of an answer.  :raises RegistryError: the answer carries an error."""
    if "error" in answer:
        error = answer["error"]
        raise _KINDS.get(error["kind"], RegistryError)(error["text"])
    return answer["value"]
