"""Operations that Placement refused, so that they are not sent again in each period.

A refused operation is sent again at the next verification, or as soon as the
drivers want something else.  What can't be taken away because guests still use it
is drained meanwhile: all of it reserved, so that no new guest gets any.  So is what is
above it and is to go as well.  What others have on such a provider is left as it is.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from reportclient.errors import (
    AlreadyThere,
    Conflict,
    InUse,
    NotFound,
    PlacementError,
    ServerFault,
    UnknownNames,
)
from reportclient.model import Inventory, Provider
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

ForeignClasses = Callable[[Provider], Collection[str]]
"""The classes of a provider that are somebody else's."""


def nothing_foreign(_: Provider) -> Collection[str]:
    """All that a provider has is ours."""
    return ()


FAULTY = (AlreadyThere, Conflict, NotFound, ServerFault, UnknownNames)
"""Errors that pass by themselves, as a rule; operations that met one may be sent again soon."""
RESHAPE = "reshape"
"""The subject of a refused reshape: kept until the next try, though nobody plans it then."""


@dataclass(slots=True)
class Refusals:
    """Refused operations and their errors, by the UUID of the provider (or by name)."""

    by_subject: dict[str, tuple[Operation, PlacementError]] = field(default_factory=dict)
    before: dict[str, tuple[Operation, PlacementError]] = field(default_factory=dict)
    """Refused operations of before the last verification."""
    failed_reshape: BaseException | None = None
    """A reshape that a driver could not do; it is not asked every period either."""

    def forget(self) -> None:
        """Ask for everything again."""
        self.before = self.by_subject
        self.by_subject = {}
        self.failed_reshape = None

    def forget_faults(self) -> None:
        """Forget operations that met an error which may pass, so that they are sent again."""
        self.by_subject = {
            key: one
            for key, one in self.by_subject.items()
            if key == RESHAPE or not isinstance(one[1], FAULTY)
        }

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

    def drains(
        self, snapshot: Snapshot, planned: Iterable[Operation], foreign: ForeignClasses
    ) -> Plan:
        """Reserve all that can't be taken away yet, as far as that is not done already.

        ``planned`` is all that is wished: what is above a provider in use can't go either.
        """
        leaving = {one.uuid for one in planned if isinstance(one, DeleteProvider)}
        drains = {one.uuid: one for one in self._drains(snapshot, leaving, foreign)}
        return Plan(tuple(drains.values()))

    def _refused(self, operation: Operation) -> str | None:
        for subject, (refused, _) in self.by_subject.items():
            if refused == operation:
                return subject
        return None

    def _drains(
        self, snapshot: Snapshot, leaving: Collection[str], foreign: ForeignClasses
    ) -> Iterator[SetInventory]:
        for operation, err in self.by_subject.values():
            if not isinstance(err, InUse):
                continue
            if isinstance(operation, DeleteProvider):
                for provider in _with_those_above(snapshot, operation.uuid, leaving):
                    others = foreign(provider)
                    kept = {name: provider.inventory[name] for name in others}
                    yield from _drain(provider, kept)
            elif isinstance(operation, SetInventory) and operation.uuid in snapshot:
                yield from _drain(snapshot.providers[operation.uuid], operation.inventory)


def _with_those_above(
    snapshot: Snapshot, uuid: str, leaving: Collection[str]
) -> Iterator[Provider]:
    provider = snapshot.get(uuid)
    while provider is not None:
        if provider.uuid == uuid or provider.uuid in leaving:
            yield provider
        provider = snapshot.get(provider.parent_uuid) if provider.parent_uuid else None


def _drain(provider: Provider, wanted: Mapping[str, Inventory]) -> Iterator[SetInventory]:
    held = {name: record for name, record in provider.inventory.items() if name not in wanted}
    drained = {name: replace(record, reserved=record.total) for name, record in held.items()}
    inventory = {**wanted, **drained}
    if inventory != provider.inventory:
        before = {name: record.reserved or 0 for name, record in held.items()}
        yield SetInventory(provider.uuid, inventory, drains=before)
