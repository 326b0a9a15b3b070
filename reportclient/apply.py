"""apply: the only writer.

Only what Placement acknowledged moves the view.  A provider whose operation failed
is left alone for the rest of the plan, together with what would be created below
it; everything else goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from reportclient.errors import Conflict, NotFound, PlacementError, UnknownNames, Unreachable
from reportclient.http import API
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    Operation,
    Plan,
    Reshape,
    SetAggregates,
    SetInventory,
    SetTraits,
    UpdateProvider,
    as_dicts,
)
from reportclient.reshape import reshape_payload
from reportclient.view import View, ViewEdit

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan.

    ``failed`` are the providers (or names) that could not be written, and why;
    ``stopped_by`` is what ended the plan early: it has to be planned anew.
    """

    view: View
    done: tuple[Operation, ...] = ()
    failed: Mapping[str, PlacementError] = field(default_factory=dict)
    stopped_by: PlacementError | None = None


def apply(plan: Plan, view: View, api: API, *, stop: Callable[[], bool] | None = None) -> Outcome:
    """Send the plan's operations in their order.

    ``stop`` is asked before each one: true leaves the rest to the next period.
    """
    run = _Run(ViewEdit(view), api)
    for operation in plan:
        if run.stopped_by is not None or (stop is not None and stop()):
            break
        run.attempt(operation)
    return run.outcome(certain=view.certain)


@dataclass(slots=True)
class _Run:
    edit: ViewEdit
    api: API
    done: list[Operation] = field(default_factory=list)
    failed: dict[str, PlacementError] = field(default_factory=dict)
    stopped_by: PlacementError | None = None

    def attempt(self, operation: Operation) -> None:
        if self._is_hopeless(operation):
            return
        try:
            reply = _send(operation, self.edit.generations, self.api)
        except (Conflict, NotFound, Unreachable) as err:
            self.stopped_by = err
        except UnknownNames as err:
            self.edit.refused(err.names)
            self.stopped_by = err
        except PlacementError as err:
            self.failed[_subject(operation)] = err
        else:
            self.edit.ack(operation, reply)  # the only line that moves the view
            self.done.append(operation)

    def outcome(self, *, certain: bool) -> Outcome:
        sure = certain and not isinstance(self.stopped_by, (Conflict, NotFound, Unreachable))
        view = self.edit.freeze(certain=sure)
        return Outcome(view, tuple(self.done), self.failed, self.stopped_by)

    def _is_hopeless(self, operation: Operation) -> bool:
        """Whether an operation that failed before takes this one along."""
        parent = getattr(operation, "parent_uuid", None)
        if isinstance(operation, CreateProvider) and parent in self.failed:
            self.failed.setdefault(operation.uuid, self.failed[parent])
        if isinstance(operation, DeleteProvider):
            self._keep_parent_of_failed(operation.uuid)
        return _subject(operation) in self.failed

    def _keep_parent_of_failed(self, uuid: str) -> None:
        for child in self.edit.children(uuid):
            if child in self.failed:
                self.failed.setdefault(uuid, self.failed[child])


def _subject(operation: Operation) -> str:
    match operation:
        case EnsureTrait(name) | EnsureClass(name):
            return name
        case Reshape():
            return "reshape"
        case _:
            return operation.uuid


def _send(operation: Operation, generations: Mapping[str, int], api: API) -> dict[str, Any]:
    method, path, body = call_of(operation, generations)
    return api.request(method, path, json=body, needs=_needs(operation))


def _needs(operation: Operation) -> str | None:
    """Moving a provider needs 1.37, and so does saying that it stays where it is."""
    return "1.37" if isinstance(operation, UpdateProvider) and operation.moved else None


def call_of(  # noqa: PLR0911  one return a kind
    operation: Operation, generations: Mapping[str, int]
) -> tuple[str, str, dict[str, Any] | None]:
    """The one HTTP call that an operation is: method, path and body."""
    match operation:
        case EnsureTrait(name):
            return "PUT", f"/traits/{name}", None
        case EnsureClass(name):
            return "PUT", f"/resource_classes/{name}", None
        case CreateProvider(uuid, name, parent):
            body = {"uuid": uuid, "name": name, "parent_provider_uuid": parent}
            return "POST", "/resource_providers", body
        case UpdateProvider(uuid, name, parent):
            body = {"name": name, "parent_provider_uuid": parent}
            return "PUT", f"/resource_providers/{uuid}", body
        case Reshape():
            return "POST", "/reshaper", reshape_payload(operation, generations)
        case DeleteProvider(uuid):
            return "DELETE", f"/resource_providers/{uuid}", None
        case SetTraits(uuid, traits):
            return _put(uuid, "traits", sorted(traits), generations)
        case SetAggregates(uuid, aggregates):
            return _put(uuid, "aggregates", sorted(aggregates), generations)
        case SetInventory(uuid, inventory):
            return _put(uuid, "inventories", as_dicts(inventory), generations)
        case _:
            assert_never(operation)


def _put(
    uuid: str, part: str, value: Any, generations: Mapping[str, int]
) -> tuple[str, str, dict[str, Any]]:
    body = {"resource_provider_generation": generations.get(uuid), part: value}
    return "PUT", f"/resource_providers/{uuid}/{part}", body
