"""Operations that Placement refused, so that they are not sent again in each period.  Pure.

A refused operation is sent again at the next verification, or as soon as the desired state
changes.  Inventory that can't be removed because consumers use it is drained meanwhile: all of
it is reserved, so that nothing new is allocated from it.  Providers above it that are to be
removed are drained as well.  Classes that other clients own are left unchanged.
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
"""A function that returns the classes of a provider that another client owns."""


def nothing_foreign(_: Provider) -> Collection[str]:
    """Return no classes: the default, if the caller owns all classes."""
    return ()


FAULTY = (AlreadyThere, Conflict, NotFound, ServerFault, UnknownNames)
"""Errors that usually pass by themselves: operations that met one are sent again soon."""
RESHAPE = "reshape"
"""The key of a refused reshape: remembered even if the next plan does not have it."""


@dataclass(slots=True)
class Refusals:
    """Refused operations and their errors, by provider UUID or name (see ``apply.subject_of``)."""

    by_subject: dict[str, tuple[Operation, PlacementError]] = field(default_factory=dict)
    before: dict[str, tuple[Operation, PlacementError]] = field(default_factory=dict)
    """Operations that were refused before the last verification."""
    failed_reshape: BaseException | None = None
    """The error of a driver that could not do its reshape; it is not called in every period."""

    def forget(self) -> None:
        """Forget all refusals, so that every operation is sent again."""
        self.before = self.by_subject
        self.by_subject = {}
        self.failed_reshape = None

    def forget_faults(self) -> None:
        """Forget operations with an error in ``FAULTY``, so that they are sent again."""
        self.by_subject = {
            key: (operation, err)
            for key, (operation, err) in self.by_subject.items()
            if key == RESHAPE or not isinstance(err, FAULTY)
        }

    def reshape(self) -> BaseException | None:
        """Return the error because of which no reshape is tried now, or ``None``."""
        return self.by_subject[RESHAPE][1] if RESHAPE in self.by_subject else self.failed_reshape

    def remember(
        self, refused: Mapping[str, Operation], errors: Mapping[str, PlacementError]
    ) -> None:
        """Remember operations that were refused now, each with the error of the same key."""
        for subject, operation in refused.items():
            if not isinstance(errors[subject], AlreadyThere):
                self.by_subject[subject] = (operation, errors[subject])

    def suppress(self, plan: Plan) -> Plan:
        """Return the plan without refused operations; forget refusals that it does not have."""
        refused = {id(each): key for each in plan if (key := self._refused(each)) is not None}
        wanted = {*refused.values(), RESHAPE}
        self.by_subject = {key: value for key, value in self.by_subject.items() if key in wanted}
        operations = tuple(each for each in plan if id(each) not in refused)
        return replace(plan, operations=operations) if refused else plan

    def blocking(self) -> dict[str, PlacementError]:
        """Return the errors, by provider UUID or name, that hold up dependent operations."""
        kinds = (EnsureTrait, EnsureClass, CreateProvider, DeleteProvider, SetTraits)
        return {
            subject: err
            for subject, (operation, err) in self.by_subject.items()
            if isinstance(operation, kinds)
        }

    def draining(self) -> frozenset[str]:
        """Return the UUIDs of providers with something that can't be removed since it is in use."""
        kinds = (DeleteProvider, SetInventory)
        return frozenset(
            subject
            for subject, (operation, err) in self.by_subject.items()
            if isinstance(err, InUse) and isinstance(operation, kinds)
        )

    def errors(self) -> dict[str, PlacementError]:
        """Return the errors by provider UUID or name."""
        return {subject: err for subject, (_, err) in self.by_subject.items()}

    def causes(self, failed: Mapping[str, PlacementError]) -> dict[str, PlacementError]:
        """Return the errors of this and earlier attempts, each cause only once."""
        own = self.errors()
        raw = {id(err) for subject, err in failed.items() if subject in own}
        seen = raw | {id(err) for err in own.values()}
        return {**{key: err for key, err in failed.items() if id(err) not in seen}, **own}

    def drains(
        self, snapshot: Snapshot, planned: Iterable[Operation], foreign: ForeignClasses
    ) -> Plan:
        """Return a plan that reserves all inventory that can't be removed yet.

        ``planned`` are all operations of the period: a provider above one in use can't be
        deleted either.  Nothing is planned for what ``snapshot`` has reserved already.
        """
        leaving = {each.uuid for each in planned if isinstance(each, DeleteProvider)}
        drains = {each.uuid: each for each in self._drains(snapshot, leaving, foreign)}
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
                    theirs = {name: provider.inventory[name] for name in foreign(provider)}
                    yield from _drain(provider, theirs)
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
