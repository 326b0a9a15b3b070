"""How the operator wants a root to be reported."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """Times in seconds, ``None`` for never; ``at_once`` operations sent at the same time."""

    owner_trait: str
    verify_every: float | None = 300.0
    audit_every: float | None = 86400.0
    reshape_when_running: bool = False
    at_once: int = 1


@dataclass(slots=True)
class BulkWrites:
    """How many inventories are written in one call, 0 for one each; one for the whole process."""

    chunk: int = 0
