"""Operations that Placement refused, so that they are not sent again in each period.

A refused operation is sent again at the next verification, or as soon as the desired state
changes.  Inventory that can't be removed because consumers use it is drained meanwhile: all of
it is reserved, so that nothing new is allocated from it.  Providers above it that are to be
removed are drained as well.  Classes that other clients own are left unchanged.

Placement accepts an inventory that is smaller than its usage.  If another class grows with it, it
is not sent, and drained as if Placement had refused it (:meth:`Refusals.without_exceeded`).

:func:`explain_errors` adds details to the errors, such as the consumers that use a provider.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from reportclient.apply import Outcome, subject_of
from reportclient.errors import (
    AlreadyThere,
    Conflict,
    Forbidden,
    InUse,
    Kept,
    NameTaken,
    NotFound,
    PlacementError,
    ServerFault,
    Shared,
    UnknownNames,
)
from reportclient.http import API
from reportclient.model import SILICON, Inventory, Provider
from reportclient.plain_text import first_few
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    Operation,
    Plan,
    Reshape,
    SetInventory,
    SetTraits,
    UpdateProvider,
)
from reportclient.reader import (
    Listed,
    allocations_on,
    other_hosts,
    provider_by_name,
    provider_by_uuid,
)
from reportclient.schedule import Times
from reportclient.snapshot import Snapshot
from reportclient.view import View

ForeignClasses = Callable[[Provider], Collection[str]]
"""A function that returns the classes of a provider that another client owns."""
Users = Mapping[str, Sequence[str]]
"""Consumers (UUIDs) by class."""


def nothing_foreign(_: Provider) -> Collection[str]:
    """Return no classes: the default, if the caller owns all classes."""
    return ()


FAULTY = (AlreadyThere, Conflict, NotFound, ServerFault, UnknownNames)
"""Errors that usually pass by themselves: operations that met one are sent again soon."""
_REMOVALS = (DeleteProvider, SetInventory)
RESHAPE = "reshape"
"""The key of a refused reshape: remembered even if the next plan does not have it."""


class Refusal(NamedTuple):
    """A refused operation and its error, without frames.

    Who uses what the operation removes is looked for at ``look_at`` (seconds of a monotonic clock),
    after ``looks`` looks in vain.
    """

    operation: Operation
    error: PlacementError
    looks: int = 0
    look_at: float = 0.0


@dataclass(slots=True)
class Refusals:
    """Refused operations by :func:`reportclient.apply.subject_of`."""

    by_subject: dict[str, Refusal] = field(default_factory=dict)
    before: dict[str, Refusal] = field(default_factory=dict)
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
            key: refusal
            for key, refusal in self.by_subject.items()
            if key == RESHAPE or not isinstance(refusal.error, FAULTY)
        }

    def any_faulty(self) -> PlacementError | None:
        """Return the error of an operation that met one in ``FAULTY``, or ``None``."""
        errors = (refusal.error for refusal in self.by_subject.values())
        return next((err for err in errors if isinstance(err, FAULTY)), None)

    def reshape(self) -> BaseException | None:
        """Return the error because of which no reshape is tried now, or ``None``."""
        refusal = self.by_subject.get(RESHAPE)
        return self.failed_reshape if refusal is None else refusal.error

    def remember(
        self,
        refused: Mapping[str, Operation],
        errors: Mapping[str, PlacementError],
        now: float,
        times: Times,
    ) -> None:
        """Remember operations that were refused now, each with the error of the same key."""
        for subject, operation in refused.items():
            if not isinstance(errors[subject], AlreadyThere):
                earlier = self.before.get(subject)
                looks = earlier.looks if earlier and earlier.operation == operation else 0
                due = now + times.gap(looks)
                self.by_subject[subject] = Refusal(operation, errors[subject], looks, due)

    def suppress(self, plan: Plan) -> Plan:
        """Return the plan without refused operations; forget refusals that it does not have."""
        left, wanted = [], {RESHAPE}
        for operation in plan:
            subject = subject_of(operation)
            refusal = self.by_subject.get(subject)
            if refusal is not None and refusal.operation == operation:
                wanted.add(subject)
            else:
                left.append(operation)
        self.by_subject = {key: value for key, value in self.by_subject.items() if key in wanted}
        return replace(plan, operations=tuple(left))

    def without_exceeded(self, plan: Plan, view: View, now: float, times: Times, api: API) -> Plan:
        """Return the plan without inventories of which consumers hold too much; remember those.

        They leave less of a class than consumers hold while another class of the same thing grows,
        there or on another provider with the same trait ``SILICON``.  1 GET for each that might.

        :raises reportclient.errors.PlacementError: a GET failed.
        """
        left: list[Operation] = []
        for operation in plan:
            subject = subject_of(operation)
            if (err := _exceeded(operation, view.snapshot, api)) is None:
                left.append(operation)
            else:
                self.remember({subject: operation}, {subject: err}, now, times)
        return replace(plan, operations=(*left,))

    def look_at_users(self, view: View, now: float, times: Times, api: API) -> None:
        """Forget refused removals whose last user has gone, so that they are sent again.

        Consumers and other hosts are looked at after one period, and then at doubled gaps: 1 GET
        each.

        :raises reportclient.errors.PlacementError: a GET failed.
        """
        draining = self.draining()
        for subject, refusal in list(self.by_subject.items()):
            if subject not in draining or now < refusal.look_at or isinstance(refusal.error, Kept):
                continue
            if _is_used(refusal, view, api):
                looks, due = refusal.looks + 1, now + times.gap(refusal.looks + 1)
                self.by_subject[subject] = refusal._replace(looks=looks, look_at=due)
            else:
                del self.by_subject[subject]

    def blocking(self) -> dict[str, PlacementError]:
        """Return the errors, by provider UUID or name, that hold up dependent operations."""
        kinds = (EnsureTrait, EnsureClass, CreateProvider, DeleteProvider, SetTraits)
        return {
            subject: refusal.error
            for subject, refusal in self.by_subject.items()
            if isinstance(refusal.operation, kinds)
        }

    def draining(self) -> frozenset[str]:
        """Return the UUIDs of providers with something that can't be removed since it is in use."""
        return frozenset(
            subject
            for subject, refusal in self.by_subject.items()
            if isinstance(refusal.error, InUse) and isinstance(refusal.operation, _REMOVALS)
        )

    def errors(self) -> dict[str, PlacementError]:
        """Return the errors by provider UUID or name."""
        return {subject: refusal.error for subject, refusal in self.by_subject.items()}

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
        drains: dict[str, SetInventory | None] = {}
        for operation, err, *_ in self.by_subject.values():
            if not isinstance(err, InUse) or isinstance(err, Shared):
                continue
            if isinstance(operation, DeleteProvider):
                provider = snapshot.get(operation.uuid)
                while provider is not None:
                    if provider.uuid == operation.uuid or provider.uuid in leaving:
                        theirs = {name: provider.inventory[name] for name in foreign(provider)}
                        drains[provider.uuid] = _drain(provider, theirs)
                    provider = snapshot.get(provider.parent_uuid) if provider.parent_uuid else None
            elif isinstance(operation, SetInventory) and operation.uuid in snapshot:
                inventory = operation.inventory
                wanted = {name: inventory[name] for name in inventory.keys() - err.classes}
                drains[operation.uuid] = _drain(snapshot.providers[operation.uuid], wanted)
        return Plan(tuple(filter(None, drains.values())))


def _drain(provider: Provider, wanted: Mapping[str, Inventory]) -> SetInventory | None:
    """Return the write that reserves all of what is not wanted; ``None`` if that is so already."""
    now = provider.inventory
    held = {name: record for name, record in now.items() if name not in wanted}
    drained = {name: replace(record, reserved=record.total) for name, record in held.items()}
    waiting = _waiting(provider, wanted, held)
    left = {n: now.get(n) if n in waiting else record for n, record in wanted.items()}
    inventory = {**{name: record for name, record in left.items() if record}, **drained}
    if inventory == provider.inventory:
        return None
    before = {name: record.reserved or 0 for name, record in held.items()}
    return SetInventory(provider.uuid, inventory, drains=before)


def _exceeded(operation: Operation, snapshot: Snapshot, api: API) -> InUse | None:
    """Return the error of an inventory as in ``without_exceeded``, or ``None``."""
    if not isinstance(operation, SetInventory) or operation.uuid not in snapshot:
        return None
    provider, wanted = snapshot.providers[operation.uuid], operation.inventory
    now = provider.inventory
    shrunk = {name for name in now.keys() & wanted.keys() if wanted[name].total < now[name].total}
    grows = _waiting(provider, wanted, shrunk | (now.keys() - wanted.keys()))
    if not shrunk or not (grows or any(trait.startswith(SILICON) for trait in provider.traits)):
        return None
    users = _users_by_class(operation, api, shrunk)
    err = InUse(_draining(operation, provider, users), classes=frozenset(users))
    return err if users else None


_PARTS = {"VCPU": "CPU", "PCPU": "CPU", "MEMORY_MB": "page"}


def _part_of(resource_class: str) -> str:
    """Return what of a root or a NUMA cell a class counts."""
    is_page = resource_class.startswith("CUSTOM_HUGEPAGES_")
    return "page" if is_page else _PARTS.get(resource_class, resource_class)


def _waiting(
    provider: Provider, wanted: Mapping[str, Inventory], held: Collection[str]
) -> frozenset[str]:
    """Return the classes that may not grow while consumers use ``held``, which is to be removed.

    A device has one class or another: all its classes may be the same thing, which would be given
    to two consumers.  A root and a NUMA cell have classes of different things; only a CPU, and a
    page of memory, has one of several classes there.
    """
    now, related = provider.inventory, frozenset(wanted) if held else frozenset()
    if provider.parent_uuid is None or "HW_NUMA_ROOT" in provider.traits:
        parts = {*map(_part_of, held)}
        related = frozenset(name for name in related if _part_of(name) in parts)
    return frozenset(n for n in related if n not in now or wanted[n].total > now[n].total)


def explain_errors(outcome: Outcome, api: API) -> dict[str, PlacementError]:
    """Return the errors of ``outcome.failed`` with details, by the same keys; up to 2 GETs each.

    :raises reportclient.errors.PlacementError: reading the details failed.
    """
    return {
        subject: _explained(err, outcome.refused.get(subject), outcome.view.snapshot, api)
        for subject, err in outcome.failed.items()
    }


def _explained(
    err: PlacementError, operation: Operation | None, snapshot: Snapshot, api: API
) -> PlacementError:
    match err, operation:
        case InUse() | Forbidden(), Reshape():
            text = f"{err.args[0]}; neither inventory nor allocations were moved"
            return type(err)(text, request_id=err.request_id)
        case Shared() | Kept(), _:
            return err
        case InUse(), DeleteProvider() | SetInventory():
            users = _users_by_class(operation, api)
            text = _draining(operation, snapshot.get(operation.uuid), users)
            return InUse(text, request_id=err.request_id)
        case NameTaken(), CreateProvider(uuid, name) | UpdateProvider(uuid, name):
            # Placement refuses an existing UUID with the same error as an existing name.
            other = provider_by_name(name, api) or provider_by_uuid(uuid, api)
            if other is not None and other["uuid"] == uuid:
                return AlreadyThere(str(err.args[0]), request_id=err.request_id)
            return err if other is None else name_taken_error(uuid, name, other)
        case _:
            return err


def _draining(
    removal: DeleteProvider | SetInventory, provider: Provider | None, users: Users
) -> str:
    """Return the text of the error of a removal."""
    held, then = "it is", "removed when its last consumer is gone"
    if isinstance(removal, SetInventory) and provider is not None:
        wanted = removal.inventory
        less = {*provider.inventory.keys() - wanted.keys(), *users}
        held = f"{', '.join(sorted(less))} is"
        if kept := sorted(less & wanted.keys()):
            then = f"{', '.join(kept)} is reduced when enough of them are gone"
        if waiting := sorted(_waiting(provider, wanted, less)):
            then += f", and {', '.join(waiting)} is reported"
    names = first_few(sorted({*chain(*users.values())})) or "consumers that are gone now"
    return f"draining: {held} in use by {names}; {then}"


def _is_used(refusal: Refusal, view: View, api: API) -> bool:
    """Return whether consumers, or other hosts, use what a refused operation removes."""
    removal, err = refusal.operation, refusal.error
    assert isinstance(removal, _REMOVALS) and isinstance(err, InUse)
    if isinstance(err, Shared):
        provider = view.snapshot.get(removal.uuid)
        return bool(provider and other_hosts(provider.aggregates, view.generations, api))
    return bool(_users_by_class(removal, api, err.classes))


def _users_by_class(
    removal: DeleteProvider | SetInventory, api: API, shrunk: Collection[str] = ()
) -> Users:
    """Return the consumers (UUIDs) of each class that is removed or too small for them; 1 GET.

    Of the classes that stay, only those in ``shrunk`` are compared.
    """
    wanted = removal.inventory if isinstance(removal, SetInventory) else {}
    users, amounts = dict[str, list[str]](), Counter[str]()
    for consumer, held in allocations_on(removal.uuid, api).items():
        for name in held:
            users.setdefault(name, []).append(consumer)
        amounts.update(held)
    return {
        name: names
        for name, names in users.items()
        if name not in wanted or (name in shrunk and amounts[name] > wanted[name].capacity)
    }


def name_taken_error(uuid: str, name: str, other: Listed) -> PlacementError:
    """Return the error if ``other`` has the name of the provider ``uuid``."""
    return NameTaken(
        f"Placement already has a provider named {name} with UUID {other['uuid']} (root "
        f"{other['root_provider_uuid']}), here its UUID is {uuid}. If that provider is a leftover: "
        "delete it in Placement. If it is in use: rename one of the two, or stop the service that "
        f"reports it. Until then {name} ({uuid}) is not reported, and nothing is deleted."
    )


def provider_in_other_tree(create: CreateProvider) -> PlacementError:
    """Return the error if the provider to be created exists in another tree."""
    return NameTaken(
        f"Placement already has provider {create.name} ({create.uuid}), in another tree. "
        "If it is a leftover: delete it in Placement. If it is in use: give one of the two "
        "providers another name, or stop the service that reports it."
    )
