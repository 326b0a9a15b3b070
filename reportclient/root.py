"""A root: its acknowledged view, when to read it again, and its refused operations.

A root is used by one thread at a time.  All reads and writes of its tree go through this class:
only what Placement acknowledged changes the view; after a conflict, the tree is read and planned
again, a few times in one attempt; an operation that failed waits, and no other waits for it.  A
conflict that repeats although nothing has changed is such a failure.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic, sleep, time
from typing import Any, Protocol, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from reportclient.apply import Outcome, apply
from reportclient.errors import (
    PLAN_ANEW,
    Conflict,
    NameTaken,
    NotFound,
    PlacementError,
    Unreachable,
    WrongForm,
    is_passing,
    is_silence,
    without_frames,
)
from reportclient.http import API
from reportclient.model import Provider
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    Operation,
    Plan,
    SetInventory,
    with_bulk_writes,
)
from reportclient.reader import (
    Listed,
    has_generation,
    members_of,
    refresh,
    with_root,
    with_unread,
)
from reportclient.refusals import Refusals
from reportclient.schedule import RETRY_REFUSED_EVERY, RETRY_UNKNOWN_EVERY, Schedule, Times
from reportclient.view import View

LOG = logging.getLogger(__name__)

ATTEMPTS = 10
"""Maximum number of tries in one attempt, if other clients write in between."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5
"""Maximum of the random seconds between the first two tries, doubled with each further one."""

T = TypeVar("T")


class Store(Protocol):
    """Saves views, so that they survive a restart; see :mod:`reportclient.saved_view`."""

    def load(self, root: str) -> View | None:
        """Return the saved view of a root (UUID); ``None`` if there is no usable one."""

    def save(self, root: str, view: View) -> None:
        """Save the view of a root (UUID).  Called after each attempt, also without a
        change, unless it leaves that to the next one.
        """

    def forget(self, root: str) -> None:
        """Delete the saved view of a root (UUID)."""


@dataclass(slots=True)
class Counting:
    """An API for one attempt, which counts its calls and records how its tries ended.

    ``now``: when the attempt began, in seconds of a monotonic clock.
    """

    api: API
    now: float = 0.0
    needs: str | None = None
    """The oldest microversion that supports the attempt; ``None``: any."""
    calls: int = 0
    tries: int = 1
    """Number of tries: more than one after conflicts with other clients."""
    done: list[Operation] = field(default_factory=list)
    """The acknowledged operations."""

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        self.calls += 1
        return self.api.request(method, path, json=json, needs=needs or self.needs)


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
    inside: bool = False
    """Whether a provider outside of the tree is never taken into it."""
    clock: Callable[[], float] = monotonic
    """Measures the seconds of an attempt."""
    wall_clock: Callable[[], float] = time
    """Dates drains, in seconds since the epoch."""

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
        save: bool = True,
    ) -> tuple[T | Exception, Counting]:
        """Call ``function``, several times if other clients' writes conflict; save the view.

        A conflict is an error of ``PLAN_ANEW`` that ``function`` raises.  Return its result, or its
        exception, and the API, which has counted.  Acknowledged operations stay in the view.

        :param now: seconds of a monotonic clock.
        :param function: reads, plans and writes with the API that it gets.
        :param api: used instead of the root's API.
        :param urgent: do it even if the root rests after a failed attempt.
        :param save: false leaves the saved view to the next attempt: somebody waits, and after a
            kill one more provider is read.
        """
        counted = Counting(api or self.api, now)
        if (waits_for := self.schedule.waits_for(now, urgent=urgent)) is not None:
            return waits_for, counted
        refusals, began = self.refusals, self.clock()
        refusals.now, refusals.times, refusals.stopped = now, self.times, None
        result: T | Exception
        ended: tuple[Any, ...] | None = None

        def plan_anew(err: BaseException) -> bool:
            """Return whether this is a race with another client, and not the same again."""
            nonlocal ended
            if isinstance(err, NotFound):
                self.view = self.view.stale()
            before, ended = ended, (*err.args[:1], self.view, len(counted.done))
            return isinstance(err, PLAN_ANEW) and before != ended

        try:
            for each in retrying(plan_anew, self.times):
                with each:
                    counted.tries = each.retry_state.attempt_number
                    result = function(counted)
        except Exception as err:  # noqa: BLE001  whoever gets it raises it or logs it
            known = isinstance(err, PlacementError)
            if not known or isinstance(err, (*PLAN_ANEW, WrongForm)):
                self.view = self.view.stale()
            result = without_frames(err) if known else err
        failure = result if isinstance(result, Exception) else getattr(result, "error", None)
        if counted.calls and (counted.done or not isinstance(failure, Unreachable)):
            self.schedule.answered()
        if counted.calls and isinstance(failure, Unreachable):
            pending = self.refusals.any_error(is_silence) or not self.view.certain
            at = now + self.clock() - began
            self.schedule.unanswered(without_frames(failure), at, self.times, pending=pending)
        if save and self.store is not None and self.view.generations:
            self.store.save(self.uuid, self.view)
        return result, counted

    def refresh(self, api: API, now: float, own: Collection[str] = frozenset()) -> bool:
        """Read the tree if it is due (:meth:`is_due`); return whether it was read.

        ``now`` is in seconds of a monotonic clock; ``own``: see
        :func:`reportclient.reader.refresh`.

        :raises reportclient.errors.PlacementError: reading failed; the view is unchanged.
        """
        every = self.times.verify_every or RETRY_REFUSED_EVERY
        if self.schedule.repeats("refused operations", now, every):
            self.refusals.resend()
        if not self.is_due(now):
            return False
        repeats = self.schedule.is_due(now) or self.refusals.any_error(is_passing)
        if self.view.unread and not repeats:
            self.view = with_unread(self.view, api)
            if self.view.certain:
                return True
        if self.schedule.repeats("unknown names", now, RETRY_UNKNOWN_EVERY):
            self.view = replace(self.view, names=self.view.names.without_absent())
        audit, before = now >= self.schedule.audit_at, self.view.generations
        self.view = refresh(
            self.view, self.uuid, api, everything=audit, own=own, at_once=self.times.at_once
        )
        went_back = (self.view.generations.get(uuid, old) < old for uuid, old in before.items())
        if self.store is not None and any(went_back):
            # Placement was restored.  This client's own writes can bring a generation back to the
            # number that the saved view has: after a kill that view would look true.
            self.store.save(self.uuid, self.view)
        self.schedule.verified(now, self.times, late=self.refusals.any_error(is_passing))
        return True

    def is_due(self, now: float) -> bool:
        """Return whether the tree has to be read before the view is used."""
        known = self.view.certain and not self.view.unread
        return not known or self.schedule.is_due(now)

    def verified(self, listed: Listed | None, now: float) -> bool:
        """Return whether nothing has changed according to ``listed``; then the view is verified.

        ``listed`` is the root's item of ``GET /resource_providers``.  Only for a root without
        children, since children have their own generations.  A child that another client creates
        is noticed by the next audit or write.
        """
        root = self.view.snapshot.get(self.uuid)
        if root is None or listed is None or not has_generation(self.view, listed):
            return False
        same: bool = (listed["name"], listed["parent_provider_uuid"]) == (root.name, None)
        if same:
            self.view = replace(self.view, certain=True)
            self.schedule.verified(now, self.times)
        return same

    def write(
        self,
        plan: Plan,
        api: Counting,
        *,
        stop: Callable[[], bool] = lambda: False,
        foreign: Callable[[Provider], Collection[str]] | None = None,
    ) -> Outcome:
        """Send a plan without what has to wait; drain what can't be removed yet.

        Draining reserves all of an inventory that consumers still use.

        :param stop: called before each batch; if it returns true, the rest is not sent.
        :param foreign: returns the classes of a provider that are not to be drained.  With it,
            providers are deleted only as they were read.
        :raises reportclient.errors.PlacementError: as :meth:`send`; what is to be deleted was
            changed.
        """
        refusals, was_read = self.refusals, api.calls > 0
        if not plan.operations and not refusals.by_subject:
            return Outcome(self.view)
        refusals.silence = None
        first, late = list(plan.operations), list[Operation]()
        blocked: Mapping[str, PlacementError] = {}
        if refusals.by_subject:
            refusals.look_at_users(self.view, api)
            first, late = refusals.suppress(plan, self.view.snapshot)
            blocked = refusals.blocking()
        deleted = {each.uuid for each in (*first, *late) if isinstance(each, DeleteProvider)}
        if not was_read and deleted and foreign is not None:
            self._refuse_changed(deleted, api)
        snapshot = self.view.snapshot
        first, late = (refusals.without_exceeded(part, snapshot, api) for part in (first, late))
        # After a conflict inventories are written one by one, so that only one meets it again.
        chunk = self.bulk.chunk if api.tries == 1 else 0
        bulk = with_bulk_writes(replace(plan, operations=tuple(first)), chunk, self.bulk.least)
        sent = replace(plan, operations=(*bulk.operations, *late))
        outcome = self.send(sent, api, stop=stop, blocked=blocked)
        stopped_by = outcome.stopped_by
        if refusals.by_subject:
            drains = refusals.drains(self.view.snapshot, plan, foreign)
            self._note_drains(drains)
            drained = self.send(drains, api)
            stopped_by = stopped_by or drained.stopped_by
        return replace(outcome, view=self.view, stopped_by=stopped_by or refusals.silence)

    def _note_drains(self, drains: Plan) -> None:
        """Save what is drained before it is written: the answer may be lost, or a kill may come.

        Nothing in Placement shows how much of it was reserved before.
        """
        view, drained = self.view, dict(self.view.drained)
        since = {uuid: at for uuid, at in view.drained_since.items() if uuid in drained}
        for drain in drains:
            assert isinstance(drain, SetInventory)
            drained[drain.uuid] = {**drain.drains, **drained.get(drain.uuid, {})}
            since.setdefault(drain.uuid, self.wall_clock())
        if drained != view.drained:
            self.view = replace(view, drained=drained, drained_since=since)
            if self.store is not None:
                self.store.save(self.uuid, self.view)

    def _refuse_changed(self, deleted: set[str], api: Counting) -> None:
        """Look whether what is to be deleted is as it was read: a DELETE takes no generation.

        :raises reportclient.errors.Conflict: another client has written to it.
        """
        known = {uuid: it for uuid, it in self.view.generations.items() if uuid in deleted}
        for item in members_of(self.uuid, api):
            if item["generation"] != known.get(item["uuid"], item["generation"]):
                self.view = self.view.stale()
                raise Conflict(f"provider {item['name']} was changed before it was deleted")

    def send(
        self,
        plan: Plan,
        api: Counting,
        *,
        stop: Callable[[], bool] = lambda: False,
        blocked: Mapping[str, PlacementError] = {},
    ) -> Outcome:
        """Send a plan as it is, but for what needs what is ``blocked``; remember what is refused.

        The view changes by what Placement acknowledged.

        :raises reportclient.errors.PlacementError: one of ``PLAN_ANEW`` stopped the plan.
        """
        at_once, refusals = self.times.at_once, self.refusals
        outcome = apply(plan, self.view, api, refusals, stop=stop, at_once=at_once, failed=blocked)
        api.done += outcome.done
        if outcome.done:
            self.schedule.unreachable = None
        self.view = outcome.view
        if outcome.bulk_refused:
            LOG.info(
                "Placement refuses bulk writes by the reshaper: writing inventories one by one"
            )
            self.bulk.chunk = 0
        for create in outcome.existing:
            err = self._read_existing(create, outcome.failed[create.uuid], api)
            if isinstance(err, PLAN_ANEW) and not isinstance(outcome.stopped_by, PLAN_ANEW):
                outcome.stopped_by = err
        if isinstance(outcome.stopped_by, PLAN_ANEW):
            raise outcome.stopped_by
        return outcome

    def read(self, api: API) -> None:
        """Update the view now.

        :raises reportclient.errors.PlacementError: reading failed; the view is unchanged.
        """
        self.view = refresh(self.view, self.uuid, api)

    def _read_existing(
        self, create: CreateProvider, err: PlacementError, api: Counting
    ) -> PlacementError:
        """Read a provider that could not be created because it exists; return the error to report.

        This agent created it just before a crash, or another client did.
        """
        before = self.refusals.earlier(create)
        if before is not None and isinstance(before.error, NameTaken):
            return self.refusals.add(create, before.error).error
        if create.uuid not in self.view.snapshot:  # a read may have several of them
            self.read(api)
        if create.uuid in self.view.snapshot:
            return err
        extended = None if self.inside else with_root(self.view, create.uuid, api)
        name = extended.snapshot.providers[create.uuid].name if extended else ""
        # A child that was taken out of the tree has its UUID at the end of its name.
        is_own = name == create.name or name.endswith(create.uuid)
        if extended is not None and (create.parent_uuid is None or is_own):
            self.view = extended
        else:  # a stranger's
            text = (
                f"Placement already has provider {create.name} ({create.uuid}), in another tree. "
                "If it is in use: give one of the two providers another name, or stop the service "
                "that reports it. If it is a leftover: delete it in Placement."
            )
            self.refusals.add(create, NameTaken(text))
        return err


def retrying(is_race: Callable[[BaseException], bool], times: Times) -> Retrying:
    """Return tries that end at the first error that is no race with another client."""
    return Retrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(FIRST_PAUSE, LONGEST_PAUSE),
        retry=retry_if_exception(is_race),
        sleep=times.pause or sleep,
        reraise=True,
    )
