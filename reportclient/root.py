"""A root: its acknowledged view, when to read it again, and its refused operations.

A root is used by one thread at a time.  All reads and writes of its tree go through this class:
only what Placement acknowledged changes the view; after a conflict, the tree is read and planned
again, a few times in one attempt; a refused operation waits for the next verification.  A conflict
that repeats although nothing has changed is treated like a refusal.
"""

import logging
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from time import monotonic, sleep
from typing import Any, Protocol, TypeVar

from reportclient.apply import FAULTS, Outcome, apply, never, subject_of
from reportclient.calls import Counting
from reportclient.errors import (
    AlreadyThere,
    Conflict,
    NotFound,
    PlacementError,
    ServerFault,
    UnknownNames,
    Unreachable,
)
from reportclient.http import API
from reportclient.plan import CreateProvider, Operation, Plan, with_bulk_writes
from reportclient.reader import Listed, refresh, with_lone_root, with_result
from reportclient.refusals import (
    FAULTY,
    ForeignClasses,
    Refusals,
    explain_errors,
    nothing_foreign,
    provider_in_other_tree,
)
from reportclient.schedule import Schedule, Times, doubled
from reportclient.view import View

LOG = logging.getLogger(__name__)

RETRY_REFUSED_EVERY = 300.0
"""Seconds until refused operations are sent again, if verification is switched off."""
LONGEST_HOLD = 300.0
"""Maximum wait for a ``Retry-After``, in seconds."""
ATTEMPTS = 5
"""Maximum number of tries in one attempt, if other clients write in between."""
FIRST_PAUSE = 0.05
"""Maximum of the random seconds between the first two tries; it doubles with each further one."""
PLAN_ANEW = (AlreadyThere, Conflict, NotFound, UnknownNames)
"""Errors after which the tree is read and planned again, in the same attempt."""

T = TypeVar("T")


class Store(Protocol):
    """Saves views, so that they survive a restart; see :mod:`reportclient.saved_view`."""

    def load(self, root: str) -> View | None:
        """Return the saved view of a root (UUID); ``None`` if there is no usable one."""

    def save(self, root: str, view: View) -> None:
        """Save the view of a root (UUID).  Called after each attempt, even without a change."""

    def forget(self, root: str) -> None:
        """Delete the saved view of a root (UUID)."""


@dataclass(slots=True)
class BulkWrites:
    """Bulk writes: ``chunk`` inventories in one call (0: never), if there are ``least`` or more.

    Shared by all roots of a process: ``chunk`` becomes 0 once Placement refuses bulk writes.
    """

    chunk: int = 0
    least: int = 2


@dataclass(slots=True)
class Root:
    """The tree of one root provider (``uuid``); nothing else in this process may write to it."""

    uuid: str
    api: API
    times: Times = field(default_factory=Times)
    bulk: BulkWrites = field(default_factory=BulkWrites)
    store: Store | None = None
    view: View = field(default_factory=View)
    refusals: Refusals = field(default_factory=Refusals)
    schedule: Schedule = field(default_factory=Schedule)
    verified_at: float | None = None
    """When the view was last compared with Placement, in the clock of ``now`` (see ``attempt``)."""
    retry_refused_at: float = 0.0
    """When refused operations are sent again, in the clock of ``now``."""
    rests_for: PlacementError | None = None
    """The error because of which the root rests (see ``Schedule.is_resting``)."""
    setbacks: int = 0
    """Number of attempts in a row that met a server fault or a conflict."""
    retry_faulted_at: float = 0.0
    """When operations that met a server fault or a conflict are sent again."""
    unreachable: Unreachable | None = None
    """The error if Placement did not answer the last request."""
    clock: Callable[[], float] = monotonic
    """Measures the seconds of an attempt."""
    _lost: tuple[Operation, View] | None = None
    """The write whose answer was lost, if it alone makes the view uncertain, and that view."""
    _unwritten: bool = False
    """Whether Placement did not answer a write of this attempt."""
    _stopped: tuple[Operation, View] | None = None
    """The operation at which the previous try stopped, and the view at that time."""
    _met: tuple[Any, ...] | None = None
    """The error that ended the previous try; the view and the number of writes at that time."""
    _written: list[Operation] = field(default_factory=list)
    """Operations acknowledged in this attempt: the list ``Counting.done``, which grows."""
    _faulted: bool = False
    """Whether a write of this attempt met a server fault."""
    _fails_again: bool = False
    """Whether a create failed as before the last verification, so that a new try is useless."""

    def load_saved_view(self) -> None:
        """Load the saved view, if there is one; it is verified before it is used."""
        if self.store is not None:
            self.view = self.store.load(self.uuid) or self.view

    def forget_saved_view(self) -> None:
        """Delete the saved view of this root."""
        if self.store is not None:
            self.store.forget(self.uuid)

    def attempt(
        self,
        now: float,
        function: Callable[[Counting], T],
        api: API | None = None,
        *,
        urgent: bool = False,
    ) -> tuple[T | Exception, Counting]:
        """Call ``function``, several times if other clients' writes conflict; save the view.

        A conflict is an error of ``PLAN_ANEW`` that ``function`` raises.  Return its result, or its
        exception, and the API, which has counted.  Acknowledged operations stay in the view.

        :param now: seconds of a monotonic clock.
        :param function: reads, plans and writes with the API that it gets.
        :param api: used instead of the root's API.
        :param urgent: do it even if the root rests after a failed attempt.
        """
        counted = Counting(api or self.api)
        if self.rests_for is not None and self.schedule.is_resting(now, urgent=urgent):
            return self.rests_for, counted
        began = self.clock()
        rested, self._stopped, self._met, self._unwritten = self.rests_for, None, None, False
        self._written, self._faulted, self._fails_again = counted.done, False, False
        result: T | Exception
        while True:
            try:
                result = self._resume(function, counted)
            except PlacementError as err:
                result = err
            except Exception as err:  # noqa: BLE001  whoever gets it raises it or logs it
                self.view = self.view.stale()
                result = err
            if counted.tries == ATTEMPTS or not self._plan_anew(result):
                break
            longest = FIRST_PAUSE * 2 ** (counted.tries - 1)
            (self.times.pause or sleep)(random.uniform(0.0, longest))
            counted.tries += 1
        raised = result if isinstance(result, Exception) else None
        ended = now + self.clock() - began
        self._note_answer(raised or getattr(result, "error", None), counted.calls, ended)
        if not urgent:
            self._note_faults(raised, now, rested=rested is not None)
        if self.store is not None and self.view.generations:
            self.store.save(self.uuid, self.view)
        return result, counted

    def _resume(self, function: Callable[[Counting], T], api: Counting) -> T:
        """Ask for a write whose answer was lost, then call ``function``."""
        if self._lost is not None and self._lost[1] is self.view:
            lost, before = self._lost
            self.view = with_result(before, lost, api)
            self.unreachable = None
            if self.view.generations != before.generations:
                api.done.append(lost)
        self._lost = None
        return function(api)

    def refresh(self, api: API, now: float, ours: Collection[str] = frozenset()) -> bool:
        """Read the tree if it is due (:meth:`is_due`); return whether it was read.

        ``now`` is in seconds of a monotonic clock; ``ours``: see
        :func:`reportclient.reader.refresh`.

        :raises reportclient.errors.PlacementError: reading failed; the view is unchanged.
        """
        if now >= self.retry_refused_at:
            self.refusals.forget()
            self.retry_refused_at = now + (self.times.verify_every or RETRY_REFUSED_EVERY)
        elif now >= self.retry_faulted_at:
            self.refusals.forget_faults()
        if not self.is_due(now):
            return False
        audit = self.schedule.audits(now, self.times)
        before = self.view.generations
        self.view = refresh(self.view, self.uuid, api, everything=audit, ours=ours)
        went_back = (self.view.generations.get(uuid, old) < old for uuid, old in before.items())
        if self.store is not None and any(went_back):
            # Placement was restored.  This client's own writes can bring a generation back to the
            # number that the saved view has: after a kill that view would look true.
            self.store.save(self.uuid, self.view)
        self.schedule.verified(now, self.times)
        self.verified_at, self.unreachable = now, None
        return True

    def is_due(self, now: float) -> bool:
        """Return whether the tree has to be read before the view is used."""
        return not self.view.certain or self.schedule.is_due(now, self.times)

    def verified(self, listed: Listed | None, now: float) -> bool:
        """Return whether nothing has changed according to ``listed``; then the view is verified.

        ``listed`` is the root's item of ``GET /resource_providers``.  Only for a root without
        children, since children have their own generations.  A child that another client creates
        is noticed by the next audit or write.
        """
        root = self.view.snapshot.get(self.uuid)
        same = (
            listed is not None
            and root is not None
            and listed["generation"] == self.view.generations.get(self.uuid)
            and listed["name"] == root.name
            and listed["parent_provider_uuid"] is None
        )
        if same:
            self.view = replace(self.view, certain=True)
            self.schedule.verified(now, self.times)
            self.verified_at, self.unreachable = now, None
        return same

    def write(
        self,
        plan: Plan,
        api: Counting,
        *,
        stop: Callable[[], bool] = never,
        foreign: ForeignClasses = nothing_foreign,
    ) -> Outcome:
        """Send a plan without refused operations; drain what can't be removed yet.

        Draining reserves all of an inventory that consumers still use.  If the outcome is
        ``stopped_by`` an error of ``PLAN_ANEW``, another client wrote first.

        :param stop: called before each batch; if it returns true, the rest is not sent.
        :param foreign: returns the classes of a provider that are not to be drained.

        :raises reportclient.errors.PlacementError: reading the details of an error failed.
        """
        planned = plan.operations
        plan = with_bulk_writes(self.refusals.suppress(plan), self.bulk.chunk, self.bulk.least)
        sent = apply(
            plan,
            self.view,
            api,
            stop=stop,
            at_once=self.times.at_once,
            failed=self.refusals.blocking(),
            patience=0 if self.setbacks else FAULTS,
        )
        outcome = self.remember_refusals(self._acknowledged(sent, api), api)
        if isinstance(outcome.stopped_by, PLAN_ANEW):
            return outcome
        drains = self.refusals.drains(self.view.snapshot, planned, foreign)
        drained = self.remember_refusals(self.send(drains, api), api)
        return replace(outcome, view=self.view, stopped_by=outcome.stopped_by or drained.stopped_by)

    def send(self, plan: Plan, api: Counting) -> Outcome:
        """Send a plan as it is, and update the view by what Placement acknowledged."""
        return self._acknowledged(apply(plan, self.view, api), api)

    def _acknowledged(self, outcome: Outcome, api: Counting) -> Outcome:
        api.done += outcome.done
        if outcome.done:
            self.unreachable = None
        self.view = outcome.view
        if outcome.lost is not None:
            self._lost = outcome.lost, outcome.view
        self._unwritten |= isinstance(outcome.stopped_by, Unreachable)
        return outcome

    def read(self, api: API) -> None:
        """Update the view now.

        :raises reportclient.errors.PlacementError: reading failed; the view is unchanged.
        """
        self.view = refresh(self.view, self.uuid, api)

    def remember_refusals(self, outcome: Outcome, api: API) -> Outcome:
        """Remember refused operations; return the outcome, with the error that needs a new plan.

        :raises reportclient.errors.PlacementError: reading the details of an error failed.
        """
        stopped_by, stop = outcome.stopped_by, outcome.stopped_at
        if isinstance(stopped_by, PLAN_ANEW) and stop is not None:
            if (stop, outcome.view) == self._stopped or self.setbacks:
                self.refusals.by_subject[subject_of(stop)] = (stop, stopped_by)
            self._stopped = stop, outcome.view
        if outcome.bulk_refused:
            LOG.info(
                "Placement refuses bulk writes by the reshaper: writing inventories one by one"
            )
            self.bulk.chunk = 0
        errors = explain_errors(outcome, api)
        self.refusals.remember(outcome.refused, errors)
        faulted = {key: (each, outcome.failed[key]) for key, each in outcome.faulted.items()}
        if isinstance(stopped_by, ServerFault) and stop is not None:
            faulted[subject_of(stop)] = stop, stopped_by
        self.refusals.by_subject |= faulted  # they wait, so that the rest of the plan is sent
        self._faulted |= bool(faulted)
        met = [(each, errors[key]) for key, each in outcome.refused.items()]
        if stop is not None and stopped_by is not None:
            met.append((stop, stopped_by))
        existing = [(each, err) for each, err in met if isinstance(err, AlreadyThere)]
        for operation, _ in existing if not self.setbacks else ():
            if isinstance(operation, CreateProvider):
                self._read_existing(operation, api)
        return replace(outcome, stopped_by=existing[0][1]) if existing else outcome

    def _note_answer(self, err: Exception | None, calls: int, now: float) -> None:
        """Note whether Placement answered, if there were any requests."""
        if not calls:
            return
        self.unreachable = self.rests_for = err if isinstance(err, Unreachable) else None
        if self.unreachable is None:
            self.schedule.answered()
            return
        if self._written:
            self.schedule.answered()
        pending = self._unwritten or not self.view.certain
        self.schedule.unanswered(now, self.times, pending=pending)
        if self.unreachable.retry_after:
            wait = min(self.unreachable.retry_after * random.uniform(1, 1.5), LONGEST_HOLD)
            self.schedule.hold_until = now + wait

    def _note_faults(self, err: Exception | None, now: float, *, rested: bool) -> None:
        """Double the wait before faulted operations are sent again, or end it.

        If the attempt also wrote nothing, only urgent requests are sent meanwhile.  An
        attempt that writes after such a wait ends it: Placement works again.
        """
        if isinstance(err, FAULTY) or self._faulted:
            longest = self.times.verify_every or RETRY_REFUSED_EVERY
            gap = doubled(self.times.period, self.setbacks, longest)
            self.setbacks += 1
            self.retry_faulted_at = now + gap
            met = next(
                (e for _, e in self.refusals.by_subject.values() if isinstance(e, FAULTY)), None
            )
            why = err if isinstance(err, PlacementError) else met
            if not self._written and why is not None:
                self.rests_for, self.schedule.rest_until = why, now + gap
        elif self._written and rested:
            self.refusals.forget_faults()
            self.setbacks = 0
        elif not any(isinstance(err, FAULTY) for _, err in self.refusals.by_subject.values()):
            self.setbacks = 0

    def _read_existing(self, create: CreateProvider, api: API) -> None:
        """Read a provider that could not be created because it exists.

        This agent created it just before a crash, or another client did.
        """
        if self.refusals.before.get(create.uuid, (None,))[0] == create:
            self.refusals.by_subject[create.uuid] = self.refusals.before[create.uuid]
            self._fails_again = True
            return
        self.read(api)
        if create.uuid in self.view.snapshot:
            return
        extended = with_lone_root(self.view, create.uuid, api)
        if extended is None:
            errors = {create.uuid: provider_in_other_tree(create)}
            self.refusals.remember({create.uuid: create}, errors)
        self.view = extended or self.view

    def _plan_anew(self, err: object) -> bool:
        if not isinstance(err, PLAN_ANEW):
            return False
        met = (err.args[0], self.view, len(self._written))
        if met == self._met:  # the same error again: no race
            return False
        self._met = met
        return bool(self._written) or not (self.setbacks or self._fails_again)
