"""What Placement refused, so that it is not asked again every period.

A refused operation is sent again at the next verification, or as soon as the
drivers want something else.  What can't be taken away because guests still use it
is drained meanwhile: all of it reserved, so that no new guest gets any.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from reportclient.errors import AlreadyThere, InUse, PlacementError
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

RESHAPE = "reshape"
"""The subject of a refused reshape: kept until the next try, though nobody plans it then."""


@dataclass(slots=True)
class Refusals:
    """Refused operations and their errors, by the UUID of the provider (or by name)."""

    by_subject: dict[str, tuple[Operation, PlacementError]] = field(default_factory=dict)
    failed_reshape: BaseException | None = None
    """A reshape that a driver could not do; it is not asked every period either."""

    def forget(self) -> None:
        """Ask for everything again."""
        self.by_subject.clear()
        self.failed_reshape = None

    def reshape(self) -> BaseException | None:
        """Why no reshape is tried now."""
        return self.by_subject[RESHAPE][1] if RESHAPE in self.by_subject else self.failed_reshape

    def remember(
        self, refused: Mapping[str, Operation], errors: Mapping[str, PlacementError]
    ) -> None:
        """Keep what was refused just now."""
        for subject, operation in refused.items():
            if not isinstance(errors[subject], AlreadyThere):
                self.by_subject[subject] = (operation, errors[subject])

    def suppress(self, plan: Plan) -> Plan:
        """The plan without what was refused before; what is not wanted any more is forgotten."""
        refused = {id(one): subject for one in plan if (subject := self._refused(one)) is not None}
        kept = {*refused.values(), RESHAPE}
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

    def draining(self) -> frozenset[str]:
        """Providers of which something can't be taken away yet, because guests use it."""
        kinds = (DeleteProvider, SetInventory)
        return frozenset(
            subject
            for subject, (operation, err) in self.by_subject.items()
            if isinstance(err, InUse) and isinstance(operation, kinds)
        )

    def errors(self) -> dict[str, PlacementError]:
        """Why, by provider."""
        return {subject: err for subject, (_, err) in self.by_subject.items()}

    def causes(self, failed: Mapping[str, PlacementError]) -> dict[str, PlacementError]:
        """All that failed, each cause once: not again for all that could not be done after it."""
        own = self.errors()
        raw = {id(err) for subject, err in failed.items() if subject in own}
        seen = raw | {id(err) for err in own.values()}
        return {**{key: err for key, err in failed.items() if id(err) not in seen}, **own}

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
    held = {name: record for name, record in provider.inventory.items() if name not in wanted}
    drained = {name: replace(record, reserved=record.total) for name, record in held.items()}
    inventory = {**wanted, **drained}
    if inventory != provider.inventory:
        before = {name: record.reserved or 0 for name, record in held.items()}
        yield SetInventory(uuid, inventory, drains=before)
