"""One period of one root: read, ask the drivers, decide, apply, keep what was acknowledged."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tenacity import RetryCallState, Retrying, wait_random_exponential

from agent.ask import Wish, ask_drivers
from agent.refusals import Refusals, naming
from agent.report import Report
from agent.traits import add_agent_traits, agent_traits
from agent.view_file import ViewFile
from drivers.errors import ReshapeFailed
from drivers.loader import LoadedDriver
from reportclient.apply import Conditions, Outcome, apply
from reportclient.diff import diff
from reportclient.errors import (
    Conflict,
    InUse,
    NameTaken,
    NotFound,
    PlacementError,
    ServerFault,
    UnknownNames,
)
from reportclient.http import API
from reportclient.plan import CreateProvider, Operation, Plan, UpdateProvider, bulked
from reportclient.provider_tree import ProviderTree
from reportclient.reader import allocations, consumers_of, provider_named, refresh
from reportclient.reshape import AllocationsBroken, moved_allocations
from reportclient.snapshot import Snapshot
from reportclient.view import View

LOG = logging.getLogger(__name__)

ATTEMPTS = 5
"""How often one period plans anew after somebody else wrote in between."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Rules:
    """How the operator wants it; times in seconds, ``None`` for never."""

    owner_trait: str
    verify_every: float | None = 300.0
    audit_every: float | None = 86400.0
    reshape_when_running: bool = False
    at_once: int = 1


@dataclass(slots=True)
class BulkWrites:
    """Whether inventories are written many at a time; one for the whole process."""

    chunk: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """What one look led to: the drivers' wish and the plan that would fulfil it."""

    wish: Wish
    plan: Plan


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

    def period(
        self, now: float, *, disabled: bool | None = None, stop: Callable[[], bool] = _never
    ) -> Report:
        """Make Placement say what the drivers say.  Never raises: the report tells.

        ``now`` in seconds of a monotonic clock; ``disabled`` is the status of the
        service, ``None`` if it is not known.
        """
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
            report = Report(self.node, error=err, fatal=self._is_fatal(err))
        except Exception as err:
            LOG.exception("Node %s: the period failed", self.node)
            self.view = self.view.doubted()
            report = Report(self.node, error=err)
        self.started = self.started or report.error is None
        if self.file is not None and self.view.generations:
            self.file.keep(self.view)
        return replace(report, calls=counted.calls)

    def look(self, now: float, *, disabled: bool | None = None) -> Decision:
        """What the next period would do, without doing it."""
        self._refresh(self.api, now)
        return self._decide(self.api, disabled)

    def _once(
        self, api: API, now: float, disabled: bool | None, stop: Callable[[], bool]
    ) -> Report:
        self._refresh(api, now)
        decision = self._decide(api, disabled)
        plan = bulked(self.refusals.spare(decision.plan), self.bulk.chunk)
        conditions = Conditions(stop, self.rules.at_once, self.refusals.blocking())
        outcome = apply(plan, self.view, api, conditions)
        self._learn(outcome, api)
        if isinstance(outcome.stopped_by, _PLAN_ANEW):
            raise outcome.stopped_by
        drained = apply(self.refusals.drains(self.view.snapshot), self.view, api)
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
        may_reshape = self.rules.reshape_when_running or not self.started
        read = (lambda: allocations(self.view, api)) if may_reshape else None
        wish = ask_drivers(self.drivers, self._fresh_tree, self.node, read)
        if len(wish.errors) == len(self.drivers) and self.uuid not in self.view.snapshot:
            return Decision(wish, Plan())  # nobody could say anything about a new host
        wished = self._with_agent_traits(wish.tree, disabled)
        plan = diff(
            self.view.snapshot,
            wished,
            self._moved(wish, wished),
            known=self.view.known,
            strangers=self._strangers(),
        )
        return Decision(wish, plan)

    def _moved(self, wish: Wish, wished: Snapshot) -> dict[str, dict[str, Any]] | None:
        if wish.allocations is None or wish.allocations_before is None:
            return None
        old, new = self.view.snapshot.providers, wished.providers
        affected = frozenset(
            uuid
            for uuid in wished.changed_since(self.view.snapshot)
            if _inventory(old, uuid) != _inventory(new, uuid)
        )
        try:
            return moved_allocations(wish.allocations_before, wish.allocations, affected)
        except AllocationsBroken as err:
            raise ReshapeFailed(f"node {self.node}: {err}") from err

    def _fresh_tree(self) -> ProviderTree:
        tree = self.view.edit()
        if not tree.exists(self.uuid):
            tree.new_root(self.node, self.uuid)
        tree.rename(self.uuid, self.node)
        return tree

    def _with_agent_traits(self, tree: ProviderTree, disabled: bool | None) -> Snapshot:
        capabilities = [loaded.driver.capabilities for loaded in self.drivers]
        traits = agent_traits(capabilities, disabled, self.rules.owner_trait)
        add_agent_traits(tree, self.uuid, self.view.snapshot, traits)
        return tree.freeze()

    def _strangers(self) -> frozenset[str]:
        """Sharing providers that no agent of ours made."""
        providers = self.view.snapshot.providers
        owner = self.rules.owner_trait
        return frozenset(u for u in self.view.strangers if owner not in providers[u].traits)

    def _learn(self, outcome: Outcome, api: API) -> None:
        self.view = outcome.view
        if outcome.bulk_refused:
            LOG.warning("Placement does not let us use its reshaper: no more bulk writes")
            self.bulk.chunk = 0
        self.refusals.remember(outcome.refused, self._explained(outcome, api))

    def _explained(self, outcome: Outcome, api: API) -> dict[str, PlacementError]:
        """The errors with what it takes to understand them, asked of Placement once."""
        explained = dict(outcome.failed)
        for subject, err in outcome.failed.items():
            if isinstance(err, InUse) and subject in self.view.snapshot:
                explained[subject] = naming(err, consumers_of(subject, api))
            elif isinstance(err, NameTaken) and subject in outcome.refused:
                explained[subject] = self._name_taken(outcome.refused[subject], api) or err
        return explained

    def _name_taken(self, operation: Operation, api: API) -> NameTaken | None:
        if not isinstance(operation, (CreateProvider, UpdateProvider)):
            return None
        other = provider_named(operation.name, api)
        if other is None:
            return None
        return NameTaken(
            f"Placement has a provider named {operation.name} with UUID {other['uuid']} already "
            f"(root {other['root_provider_uuid']}), here it has UUID {operation.uuid}. "
            f"{self._ways_out(operation)} Until then it is not reported, and nothing is deleted."
        )

    def _ways_out(self, operation: CreateProvider | UpdateProvider) -> str:
        if operation.uuid == self.uuid:
            return (
                f"If that one is this host: computectl adopt {operation.name}. If it is another "
                "host: rename one of the two. If it is a leftover: delete it in Placement."
            )
        return (
            "If that one is a leftover: delete it in Placement. If it is in use: rename one of "
            "the two, or stop the agent that reports it."
        )

    def _report(self, decision: Decision, outcome: Outcome, drained: Outcome) -> Report:
        return Report(
            self.node,
            done=(*outcome.done, *drained.done),
            plan=decision.plan,
            problems=decision.plan.problems,
            driver_errors=decision.wish.errors,
            failed={**outcome.failed, **self.refusals.errors()},
            degraded=_degraded(self.drivers),
            reshape_pending=decision.wish.reshape_pending,
            error=outcome.stopped_by or drained.stopped_by,
        )

    def _is_fatal(self, err: Exception) -> bool:
        return isinstance(err, ReshapeFailed) and not self.started


class _Counting:
    """An API that counts its calls, for one period."""

    def __init__(self, api: API) -> None:
        self._api = api
        self.calls = 0

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        self.calls += 1
        return self._api.request(method, path, json=json, needs=needs)


_PLAN_ANEW = (Conflict, NotFound, UnknownNames, ServerFault)


def _plan_anew(state: RetryCallState) -> bool:
    return state.outcome is not None and isinstance(state.outcome.exception(), _PLAN_ANEW)


def _tried_enough(state: RetryCallState) -> bool:
    """A 500 may be a race that Placement lost: worth one more try, not five."""
    fault = state.outcome is not None and isinstance(state.outcome.exception(), ServerFault)
    return state.attempt_number >= (2 if fault else ATTEMPTS)


def _spread(every: float | None, part: float) -> float:
    """Seconds until the next time, up to ``part`` earlier or later; for ever for ``None``."""
    return float("inf") if every is None else every * random.uniform(1 - part, 1 + part)


def _inventory(providers: Any, uuid: str) -> Any:
    return providers[uuid].inventory if uuid in providers else {}


def _degraded(drivers: Sequence[LoadedDriver]) -> dict[str, str]:
    found: dict[str, str] = {}
    for loaded in drivers:
        if loaded.unwell is not None:
            found.update(loaded.unwell.degraded())
    return found
