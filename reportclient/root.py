"""A root: its acknowledged view, when to read it again, and its refused operations.

Owned by one thread at a time.  Reading and writing go through here, so that only what
Placement acknowledged moves the view, a conflict is planned anew a few times, and what
was refused waits for the next verification.  A try that ends as the one before it,
though nothing has moved in between, is no race: it waits like a refusal.
"""

import logging
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from time import sleep
from typing import Any, Protocol, TypeVar

from tenacity import RetryCallState, Retrying, stop_after_attempt, wait_random_exponential

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
from reportclient.explain import explain_errors, provider_in_other_tree
from reportclient.http import API
from reportclient.plan import CreateProvider, Operation, Plan, with_bulk_writes
from reportclient.reader import Listed, refresh, with_lone_root
from reportclient.refusals import FAULTY, ForeignClasses, Refusals, nothing_foreign
from reportclient.schedule import Schedule, Times, doubled
from reportclient.view import View

LOG = logging.getLogger(__name__)

RETRY_REFUSED_EVERY = 300.0
"""Seconds until what was refused is asked for again, where nothing is verified."""
LONGEST_HOLD = 300.0
"""Seconds for which a Retry-After is obeyed at most."""
ATTEMPTS = 5
"""How often one period plans anew after somebody else wrote in between."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds between two such tries: a random part of one that doubles."""

T = TypeVar("T")


class Store(Protocol):
    """Where views are kept between two lives of a process."""

    def load(self, root: str) -> View | None:
        """The view that was saved of this root; ``None`` without one that can be used."""

    def save(self, root: str, view: View) -> None:
        """Keep it.  Called after each period, also with a view that is the same."""

    def forget(self, root: str) -> None:
        """Keep nothing of this root any more."""


@dataclass(slots=True)
class BulkWrites:
    """Inventories written in one call (0: one each), and from how many on; for the process."""

    chunk: int = 0
    least: int = 2


@dataclass(slots=True)
class Root:
    """``view`` is what is observed; nobody else in this process writes to this root."""

    uuid: str
    api: API
    times: Times = field(default_factory=Times)
    bulk: BulkWrites = field(default_factory=BulkWrites)
    store: Store | None = None
    view: View = field(default_factory=View)
    refusals: Refusals = field(default_factory=Refusals)
    schedule: Schedule = field(default_factory=Schedule)
    verified_at: float | None = None
    """When it was last compared with what Placement has; in the clock of ``now``."""
    retry_refused_at: float = 0.0
    """When what was refused is asked for again."""
    hold: tuple[float, PlacementError] | None = None
    """Until when Placement asked to be left alone, and in which answer."""
    rest: tuple[float, PlacementError] | None = None
    """Until when nothing is written since the last attempt achieved nothing, and why."""
    setbacks: int = 0
    """Attempts that Placement has failed, or others undone, since the last one without."""
    retry_faulted_at: float = 0.0
    """When what met such an error is sent again."""
    unreachable: Unreachable | None = None
    """How Placement did not answer when it was asked last."""
    _stopped: tuple[Operation, View] | None = None
    """Where the try before this one stopped, and the view by then."""
    _met: tuple[Any, ...] | None = None
    """What ended the try before this one, and the view by then."""
    _written: list[Operation] = field(default_factory=list)
    """Operations that this attempt has written."""
    _faulted: bool = False
    """Whether Placement itself failed at a write of this attempt."""
    _is_old: bool = False
    """Whether this attempt met an error that was explained before."""

    def load_saved_view(self) -> None:
        """Begin with the view that was saved; it is verified before it is built upon."""
        if self.store is not None:
            self.view = self.store.load(self.uuid) or self.view

    def forget_saved_view(self) -> None:
        """Keep nothing of it any more."""
        if self.store is not None:
            self.store.forget(self.uuid)

    def attempt(
        self,
        now: float,
        once: Callable[[Counting], T],
        api: API | None = None,
        *,
        urgent: bool = False,
    ) -> tuple[T | Exception, Counting]:
        """Do ``once``, again if somebody else wrote in between; what came of it, and its calls.

        ``now`` in seconds of a monotonic clock; ``api`` for another one than the root's.
        ``urgent``: also while the root rests.  Never raises; what was acknowledged is kept.
        """
        counted = Counting(api or self.api)
        for wait in (self.hold, None if urgent else self.rest):
            if wait is not None and now < wait[0]:
                return wait[1], counted
        self._stopped = self._met = None
        self._written, self._faulted, self._is_old = counted.done, False, False
        retrying = Retrying(
            retry=self._plan_anew,
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE),
            sleep=self.times.pause or sleep,
            reraise=True,
        )
        result: T | Exception
        try:
            result = retrying(once, counted)
        except PlacementError as err:
            result = err
        except Exception as err:
            LOG.exception("Root %s: the period failed", self.uuid)
            self.view = self.view.stale()
            result = err
        counted.tries = retrying.statistics.get("attempt_number", 1)
        self._note_answer(result, counted.calls, now)
        if not urgent:
            self._note_faults(result, now)
        if self.store is not None and self.view.generations:
            self.store.save(self.uuid, self.view)
        return result, counted

    def refresh(self, api: API, now: float, ours: Collection[str] = frozenset()) -> bool:
        """Read what has moved, if it is time to, or if the view is uncertain; whether it was.

        ``ours`` are other roots that are read also when they don't share with this one.

        :raises reportclient.errors.PlacementError: nothing is adopted then.
        """
        if now >= self.retry_refused_at:
            self.refusals.forget()
            self.retry_refused_at = now + (self.times.verify_every or RETRY_REFUSED_EVERY)
        elif now >= self.retry_faulted_at:
            self.refusals.forget_faults()
        if not self.is_due(now):
            return False
        audit = self.schedule.audits(now, self.times)
        self.view = refresh(self.view, self.uuid, api, everything=audit, ours=ours)
        self.schedule.verified(now, self.times)
        self.verified_at, self.unreachable = now, None
        return True

    def is_due(self, now: float) -> bool:
        """Whether it is to be read before it is built upon."""
        return not self.view.certain or self.schedule.is_due(now, self.times)

    def verified(self, listed: Listed | None, now: float) -> bool:
        """Whether a listing of the root alone says that nothing has changed.

        Only where there is nothing below the root: what is there has generations of its
        own.  A child that somebody else makes is seen by the next audit, or write.
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
        judged: Callable[[Outcome], Outcome] | None = None,
        foreign: ForeignClasses = nothing_foreign,
    ) -> Outcome:
        """Send a plan, less what was refused; reserve whole what can't be taken away yet.

        ``judged`` sees what came of it before anything is made of it; what is ``foreign``
        is not reserved.

        :raises reportclient.errors.PlacementError: somebody else wrote first: plan anew.
        """
        planned = plan.operations
        plan = with_bulk_writes(self.refusals.suppress(plan), self.bulk.chunk, self.bulk.least)
        blocking, at_once = self.refusals.blocking(), self.times.at_once
        patience = 0 if self.setbacks else FAULTS
        sent = apply(
            plan,
            self.view,
            api,
            stop=stop,
            at_once=at_once,
            failed=blocking,
            patience=patience,
        )
        outcome = self._acknowledged(sent, api)
        outcome = judged(outcome) if judged else outcome
        self.remember_refusals(outcome, api)
        drains = self.refusals.drains(self.view.snapshot, planned, foreign)
        drained = self.send(drains, api)
        self.remember_refusals(drained, api)
        return replace(outcome, view=self.view, stopped_by=outcome.stopped_by or drained.stopped_by)

    def send(self, plan: Plan, api: Counting) -> Outcome:
        """Send a plan as it is; what was acknowledged moves the view."""
        return self._acknowledged(apply(plan, self.view, api), api)

    def _acknowledged(self, outcome: Outcome, api: Counting) -> Outcome:
        api.done += outcome.done
        if outcome.done:
            self.unreachable = None
        self.view = outcome.view
        return outcome

    def read(self, api: API) -> None:
        """Read what has moved, now.

        :raises reportclient.errors.PlacementError: nothing is adopted then.
        """
        self.view = refresh(self.view, self.uuid, api)

    def remember_refusals(self, outcome: Outcome, api: API) -> None:
        """Remember what was refused, and why.

        :raises reportclient.errors.PlacementError: it has to be planned anew.
        """
        if isinstance(outcome.stopped_by, PLAN_ANEW):
            self._note_stop(outcome, outcome.stopped_by)
        if outcome.bulk_refused:
            LOG.info("Placement does not let us use its reshaper: no more bulk writes")
            self.bulk.chunk = 0
        errors = explain_errors(outcome, self.uuid, api)
        self.refusals.remember(outcome.refused, errors)
        self._remember_faults(outcome)
        there = {
            key: one
            for key, one in outcome.refused.items()
            if isinstance(errors[key], AlreadyThere)
        }
        met: list[PlacementError] = [errors[key] for key in there]
        if isinstance(outcome.stopped_by, PLAN_ANEW):
            met.append(outcome.stopped_by)
            if isinstance(outcome.stopped_by, AlreadyThere) and outcome.stopped_at is not None:
                there[""] = outcome.stopped_at
        for made in there.values() if not self.setbacks else ():
            if isinstance(made, CreateProvider):
                self._read_around(made, api)
        if met:
            raise met[0]

    def _note_answer(self, result: object, calls: int, now: float) -> None:
        """Note whether Placement answered; a try without a request says nothing about it."""
        if not calls:
            return
        err = result if isinstance(result, Exception) else getattr(result, "error", None)
        self.hold = _held(err, now)
        self.unreachable = err if isinstance(err, Unreachable) else None
        if self.unreachable is None:
            self.schedule.answered()
        else:
            self.schedule.unanswered(now, self.times, certain=self.view.certain)

    def _remember_faults(self, outcome: Outcome) -> None:
        """Let operations that Placement failed at wait, so that the rest of the plan is sent."""
        faulted = {key: (one, outcome.failed[key]) for key, one in outcome.faulted.items()}
        stop = outcome.stopped_at
        if isinstance(outcome.stopped_by, ServerFault) and stop is not None:
            faulted[subject_of(stop)] = stop, outcome.stopped_by
        self.refusals.by_subject |= faulted
        self._faulted |= bool(faulted)

    def _note_faults(self, result: object, now: float) -> None:
        """Rest longer each time that an attempt achieved nothing.

        One that wrote after such a rest shows that Placement is well again.
        """
        if isinstance(result, FAULTY) or self._faulted:
            longest = self.times.verify_every or RETRY_REFUSED_EVERY
            gap = doubled(self.times.period, self.setbacks, longest)
            self.setbacks += 1
            self.retry_faulted_at = now + gap
            met = next(
                (e for _, e in self.refusals.by_subject.values() if isinstance(e, FAULTY)), None
            )
            why = result if isinstance(result, PlacementError) else met
            self.rest = None if self._written or why is None else (now + gap, why)
        elif self._written and self.rest is not None:
            self.refusals.forget_faults()
            self.setbacks, self.rest = 0, None
        elif not any(isinstance(err, FAULTY) for _, err in self.refusals.by_subject.values()):
            self.setbacks, self.rest = 0, None

    def _note_stop(self, outcome: Outcome, err: PlacementError) -> None:
        operation = outcome.stopped_at
        if operation is None:
            return
        if (operation, outcome.view) == self._stopped or self.setbacks:
            self.refusals.by_subject[subject_of(operation)] = (operation, err)
        self._stopped = operation, outcome.view

    def _read_around(self, made: CreateProvider, api: API) -> None:
        """A provider that we would create is there: half made before a crash, or by a twin."""
        if self.refusals.before.get(made.uuid, (None,))[0] == made:
            self.refusals.by_subject[made.uuid] = self.refusals.before[made.uuid]
            self._is_old = True
            return
        self.read(api)
        if made.uuid in self.view.snapshot:
            return
        with_it = with_lone_root(self.view, made.uuid, api)
        if with_it is None:
            self.refusals.remember({made.uuid: made}, {made.uuid: provider_in_other_tree(made)})
        self.view = with_it or self.view

    def _plan_anew(self, state: RetryCallState) -> bool:
        err = state.outcome.exception() if state.outcome is not None else None
        if not isinstance(err, PLAN_ANEW):
            return False
        met = (err.args[0], self.view, len(self._written))
        same, self._met = met == self._met, met
        return not same and bool(self._written or not (self.setbacks or self._is_old))


PLAN_ANEW = (AlreadyThere, Conflict, NotFound, UnknownNames)
"""Errors after which the plan has to be made anew from what Placement has by then."""


def _held(err: object, now: float) -> tuple[float, PlacementError] | None:
    """Return the end of the wait for Retry-After, spread so that hosts part, and the error."""
    if not isinstance(err, Unreachable) or not err.retry_after:
        return None
    return now + min(err.retry_after * random.uniform(1, 1.5), LONGEST_HOLD), err
