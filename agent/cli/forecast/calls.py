"""The exact calls of a plan, before any of them is sent.  Pure.

A body has the generation that the provider will have by then, so the generations are
carried along as Placement moves them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reportclient.calls import call_of
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    Operation,
    Plan,
    Reshape,
    SetAggregates,
    SetInventories,
    SetInventory,
    SetTraits,
    UpdateProvider,
)
from reportclient.reshape import generations_after


@dataclass(frozen=True, slots=True)
class Call:
    """One operation as the request that it becomes; ``body`` is ``None`` for an empty one."""

    operation: Operation
    method: str
    path: str
    body: dict[str, Any] | None


def calls_of(plan: Plan, generations: Mapping[str, int]) -> Iterator[Call]:
    """In their order; ``generations`` are those of the view."""
    current = dict(generations)
    for operation in plan:
        yield Call(operation, *call_of(operation, current))
        _move(operation, current)


def _move(operation: Operation, generations: dict[str, int]) -> None:
    match operation:
        case CreateProvider(uuid):
            generations[uuid] = 0
        case SetTraits(uuid) | SetAggregates(uuid) | SetInventory(uuid):
            generations[uuid] = generations.get(uuid, 0) + 1
        case Reshape() | SetInventories():
            generations.update(generations_after(operation, generations))
        case DeleteProvider(uuid):
            generations.pop(uuid, None)
        case UpdateProvider() | EnsureTrait() | EnsureClass():
            pass
