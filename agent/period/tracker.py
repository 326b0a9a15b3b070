"""One period of one root: read, ask the drivers, decide, apply, keep what was acknowledged."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, TypeGuard

from tenacity import RetryCallState, Retrying, stop_after_attempt, wait_random_exponential

from agent.period.counting import Counting
from agent.period.decide import Decider, Decision
from agent.period.explain import elsewhere, explained
from agent.period.find_roots import awaited
from agent.period.leaving import orphans, outside, too_old
from agent.period.parts import Parts
from agent.period.parts_file import PartsFile
from agent.period.refusals import RESHAPE, Refusals
from agent.period.rivals import Rivals
from agent.period.rules import BulkWrites, Rules
from agent.period.traits import DISABLED
from agent.period.view_file import ViewFile
from agent.provider_config.additions import Additions
from agent.report import Report
from drivers.errors import ReshapeFailed
from drivers.loader import LoadedDriver
from reportclient.apply import Conditions, Outcome, apply, subject_of
from reportclient.diff import diff
from reportclient.errors import (
    AlreadyThere,
    Conflict,
    NotFound,
    PlacementError,
    UnknownNames,
    Unreachable,
)
from reportclient.http import API
from reportclient.plan import CreateProvider, Operation, Plan, bulked
from reportclient.reader import Listed, allocations, found_with, refresh
from reportclient.view import View

LOG = logging.getLogger(__name__)

ASK_AGAIN = 300.0
"""Seconds until what was refused is asked for again, where nothing is verified."""
LONGEST_HOLD = 300.0
"""Seconds for which a Retry-After is obeyed at most."""
ATTEMPTS = 5
"""How often one period plans anew after somebody else wrote in between."""


def _never() -> bool:
    return False


@dataclass(slots=True)
class Tracker:
    """Owns one root: nobody else writes to it from this process."""

    uuid: str
    node: str
    api: API
    drivers: Sequence[LoadedDriver]
    rules: Rules
    bulk: BulkWrites = field(default_factory=BulkWrites)
    file: ViewFile | None = None
    additions: Additions = field(default_factory=Additions)
    parts_file: PartsFile | None = None
    parts: Parts = field(default_factory=Parts)
    view: View = field(default_factory=View)
    refusals: Refusals = field(default_factory=Refusals)
    verify_at: float = 0.0
    audit_at: float | None = None
    ask_again_at: float = 0.0
    """When what was refused is asked for again."""
    mark: str = ""
    """The service's mark, which the root carries where the service has many nodes."""
    rivals: Rivals = field(default_factory=Rivals)
    doing: str = ""
    """For whoever asks why it takes so long."""
    started: bool = False
    """Whether every driver has answered once, and no reshape is left from the start."""
    outside_since: dict[str, float] = field(default_factory=dict)
    """When children that leave another service's root were first seen outside its tree."""
    stopped: tuple[Operation | None, View] | None = None
    """Where the try before this one stopped, and what was known then."""
    met: tuple[Any, ...] | None = None
    """What ended the try before this one, and what was known then."""
    hold: tuple[float, PlacementError] | None = None
    """Until when Placement asked to be left alone, and in which answer."""

    def period(
        self, now: float, *, disabled: bool | None = None, stop: Callable[[], bool] = _never
    ) -> Report:
        """Make Placement say what the drivers say.  Never raises: the report tells.

        ``now`` in seconds of a monotonic clock; ``disabled`` is the status of the
        service, ``None`` if it is not known.
        """
        report = self._with_retries(now, lambda api: self._once(api, now, disabled, stop))
        self.started = self.started or (report.error is None and not _left_from_start(report))
        return report

    def switch(self, now: float, *, disabled: bool) -> Report:
        """Make the root's COMPUTE_STATUS_DISABLED right, now, and touch nothing else.

        One call: a write, or where it seems to be right already a read, since somebody may
        have written meanwhile.  No driver is asked.  A root that is not there yet gets its
        trait from its first period.
        """
        return self._with_retries(now, lambda api: self._switch_once(api, now, disabled))

    def _with_retries(self, now: float, once: Callable[[Counting], Report]) -> Report:
        if self.hold is not None and now < self.hold[0]:
            return Report(self.node, error=self.hold[1])
        counted = Counting(self.api)
        self.stopped = self.met = None
        retrying = Retrying(
            retry=self._plan_anew,
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.05, max=5),
            reraise=True,
        )
        try:
            report: Report = retrying(once, counted)
        except PlacementError as err:
            report = Report(self.node, error=err)
        except Exception as err:
            LOG.exception("Node %s: the period failed", self.node)
            self.view = self.view.doubted()
            report = Report(self.node, error=err)
        self.rivals.wrote(counted.done)
        self.hold = _held(report.error, now)
        if self.file is not None and self.view.generations:
            self.file.keep(self.view)
        if self.parts_file is not None:
            self.parts_file.keep(self.parts)
        return replace(report, calls=counted.calls, done=tuple(counted.done))

    def _plan_anew(self, state: RetryCallState) -> bool:
        err = state.outcome.exception() if state.outcome is not None else None
        if not isinstance(err, _PLAN_ANEW):
            return False
        met = (err.args[0], self.view, *self.refusals.by_subject)
        same, self.met = met == self.met, met
        return not same

    def look(self, now: float, *, disabled: bool | None = None) -> Decision:
        """What the next period would do, without doing it.

        :raises agent.period.find_roots.RootAwaited: the root is another service's, and not there.
        """
        self._refresh(self.api, now)
        if self.rules.attached and self.uuid not in self.view.snapshot:
            raise awaited(self.node)
        return self._decide(self.api, now, disabled)

    def _once(
        self, api: Counting, now: float, disabled: bool | None, stop: Callable[[], bool]
    ) -> Report:
        self._refresh(api, now)
        if self.rules.attached and self.uuid not in self.view.snapshot:
            self.parts = Parts()
            return self._without_root(api)
        decision = self._decide(api, now, disabled)
        self.additions.note(decision.laid)
        plan = bulked(self.refusals.spare(decision.plan), self.bulk.chunk)
        conditions = Conditions(stop, self.rules.at_once, self.refusals.blocking())
        self.doing = "writing to Placement"
        outcome = self._stay_inside(apply(plan, self.view, api, conditions))
        api.done += outcome.done
        if decision.restraint is not None:
            self.parts = decision.restraint.acknowledged(outcome.view)
        met = self._learn(outcome, api) or outcome.stopped_by
        if isinstance(met, _PLAN_ANEW):
            raise met
        drains = self.refusals.drains(self.view.snapshot)
        drained = apply(drains, self.view, api)
        api.done += drained.done
        self._learn(drained, api)
        if isinstance(drained.stopped_by, _PLAN_ANEW):
            raise drained.stopped_by
        return self._report(decision, outcome, drained)

    def _switch_once(self, api: API, now: float, disabled: bool) -> Report:
        if self.rules.attached:
            return Report(self.node)
        read = not self.view.certain
        if read:
            self._refresh(api, now)
        plan = self._switched(disabled=disabled)
        if not read and not plan.operations:
            self.view = refresh(self.view, self.uuid, api)
            plan = self._switched(disabled=disabled)
        outcome = apply(plan, self.view, api)
        self._learn(outcome, api)
        if isinstance(outcome.stopped_by, _PLAN_ANEW):
            raise outcome.stopped_by
        return Report(
            self.node,
            done=outcome.done,
            plan=plan,
            problems=plan.problems,
            failed=outcome.failed,
            error=outcome.stopped_by,
        )

    def _switched(self, *, disabled: bool) -> Plan:
        """What makes the trait right, as far as is known; nothing for a root that is not there."""
        if self.uuid not in self.view.snapshot:
            return Plan()
        tree = self.view.edit()
        (tree.add_traits if disabled else tree.remove_traits)(self.uuid, DISABLED)
        return diff(self.view.snapshot, tree.freeze(), known=self.view.known)

    def _refresh(self, api: API, now: float) -> None:
        if now >= self.ask_again_at:
            self.refusals.forget()
            self.ask_again_at = now + (self.rules.verify_every or ASK_AGAIN)
        if self.audit_at is None:
            self.audit_at = now + _spread(self.rules.audit_every, 0.5)
        audit = now >= self.audit_at
        if self.view.certain and now < self.verify_at and not audit:
            return
        self.doing = "reading Placement"
        before = self.view.snapshot
        self.view = refresh(self.view, self.uuid, api, everything=audit)
        if not self.rules.attached:
            root = self.view.snapshot.get(self.uuid)
            self.rivals.look(before.get(self.uuid), root, self.node, self.mark)
            self.rivals.compare(before, self.view.snapshot)
        # Spread, so that hosts that were started together do not verify together for ever.
        self.verify_at = now + _spread(self.rules.verify_every, 0.1)
        if audit:
            self.audit_at = now + _spread(self.rules.audit_every, 0.1)

    def verified(self, listed: Listed | None, now: float) -> bool:
        """Whether a listing of its root alone says that nothing has changed.

        Only where there is nothing below the root: what is there has generations of its
        own.  A child that a stranger makes is seen by the next audit, or write.
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
            self.verify_at = now + (self.rules.verify_every or inf)
        return same

    def is_alone(self) -> bool:
        """Whether the root is all that there is, and carries the mark."""
        root = self.view.snapshot.get(self.uuid)
        alone = root is not None and len(self.view.snapshot) == 1 and not root.aggregates
        return alone and self._root_has(self.mark)

    def _root_has(self, trait: str) -> bool:
        root = self.view.snapshot.get(self.uuid)
        return root is not None and trait in root.traits

    def _decide(self, api: API, now: float, disabled: bool | None) -> Decision:
        decider = Decider(
            self.uuid,
            self.node,
            self.drivers,
            self.rules,
            self.parts,
            self.mark,
            self.additions.over(self.view, self.uuid),
            self._outside_for(now),
        )
        may_reshape = self.rules.reshape_when_running or not self.started
        may_reshape = may_reshape and self.refusals.reshape() is None
        read = (lambda: allocations(self.view, api)) if may_reshape else None
        self.doing = "asking the drivers"
        decision = decider.decide(self.view, disabled, read)
        self.additions.meet(self.uuid, decision.laid)
        wish, self.parts = decision.wish, decision.parts
        for name in wish.reshape_pending:
            self.refusals.failed_reshape = wish.errors.get(name, self.refusals.failed_reshape)
        return decision

    def _outside_for(self, now: float) -> dict[str, float]:
        uuids = [provider.uuid for provider in outside(self.view.snapshot, self.uuid)]
        self.outside_since = {uuid: self.outside_since.get(uuid, now) for uuid in uuids}
        return {uuid: now - since for uuid, since in self.outside_since.items()}

    def _without_root(self, api: Counting) -> Report:
        """Its owner has not made it, or has deleted it."""
        if self.rules.child_wait is not None:
            outcome = apply(orphans(self.view.snapshot, self.uuid), self.view, api)
            self.view = outcome.view
            api.done += outcome.done
        return Report(self.node, error=awaited(self.node))

    def _stay_inside(self, outcome: Outcome) -> Outcome:
        """A Placement that can't take children out of a tree keeps them there, empty."""
        inside = too_old(outcome.refused, outcome.failed)
        if not inside:
            return outcome
        LOG.info("Placement is older than 1.37: children that go stay below their root, empty")
        self.rules = replace(self.rules, remove_child_after=None)
        return replace(
            outcome,
            failed={key: err for key, err in outcome.failed.items() if key not in inside},
            refused={key: one for key, one in outcome.refused.items() if key not in inside},
        )

    def _learn(self, outcome: Outcome, api: API) -> AlreadyThere | None:
        """Take over what came of a plan; whether something was there that it would create."""
        self.view = outcome.view
        if isinstance(outcome.stopped_by, _PLAN_ANEW):
            self._note_stop(outcome, outcome.stopped_by)
        if outcome.bulk_refused:
            LOG.warning("Placement does not let us use its reshaper: no more bulk writes")
            self.bulk.chunk = 0
        errors = explained(outcome, self.uuid, api)
        self.refusals.remember(outcome.refused, errors)
        found = ((key, errors[key]) for key in outcome.refused)
        known = {key: err for key, err in found if isinstance(err, AlreadyThere)}
        there = [outcome.refused[key] for key in known]
        if isinstance(outcome.stopped_by, AlreadyThere) and outcome.stopped_at is not None:
            there.append(outcome.stopped_at)
        for made in there:
            if isinstance(made, CreateProvider):
                self._look_at(made, api)
        return next(iter(known.values()), None)

    def _note_stop(self, outcome: Outcome, err: PlacementError) -> None:
        """The same again, though nothing has moved, is no race: it waits like a refusal."""
        stop, operation = (outcome.stopped_at, outcome.view), outcome.stopped_at
        if operation is not None and stop == self.stopped:
            self.refusals.by_subject[subject_of(operation)] = (operation, err)
        self.stopped = stop

    def _look_at(self, made: CreateProvider, api: API) -> None:
        """A provider that we would create is there: half made before a crash, or by a twin."""
        self.view = refresh(self.view, self.uuid, api)
        if made.uuid in self.view.snapshot:
            return
        found = found_with(self.view, made.uuid, api)
        if found is None:
            self.refusals.remember({made.uuid: made}, {made.uuid: elsewhere(made)})
        self.view = found or self.view

    def _report(self, decision: Decision, outcome: Outcome, drained: Outcome) -> Report:
        wish = decision.wish
        broken = [wish.errors[name] for name in wish.reshape_pending if name in wish.errors]
        fatal = None if self.started else next(filter(_is_fatal, broken), None)
        return Report(
            self.node,
            plan=decision.plan,
            problems=decision.plan.problems,
            driver_errors=wish.errors,
            failed=self.refusals.told(outcome.failed),
            draining=self.refusals.draining(),
            degraded=_degraded(self.drivers) | self.rivals.told(self.uuid, self.node),
            took={name: time for one in self.drivers for name, time in one.took().items()},
            reshape_pending=wish.reshape_pending,
            reshape_error=self.refusals.reshape(),
            error=fatal or outcome.stopped_by or drained.stopped_by,
            fatal=fatal is not None,
        )


def _is_fatal(err: BaseException) -> TypeGuard[ReshapeFailed]:
    return isinstance(err, ReshapeFailed)


def _left_from_start(report: Report) -> bool:
    return bool(report.driver_errors or report.reshape_pending or RESHAPE in report.failed)


_PLAN_ANEW = (AlreadyThere, Conflict, NotFound, UnknownNames)


def _held(err: Exception | None, now: float) -> tuple[float, PlacementError] | None:
    """What Retry-After asks for; spread, so that not all who were told come back at once."""
    if not isinstance(err, Unreachable) or not err.retry_after:
        return None
    return now + min(err.retry_after * random.uniform(1, 1.5), LONGEST_HOLD), err


def _spread(every: float | None, part: float) -> float:
    """Seconds until the next time, up to ``part`` earlier or later; for ever for ``None``."""
    return float("inf") if every is None else every * random.uniform(1 - part, 1 + part)


def _degraded(drivers: Sequence[LoadedDriver]) -> dict[str, str]:
    found: dict[str, str] = {}
    for loaded in drivers:
        found.update(loaded.degraded())
    return found
