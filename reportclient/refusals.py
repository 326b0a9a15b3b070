"""Operations that failed, so that they are not sent again in each period.

Each waits by itself (:func:`reportclient.schedule.seconds_to_next_try`), or until the desired
state changes, and is then sent after all others.  Inventory that can't be removed because consumers
use it is drained meanwhile: all of it is reserved, so that nothing new is allocated from it.
Providers above it that are to be removed are drained as well.  Classes that other clients own are
left unchanged.

Placement accepts an inventory that is smaller than its usage.  If another class grows with it, it
is not sent, and drained as if Placement had refused it (:meth:`Refusals.without_exceeded`).

:func:`explained` adds details to an error, such as the consumers that use a provider.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from operator import itemgetter
from typing import NamedTuple

from reportclient.errors import (
    PASSING,
    AlreadyThere,
    Forbidden,
    InUse,
    Kept,
    NameTaken,
    PlacementError,
    Shared,
    Unreachable,
    is_silence,
    without_frames,
)
from reportclient.http import API
from reportclient.model import SILICON, Inventory, Provider, total_by_class
from reportclient.plain_text import first_few
from reportclient.plan import (
    DRAIN,
    CreateProvider,
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    Operation,
    Plan,
    Request,
    Reshape,
    SetInventory,
    SetTraits,
    UpdateProvider,
    needs_of,
    subject_of,
)
from reportclient.reader import (
    Listed,
    allocations_on,
    other_hosts,
    provider_by_name,
    provider_by_uuid,
)
from reportclient.schedule import Times, seconds_to_next_try
from reportclient.snapshot import Snapshot
from reportclient.view import View

Users = Mapping[str, Sequence[str]]
"""Consumers (UUIDs) by class."""


_REMOVALS = (DeleteProvider, SetInventory)
_NAME, _BELOW = "name ", "below "
"""Prefixes of what operations need: a free name, and nothing below a provider."""
RESHAPE = "reshape"
"""The key of a refused reshape: remembered even if the next plan does not have it."""


class Refusal(NamedTuple):
    """An operation that failed, and its error, without frames.

    ``tries`` earlier tries failed, or looks at who uses what it removes.  It waits until ``due``,
    and was last sent ``at`` (seconds of a monotonic clock; -1: never, Placement failed at others).
    """

    operation: Operation
    error: PlacementError
    tries: int = 0
    due: float = inf
    at: float = -1.0


@dataclass(slots=True)
class Refusals:
    """Operations that failed, by :func:`reportclient.plan.subject_of`."""

    by_subject: dict[str, Refusal] = field(default_factory=dict)
    now: float = 0.0
    """When the present attempt began, in seconds of a monotonic clock."""
    times: Times = field(default_factory=Times)
    stopped: Request | None = None
    """The request at which the previous try of the attempt stopped."""
    silence: Unreachable | None = None
    """The error if Placement did not answer how inventory is used."""
    faulty_until: float = -inf
    """Until when nothing is sent that Placement has failed at, since it fails at all of a plan."""
    failed_reshape: BaseException | None = None
    """The error of a driver that could not do its reshape; it is not called in every period."""

    def resend(self) -> None:
        """Let each refused operation be sent again now; others have their own times."""
        self.failed_reshape = None
        self.by_subject.pop(RESHAPE, None)
        for key, refusal in self.by_subject.items():
            if not isinstance(refusal.error, PASSING):
                self.by_subject[key] = refusal._replace(due=-inf)

    def any_error(self, is_kind: Callable[[PlacementError], bool]) -> bool:
        """Return whether an operation has met an error of this kind."""
        return any(is_kind(refusal.error) for refusal in self.by_subject.values())

    def reshape(self) -> BaseException | None:
        """Return the error because of which no reshape is tried now, or ``None``."""
        refusal = self.by_subject.get(RESHAPE)
        if refusal is None or is_silence(refusal.error):
            return self.failed_reshape
        return refusal.error

    def acknowledged(self, operation: Operation) -> None:
        """Forget an operation that was done, and that Placement failed at all of a plan."""
        if self.by_subject and self.earlier(operation) is not None:
            del self.by_subject[subject_of(operation)]
        self.faulty_until = -inf

    def add(self, operation: Operation, err: PlacementError, *, sent: bool = True) -> Refusal:
        """Remember that an operation met ``err``, or was not ``sent`` since others met it."""
        earlier = self.earlier(operation)
        tries = 0 if earlier is None else earlier.tries + 1
        wait = -inf if is_silence(err) else seconds_to_next_try(err, tries, self.times)
        refusal = Refusal(operation, err, tries, self.now + wait, self.now)
        if not sent:
            error, at = (err, -1.0) if earlier is None else (earlier.error, earlier.at)
            refusal = Refusal(operation, error, tries, -inf, at)
        self.by_subject[subject_of(operation)] = refusal
        return refusal

    def earlier(self, operation: Operation) -> Refusal | None:
        """Return the refusal of this operation, or ``None``."""
        refusal = self.by_subject.get(subject_of(operation))
        return refusal if refusal is not None and refusal.operation == operation else None

    def repeats(self, operation: Operation, request: Request) -> bool:
        """Return whether Placement failed before at the operation, or in this attempt at this
        request of it, or did not answer.
        """
        refusal = None if isinstance(operation, Reshape) else self.earlier(operation)
        failed = refusal is not None and isinstance(refusal.error, (*PASSING, Unreachable))
        return failed or request == self.stopped

    def _waits(self, refusal: Refusal | None) -> bool:
        """Return whether an operation that was refused is not to be sent again yet."""
        if refusal is None:
            return False
        faulty = isinstance(refusal.error, PASSING) and self.now < self.faulty_until
        return faulty or self.now < refusal.due

    def suppress(self, plan: Plan, snapshot: Snapshot) -> tuple[list[Operation], list[Operation]]:
        """Return the operations that may be sent now, and those among them that go last.

        What failed before goes last, the operation that was sent last at the end, each with what
        needs it.
        Forget the operations that ``plan`` does not have, for which ``snapshot`` was read.
        """
        sent = [operation for operation in plan if not self._waits(self.earlier(operation))]
        wanted = {key for key in self.by_subject if key.startswith(DRAIN)}
        wanted.update({RESHAPE} if self.reshape() is not None else ())
        wanted.update(subject_of(each) for each in plan if self.earlier(each) is not None)
        self.by_subject = {key: value for key, value in self.by_subject.items() if key in wanted}
        ranked = sorted(zip(self._ranks(sent, snapshot), sent, strict=True), key=itemgetter(0))
        first = [each for rank, each in ranked if rank == -inf]
        return first, [each for rank, each in ranked if rank > -inf]

    def without_exceeded(
        self, operations: Iterable[Operation], snapshot: Snapshot, api: API
    ) -> list[Operation]:
        """Return the operations but inventories of which consumers hold too much; remember those.

        They leave less of a class than consumers hold while another class of the same thing grows,
        there or on another provider with the same trait ``SILICON``.  1 GET for each that might; if
        that fails, the inventory waits.
        """
        sendable: list[Operation] = []
        for operation in operations:
            try:
                _refuse_exceeded(operation, snapshot, api)
                sendable.append(operation)
            except PlacementError as err:
                self.silence = err if is_silence(err) else self.silence
                self.add(operation, without_frames(err))
        return sendable

    def _ranks(self, operations: list[Operation], snapshot: Snapshot) -> list[float]:
        """Return -inf for each new operation, and when it was last sent for what failed before.

        An operation has at least the rank of those that it needs.
        """
        if any(isinstance(each, Reshape) for each in operations):
            return [-inf] * len(operations)  # guests of what is deleted move in a reshape before it
        ranks, by_need = list[float](), dict[str, float]()
        for operation in operations:
            refusal, subject = self.earlier(operation), subject_of(operation)
            before, needs, gives = snapshot.get(subject), [subject, *needs_of(operation)], [subject]
            if isinstance(operation, CreateProvider | UpdateProvider):
                needs.append(_NAME + operation.name.casefold())
            elif isinstance(operation, DeleteProvider):
                needs.append(_BELOW + subject)
            if before is not None and isinstance(operation, DeleteProvider | UpdateProvider):
                gives += [_NAME + before.name.casefold(), f"{_BELOW}{before.parent_uuid}"]
            own = -inf if refusal is None else refusal.at
            ranks.append(max([own, *(by_need.get(need, -inf) for need in needs)]))
            by_need |= {each: max(ranks[-1], by_need.get(each, -inf)) for each in gives}
        return ranks

    def look_at_users(self, view: View, api: API) -> None:
        """Have refused removals sent again whose last user has gone.

        Consumers and other hosts are looked at after one period, and then at doubled gaps: 1 GET
        each.  If one fails, the removal goes on waiting.
        """
        for subject, refusal in list(self.by_subject.items()):
            removal, err = refusal.operation, refusal.error
            waits = not -inf < refusal.due <= self.now or isinstance(err, Kept)
            if waits or not isinstance(err, InUse) or not isinstance(removal, _REMOVALS):
                continue
            try:
                if isinstance(err, Shared):
                    provider = view.snapshot.get(removal.uuid)
                    aggregates = provider.aggregates if provider else frozenset()
                    used = bool(other_hosts(aggregates, view.generations, api))
                else:
                    used = bool(users_by_class(removal, api, err.classes))
            except PlacementError as failed:
                used, self.silence = True, failed if is_silence(failed) else self.silence
            if used:
                self.add(removal, err)
            else:
                self.by_subject[subject] = refusal._replace(due=-inf)

    def blocking(self) -> dict[str, PlacementError]:
        """Return the errors, by provider UUID or name, that hold up dependent operations."""
        kinds = (EnsureTrait, EnsureClass, CreateProvider, DeleteProvider, SetTraits)
        return {
            subject: refusal.error
            for subject, refusal in self.by_subject.items()
            if isinstance(refusal.operation, kinds) and self._waits(refusal)
        }

    def draining(self) -> frozenset[str]:
        """Return the UUIDs of providers with something that can't be removed since it is in use."""
        refusals = self.by_subject.items()
        in_use = ((key, each.operation) for key, each in refusals if isinstance(each.error, InUse))
        return frozenset(key for key, operation in in_use if isinstance(operation, _REMOVALS))

    def errors(self, failed: Mapping[str, PlacementError] = {}) -> dict[str, PlacementError]:
        """Return the errors that are remembered or ``failed`` now, by provider UUID or name.

        Each cause is there only once, and without those that have details now.
        """
        own, listed = dict[str, PlacementError](), set[int]()
        for key, refusal in self.by_subject.items():
            if id(refusal.error) not in listed and not is_silence(refusal.error):
                own[key.removeprefix(DRAIN)] = refusal.error
                listed.add(id(refusal.error))
        listed |= {id(err) for subject, err in failed.items() if subject in own}
        return {**{key: err for key, err in failed.items() if id(err) not in listed}, **own}

    def drains(
        self,
        snapshot: Snapshot,
        planned: Iterable[Operation],
        foreign: Callable[[Provider], Collection[str]] | None = None,
    ) -> Plan:
        """Return a plan that reserves all inventory that can't be removed yet.

        ``foreign`` returns the classes of a provider that another client owns, which stay.
        ``planned`` are all operations of the period: a provider above one in use can't be
        deleted either.  Nothing is planned for what ``snapshot`` has reserved already, or what
        failed and waits now.  Any other drains that failed are forgotten.
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
                        names = foreign(provider) if foreign is not None else ()
                        theirs = {name: provider.inventory[name] for name in names}
                        drains[provider.uuid] = _drain(provider, theirs)
                    provider = snapshot.get(provider.parent_uuid) if provider.parent_uuid else None
            elif isinstance(operation, SetInventory) and operation.uuid in snapshot:
                inventory = operation.inventory
                wanted = {name: inventory[name] for name in inventory.keys() - err.classes}
                drains[operation.uuid] = _drain(snapshot.providers[operation.uuid], wanted)
        wanted_now = {subject_of(each): each for each in drains.values() if each is not None}
        for key in [key for key in self.by_subject if key.startswith(DRAIN)]:
            if key not in wanted_now:
                del self.by_subject[key]
        sent = (each for each in wanted_now.values() if not self._waits(self.earlier(each)))
        return Plan(tuple(sent))


def _drain(provider: Provider, wanted: Mapping[str, Inventory]) -> SetInventory | None:
    """Return the write that reserves all of what is not wanted; ``None`` if that is so already."""
    now = provider.inventory
    held = {name: record for name, record in now.items() if name not in wanted}
    drained = {name: replace(record, reserved=record.total) for name, record in held.items()}
    waiting = _waiting(provider, wanted, held)
    after = {n: now.get(n) if n in waiting else record for n, record in wanted.items()}
    inventory = {**{name: record for name, record in after.items() if record}, **drained}
    if inventory == provider.inventory:
        return None
    before = {name: record.reserved or 0 for name, record in held.items()}
    return SetInventory(provider.uuid, inventory, drains=before)


def _refuse_exceeded(operation: Operation, snapshot: Snapshot, api: API) -> None:
    """Raise ``InUse`` for an inventory as in ``without_exceeded``."""
    if not isinstance(operation, SetInventory) or operation.uuid not in snapshot:
        return
    provider, wanted = snapshot.providers[operation.uuid], operation.inventory
    now = provider.inventory
    shrunk = {name for name in now.keys() & wanted.keys() if wanted[name].total < now[name].total}
    if not shrunk:
        return
    grows = _waiting(provider, wanted, shrunk | (now.keys() - wanted.keys()))
    if not grows and not any(trait.startswith(SILICON) for trait in provider.traits):
        return
    if users := users_by_class(operation, api, shrunk):
        raise InUse(_draining(operation, provider, users), classes=frozenset(users))


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


def explained(
    err: PlacementError, operation: Operation, snapshot: Snapshot, api: API
) -> PlacementError:
    """Return the error of an operation with details, which take up to 2 GETs, if they succeed.

    ``snapshot`` is the one before the operation.
    """
    with contextlib.suppress(PlacementError):
        match err, operation:
            case InUse() | Forbidden(), Reshape():
                text = f"{err.args[0]}; neither inventory nor allocations were moved"
                return type(err)(text, request_id=err.request_id)
            case Shared() | Kept(), _:
                return err
            case InUse(), DeleteProvider() | SetInventory():
                users = users_by_class(operation, api)
                text = _draining(operation, snapshot.get(operation.uuid), users)
                return InUse(text, request_id=err.request_id)
            case NameTaken(), CreateProvider(uuid, name) | UpdateProvider(uuid, name):
                # Placement refuses an existing UUID with the same error as an existing name.
                other = provider_by_name(name, api) or provider_by_uuid(uuid, api)
                if other is not None and other["uuid"] == uuid:
                    return AlreadyThere(str(err.args[0]), request_id=err.request_id)
                return err if other is None else name_taken_error(uuid, name, other)
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


def users_by_class(
    removal: DeleteProvider | SetInventory, api: API, shrunk: Collection[str] = ()
) -> Users:
    """Return the consumers (UUIDs) of each class that is removed or too small for them; 1 GET.

    Of the classes that stay, only those in ``shrunk`` are compared.
    """
    wanted = removal.inventory if isinstance(removal, SetInventory) else {}
    allocations, users = allocations_on(removal.uuid, api), dict[str, list[str]]()
    for consumer, name in ((each, name) for each, held in allocations.items() for name in held):
        users.setdefault(name, []).append(consumer)
    amounts = total_by_class(allocations.values())
    return {
        name: names
        for name, names in users.items()
        if name not in wanted or (name in shrunk and amounts[name] > wanted[name].capacity)
    }


def name_taken_error(uuid: str, name: str, other: Listed) -> PlacementError:
    """Return the error if ``other`` has the name of the provider ``uuid``."""
    return NameTaken(
        f"Placement already has a provider named {name} with UUID {other['uuid']} (root "
        f"{other['root_provider_uuid']}), here its UUID is {uuid}. If that provider is in "
        "use: rename one of the two, or stop the service that reports it. If it is a leftover: "
        f"delete it in Placement. Until then {name} ({uuid}) is not reported, and nothing is "
        "deleted."
    )
