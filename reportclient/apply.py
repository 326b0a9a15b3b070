"""apply: send a plan.  The only code that writes to Placement.

Only acknowledged operations change the view.  If an operation fails, the later operations on its
provider, and on providers to be created below it, are skipped; all others are still sent, unless
Placement fails at several in a row.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, assert_never

from reportclient import forms
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
from reportclient.model import Provider
from reportclient.plain_text import first_few
from reportclient.plan import (
    SETTERS,
    CreateProvider,
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    Operation,
    Plan,
    Request,
    Reshape,
    SetAggregates,
    SetInventories,
    SetInventory,
    SetTraits,
    UpdateProvider,
    as_dicts,
    needs_of,
    subject_of,
)
from reportclient.reader import Listed, members_of, other_hosts, read_part
from reportclient.refusals import Refusals, explained
from reportclient.reshape import generations_after, reshape_payload
from reportclient.view import View, ViewEdit

MIN_PARALLEL = 16
"""Number of operations from which a plan is sent in parallel."""

FAULTS = 3
"""Number of operations in a row that may meet an error of ``PASSING`` before the rest waits."""


@dataclass(slots=True)
class Outcome:
    """The outcome of a plan.

    ``done`` are the acknowledged operations, ``view`` is the view after them.  ``failed`` has the
    errors, by :func:`reportclient.plan.subject_of`, of the operations that were refused, and of
    those that need them.  ``existing`` are providers that could not be created because they exist:
    the caller has to read them.  ``stopped_by`` is the error that ended the plan early: the caller
    has to plan again.  ``bulk_refused``: Placement refuses bulk writes, so single ones were sent.
    """

    view: View
    done: tuple[Operation, ...] = ()
    failed: dict[str, PlacementError] = field(default_factory=dict)
    stopped_by: PlacementError | None = None
    existing: list[CreateProvider] = field(default_factory=list)
    bulk_refused: bool = False


def apply(  # noqa: PLR0913  all but three are optional
    plan: Plan,
    view: View,
    api: API,
    refusals: Refusals | None = None,
    *,
    stop: Callable[[], bool] = lambda: False,
    at_once: int = 1,
    failed: Mapping[str, PlacementError] = {},
) -> Outcome:
    """Send the plan's operations in their order; errors are in the outcome.

    :param refusals: operations that failed before: a conflict of one of them does not end the plan.
        What fails now is added, what is acknowledged is removed.
    :param stop: called before each batch; if it returns true, the rest is not sent.
    :param at_once: how many operations that do not depend on each other are sent in parallel.
    :param failed: earlier errors by :func:`reportclient.plan.subject_of`; operations that depend
        on them are skipped.
    """
    if not plan.operations:
        return Outcome(view)
    refusals = refusals or Refusals()
    faulty = any(isinstance(each.error, PASSING) for each in refusals.by_subject.values())
    patience = 1 if faulty or refusals.stopped else FAULTS
    width = at_once if len(plan.operations) >= MIN_PARALLEL else 1
    outcome = Outcome(view, failed=dict(failed))
    with ThreadPoolExecutor(width, thread_name_prefix="placement") as pool:
        run = _Run(outcome, ViewEdit(view), api, pool, refusals, patience)
        for batch in batches(plan.operations, width):
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


_PARALLEL = frozenset({CreateProvider, EnsureTrait, EnsureClass, *SETTERS.values()})
"""Operations that may be sent with others of their kind; the others depend on what came before."""


def batches(plan: Iterable[Operation], width: int) -> Iterator[list[Operation]]:
    """Yield batches of up to ``width`` operations that don't depend on each other."""
    batch: list[Operation] = []
    for operation in plan:
        joins = len(batch) < width and {*map(type, batch)} == {type(operation)} <= _PARALLEL
        if joins and isinstance(operation, CreateProvider):
            joins = all(subject_of(each) != operation.parent_uuid for each in batch)
        if batch and not joins:
            yield batch
            batch = []
        batch.append(operation)
    if batch:
        yield batch


Result: TypeAlias = dict[str, Any] | PlacementError
_PARTS: dict[type, str] = {kind: part for part, kind in SETTERS.items()}
"""The parts of a provider by the operation that sets it.  A conflict of such an operation says that
the provider was written to, and nothing else."""


@dataclass(slots=True)
class _Run:
    outcome: Outcome
    edit: ViewEdit
    api: API
    pool: ThreadPoolExecutor
    refusals: Refusals
    patience: int
    """How many operations in a row may meet an error of ``PASSING`` before the rest is skipped."""
    unsure: bool = False
    unread: dict[str, str] = field(default_factory=dict)
    """Providers (UUIDs) to which another client has written, with the part that is to be set."""
    faults: list[PlacementError] = field(default_factory=list)
    """The errors of ``PASSING`` since an operation was acknowledged."""

    def attempt(self, batch: list[Operation]) -> None:
        if self.outcome.bulk_refused:
            batch = [single for operation in batch for single in _singly(operation)]
        sendable = [each for each in map(self._sendable, batch) if each is not None]
        if len(self.faults) >= self.patience:
            for single in (single for operation in sendable for single in _singly(operation)):
                self._refuse(single, self.faults[0], sent=False)
            return
        send_all = map if len(sendable) == 1 else self.pool.map
        for operation, result in zip(sendable, send_all(self._send, sendable), strict=True):
            self._handle_result(operation, result)

    def _sendable(self, operation: Operation) -> Operation | None:
        """Return the operation without what earlier failures prevent; record that as failed."""
        if isinstance(operation, SetInventories):
            singles = operation.inventories.items()
            sendable = {uuid: it for uuid, it in singles if self._sendable(SetInventory(uuid, it))}
            return SetInventories(sendable) if sendable else None
        failed, subject, needs = self.outcome.failed, subject_of(operation), needs_of(operation)
        if isinstance(operation, DeleteProvider):  # Placement deletes no provider with children
            needs = [it for it in failed if self.edit.is_below(it, subject)]
        for needed in needs:
            if needed not in failed or subject in failed:
                continue
            why = failed[needed]
            if not isinstance(operation, Reshape):
                failed[subject] = why
            elif needed not in self.edit.generations:  # else it exists
                refused = self.refusals.by_subject.get(needed)
                create, missing = refused and refused.operation, needed
                if isinstance(create, CreateProvider):
                    missing = f"provider {create.name} ({needed})"
                text = f"reshape not sent: {missing} could not be created: {why.args[0]}"
                failed[subject] = not_sent = NotSent(text, request_id=why.request_id)
                if not isinstance(why, Unreachable):
                    self._refuse(operation, not_sent)
        return None if subject in failed else operation

    def _send(self, operation: Operation, *, retry: bool = True) -> Result:
        """Send an operation with the generations under which the part that it sets was read.

        After a server fault it is sent a second time at once, as long as there is patience.
        """
        generations, unread = self.edit.generations, self.outcome.view.unread
        if unread:
            part = _PARTS.get(type(operation), "inventories")
            known = generations.items()
            generations = {uuid: n for uuid, n in known if unread.get(uuid, part) == part}
        try:
            if isinstance(operation, DeleteProvider) and not operation.by_owner:
                provider = self.edit.provider(operation.uuid)
                refuse_if_shared(provider, self.edit.generations, self.api, operation.kept)
            if isinstance(operation, SetAggregates):
                self._refuse_if_changed(operation.uuid)
            return send(operation, generations, self.api)
        except PlacementError as err:
            # A 500 is often a race inside Placement: worth one more try.
            if retry and self.patience > 1 and isinstance(err, ServerFault):
                return self._send(operation, retry=False)
            snapshot = self.outcome.view.snapshot
            return without_frames(explained(err, operation, snapshot, self.api))

    def _refuse_if_changed(self, uuid: str) -> None:
        """Raise ``Conflict`` if another client has set aggregates of the provider.

        Below microversion 1.19 that moves no generation, so only reading them shows it.
        """
        provider = self.outcome.view.snapshot.get(uuid)  # not one that this plan has created
        if provider and read_part(uuid, "aggregates", self.api)[0] != provider.aggregates:
            self.edit.generations.pop(uuid, None)  # has it read again
            raise Conflict(f"the aggregates of provider {provider.name} ({uuid}) were changed")

    def _handle_result(self, operation: Operation, result: Result) -> None:
        outcome = self.outcome
        if isinstance(result, dict):
            self.edit.ack(operation, result)  # the only line that changes the view
            outcome.done += (operation,)
            self.faults.clear()
            self.refusals.acknowledged(operation)
            return
        if isinstance(operation, CreateProvider) and isinstance(result, AlreadyThere):
            outcome.failed[operation.uuid] = result
            outcome.existing.append(operation)
            return
        if isinstance(result, UnknownNames):
            self.edit.refused(operation, result.names)
        elif isinstance(result, Conflict) and type(operation) in _PARTS:
            self.unread[subject_of(operation)] = _PARTS[type(operation)]
        elif isinstance(result, (*PASSING, Unreachable)):
            harmless = isinstance(operation, EnsureTrait | EnsureClass)
            self.unsure |= not (is_silence(result) and (result.unsent or harmless))
        if self._ends_plan(operation, result):
            outcome.stopped_by = result
        elif isinstance(operation, SetInventories):
            # Written one by one, only the bad inventories fail.
            outcome.bulk_refused = isinstance(result, (Forbidden, NotFound, TooOld))
            for single in _singly(operation):
                if outcome.stopped_by is None:
                    self.attempt([single])
        else:
            self._refuse(operation, result)

    def _ends_plan(self, operation: Operation, err: PlacementError) -> bool:
        """Return whether Placement is silent, or a new plan may help.

        That is after an error that says what was not known, and after a race, unless it repeats.
        """
        if is_silence(err):
            self.refusals.add(operation, err)
            return True
        request = http_call(operation, self.edit.generations)
        if not isinstance(err, AlreadyThere | UnknownNames):
            races = Conflict if isinstance(operation, SetInventories) else PLAN_ANEW
            repeats = self.faults or self.refusals.repeats(operation, request)
            if repeats or not isinstance(err, races):
                return False
        self.refusals.stopped = request
        return True

    def _refuse(self, operation: Operation, err: PlacementError, *, sent: bool = True) -> None:
        self.outcome.failed[subject_of(operation)] = err
        refusal = self.refusals.add(operation, err, sent=sent)
        if sent and isinstance(err, PASSING):
            self.faults.append(err)
            if not self.outcome.done:
                self.refusals.faulty_until = max(self.refusals.faulty_until, refusal.due)


def refuse_if_shared(
    provider: Provider | None, tree: Container[str], api: API, kept: str = ""
) -> None:
    """Do nothing unless a sharing provider is in use, or has to stay: ``kept`` says why.

    What is below it is looked for: the view of another tree lacks that.

    :raises Shared: hosts that are not in ``tree`` (UUIDs) are in its aggregates.
    :raises Kept: it has to stay.
    """
    if provider is None or not provider.shares:
        return
    if others := other_hosts(provider.aggregates, tree, api):
        text = "kept for other hosts in its aggregates: {}; removed with the last of them"
        raise Shared(text.format(first_few(others)))
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


_GENERATION = partial(forms.field, key="resource_provider_generation", check=forms.count)


def send(operation: Operation, generations: Mapping[str, int], api: API) -> dict[str, Any]:
    """Send an operation and return the body of the answer; for a reshape, a listing of the tree.

    ``generations`` by provider UUID go into the request.

    :raises reportclient.errors.PlacementError: it failed, or its result is unknown; ``Conflict``: a
        provider that it sets was not read.
    """
    written: Iterable[str] = ()
    check: forms.Check[Any] = forms.empty
    match operation:
        case CreateProvider() | UpdateProvider():
            check = forms.provider
        case SetTraits(uuid) | SetAggregates(uuid) | SetInventory(uuid):
            written, check = (uuid,), _GENERATION
        case Reshape(inventories) | SetInventories(inventories):
            written = inventories
    if unread := sorted(uuid for uuid in written if uuid not in generations):
        raise Conflict(f"providers {', '.join(unread)} have changed and must be read first")
    method, path, body = http_call(operation, generations)
    moves = isinstance(operation, UpdateProvider) and operation.moved
    reply = api.request(method, path, json=body, needs="1.37" if moves else None)
    forms.checked(f"{method} {path}", check, reply)
    if isinstance(operation, UpdateProvider):  # no generation protects its parent
        parent = reply["parent_provider_uuid"]
        if parent != operation.parent_uuid:
            text = f"provider {operation.name} ({operation.uuid}) was moved by another client"
            raise Conflict(f"{text}: it is below {parent}")
    if isinstance(operation, Reshape):  # its answer is empty, and generations moved
        listed: list[Listed] = []
        unlisted = dict.fromkeys(generations_after(operation, generations))
        while unlisted:
            tree = members_of(unlisted.popitem()[0], api)
            listed += tree
            for item in tree:
                unlisted.pop(item["uuid"], None)
        return {"resource_providers": listed}
    return reply


def http_call(  # noqa: PLR0911  one return for each kind
    operation: Operation, generations: Mapping[str, int]
) -> Request:
    """Return the HTTP call of an operation: method, path and body."""
    body: dict[str, Any]
    match operation:
        case EnsureTrait(name):
            return "PUT", f"/traits/{name}", None
        case EnsureClass(name):
            return "PUT", f"/resource_classes/{name}", None
        case CreateProvider(uuid, name, parent):
            body = {"uuid": uuid, "name": name, "parent_provider_uuid": parent}
            return "POST", "/resource_providers", body
        case UpdateProvider(uuid, name, parent, moved):
            body = {"name": name, **({"parent_provider_uuid": parent} if moved else {})}
            return "PUT", f"/resource_providers/{uuid}", body
        case Reshape() | SetInventories():
            return "POST", "/reshaper", reshape_payload(operation, generations)
        case DeleteProvider(uuid):
            return "DELETE", f"/resource_providers/{uuid}", None
        case SetTraits(uuid, traits):
            body = {"traits": sorted(traits)}
        case SetAggregates(uuid, aggregates):
            body = {"aggregates": sorted(aggregates)}
        case SetInventory(uuid, inventory):
            body = {"inventories": as_dicts(inventory)}
        case _:
            assert_never(operation)
    body = {"resource_provider_generation": generations.get(uuid), **body}
    return "PUT", f"/resource_providers/{uuid}/{_PARTS[type(operation)]}", body
