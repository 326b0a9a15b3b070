"""A period of one root: read, ask the drivers, decide, apply, save the acknowledged view."""

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
    """Owns one root: nobody else writes to it from this process."""

    root: Root
    node: str
    drivers: Sequence[LoadedDriver]
    rules: Rules
    provider_files: ProviderFiles = field(default_factory=ProviderFiles)
    saved: SavedRoot | None = None
    ledger: Ledger = field(default_factory=Ledger)
    service_tag: str = ""
    """The trait that the root carries where the service has many nodes."""
    competing: CompetingOwners = field(default_factory=CompetingOwners)
    activity: str = ""
    """For whoever asks why it takes so long; empty between two periods."""
    started: bool = False
    """Whether every driver has answered once, and no reshape is left from the start."""
    new_state: bool = True
    """Whether the state directory had no file of the agent's when this process started."""
    outside_since: dict[str, float] = field(default_factory=dict)
    """When children that leave another service's root were first seen outside its tree."""
    cache: ResultCache = field(default_factory=ResultCache)
    """What was settled in the period before."""

    @property
    def uuid(self) -> str:
        """The root's."""
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
        """Make Placement say what the drivers say.  Never raises: the report tells.

        ``now`` in seconds of a monotonic clock; ``disabled`` is the status of the
        service, ``None`` if it is not known.
        """
        if self.root.unreachable is not None and self.root.schedule.is_resting(now):
            return Report(self.node, error=self.root.unreachable)
        report = self.attempt(now, lambda api: self._once(api, now, disabled, stop))
        self.started = self.started or (report.error is None and not _left_from_start(report))
        return report

    def switch(self, now: float, *, disabled: bool, again: bool = False) -> Report:
        """Make the root's COMPUTE_STATUS_DISABLED right, now, and touch nothing else.

        One call: a write, or where it seems to be right already a read, since somebody may
        have written meanwhile.  No driver is asked.  A root that is not there yet gets its
        trait from its first period.  ``again``: nobody asks for it; a Placement that is away
        is left to the periods.
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
        """Do it, again after a conflict; what came of it.  Never raises: the report tells."""
        result, api = self.root.attempt(now, once, urgent=urgent)
        self.activity = ""
        report = Report(self.node, error=result) if isinstance(result, Exception) else result
        self.competing.note_written(api.done)
        self.save_ledger()
        return replace(report, calls=api.calls, done=tuple(api.done), tries=api.tries)

    def forecast(self, now: float, *, disabled: bool | None = None) -> Decision:
        """Return what the next period would decide; nothing is written.

        :raises RootAwaited: the root is another service's, and not there.
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
            self.ledger = ledger  # nothing is claimed in Placement that is not on disk
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
        """Log what was written over what other services had set."""
        after, gap = self.view.snapshot, self.rules.verify_every or VERIFY_EVERY
        for text in self.competing.overwritten(before, after, ledger):
            LOG.warning("Node %s: overwrote what another service had set: %s", self.node, text)
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
        """After a ledger was lost, log once what stays since no manager claims it any more."""
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
                    "Node %s: provider %s (%s) keeps %s: no driver or provider file reports them, "
                    "and the ledger that could tell whose they are is missing",
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
        """Whether Placement was read.  One that is away is asked later for what is known of it:
        nothing is wrong as long as nothing is to be written.
        """
        try:
            return self.root.refresh(api, now, self.ledger.holders.keys())
        except Unreachable as err:
            if not self.view.certain:
                raise
            self.root.unreachable = err
            return False

    def forget(self) -> None:
        """Keep nothing of this root any more."""
        self.root.forget_saved_view()

    def free_name(self) -> None:
        """Free the root's name, which another root is to get; it has its own one soon."""
        plan = Plan((UpdateProvider(self.uuid, self.uuid, None),))
        self.root.send(plan, Counting(self.root.api))

    def save_ledger(self) -> bool:
        """Write the ledger to disk, if it is not there yet.  Return whether it is."""
        return self.saved is None or self.saved.save_ledger(self.ledger)

    def is_alone(self) -> bool:
        """Whether the root is all that there is, and carries the service tag."""
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
        self.activity = "asking the drivers"
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
        """Its owner has not made it, or has deleted it."""
        if self.rules.child_wait is not None:
            self.root.send(delete_orphans(self.view.snapshot, self.uuid), api)
        return Report(self.node, error=root_awaited(self.node))

    def _stay_inside(self, outcome: Outcome) -> Outcome:
        """A Placement that can't take children out of a tree keeps them there, empty."""
        inside = refused_as_too_old(outcome.refused, outcome.failed)
        if not inside:
            return outcome
        LOG.info("Placement is older than 1.37: children that go stay below their root, empty")
        self.rules = replace(self.rules, remove_child_after=None)
        return replace(
            outcome,
            failed={key: err for key, err in outcome.failed.items() if key not in inside},
            refused={key: one for key, one in outcome.refused.items() if key not in inside},
        )

    def _unwritable(self) -> dict[str, str]:
        problem = "" if self.saved is None else self.saved.store.problem
        if not problem:
            return {}
        return {
            "state_path": f"{problem}; nothing new is claimed in Placement until that is mended"
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
            degraded={part: why for one in self.drivers for part, why in one.degraded().items()}
            | self.competing.degraded(self.uuid, self.node)
            | self._unwritable(),
            took={name: time for one in self.drivers for name, time in one.took().items()},
            reshape_pending=answer.reshape_pending,
            reshape_error=self.root.refusals.reshape(),
            error=fatal or outcome.stopped_by or self.root.unreachable,
            fatal=fatal is not None,
        )


def _left_from_start(report: Report) -> bool:
    return bool(report.driver_errors or report.reshape_pending or RESHAPE in report.failed)
