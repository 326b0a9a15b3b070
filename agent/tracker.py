"""One period of one root: read, ask the drivers, decide, apply, keep what was acknowledged."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tenacity import RetryCallState, Retrying, wait_random_exponential

from agent.decide import Decider, Decision
from agent.explain import elsewhere, explained
from agent.refusals import Refusals
from agent.report import Report
from agent.rules import BulkWrites, Rules
from agent.view_file import ViewFile
from drivers.errors import ReshapeFailed
from drivers.loader import LoadedDriver
from reportclient.apply import Conditions, Outcome, apply
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
from reportclient.plan import CreateProvider, Operation, bulked
from reportclient.reader import allocations, found_with, refresh
from reportclient.view import View

LOG = logging.getLogger(__name__)

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
    view: View = field(default_factory=View)
    refusals: Refusals = field(default_factory=Refusals)
    verify_at: float = 0.0
    audit_at: float | None = None
    started: bool = False
    hold: tuple[float, PlacementError] | None = None
    """Until when Placement asked to be left alone, and in which answer."""

    def period(
        self, now: float, *, disabled: bool | None = None, stop: Callable[[], bool] = _never
    ) -> Report:
        """Make Placement say what the drivers say.  Never raises: the report tells.

        ``now`` in seconds of a monotonic clock; ``disabled`` is the status of the
        service, ``None`` if it is not known.
        """
        if self.hold is not None and now < self.hold[0]:
            return Report(self.node, error=self.hold[1])
        counted = _Counting(self.api)
        retrying = Retrying(
            retry=_plan_anew,
            stop=_tried_enough,
            wait=wait_random_exponential(multiplier=0.05, max=5),
            reraise=True,
        )
        try:
            report: Report = retrying(self._once, counted, now, disabled, stop)
        except (PlacementError, ReshapeFailed) as err:
            fatal = isinstance(err, ReshapeFailed) and not self.started
            report = Report(self.node, error=err, fatal=fatal)
        except Exception as err:
            LOG.exception("Node %s: the period failed", self.node)
            self.view = self.view.doubted()
            report = Report(self.node, error=err)
        self.started = self.started or report.error is None
        self.hold = _held(report.error, now)
        if self.file is not None and self.view.generations:
            self.file.keep(self.view)
        return replace(report, calls=counted.calls, done=tuple(counted.done))

    def look(self, now: float, *, disabled: bool | None = None) -> Decision:
        """What the next period would do, without doing it."""
        self._refresh(self.api, now)
        return self._decide(self.api, disabled)

    def _once(
        self, api: _Counting, now: float, disabled: bool | None, stop: Callable[[], bool]
    ) -> Report:
        self._refresh(api, now)
        decision = self._decide(api, disabled)
        plan = bulked(self.refusals.spare(decision.plan), self.bulk.chunk)
        conditions = Conditions(stop, self.rules.at_once, self.refusals.blocking())
        outcome = apply(plan, self.view, api, conditions)
        api.done += outcome.done
        self._learn(outcome, api)
        if isinstance(outcome.stopped_by, _PLAN_ANEW):
            raise outcome.stopped_by
        drains = self.refusals.drains(self.view.snapshot)
        drained = apply(drains, self.view, api)
        api.done += drained.done
        self._learn(drained, api)
        return self._report(decision, outcome, drained)

    def _refresh(self, api: API, now: float) -> None:
        if self.view.certain and now < self.verify_at:
            return
        if self.view.certain:
            self.refusals.forget()
        self.view = refresh(self.view, self.uuid, api, everything=self._is_audit(now))
        # Spread, so that hosts that were started together do not verify together for ever.
        self.verify_at = now + _spread(self.rules.verify_every, 0.1)

    def _is_audit(self, now: float) -> bool:
        if self.audit_at is None:
            self.audit_at = now + _spread(self.rules.audit_every, 0.5)
        if now < self.audit_at:
            return False
        self.audit_at = now + _spread(self.rules.audit_every, 0.1)
        return True

    def _decide(self, api: API, disabled: bool | None) -> Decision:
        decider = Decider(self.uuid, self.node, self.drivers, self.rules)
        may_reshape = self.rules.reshape_when_running or not self.started
        read = (lambda: allocations(self.view, api)) if may_reshape else None
        return decider.decide(self.view, disabled, read)

    def _learn(self, outcome: Outcome, api: API) -> None:
        self.view = outcome.view
        if outcome.bulk_refused:
            LOG.warning("Placement does not let us use its reshaper: no more bulk writes")
            self.bulk.chunk = 0
        self.refusals.remember(outcome.refused, explained(outcome, self.uuid, api))
        made = outcome.stopped_at
        if isinstance(outcome.stopped_by, AlreadyThere) and isinstance(made, CreateProvider):
            self._look_at(made, api)

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
        return Report(
            self.node,
            plan=decision.plan,
            problems=decision.plan.problems,
            driver_errors=decision.wish.errors,
            failed={**outcome.failed, **self.refusals.errors()},
            degraded=_degraded(self.drivers),
            reshape_pending=decision.wish.reshape_pending,
            error=outcome.stopped_by or drained.stopped_by,
        )


class _Counting:
    """An API that counts its calls, and what was done with it, for one period."""

    def __init__(self, api: API) -> None:
        self._api = api
        self.calls = 0
        self.done: list[Operation] = []

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        self.calls += 1
        return self._api.request(method, path, json=json, needs=needs)


_PLAN_ANEW = (AlreadyThere, Conflict, NotFound, UnknownNames, ServerFault)


def _plan_anew(state: RetryCallState) -> bool:
    return state.outcome is not None and isinstance(state.outcome.exception(), _PLAN_ANEW)


def _tried_enough(state: RetryCallState) -> bool:
    """A 500 may be a race that Placement lost: worth one more try, not five."""
    fault = state.outcome is not None and isinstance(state.outcome.exception(), ServerFault)
    return state.attempt_number >= (2 if fault else ATTEMPTS)


def _held(err: Exception | None, now: float) -> tuple[float, PlacementError] | None:
    """What Retry-After asks for; spread, so that not all who were told come back at once."""
    if not isinstance(err, Unreachable) or not err.retry_after:
        return None
    return now + err.retry_after * random.uniform(1, 1.5), err


def _spread(every: float | None, part: float) -> float:
    """Seconds until the next time, up to ``part`` earlier or later; for ever for ``None``."""
    return float("inf") if every is None else every * random.uniform(1 - part, 1 + part)


def _degraded(drivers: Sequence[LoadedDriver]) -> dict[str, str]:
    found: dict[str, str] = {}
    for loaded in drivers:
        if loaded.unwell is not None:
            found.update(loaded.unwell.degraded())
    return found
