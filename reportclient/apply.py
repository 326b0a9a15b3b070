"""apply: send a plan.  The only code that writes to Placement.

Only acknowledged operations change the view.  If an operation fails, the later operations on its
provider, and on providers to be created below it, are skipped; all others are still sent, unless
Placement fails at several in a row.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from reportclient.calls import http_call, send
from reportclient.errors import (
    PASSING,
    PLAN_ANEW,
    AlreadyThere,
    Conflict,
    Forbidden,
    Kept,
    NotFound,
    NotSent,
    PlacementError,
    ServerFault,
    Shared,
    TooOld,
    UnknownNames,
    Unreachable,
    is_silence,
    without_frames,
)
from reportclient.http import API
from reportclient.model import Provider, used_providers
from reportclient.plain_text import first_few
from reportclient.plan import (
    SETTERS,
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
from reportclient.reader import members_of, other_hosts, read_part
from reportclient.view import View, ViewEdit

Request: TypeAlias = tuple[str, str, dict[str, Any] | None]
"""What :func:`reportclient.calls.http_call` returns."""
MIN_PARALLEL = 16
"""Number of operations from which a plan is sent in parallel."""

FAULTS = 3
"""Number of operations in a row that may meet an error of ``PASSING`` before the rest waits."""


@dataclass(slots=True)
class Outcome:
    """The outcome of a plan.

    ``done`` are the acknowledged operations, ``view`` is the view after them.  ``failed`` has the
    errors, ``refused`` the operations that Placement refused or failed at; both by
    :func:`subject_of`.  ``unsent`` are the keys of those among them that were not sent, since
    Placement failed at others.  ``stopped_by`` is the error that ended the plan early, at the
    operation ``stopped_at``: the caller has to plan again.  ``bulk_refused``: Placement refuses
    bulk writes, so single ones were sent.
    """

    view: View
    done: tuple[Operation, ...] = ()
    failed: dict[str, PlacementError] = field(default_factory=dict)
    refused: dict[str, Operation] = field(default_factory=dict)
    stopped_by: PlacementError | None = None
    stopped_at: Operation | None = None
    bulk_refused: bool = False
    unsent: set[str] = field(default_factory=set)


def never() -> bool:
    """Return false: the default of ``stop``."""
    return False


def apply(  # noqa: PLR0913  all but three are keywords
    plan: Plan,
    view: View,
    api: API,
    *,
    stop: Callable[[], bool] = never,
    at_once: int = 1,
    failed: Mapping[str, PlacementError] = {},
    patience: int = FAULTS,
    tried: Callable[[Operation, Request], bool] = lambda *_: False,
) -> Outcome:
    """Send the plan's operations in their order; errors are in the outcome.

    :param stop: called before each batch; if it returns true, the rest is not sent.
    :param at_once: how many operations that do not depend on each other are sent in parallel.
    :param failed: earlier errors by :func:`subject_of`; operations that depend on them are skipped.
    :param patience: how many operations in a row may meet an error of ``PASSING`` before the rest
        is skipped.  After a server fault each is sent a second time at once, unless this is 1.
    :param tried: returns whether an operation, whose request is the second argument, has failed
        before: then a conflict does not end the plan.
    """
    if not plan:
        return Outcome(view)
    width = at_once if len(plan) >= MIN_PARALLEL else 1
    outcome = Outcome(view, failed=dict(failed))
    with ThreadPoolExecutor(width, thread_name_prefix="placement") as pool:
        run = _Run(outcome, ViewEdit(view), api, pool, patience, tried)
        for batch in batches(plan, width):
            if outcome.stopped_by is not None or stop():
                break
            run.attempt(batch)
    certain = view.certain and not run.unsure
    for uuid in view.unread if run.unsure or run.unread else ():
        run.edit.generations.pop(uuid, None)  # other parts of it were not read
    outcome.view = run.edit.freeze(plan.desired, certain=certain and not run.unread)
    if certain:
        outcome.view = replace(outcome.view, unread={**view.unread, **run.unread})
    return outcome


def batches(plan: Iterable[Operation], width: int) -> Iterator[list[Operation]]:
    """Yield batches of up to ``width`` operations that don't depend on each other."""
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
            created = {each.uuid for each in batch if isinstance(each, CreateProvider)}
            return isinstance(batch[-1], CreateProvider) and parent not in created
        case EnsureTrait() | EnsureClass() | SetTraits() | SetAggregates() | SetInventory():
            return type(operation) is type(batch[-1])
        case _:
            return False  # moves, deletes and reshapes depend on what came before


Result: TypeAlias = dict[str, Any] | PlacementError
_SETTERS = SetTraits | SetAggregates | SetInventory
"""Operations of which a conflict says that one provider was written to, and nothing else."""
_PARTS: dict[type, str] = {kind: part for part, kind in SETTERS.items()}


@dataclass(slots=True)
class _Run:
    outcome: Outcome
    edit: ViewEdit
    api: API
    pool: ThreadPoolExecutor
    patience: int
    tried: Callable[[Operation, Request], bool]
    unsure: bool = False
    unread: dict[str, str] = field(default_factory=dict)
    """Providers (UUIDs) to which another client has written, with the part that is to be set."""
    in_a_row: list[PlacementError] = field(default_factory=list)
    """The errors of ``PASSING`` since an operation was acknowledged."""

    def attempt(self, batch: list[Operation]) -> None:
        if self.outcome.bulk_refused:
            batch = [single for operation in batch for single in _singly(operation)]
        reduced = (self._without_failed(operation) for operation in batch)
        sendable = [operation for operation in reduced if not self._is_blocked(operation)]
        if len(self.in_a_row) >= self.patience:
            for single in (single for operation in sendable for single in _singly(operation)):
                self.outcome.unsent.add(subject_of(single))
                self._refuse(single, self.in_a_row[0])
            return
        if len(sendable) == 1:
            self._handle_result(sendable[0], self._send(sendable[0]))
            return
        for operation, result in zip(sendable, self.pool.map(self._send, sendable), strict=True):
            self._handle_result(operation, result)

    def _send(self, operation: Operation) -> Result:
        result = self._send_once(operation)
        # A 500 is often a race inside Placement: worth one more try.
        again = isinstance(result, ServerFault) and self.patience > 1
        return self._send_once(operation) if again else result

    def _send_once(self, operation: Operation) -> Result:
        try:
            if isinstance(operation, DeleteProvider) and not operation.by_owner:
                provider = self.edit.provider(operation.uuid)
                refuse_if_shared(provider, self.edit.generations, self.api, operation.kept)
            if isinstance(operation, SetAggregates):
                self._refuse_if_changed(operation.uuid)
            return send(operation, self._generations(operation), self.api)
        except PlacementError as err:
            return without_frames(err)

    def _generations(self, operation: Operation) -> Mapping[str, int]:
        """Return the generations under which the part that the operation sets was read."""
        part = _PARTS.get(type(operation), "inventories")
        others = {uuid for uuid, read in self.outcome.view.unread.items() if read != part}
        known = self.edit.generations
        return {it: known[it] for it in known if it not in others} if others else known

    def _refuse_if_changed(self, uuid: str) -> None:
        """Raise ``Conflict`` if another client has set aggregates of the provider.

        Below microversion 1.19 that moves no generation, so only reading them shows it.
        """
        provider = self.outcome.view.snapshot.get(uuid)  # not one that this plan has created
        if provider and read_part(uuid, "aggregates", self.api)[0] != provider.aggregates:
            self.edit.generations.pop(uuid, None)  # has it read again
            raise Conflict(f"the aggregates of provider {provider.name} ({uuid}) were changed")

    def _handle_result(self, operation: Operation, result: Result) -> None:
        if isinstance(result, dict):
            self.edit.ack(operation, result)  # the only line that changes the view
            self.outcome.done += (operation,)
            self.in_a_row.clear()
            return
        if isinstance(result, UnknownNames):
            self.edit.refused(operation, result.names)
        elif isinstance(result, Conflict) and isinstance(operation, _SETTERS):
            self.unread[operation.uuid] = _PARTS[type(operation)]
        elif isinstance(result, (*PASSING, Unreachable)):
            harmless = isinstance(operation, EnsureTrait | EnsureClass)
            self.unsure |= not (is_silence(result) and (result.unsent or harmless))
        races = Conflict if isinstance(operation, SetInventories) else PLAN_ANEW
        if is_silence(result) or (isinstance(result, races) and self._ends_plan(operation, result)):
            self.outcome.stopped_by, self.outcome.stopped_at = result, operation
        elif isinstance(operation, SetInventories):
            self._send_singly(operation, result)
        else:
            if isinstance(result, PASSING):
                self.in_a_row.append(result)
            self._refuse(operation, result)

    def _ends_plan(self, operation: Operation, err: PlacementError) -> bool:
        """Return whether a new plan may help: the error is a race, or says what was not known."""
        tells = isinstance(err, AlreadyThere | UnknownNames)
        request = http_call(operation, self.edit.generations)
        return not self.in_a_row and (tells or not self.tried(operation, request))

    def _refuse(self, operation: Operation, err: PlacementError) -> None:
        self.outcome.failed[subject_of(operation)] = err
        self.outcome.refused[subject_of(operation)] = operation

    def _send_singly(self, bulk: SetInventories, err: PlacementError) -> None:
        """Send a refused bulk write as single writes, so that only the bad inventories fail."""
        self.outcome.bulk_refused = isinstance(err, (Forbidden, NotFound, TooOld))
        for single in _singly(bulk):
            if self.outcome.stopped_by is None:
                self.attempt([single])

    def _without_failed(self, operation: Operation) -> Operation:
        if not isinstance(operation, SetInventories):
            return operation
        single = (SetInventory(*item) for item in operation.inventories.items())
        return SetInventories({o.uuid: o.inventory for o in single if not self._is_blocked(o)})

    def _is_blocked(self, operation: Operation) -> bool:
        """Return whether an earlier failure prevents this operation; then record it as failed."""
        subject, needs = subject_of(operation), needs_of(operation)
        if isinstance(operation, DeleteProvider):  # Placement deletes no provider with children
            needs = [it for it in self.outcome.failed if self.edit.is_below(it, subject)]
        for needed in needs:
            exists = isinstance(operation, Reshape) and needed in self.edit.generations
            if needed in self.outcome.failed and not exists:
                self._leave_out(operation, needed)
        nothing_left = isinstance(operation, SetInventories) and not operation.inventories
        return nothing_left or subject in self.outcome.failed

    def _leave_out(self, operation: Operation, needed: str) -> None:
        """Record that an operation is not sent because ``needed`` failed."""
        failed, subject = self.outcome.failed, subject_of(operation)
        why = failed[needed]
        if not isinstance(operation, Reshape):
            failed.setdefault(subject, why)
        elif subject not in failed:
            match self.outcome.refused.get(needed):
                case CreateProvider(name=name):
                    missing = f"provider {name} ({needed})"
                case _:
                    missing = needed
            text = f"reshape not sent: {missing} could not be created: {why.args[0]}"
            failed[subject] = NotSent(text, request_id=why.request_id)
            if not isinstance(why, Unreachable):
                self.outcome.refused[subject] = operation


def refuse_if_shared(
    provider: Provider | None, tree: Container[str], api: API, kept: str = ""
) -> None:
    """Do nothing unless a sharing provider is in use, or has to stay: ``kept`` says why.

    What is below it is looked for: the view of another tree lacks that.

    :raises Shared: hosts other than those in ``tree`` (UUIDs) use it.
    :raises Kept: it has to stay.
    """
    if provider is None or not provider.shares:
        return
    if others := other_hosts(provider.aggregates, tree, api):
        text = f"kept: used by {first_few(others)} too; removed with the last host that uses it"
        raise Shared(text)
    if not kept:
        uuid = provider.uuid
        below = [each["name"] for each in members_of(uuid, api) if each["uuid"] != uuid]
        kept = f"draining, and kept: {first_few(below)} is below it" if below else ""
    if kept:
        raise Kept(kept)


def _singly(operation: Operation) -> list[Operation]:
    if not isinstance(operation, SetInventories):
        return [operation]
    return [SetInventory(uuid, inventory) for uuid, inventory in operation.inventories.items()]


_TRAIT, _CLASS, DRAIN = "trait ", "resource class ", "drain "


def subject_of(operation: Operation) -> str:
    """Return the key of an operation in outcomes and refusals.

    It is the provider's UUID, ``trait NAME``, ``resource class NAME``, ``reshape``, ``bulk``, or
    ``drain UUID``.
    """
    match operation:
        case EnsureTrait(name):
            return _TRAIT + name
        case EnsureClass(name):
            return _CLASS + name
        case Reshape():
            return "reshape"
        case SetInventories():
            return "bulk"
        case SetInventory(uuid, drains=drains) if drains:
            return DRAIN + uuid
        case _:
            return operation.uuid


def needs_of(operation: Operation) -> Iterable[str]:
    """Return the keys (:func:`subject_of`) of what the operation requires to exist."""
    match operation:
        case CreateProvider(parent_uuid=str(parent)):
            return (parent,)
        case UpdateProvider(parent_uuid=str(parent), moved=True):
            return (parent,)
        case SetTraits(traits=traits):
            return (_TRAIT + name for name in traits)
        case SetInventory(inventory=inventory):
            return (_CLASS + name for name in inventory)
        case Reshape(inventories, allocations):
            names = {_CLASS + name for inventory in inventories.values() for name in inventory}
            return {*names, *inventories, *used_providers(allocations)}
        case _:
            return ()
