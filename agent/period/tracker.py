"""The tracker of one root: in a period it reads, calls the drivers, decides, writes and saves."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, starmap
from typing import Any

from agent.ownership.ledger import AGENT, FILES, STATUS, Ledger
from agent.ownership.placing import freeing_names
from agent.ownership.policy import DISABLED, ContestedNames, Policy, with_unrecorded_claims
from agent.ownership.settle import Denial, Settled, settle
from agent.ownership.statement import Statements, with_moved_classes
from agent.period import attach
from agent.period.ask import DriverAnswers, DriverQueries, LastResults
from agent.period.rules import Rules
from agent.period.traits import (
    CAPABILITY_TRAITS,
    COMPUTE_NODE,
    agent_statements,
    identifying_traits,
    other_reporters,
    tags_of_others,
)
from agent.provider_config.asserted import asserted
from agent.provider_config.files import ProviderFiles
from agent.reporting.changes import undone
from agent.reporting.condition import (
    PART,
    Condition,
    of_disk,
    of_drain,
    of_driver,
    of_part,
    of_problem,
    of_write,
)
from agent.reporting.reports import Occasion, Report
from agent.state.saved_root import SavedRoot
from drivers.errors import ReshapeFailed
from drivers.loader import LoadedDriver
from reportclient.allocations import LazyAllocations
from reportclient.apply import Outcome, never
from reportclient.calls import Counting
from reportclient.diff import diff
from reportclient.errors import PlacementError, Unreachable, WrongForm
from reportclient.http import API
from reportclient.model import Allocations, Provider
from reportclient.plain_text import error_text, first_few
from reportclient.plan import DeleteProvider, Operation, Plan, Problem
from reportclient.provider_tree import ProviderTree
from reportclient.reader import allocations_on
from reportclient.refusals import RESHAPE
from reportclient.reshape import AllocationsBroken, used_providers
from reportclient.root import Root
from reportclient.schedule import VERIFY_EVERY
from reportclient.snapshot import Snapshot
from reportclient.view import View

LOG = logging.getLogger("compute_agent.placement")

OF_GUESTS = frozenset({"VCPU", "PCPU", "MEMORY_MB"})
"""Classes of which every guest holds one."""


class Unexpected(Exception):
    """A period ended with an exception that nothing provides for, such as a fault of the agent."""

    next_step = (
        "the next period reads this root again. If the error stays, report it with the traceback "
        "of the log to the author of compute-agent"
    )

    def __init__(self, err: BaseException) -> None:
        kind, text = type(err).__name__, error_text(err)
        text = text if text.startswith(kind) else f"{kind}: {text}"
        super().__init__(f"unexpected error: {text}")


@dataclass(frozen=True, slots=True)
class Decision:
    """The plan of one period and its answers; ``denials`` are those of the settlement."""

    answer: DriverAnswers
    plan: Plan
    denials: Mapping[Denial, str] = field(default_factory=dict)


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
    contested: ContestedNames = field(default_factory=ContestedNames)
    shared_with: tuple[Condition, ...] = ()
    """Conditions that another service reports the root too."""
    logged_failure: str = ""
    """The text of the unexpected error of the last period, whose traceback was logged."""
    started: frozenset[str] = frozenset()
    """The drivers whose start is over: they have answered, and have no reshape pending."""
    new_state: bool = True
    """Whether the state directory had no file of the agent when this process started."""
    leaving: attach.LeavingChildren = field(default_factory=attach.LeavingChildren)
    """The removed children of another service's root (attach mode)."""
    last: LastResults = field(default_factory=LastResults)
    reads: deque[tuple[Snapshot, Snapshot]] = field(default_factory=lambda: deque(maxlen=8))
    """What Placement was left with and what was read then, since the last period that wrote all."""
    freed: tuple[Operation, ...] = ()
    """What :meth:`free_name` wrote, for the report of the period that follows."""
    released: bool = False
    """Whether nothing is asserted, so that all that was reported is removed."""
    keeps: bool = True
    """Whether what others have put on a provider keeps it (``Policy.keeps``)."""
    unallocated: str = ""
    """Guests that have no allocation since Placement was restored or emptied."""
    missed: frozenset[str] = frozenset()
    """Providers that nothing here reported in the period before."""

    @property
    def uuid(self) -> str:
        """The root provider's UUID."""
        return self.root.uuid

    @property
    def view(self) -> View:
        """The acknowledged view of the root's tree."""
        return self.root.view

    def period(
        self, now: float, *, disabled: bool | None = None, stop: Callable[[], bool] = never
    ) -> Report:
        """Read, call the drivers and write what differs.  Never raises: the report has the error.

        ``now`` is monotonic time in seconds, ``disabled`` the service status, ``None`` if unknown.
        """
        report = self.attempt(now, lambda api: self.once(api, disabled, stop))
        if report.error is None:
            self.reads.clear()
        freed, self.freed = self.freed, ()
        return replace(report, done=(*freed, *report.done)) if freed else report

    def switch(self, now: float, *, disabled: bool, again: bool = False) -> Report:
        """Set or remove COMPUTE_STATUS_DISABLED on the root, and change nothing else.

        With a certain view it takes one call: a write, or a read if the trait seems right already.
        An uncertain view is read first; in attach mode nothing is sent.  No driver is called.  A
        root that does not exist yet gets the trait in its first period.  With ``again``,
        a retry that no caller waits for, an unreachable Placement is left to the next periods.
        """
        schedule = self.root.schedule
        unreachable = schedule.unreachable
        if again and unreachable is not None and schedule.may_wait_for_period(now, self.root.times):
            return Report(self.node, occasion=Occasion.SWITCH).with_error(unreachable)
        report = self.attempt(now, lambda api: self._switch_once(api, now, disabled), urgent=True)
        return replace(report, occasion=Occasion.SWITCH)

    def free_name(self, now: float) -> Report:
        """Rename the root and its children by its UUID: another node needs their names."""
        plan = freeing_names(self.view.snapshot, self.uuid, self.ledger)
        report = self.attempt(now, lambda api: self._ended(self.root.send(plan, api).stopped_by))
        self.freed = report.done
        return report

    def attempt(
        self, now: float, once: Callable[[Counting], Report], *, urgent: bool = False
    ) -> Report:
        """Call ``once``, and again after a conflict.  Never raises: the report has the error."""
        self.missed = self.ledger.leaving  # in each try
        result, api = self.root.attempt(now, once, urgent=urgent)
        if isinstance(result, PlacementError):
            report = self._ended(result)
        elif isinstance(result, Exception):
            report = self.failed(result)
        else:
            report, self.logged_failure = result, ""
        self.save_ledger()
        after, done = self.view.snapshot, tuple(api.done)
        texts = chain.from_iterable(undone(*pair, after) for pair in self.reads if done)
        conditions = (*report.conditions, *self._disk())
        report = replace(report, undone=tuple(dict.fromkeys(texts)), done=done)
        return replace(report, calls=api.calls, tries=api.tries, conditions=conditions)

    def _ended(self, err: Exception | None, **fields: Any) -> Report:
        """Return a report with these fields, and with the error that ended the period, if any."""
        report = Report(self.node, **fields)
        return report if err is None else report.with_error(err)

    def _disk(self) -> Iterator[Condition]:
        if self.saved is not None and (problem := self.saved.problem):
            step = "nothing new is reported in Placement until it can be used"
            yield of_disk(problem, "state_path", step)

    def failed(self, err: BaseException) -> Report:
        """Return the report of an exception that nothing provides for; the root is read again.

        The traceback is logged once as an error, and in further periods for debugging.
        """
        self.root.view = self.view.stale()
        level = logging.DEBUG if error_text(err) == self.logged_failure else logging.ERROR
        LOG.log(level, "Root %s: unexpected error", self.uuid, exc_info=err)
        self.logged_failure = error_text(err)
        return self._ended(Unexpected(err))

    def forecast(self, now: float, *, disabled: bool | None = None) -> Decision:
        """Return what the next period would decide; nothing is written.

        :raises RootAwaited: another service has not created the root.
        """
        self._refresh(self.root.api, now)
        ledger, self.missed = self.ledger, self.ledger.leaving
        if self.rules.attached and self.uuid not in self.view.snapshot:
            raise attach.root_awaited(self.node)
        decision = self._decide(self.root.api, now, disabled)
        self.ledger = ledger
        return decision

    def once(
        self, api: Counting, disabled: bool | None = None, stop: Callable[[], bool] = never
    ) -> Report:
        """Return the report of one try of a period: see :meth:`period`."""
        attached = self.rules.attached
        api.needs = attach.NEEDS if attached else None
        self._refresh(api, api.now)
        was_read = api.calls > 0
        before, ledger = self.view.snapshot, self.ledger
        if attached and self.uuid not in before:  # its owner has not created it, or has deleted it
            self.ledger = Ledger(begun=True)  # saved, unlike one that was lost
            if self.rules.child_wait is not None:
                self.root.send(attach.delete_orphans(before), api)
            return self._ended(attach.root_awaited(self.node))
        decide = partial(self._decide, api, api.now, disabled)
        decision = decide()
        if not self.save_ledger() and self.ledger != ledger:
            self.ledger = ledger  # claim nothing in Placement that is not on disk
            decision = decide(repeats_only=True)
        try:
            foreign = self.ledger.foreign_classes
            outcome = self.root.write(decision.plan, api, stop=stop, foreign=foreign)
        finally:  # also after a conflict, or if the details of an error could not be read
            if attached:
                self.ledger = self.ledger.seen_on(self.view.snapshot.get(self.uuid))
        gap, denials = self.rules.verify_every or VERIFY_EVERY, decision.denials
        for uuid, name in self.contested.note_denied(denials, self.view.snapshot, api.now, gap):
            text, provider = "Node %s: removed %s from provider %s: %s", before.providers[uuid]
            LOG.info(text, self.node, name, provider.name, denials[uuid, name])
        if self.view.restored and outcome.stopped_by is None and (was_read or not self.unallocated):
            self._look_for_allocations(api)  # 1 GET where all guests have one
        report = self._report(decision, outcome)
        if report.error is None and RESHAPE not in outcome.failed:
            at_start = decision.answer.errors.keys() | decision.answer.reshape_pending
            self.started |= {loaded.name for loaded in self.drivers} - at_start
        return report

    def _look_for_allocations(self, api: Counting) -> None:
        """Note the guests that have no allocation: what they use is offered again.

        Guests are compared with consumers by UUID.  If there are consumers, and none of them is a
        guest, then whoever wrote the allocations has other UUIDs, and nothing can be said.
        """
        listed = [loaded.guests(self.node) for loaded in self.drivers]
        guests, consumers = frozenset[str]().union(*filter(None, listed)), set[str]()
        for uuid, provider in self.view.snapshot.providers.items():
            if OF_GUESTS & provider.inventory.keys() and not guests <= consumers:
                consumers.update(allocations_on(uuid, api))
        missing = sorted(guests - consumers) if guests & consumers or not consumers else []
        self.unallocated = first_few(missing)
        self.root.view = replace(self.view, restored=bool(missing) or None in listed)

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
        outcome = self.root.remember_refusals(self.root.send(plan, api), api)
        failed = outcome.failed.items()
        conditions = tuple(of_write(key, err, plan.names, self.node) for key, err in failed)
        return self._ended(outcome.stopped_by, plan=plan, conditions=conditions)

    def _switched(self, *, disabled: bool) -> Plan:
        """Return the plan that sets or removes the trait; empty if there is no root.

        Until a driver has named the node, a root without the service tag may be another service's.
        """
        root = self.view.snapshot.get(self.uuid)
        if root is None or (not self.started and self.service_tag not in {"", *root.traits}):
            return Plan()
        tree = ProviderTree(self.view.snapshot)
        (tree.add_traits if disabled else tree.remove_traits)(self.uuid, DISABLED)
        return diff(self.view.snapshot, tree.freeze(), names=self.view.names)

    def _refresh(self, api: API, now: float) -> None:
        """Read Placement if it is time, and note whether another service reports the root too.

        If it is unreachable and the view is certain, the period goes on with the view; an answer in
        a wrong form ends it.
        """
        before = self.view.snapshot
        try:
            ours = set(self.ledger.holders)
            if not self.rules.attached:  # else this agent itself takes children out of the tree
                ours &= {*before.children(None)}
            was_read = self.root.refresh(api, now, ours)
        except Unreachable as err:
            if not self.view.certain or isinstance(err, WrongForm):
                raise
            self.root.schedule.unread(err)
            return
        if before is not self.view.snapshot:
            self.reads.append((before, self.view.snapshot))
        if was_read and not self.rules.attached:
            found, root = before.get(self.uuid), self.view.snapshot.get(self.uuid)
            others = other_reporters(found, root, self.node, self.service_tag)
            self.shared_with = tuple(others)

    def save_ledger(self) -> bool:
        """Save the ledger unless it is saved already; return whether it is on disk."""
        return self.saved is None or self.saved.save_ledger(self.ledger)

    def is_alone(self) -> bool:
        """Return whether the root has no children and no aggregates, but the service tag."""
        root = self.view.snapshot.get(self.uuid)
        if root is None or len(self.view.snapshot) > 1 or root.aggregates:
            return False
        return self.service_tag in root.traits

    def _decide(
        self, api: API, now: float, disabled: bool | None, *, repeats_only: bool = False
    ) -> Decision:
        """Call the drivers, settle what all managers assert, and plan; the ledger is replaced.

        ``disabled`` is the service status, ``None`` if unknown.  With ``repeats_only`` nothing new
        is claimed.
        """
        view, rules, refusals = self.view, self.rules, self.root.refusals
        ledger = self.ledger.with_restored(view, self.uuid)
        policy = self._policy(ledger, now, repeats_only=repeats_only)
        may_reshape = frozenset(loaded.name for loaded in self.drivers)
        if repeats_only or self.root.refusals.reshape() is not None:
            may_reshape = frozenset()
        elif not rules.reshape_when_running:
            may_reshape -= self.started
        hidden = self.leaving.hidden(view.snapshot) if rules.attached else frozenset[str]()
        drivers = () if self.released else self.drivers
        queries = DriverQueries(drivers, self.node, view, ledger, policy, hidden, self.last)
        answer = queries.collect(lambda: dict(LazyAllocations(view, api)), may_reshape)
        if answer.allocations is not None and not (ledger.begun or policy.takes_over):
            moved_classes = with_moved_classes(ledger, view.snapshot, answer.statements)
            queries = replace(queries, ledger=moved_classes)

        all_failed = len(answer.errors) == len(self.drivers) and not self.released
        if all_failed and self.uuid not in view.snapshot:
            decision = Decision(answer, Plan())  # a new host, and all drivers failed
        else:
            settled = self._settled(queries, answer, now, disabled)
            moved: Allocations | None = None
            if answer.allocations is not None:
                try:
                    moved = answer.moved(view.snapshot, settled, policy)
                except AllocationsBroken as err:
                    failed = ReshapeFailed(f"node {self.node}: {err}")
                    answer = queries.collect_without_reshape(failed, may_reshape)
                    settled = self._settled(queries, answer, now, disabled)
            in_use = used_providers(answer.allocations or {})
            plan = diff(view.snapshot, settled.desired, moved, names=view.names, in_use=in_use)
            kept = (DeleteProvider(uuid, why) for uuid, why in settled.kept.items())
            operations, problems = (*plan, *kept), (*plan.problems, *settled.problems)
            plan = replace(plan, operations=operations, problems=problems)
            theirs = self.uuid if rules.attached else None
            ledger = settled.ledger.with_removed_since(ledger, view, theirs)
            decision = Decision(answer, plan, settled.denials)
        self.ledger = ledger
        for name in answer.reshape_pending:
            refusals.failed_reshape = answer.errors.get(name, refusals.failed_reshape)
        return decision

    def _policy(self, ledger: Ledger, now: float, *, repeats_only: bool) -> Policy:
        providers = self.view.snapshot.providers
        own = identifying_traits(self.rules.owner_traits)
        sharing = self.view.sharing & providers.keys()
        others = (uuid for uuid in sharing if not own & providers[uuid].traits)
        root = providers.get(self.uuid)
        traits = frozenset[str]() if root is None else root.traits
        from_nova = COMPUTE_NODE in traits and not own & traits
        agents = {COMPUTE_NODE, DISABLED, self.service_tag, *self.rules.owner_traits}
        if self.released:
            agents.update(CAPABILITY_TRAITS.values())
        return Policy(
            self.uuid,
            self.rules.attached,
            foreign=frozenset(uuid for uuid in others if not ledger.is_ours(uuid)),
            takes_over=self.new_state and from_nova and not self.rules.attached,
            repeats_only=repeats_only,
            agent_traits=frozenset(agents) | tags_of_others(traits, self.service_tag),
            contested=self.contested.waiting(now),
            missed=self.missed,
            released=self.released,
            keeps=self.keeps,
            service_tag=self.service_tag,
        )

    def _settled(
        self, queries: DriverQueries, answer: DriverAnswers, now: float, disabled: bool | None
    ) -> Settled:
        """Settle what drivers, provider files and the agent assert; drained classes that nobody
        has set stay drained.
        """
        observed, ledger, policy = queries.observed, queries.ledger, queries.policy
        statements, problems = answer.statements, tuple[Problem, ...]()
        if not self.released:
            statements, problems = self._with_files_and_agent(queries, answer, disabled)
        settled = self.last.result_of("all", settle, observed, ledger, statements, policy)
        is_set = partial(settled.is_set, statements)
        desired = self.view.with_drained(settled.desired, is_set)
        if policy.attached:
            wait = self.rules.child_wait
            desired = self.leaving.with_next_steps(observed, desired, wait, now)
        return replace(settled, desired=desired, problems=(*settled.problems, *problems))

    def _with_files_and_agent(
        self, queries: DriverQueries, answer: DriverAnswers, disabled: bool | None
    ) -> tuple[Statements, tuple[Problem, ...]]:
        """Return the statements of all managers, and what provider files ask in vain."""
        observed, ledger, policy = queries.observed, queries.ledger, queries.policy
        statements, entries = answer.statements, self.provider_files.entries
        problems: tuple[Problem, ...] = ()
        if entries is None:  # the files can't be read
            statements = statements.with_answer(silent=frozenset({FILES}))
        else:
            described = observed
            if entries.all():  # they describe providers that drivers may only be about to create
                made = self.last.result_of("drivers", settle, observed, ledger, statements, policy)
                described = made.desired
            statement, problems, met = asserted(entries, described, policy, ledger)
            self.provider_files.record_met(self.uuid, met)
            statements = statements.with_answer((statement,))
        if policy.attached:
            extended = with_unrecorded_claims(ledger, observed, answer.statements, policy)
            own = [attach.agent_statement(observed, extended)]
            silent = frozenset({AGENT, STATUS})
        else:
            own = agent_statements(
                Provider(self.uuid, self.node),
                observed,
                answer.statements,
                capabilities=[loaded.capabilities() for loaded in self.drivers],
                images_excluded=self.rules.images_excluded,
                disabled=disabled,
                owners=self.rules.owner_traits,
                service_tag=self.service_tag,
            )
            silent = frozenset({STATUS} if disabled is None else ())
        return statements.with_answer(tuple(own), silent), problems

    def _report(self, decision: Decision, outcome: Outcome) -> Report:
        answer, failed = decision.answer, self.root.refusals.causes(outcome.failed)
        return self._ended(
            outcome.stopped_by or self.root.schedule.unreachable,
            plan=decision.plan,
            conditions=tuple(self.conditions(decision, failed)),
            driver_errors=answer.errors,
            took={name: time for driver in self.drivers for name, time in driver.took().items()},
            reshape_pending=answer.reshape_pending,
        )

    def conditions(
        self, decision: Decision, failed: Mapping[str, BaseException]
    ) -> Iterator[Condition]:
        """Yield what is wrong after a decision, of whose operations some ``failed``."""
        yield from map(of_problem, decision.plan.problems)
        yield from starmap(of_driver, decision.answer.errors.items())
        draining, names = self.root.refusals.draining(), decision.plan.names
        for key, err in failed.items():
            if key in draining:
                yield of_drain(key, err, names, self.view.drained_since.get(key))
            else:
                yield of_write(key, err, names, self.node)
        yield from (*self.shared_with, *self.contested.conditions())
        if self.unallocated:
            text = (
                f"no allocation for {self.unallocated} since Placement was restored or emptied: "
                "what they use is offered again"
            )
            step = "nova-manage placement heal_allocations"
            yield Condition(text, step, "guests", kind=PART)
        for driver in self.drivers:
            yield from starmap(of_part, driver.degraded(self.node).items())
        for name in decision.answer.reshape_pending:
            failure = self.root.refusals.reshape()
            why = "is not allowed now" if failure is None else f"failed: {error_text(failure)}"
            step = "to show it: computectl plan --at-start; to do it: restart compute-agent"
            yield Condition(f"needs a reshape, which {why}", step, f"driver {name}")
