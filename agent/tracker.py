"""One period of one root: read, ask the drivers, decide, apply, keep what was acknowledged."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from agent.ask import Wish, ask_drivers
from agent.report import Report
from agent.traits import AgentTraits, add_agent_traits, agent_traits
from drivers.loader import LoadedDriver
from reportclient.apply import apply
from reportclient.diff import diff
from reportclient.errors import Conflict, NameTaken, NotFound, PlacementError, UnknownNames
from reportclient.http import API
from reportclient.plan import CreateProvider, Plan
from reportclient.provider_tree import ProviderTree
from reportclient.reader import allocations, provider_named, refresh
from reportclient.snapshot import Snapshot
from reportclient.view import View

LOG = logging.getLogger(__name__)

ATTEMPTS = 5
"""How often one period plans anew after somebody else wrote in between."""

_PLAN_ANEW = (Conflict, NotFound, UnknownNames)


class WrongIdentity(PlacementError):
    """Placement has this host's name under another UUID.  Next: the operator."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How the operator wants it; ``verify_every`` in seconds, ``None`` for never."""

    owner_trait: str
    verify_every: float | None = 300.0
    reshape_when_running: bool = False


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
    view: View = field(default_factory=View)
    verify_at: float = 0.0
    started: bool = False

    def period(
        self, now: float, *, disabled: bool | None = None, stop: Callable[[], bool] | None = None
    ) -> Report:
        """Make Placement say what the drivers say.  Never raises: the report tells.

        ``now`` in seconds of a monotonic clock; ``disabled`` is the status of the
        service, ``None`` if it is not known.
        """
        counted = _Counting(self.api)
        try:
            report = self._until_settled(counted, now, disabled, stop)
        except PlacementError as err:
            report = Report(self.node, error=err)
        except Exception as err:
            LOG.exception("Node %s: the period failed", self.node)
            self.view = self.view.doubted()
            report = Report(self.node, error=err)
        self.started = self.started or report.error is None
        return replace(report, calls=counted.calls)

    def look(self, now: float, disabled: bool | None = None) -> Decision:
        """What the next period would do, without doing it."""
        self._refresh(self.api, now)
        return self._decide(self.api, disabled)

    def _until_settled(
        self,
        api: API,
        now: float,
        disabled: bool | None,
        stop: Callable[[], bool] | None,
    ) -> Report:
        retrying = Retrying(
            retry=retry_if_exception_type(_PLAN_ANEW),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.05, max=5),
            reraise=True,
        )
        return retrying(self._once, api, now, disabled, stop)

    def _once(
        self, api: API, now: float, disabled: bool | None, stop: Callable[[], bool] | None
    ) -> Report:
        self._refresh(api, now)
        decision = self._decide(api, disabled)
        outcome = apply(decision.plan, self.view, api, stop=stop)
        self.view = outcome.view
        if isinstance(outcome.stopped_by, _PLAN_ANEW):
            raise outcome.stopped_by
        self._explain_name(decision.plan, outcome.failed.get(self.uuid), api)
        return Report(
            self.node,
            done=outcome.done,
            plan=decision.plan,
            problems=decision.plan.problems,
            driver_errors=decision.wish.errors,
            failed=outcome.failed,
            degraded=_degraded(self.drivers),
            reshape_pending=decision.wish.reshape_pending,
            error=outcome.stopped_by,
        )

    def _refresh(self, api: API, now: float) -> None:
        if self.view.certain and now < self.verify_at:
            return
        self.view = refresh(self.view, self.uuid, api)
        every = self.rules.verify_every
        # Spread, so that hosts that were started together do not verify together for ever.
        self.verify_at = float("inf") if every is None else now + every * random.uniform(0.9, 1.1)

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
            wish.allocations,
            known=self.view.known,
            strangers=self._strangers(),
        )
        return Decision(wish, plan)

    def _fresh_tree(self) -> ProviderTree:
        tree = self.view.edit()
        if not tree.exists(self.uuid):
            tree.new_root(self.node, self.uuid)
        tree.rename(self.uuid, self.node)
        return tree

    def _with_agent_traits(self, tree: ProviderTree, disabled: bool | None) -> Snapshot:
        add_agent_traits(tree, self.uuid, self.view.snapshot, self._traits(disabled))
        return tree.freeze()

    def _traits(self, disabled: bool | None) -> AgentTraits:
        capabilities = [loaded.driver.capabilities for loaded in self.drivers]
        return agent_traits(capabilities, disabled, self.rules.owner_trait)

    def _strangers(self) -> frozenset[str]:
        """Sharing providers that no agent of ours made."""
        providers = self.view.snapshot.providers
        owner = self.rules.owner_trait
        return frozenset(u for u in self.view.strangers if owner not in providers[u].traits)

    def _explain_name(self, plan: Plan, err: PlacementError | None, api: API) -> None:
        if isinstance(err, NameTaken) and any(
            isinstance(operation, CreateProvider) and operation.uuid == self.uuid
            for operation in plan
        ):
            other = provider_named(self.node, api)
            raise WrongIdentity(
                f"Placement has a provider named {self.node} with UUID "
                f"{other['uuid'] if other else 'unknown'}, but this host's compute_id is "
                f"{self.uuid}. If that provider is this host, write its UUID into compute_id; "
                "if it is another one, give one of the two another name. Nothing was changed."
            ) from err


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


def _degraded(drivers: Sequence[LoadedDriver]) -> dict[str, str]:
    found: dict[str, str] = {}
    for loaded in drivers:
        if loaded.unwell is not None:
            found.update(loaded.unwell.degraded())
    return found
