"""What the registry and its clients send each other.  Pure.

Answers are ``{"value": ...}`` or ``{"error": {"kind": ..., "text": ...}}``.  Fields that a
reader does not know are left out, so that instances of two versions get along.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from agent.registry import errors
from agent.registry.record import ServiceRecord

EXCHANGE = TOPIC = NAMESPACE = "compute-registry"
VERSION = "1.0"
PAGE = 500
"""Records in one answer, of some 400 bytes each."""

_KINDS = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.RegistryError)
}
_FIELDS = frozenset(field.name for field in dataclasses.fields(ServiceRecord))


def to_wire(record: ServiceRecord) -> dict[str, Any]:
    """As JSON can hold it."""
    said = dataclasses.asdict(record)
    seen = record.last_seen
    return said | {"last_seen": seen and seen.isoformat(), "roots": list(record.roots)}


def from_wire(said: dict[str, Any]) -> ServiceRecord:
    """The record that was sent."""
    known = {name: value for name, value in said.items() if name in _FIELDS}
    seen = known.get("last_seen")
    known["last_seen"] = datetime.fromisoformat(seen) if seen else None
    known["roots"] = tuple(known.get("roots", ()))
    return ServiceRecord(**known)


def failure(err: errors.RegistryError) -> dict[str, Any]:
    """The answer that stands for an error."""
    return {"error": {"kind": type(err).__name__, "text": str(err)}}


def value_of(answer: dict[str, Any]) -> Any:
    """The value.  :raises RegistryError: the answer stands for one."""
    if "error" in answer:
        error = answer["error"]
        raise _KINDS.get(error["kind"], errors.RegistryError)(error["text"])
    return answer["value"]
