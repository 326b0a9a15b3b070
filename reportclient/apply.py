"""apply: the only writer.

Only what Placement acknowledged moves the view.  A provider whose operation failed
is left alone for the rest of the plan, together with what would be created below
it; everything else goes on.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from reportclient.calls import send
from reportclient.errors import (
    AlreadyThere,
    Conflict,
    Forbidden,
    NotFound,
    NotSent,
    PlacementError,
    ServerFault,
    TooOld,
    UnknownNames,
    Unreachable,
)
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
    SetInventories,
    SetInventory,
    SetTraits,
    UpdateProvider,
)
from reportclient.snapshot import Snapshot
from reportclient.view import View, ViewEdit

MIN_PARALLEL = 16
"""Plans with fewer operations are sent one after the other, however many could be at once."""

FAULTS = 3
"""After so many operations that Placement failed at, the rest waits for the next period."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a plan.

    ``failed`` are the providers (or names) that could not be written, and why, and
    ``refused`` the operations that Placement did not want; ``stopped_by`` is what
    ended the plan early, at ``stopped_at``: it has to be planned anew.  ``faulted`` are the
    operations at which Placement failed by itself.  ``bulk_refused``
    tells that bulk writes are not to be had, and that single ones were sent instead.
    """

    view: View
    done: tuple[Operation, ...] = ()
    failed: Mapping[str, PlacementError] = field(default_factory=dict)
    refused: Mapping[str, Operation] = field(default_factory=dict)
    stopped_by: PlacementError | None = None
    stopped_at: Operation | None = None
    bulk_refused: bool = False
    faulted: Mapping[str, Operation] = field(default_factory=dict)


def never() -> bool:
    """Nobody wants it to stop."""
    return False


def apply(  # noqa: PLR0913  how it is sent is given by name
    plan: Plan,
    view: View,
    api: API,
    *,
    stop: Callable[[], bool] = never,
    at_once: int = 1,
    failed: Mapping[str, PlacementError] = {},
    patience: int = FAULTS,
) -> Outcome:
    """Send the plan's operations in their order.

    ``stop`` is asked before each operation: true leaves the rest to the next period.
    Up to ``at_once`` operations that do not depend on each other are sent at the same
    time.  ``failed`` are providers that failed before: what depends on them is left out.
    ``patience``: after so many operations at which Placement failed the rest is left; with 0
    none is sent a second time either.
    """
    if not plan:
        return Outcome(view)
    width = at_once if len(plan) >= MIN_PARALLEL else 1
    with ThreadPoolExecutor(width, thread_name_prefix="placement") as pool:
        run = _Run(ViewEdit(view), api, pool, patience, failed=dict(failed))
        for batch in batches(plan, width):
            if run.stopped_by is not None or stop():
                break
            run.attempt(batch)
    return run.outcome(plan.desired, certain=view.certain)


def batches(plan: Iterable[Operation], width: int) -> Iterator[list[Operation]]:
    """Runs of up to ``width`` operations of one kind, none of which needs another one's result."""
    batch: list[Operation] = []
    for operation in plan:
        if len(batch) == width or (batch and not _can_join(operation, batch)):
            yield batch
            batch = []
        batch.append(operation)
    if batch:
        yield batch


def _can_join(operation: Operation, batch: list[Operation]) -> bool:
    match operation:
        case CreateProvider(parent_uuid=parent):
            made = {one.uuid for one in batch if isinstance(one, CreateProvider)}
            return isinstance(batch[-1], CreateProvider) and parent not in made
        case EnsureTrait() | EnsureClass() | SetTraits() | SetAggregates() | SetInventory():
            return type(operation) is type(batch[-1])
        case _:
            return False  # moves, deletes and reshapes depend on what came before


Result: TypeAlias = dict[str, Any] | PlacementError


@dataclass(slots=True)
class _Run:
    edit: ViewEdit
    api: API
    pool: ThreadPoolExecutor
    patience: int
    done: list[Operation] = field(default_factory=list)
    failed: dict[str, PlacementError] = field(default_factory=dict)
    refused: dict[str, Operation] = field(default_factory=dict)
    stopped_by: PlacementError | None = None
    stopped_at: Operation | None = None
    bulk_refused: bool = False
    unsure: bool = False
    faulted: dict[str, Operation] = field(default_factory=dict)

    def attempt(self, batch: list[Operation]) -> None:
        if self.bulk_refused:
            batch = [one for operation in batch for one in _singly(operation)]
        kept = (self._without_failed(operation) for operation in batch)
        hopeful = [operation for operation in kept if not self._is_hopeless(operation)]
        if len(hopeful) == 1:
            self._take(hopeful[0], self._result(hopeful[0]))
            return
        for operation, result in zip(hopeful, self.pool.map(self._result, hopeful), strict=True):
            self._take(operation, result)

    def _result(self, operation: Operation) -> Result:
        result = self._sent(operation)
        # A 500 may be a race that Placement lost: worth one more try.
        again = isinstance(result, ServerFault) and self.patience > 0
        return self._sent(operation) if again else result

    def _sent(self, operation: Operation) -> Result:
        try:
            return send(operation, self.edit.generations, self.api)
        except PlacementError as err:
            return err

    def _take(self, operation: Operation, result: Result) -> None:
        match result:
            case dict():
                self.edit.ack(operation, result)  # the only line that moves the view
                self.done.append(operation)
            case PlacementError() if isinstance(operation, SetInventories) and not isinstance(
                result, (Conflict, Unreachable)
            ):
                self._one_by_one(operation, result)
            case ServerFault() if len(self.faulted) < self.patience:
                self.unsure = True
                self.faulted[subject_of(operation)] = operation
                self.failed[subject_of(operation)] = result
            case AlreadyThere() | Conflict() | NotFound() | Unreachable():
                self.unsure = True
                self.stopped_by = result
                self.stopped_at = operation
            case UnknownNames(names=names):
                self.edit.refused(names)
                self.stopped_by = result
                self.stopped_at = operation
            case _:
                self.failed[subject_of(operation)] = result
                self.refused[subject_of(operation)] = operation

    def _one_by_one(self, bulk: SetInventories, err: PlacementError) -> None:
        """A bulk write is all or nothing; one bad inventory must not hold the others."""
        self.bulk_refused |= isinstance(err, (Forbidden, NotFound, TooOld))
        for single in _singly(bulk):
            if self.stopped_by is None:
                self.attempt([single])

    def outcome(self, desired: Snapshot | None, *, certain: bool) -> Outcome:
        return Outcome(
            self.edit.freeze(desired, certain=certain and not self.unsure),
            tuple(self.done),
            self.failed,
            self.refused,
            self.stopped_by,
            self.stopped_at,
            self.bulk_refused,
            self.faulted,
        )

    def _without_failed(self, operation: Operation) -> Operation:
        if not isinstance(operation, SetInventories):
            return operation
        single = (SetInventory(*item) for item in operation.inventories.items())
        return SetInventories({o.uuid: o.inventory for o in single if not self._is_hopeless(o)})

    def _is_hopeless(self, operation: Operation) -> bool:
        """Whether an operation that failed before takes this one along."""
        subject = subject_of(operation)
        if isinstance(operation, DeleteProvider):
            self._keep_parent_of_failed(operation.uuid)
        for needed in _needed(operation):
            there = isinstance(operation, Reshape) and needed in self.edit.generations
            if needed in self.failed and not there:
                self._leave_out(operation, needed)
        nothing_left = isinstance(operation, SetInventories) and not operation.inventories
        return nothing_left or subject in self.failed

    def _leave_out(self, operation: Operation, needed: str) -> None:
        """Because of what failed before; a reshape waits as long as its reason does."""
        subject, why = subject_of(operation), self.failed[needed]
        if not isinstance(operation, Reshape):
            self.failed.setdefault(subject, why)
        elif subject not in self.failed:
            match self.refused.get(needed):
                case CreateProvider(name=name):
                    missing = f"provider {name} ({needed})"
                case _:
                    missing = needed
            text = f"reshape not sent: {missing} could not be created: {why.args[0]}"
            self.failed[subject] = NotSent(text, request_id=why.request_id)
            if not isinstance(why, Unreachable):
                self.refused[subject] = operation

    def _keep_parent_of_failed(self, uuid: str) -> None:
        for child in self.edit.children(uuid):
            if child in self.failed:
                self.failed.setdefault(uuid, self.failed[child])


def _singly(operation: Operation) -> list[Operation]:
    if not isinstance(operation, SetInventories):
        return [operation]
    return [SetInventory(uuid, inventory) for uuid, inventory in operation.inventories.items()]


def subject_of(operation: Operation) -> str:
    """Return the key of a failure: a provider's UUID, or a name."""
    match operation:
        case EnsureTrait(name) | EnsureClass(name):
            return name
        case Reshape():
            return "reshape"
        case SetInventories():
            return "bulk"
        case _:
            return operation.uuid


def _concerned(reshape: Reshape) -> Iterator[str]:
    """The providers that it speaks of."""
    yield from reshape.inventories
    for held in reshape.allocations.values():
        yield from held["allocations"]


def _needed(operation: Operation) -> Iterable[str]:
    """Return what has to exist before: a parent's UUID, names of traits and classes."""
    match operation:
        case CreateProvider(parent_uuid=str(parent)):
            return (parent,)
        case UpdateProvider(parent_uuid=str(parent), moved=True):
            return (parent,)
        case SetTraits(traits=traits):
            return traits
        case SetInventory(inventory=inventory):
            return inventory
        case Reshape(inventories):
            names = {name for inventory in inventories.values() for name in inventory}
            return {*names, *_concerned(operation)}
        case _:
            return ()
