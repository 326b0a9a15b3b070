"""One period of one root: read, call the drivers, decide, write, save the acknowledged view."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from agent.attach.foreign_roots import root_awaited
from agent.attach.leaving import children_outside, delete_orphans, refused_as_too_old
from agent.ownership.ledger import Holding, Ledger, everything_on, joined, manager_text
from agent.ownership.removed import with_restored
from agent.ownership.result_cache import ResultCache
from agent.period.competing import CompetingOwners
from agent.period.decide import Decider, Decision
from agent.period.rules import Rules
from agent.period.traits import DISABLED
from agent.provider_config.files import ProviderFiles
from agent.reporting.reports import Occasion, Report
from agent.state.saved_root import SavedRoot
from drivers.errors import ReshapeFailed
from drivers.loader import LoadedDriver
from reportclient.allocations import LazyAllocations
from reportclient.apply import Outcome, never
from reportclient.calls import Counting
from reportclient.diff import diff
from reportclient.errors import Unreachable
from reportclient.http import API
from reportclient.plan import Plan, UpdateProvider
from reportclient.refusals import RESHAPE
from reportclient.root import Root
from reportclient.schedule import VERIFY_EVERY
from reportclient.snapshot import Snapshot
from reportclient.view import View

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Tracker:
    """Reports one root.  Nothing else in this process writes to its tree."""

    root: Root
    node: str
    drivers: Sequence[LoadedDriver]
    rules: Rules
    provider_files: ProviderFiles = field(default_factory=ProviderFiles)
    saved: SavedRoot | None = None
    ledger: Ledger = field(default_factory=Ledger)
    service_tag: str = ""
    """The service tag; empty for a service with one node."""
    competing: CompetingOwners = field(default_factory=CompetingOwners)
    activity: str = ""
    """What the tracker is doing now, for messages; empty between two periods."""
    started: bool = False
    """Whether the start is over: every driver has answered once, and no reshape is pending."""
    new_state: bool = True
    """Whether the state directory had no file of the agent when this process started."""
    outside_since: dict[str, float] = field(default_factory=dict)
    """When removed children were first seen outside another service's tree, by UUID (seconds)."""
    cache: ResultCache = field(default_factory=ResultCache)
    """Results of the period before."""

    @property
    def uuid(self) -> str:
        """The root provider's UUID."""
        return self.root.uuid

    @property
    def view(self) -> View:
        """The acknowledged view of the root's tree."""
        return self.root.view

    @view.setter
    def view(self, view: View) -> None:
        self.root.view = view

    def period(
        self, now: float, *, disabled: bool | None = None, stop: Callable[[], bool] = never
    ) -> Report:
        """Read, call the drivers and write what differs.  Never raises: the report has the error.

        ``now`` is monotonic time in seconds, ``disabled`` the service status, ``None`` if unknown.
        """
        if self.root.unreachable is not None and self.root.schedule.is_resting(now):
            return Report(self.node, error=self.root.unreachable)
        report = self.attempt(now, lambda api: self._once(api, now, disabled, stop))
        self.started = self.started or (report.error is None and not _left_from_start(report))
        return report

    def switch(self, now: float, *, disabled: bool, again: bool = False) -> Report:
        """Set or remove COMPUTE_STATUS_DISABLED on the root, and change nothing else.

        It takes one call: a write, or a read if the trait seems right already.  No driver is
        called.  A root that does not exist yet gets the trait in its first period.  With ``again``,
        a retry that no caller waits for, an unreachable Placement is left to the next periods.
        """
        schedule, unreachable = self.root.schedule, self.root.unreachable
        if again and unreachable is not None and schedule.may_wait_for_period(now, self.root.times):
            return Report(self.node, error=unreachable, occasion=Occasion.SWITCH)
        once = lambda api: self._switch_once(api, now, disabled)  # noqa: E731
        report = self.attempt(now, once, urgent=True)
        return replace(report, occasion=Occasion.SWITCH)

    def attempt(
        self, now: float, once: Callable[[Counting], Report], *, urgent: bool = False
    ) -> Report:
        """Call ``once``, and again after a conflict.  Never raises: the report has the error."""
        result, api = self.root.attempt(now, once, urgent=urgent)
        self.activity = ""
        report = Report(self.node, error=result) if isinstance(result, Exception) else result
        self.competing.note_written(api.done)
        self.save_ledger()
        return replace(report, calls=api.calls, done=tuple(api.done), tries=api.tries)

    def forecast(self, now: float, *, disabled: bool | None = None) -> Decision:
        """Return what the next period would decide; nothing is written.

        :raises RootAwaited: another service has not created the root.
        """
        self._refresh(self.root.api, now)
        if self.rules.attached and self.uuid not in self.view.snapshot:
            raise root_awaited(self.node)
        return self._decide(self.root.api, now, disabled)

    def _once(
        self, api: Counting, now: float, disabled: bool | None, stop: Callable[[], bool]
    ) -> Report:
        self._refresh(api, now)
        if self.rules.attached and self.uuid not in self.view.snapshot:
            self.ledger = Ledger()
            return self._without_root(api)
        before, ledger = self.view.snapshot, self.ledger
        decision = self._decide(api, now, disabled)
        if not self.save_ledger() and self.ledger != ledger:
            self.ledger = ledger  # claim nothing in Placement that is not on disk
            decision = self._decide(api, now, disabled, repeats_only=True)
        self.activity = f"writing to Placement (operations: {len(decision.plan.operations)})"

        def judged(outcome: Outcome) -> Outcome:
            if self.rules.attached:
                self.ledger = self.ledger.seen_on(outcome.view.snapshot.get(self.uuid))
            return self._stay_inside(outcome)

        outcome = self.root.write(
            decision.plan, api, stop=stop, judged=judged, foreign=self.ledger.foreign_classes
        )
        self._log_foreign(decision, before, ledger, now)
        return self._report(decision, outcome)

    def _log_foreign(
        self, decision: Decision, before: Snapshot, ledger: Ledger, now: float
    ) -> None:
        """Log overwritten values of other services, and denied names that were removed."""
        after, gap = self.view.snapshot, self.rules.verify_every or VERIFY_EVERY
        for text in self.competing.overwritten(before, after, ledger):
            LOG.warning(
                "Node %s: overwrote values that another service had set: %s", self.node, text
            )
        for (uuid, name), manager in self.competing.note_denied(decision.denials, after, now, gap):
            LOG.info(
                "Node %s: removed %s from provider %s: %s reports it absent",
                self.node,
                name,
                before.providers[uuid].name,
                manager_text(manager),
            )
        self._name_unclaimed(decision, ledger)

    def _name_unclaimed(self, decision: Decision, before: Ledger) -> None:
        """Log once, after a ledger was lost, what stays although no manager claims it."""
        answer = decision.answer
        if before.begun or decision.takes_over or answer.errors or answer.statements.silent:
            return
        for uuid in self.ledger.holders:
            provider = self.view.snapshot.get(uuid)
            if provider is None or not self.ledger.is_ours(uuid):
                continue
            left = everything_on(provider).joined(Holding(aggregates=provider.aggregates))
            left = left.without(joined(self.ledger.holdings_on(uuid).values()))
            names = sorted({*left.classes, *left.traits, *left.aggregates})
            if names:
                LOG.warning(
                    "Node %s: provider %s (%s): not removed: %s: no driver or provider file "
                    "reports them, and their owner is unknown since the ledger was lost",
                    self.node,
                    provider.name,
                    uuid,
                    ", ".join(names),
                )

    def _switch_once(self, api: Counting, now: float, disabled: bool) -> Report:
        if self.rules.attached:
            return Report(self.node)
        read = not self.view.certain
        if read:
            self._refresh(api, now)
        plan = self._switched(disabled=disabled)
        if not read and not plan.operations:
            self.root.read(api)
            plan = self._switched(disabled=disabled)
        outcome = self.root.send(plan, api)
        self.root.remember_refusals(outcome, api)
        return Report(
            self.node,
            plan=plan,
            problems=plan.problems,
            failed=outcome.failed,
            error=outcome.stopped_by,
        )

    def _switched(self, *, disabled: bool) -> Plan:
        """Return the plan that sets or removes the trait; empty if there is no root."""
        if self.uuid not in self.view.snapshot:
            return Plan()
        tree = self.view.edit()
        (tree.add_traits if disabled else tree.remove_traits)(self.uuid, DISABLED)
        return diff(self.view.snapshot, tree.freeze(), names=self.view.names)

    def _refresh(self, api: API, now: float) -> None:
        self.activity = "reading Placement"
        before = self.view.snapshot
        if self._was_read(api, now) and not self.rules.attached:
            root = self.view.snapshot.get(self.uuid)
            self.competing.check_root_owner(
                before.get(self.uuid), root, self.node, self.service_tag
            )
            self.competing.count_undone_writes(before, self.view.snapshot)
        self.competing.note_records(before, self.view.snapshot)

    def _was_read(self, api: API, now: float) -> bool:
        """Read Placement if it is time; return whether it was read.

        If it is unreachable and the view is certain, the period goes on with the view.
        """
        try:
            return self.root.refresh(api, now, self.ledger.holders.keys())
        except Unreachable as err:
            if not self.view.certain:
                raise
            self.root.unreachable = err
            return False

    def forget(self) -> None:
        """Delete the saved state of this root."""
        self.root.forget_saved_view()

    def free_name(self) -> None:
        """Rename the root to its UUID, so that another root can get its name."""
        plan = Plan((UpdateProvider(self.uuid, self.uuid, None),))
        self.root.send(plan, Counting(self.root.api))

    def save_ledger(self) -> bool:
        """Save the ledger unless it is saved already; return whether it is on disk."""
        return self.saved is None or self.saved.save_ledger(self.ledger)

    def is_alone(self) -> bool:
        """Return whether the root has no children and no aggregates, but the service tag."""
        root = self.view.snapshot.get(self.uuid)
        alone = root is not None and len(self.view.snapshot) == 1 and not root.aggregates
        return alone and self._root_has(self.service_tag)

    def _root_has(self, trait: str) -> bool:
        root = self.view.snapshot.get(self.uuid)
        return root is not None and trait in root.traits

    def _decide(
        self, api: API, now: float, disabled: bool | None, *, repeats_only: bool = False
    ) -> Decision:
        decider = Decider(
            self.uuid,
            self.node,
            self.drivers,
            self.rules,
            with_restored(self.ledger, self.view, self.uuid),
            self.service_tag,
            self.new_state,
            repeats_only,
            self.competing.deferred_removals(now),
            self.provider_files.entries,
            self._outside_for(now),
            self.cache,
        )
        may_reshape = self.rules.reshape_when_running or not self.started
        may_reshape = may_reshape and self.root.refusals.reshape() is None and not repeats_only
        read = (lambda: dict(LazyAllocations(self.view, api))) if may_reshape else None
        self.activity = "calling the drivers"
        decision = decider.decide(self.view, disabled, read)
        self.provider_files.record_met(self.uuid, decision.files.met)
        answer, self.ledger = decision.answer, decision.ledger
        for name in answer.reshape_pending:
            self.root.refusals.failed_reshape = answer.errors.get(
                name, self.root.refusals.failed_reshape
            )
        return decision

    def _outside_for(self, now: float) -> dict[str, float]:
        uuids = [provider.uuid for provider in children_outside(self.view.snapshot, self.uuid)]
        self.outside_since = {uuid: self.outside_since.get(uuid, now) for uuid in uuids}
        return {uuid: now - since for uuid, since in self.outside_since.items()}

    def _without_root(self, api: Counting) -> Report:
        """Report that another service has not created the root, or has deleted it."""
        if self.rules.child_wait is not None:
            self.root.send(delete_orphans(self.view.snapshot, self.uuid), api)
        return Report(self.node, error=root_awaited(self.node))

    def _stay_inside(self, outcome: Outcome) -> Outcome:
        """Drop the errors of children that can't be taken out of the tree: they stay, empty."""
        inside = refused_as_too_old(outcome.refused, outcome.failed)
        if not inside:
            return outcome
        LOG.info(
            "Placement is older than microversion 1.37: removed children stay below the root, empty"
        )
        self.rules = replace(self.rules, remove_child_after=None)
        return replace(
            outcome,
            failed={key: err for key, err in outcome.failed.items() if key not in inside},
            refused={
                key: operation for key, operation in outcome.refused.items() if key not in inside
            },
        )

    def _unwritable(self) -> dict[str, str]:
        problem = "" if self.saved is None else self.saved.store.problem
        if not problem:
            return {}
        return {
            "state_path": f"{problem}; nothing new is reported in Placement until it can be written"
        }

    def _report(self, decision: Decision, outcome: Outcome) -> Report:
        answer = decision.answer
        broken = [answer.errors[name] for name in answer.reshape_pending if name in answer.errors]
        failed = [] if self.started else [err for err in broken if isinstance(err, ReshapeFailed)]
        fatal = next(iter(failed), None)
        return Report(
            self.node,
            plan=decision.plan,
            problems=decision.plan.problems,
            driver_errors=answer.errors,
            failed=self.root.refusals.causes(outcome.failed),
            draining=self.root.refusals.draining(),
            degraded={
                part: why for driver in self.drivers for part, why in driver.degraded().items()
            }
            | self.competing.degraded(self.uuid, self.node)
            | self._unwritable(),
            took={name: time for driver in self.drivers for name, time in driver.took().items()},
            reshape_pending=answer.reshape_pending,
            reshape_error=self.root.refusals.reshape(),
            error=fatal or outcome.stopped_by or self.root.unreachable,
            fatal=fatal is not None,
        )


def _left_from_start(report: Report) -> bool:
    return bool(report.driver_errors or report.reshape_pending or RESHAPE in report.failed)
