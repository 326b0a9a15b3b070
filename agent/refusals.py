"""What Placement refused, so that it is not asked again every period.

A refused operation is sent again at the next verification, or as soon as the
drivers want something else.  What can't be taken away because guests still use it
is drained meanwhile: all of it reserved, so that no new guest gets any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from reportclient.errors import InUse, PlacementError
from reportclient.model import Inventory
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    Operation,
    Plan,
    SetInventory,
    SetTraits,
)
from reportclient.snapshot import Snapshot


@dataclass(slots=True)
class Refusals:
    """Refused operations and their errors, by the UUID of the provider (or by name)."""

    by_subject: dict[str, tuple[Operation, PlacementError]] = field(default_factory=dict)

    def forget(self) -> None:
        """Ask for everything again."""
        self.by_subject.clear()

    def remember(
        self, refused: Mapping[str, Operation], errors: Mapping[str, PlacementError]
    ) -> None:
        """Keep what was refused just now."""
        for subject, operation in refused.items():
            self.by_subject[subject] = (operation, errors[subject])

    def spare(self, plan: Plan) -> Plan:
        """The plan without what was refused before; what is not wanted any more is forgotten."""
        refused = {id(one): subject for one in plan if (subject := self._refused(one)) is not None}
        kept = set(refused.values())
        self.by_subject = {key: value for key, value in self.by_subject.items() if key in kept}
        operations = tuple(one for one in plan if id(one) not in refused)
        return replace(plan, operations=operations) if refused else plan

    def blocking(self) -> dict[str, PlacementError]:
        """Those without which nothing else of the same provider, or with that name, makes sense."""
        kinds = (EnsureTrait, EnsureClass, CreateProvider, DeleteProvider, SetTraits)
        return {
            subject: err
            for subject, (operation, err) in self.by_subject.items()
            if isinstance(operation, kinds)
        }

    def errors(self) -> dict[str, PlacementError]:
        """Why, by provider."""
        return {subject: err for subject, (_, err) in self.by_subject.items()}

    def drains(self, snapshot: Snapshot) -> Plan:
        """Reserve all that can't be taken away yet, as far as that is not done already."""
        return Plan(tuple(self._drains(snapshot)))

    def _refused(self, operation: Operation) -> str | None:
        for subject, (refused, _) in self.by_subject.items():
            if refused == operation:
                return subject
        return None

    def _drains(self, snapshot: Snapshot) -> Iterator[SetInventory]:
        for operation, err in self.by_subject.values():
            if not isinstance(err, InUse):
                continue
            if isinstance(operation, DeleteProvider):
                yield from _drain(snapshot, operation.uuid, {})
            elif isinstance(operation, SetInventory):
                yield from _drain(snapshot, operation.uuid, operation.inventory)


def _drain(
    snapshot: Snapshot, uuid: str, wanted: Mapping[str, Inventory]
) -> Iterator[SetInventory]:
    provider = snapshot.get(uuid)
    if provider is None:
        return
    held = {
        name: replace(record, reserved=record.total)
        for name, record in provider.inventory.items()
        if name not in wanted
    }
    inventory = {**wanted, **held}
    if inventory != provider.inventory:
        yield SetInventory(uuid, inventory)
