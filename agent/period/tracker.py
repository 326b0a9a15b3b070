"""The tracker of one root.  A cycle reads, asks, decides, remembers and writes: ``Tracker.once``.

Nova's resource tracker does this in ``_update_to_placement``.  What a cycle calls stands below it
in the order in which it happens; what it decides with is pure (:mod:`agent.ownership.reconcile`,
:mod:`reportclient.plan`).
"""

import copy
import logging
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, starmap
from typing import Any, NamedTuple, TypeVar, TypeVarTuple

from agent.ownership.answers import (
    Answer,
    Answers,
    DriverAnswer,
    driver_answer,
    owner_of,
    with_moved_classes,
    without_moved_classes,
)
from agent.ownership.ledger import (
    ADOPTED,
    DRIVER,
    FILES,
    REPLACED,
    Ledger,
    driver_of,
    joined,
)
from agent.ownership.placing import freeing_names
from agent.ownership.policy import DISABLED, ContestedNames, Policy
from agent.ownership.reconcile import Absence, reconcile
from agent.period.attach import OwnRoot, delete_orphans, root_awaited, root_rules
from agent.period.rules import Rules
from agent.period.traits import (
    CAPABILITY_TRAITS,
    COMPUTE_NODE,
    AgentTraits,
    identifying_traits,
    other_reporters,
    tags_of_others,
)
from agent.provider_config.answer import files_answer
from agent.provider_config.entries import Entries, Key
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
from drivers.errors import DriverError, ReshapeFailed, ReshapeNeeded
from drivers.loader import LoadedDriver
from reportclient.apply import Outcome
from reportclient.errors import PlacementError, Unreachable, WrongForm, without_frames
from reportclient.http import API
from reportclient.model import Allocations, Provider, used_providers
from reportclient.plain_text import error_text, first_few
from reportclient.plan import DeleteProvider, Operation, Plan, Problem, SetTraits, diff
from reportclient.provider_tree import NOTHING, Claims, ProviderTree
from reportclient.reader import LazyAllocations, allocations_on
from reportclient.refusals import RESHAPE
from reportclient.reshape import Affected, AllocationsBroken, moved_allocations
from reportclient.root import Counting, Root
from reportclient.schedule import VERIFY_EVERY
from reportclient.snapshot import Snapshot
from reportclient.view import View, opened

LOG = logging.getLogger("compute_agent.placement")

OF_GUESTS = frozenset({"VCPU", "PCPU", "MEMORY_MB"})
"""Classes of which every guest holds one."""
A = TypeVarTuple("A")
T = TypeVar("T")


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


@dataclass(slots=True)
class LastResults:
    """The results of the period before: a quiet period would compute the same again.

    An argument that is the same object as then costs nothing to compare, so a period of 10,001
    providers in which nothing changed reconciles none of them.
    """

    answers: dict[str, DriverAnswer] = field(default_factory=dict)
    """Answers by driver."""
    _results: dict[str, tuple[object, Any]] = field(default_factory=dict)

    def result_of(self, step: str, function: Callable[[*A], T], *arguments: *A) -> T:
        """Return the result of a pure function; call it only if the step's arguments changed."""
        if step not in self._results or self._results[step][0] != arguments:
            self._results[step] = arguments, function(*arguments)
        result: T = self._results[step][1]
        return result


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
    root_rules: OwnRoot = field(init=False)
    """Rules for what this agent may do on the root, and how children leave it."""
    last: LastResults = field(default_factory=LastResults)
    reads: deque[tuple[Snapshot, Snapshot]] = field(default_factory=lambda: deque(maxlen=8))
    """What Placement was left with and what was read then, since the last period that wrote all."""
    freed: tuple[Operation, ...] = ()
    """What :meth:`free_name` wrote, for the report of the period that follows."""
    released: bool = False
    """Whether nothing is claimed, so that all that was reported is removed."""
    keeps: bool = True
    """Whether what others have put on a provider keeps it (``Policy.keeps``)."""
    unallocated: str = ""
    """Guests that have no allocation since Placement was restored or emptied."""
    unlisted: tuple[Condition, ...] = ()
    """Why drivers could not list their guests then."""
    missed: frozenset[str] = frozenset()
    """Providers that nothing here reported in the period before."""

    def __post_init__(self) -> None:
        self.root_rules = root_rules(self.rules)

    @property
    def uuid(self) -> str:
        """The root provider's UUID."""
        return self.root.uuid

    @property
    def view(self) -> View:
        """The acknowledged view of the root's tree."""
        return self.root.view

    def period(
        self, now: float, *, disabled: bool | None = None, stop: Callable[[], bool] = lambda: False
    ) -> Report:
        """Read, call the drivers and write what differs.  Never raises: the report has the error.

        ``now`` is monotonic time in seconds, ``disabled`` the service status, ``None`` if unknown.
        """
        report = self.attempt(now, lambda api: self.once(api, disabled, stop))
        if report.error is None:
            self.reads.clear()
        freed, self.freed = self.freed, ()
        return replace(report, done=(*freed, *report.done)) if freed else report

    def free_name(self, now: float) -> Report:
        """Rename the root and its children by its UUID: another node needs their names."""
        plan = freeing_names(self.view.snapshot, self.uuid, self.ledger)

        def send(api: Counting) -> Report:
            return Report(self.node).with_error(self.root.send(plan, api).stopped_by)

        report = self.attempt(now, send)
        self.freed = report.done
        return report

    def attempt(
        self, now: float, once: Callable[[Counting], Report], *, urgent: bool = False
    ) -> Report:
        """Call ``once``, and again after a conflict.  Never raises: the report has the error."""
        self.missed = self.ledger.leaving  # in each try
        result, api = self.root.attempt(now, once, urgent=urgent, save=not urgent)
        if isinstance(result, PlacementError):
            report = Report(self.node).with_error(result)
        elif isinstance(result, Exception):
            report = self.failed(result)
        else:
            report, self.logged_failure = result, ""
        self.save_ledger()
        after, done = self.view.snapshot, tuple(api.done)
        texts = chain.from_iterable(undone(*pair, after) for pair in self.reads if done)
        conditions = report.conditions
        if self.saved is not None and (problem := self.saved.document.problem):
            step = "nothing new is reported in Placement until it can be used"
            conditions = (*conditions, of_disk(problem, "state_path", step))
        report = replace(report, undone=tuple(dict.fromkeys(texts)), done=done)
        return replace(report, calls=api.calls, tries=api.tries, conditions=conditions)

    def failed(self, err: BaseException) -> Report:
        """Return the report of an exception that nothing provides for; the root is read again.

        The traceback is logged once as an error, and in further periods for debugging.
        """
        self.root.view = self.view.stale()
        level = logging.DEBUG if error_text(err) == self.logged_failure else logging.ERROR
        LOG.log(level, "Root %s: unexpected error", self.uuid, exc_info=err)
        self.logged_failure = error_text(err)
        return Report(self.node).with_error(Unexpected(err))

    def forecast(self, now: float, *, disabled: bool | None = None) -> "Decision":
        """Return what the next period would decide; nothing is written.

        :raises RootAwaited: another service has not created the root.
        """
        self._read(self.root.api, now)
        ledger, self.missed = self.ledger, self.ledger.leaving
        if self.root_rules.awaits(self.view.snapshot.get(self.uuid)):
            raise root_awaited(self.node)
        decision = self._decide(self.root.api, now, disabled)
        self.ledger = ledger
        return decision

    def load_ledger(self, saved: Ledger) -> None:
        """Begin with a saved ledger; warn if [compute] root_provider was changed meanwhile."""
        owners = identifying_traits(self.rules.owner_traits)
        self.ledger, changed = self.root_rules.first_ledger(saved, self.uuid, owners)
        if changed:
            LOG.warning("Node %s: [compute] root_provider was changed %s", self.node, changed)

    def save_ledger(self) -> bool:
        """Save the ledger unless it is saved already; return whether it is on disk."""
        return self.saved is None or self.saved.save_ledger(self.ledger)

    def is_alone(self) -> bool:
        """Return whether the root has no children and no aggregates, but the service tag."""
        root = self.view.snapshot.get(self.uuid)
        if root is None or len(self.view.snapshot) > 1 or root.aggregates:
            return False
        return self.service_tag in root.traits

    # -- one cycle

    def once(
        self, api: Counting, disabled: bool | None = None, stop: Callable[[], bool] = lambda: False
    ) -> Report:
        """Return the report of one try of a period: see :meth:`period`."""
        # Without it no child could leave: nothing is written that could not be taken back.
        api.needs = self.root_rules.needs
        known = self.view.generations.get(self.uuid)
        self._read(api, api.now)
        if known is None or self.view.generations.get(self.uuid, 0) < known:
            # Its owner has created the root anew, or Placement was restored: nothing was removed.
            self.ledger = replace(self.ledger, accepted=NOTHING)
        was_read, before, ledger = api.calls > 0, self.view.snapshot, self.ledger
        if self.root_rules.awaits(before.get(self.uuid)):
            if known is not None:  # a listing without it may be wrong: the next period looks again
                self.root.view = self.view.stale()
            elif self.rules.child_wait is not None:
                self.root.send(delete_orphans(before), api)
            return Report(self.node).with_error(root_awaited(self.node))
        decision = self._decide(api, api.now, disabled)
        if not self.save_ledger() and self.ledger != ledger:
            self.ledger = ledger  # claim nothing in Placement that is not on disk
            decision = self._decide(api, api.now, disabled, repeats_only=True)
        try:
            foreign = self.ledger.foreign_classes
            outcome = self.root.write(decision.plan, api, stop=stop, foreign=foreign)
        finally:  # also after a conflict, or if the details of an error could not be read
            root = self.view.snapshot.get(self.uuid)
            self.ledger = self.root_rules.with_accepted(self.ledger, root)
        gap, absences = self.rules.verify_every or VERIFY_EVERY, decision.absences
        for uuid, name in self.contested.note_absent(absences, self.view.snapshot, api.now, gap):
            text, provider = "Node %s: removed %s from provider %s: %s", before.providers[uuid]
            LOG.info(text, self.node, name, provider.name, absences[uuid, name])
        if self.view.restored and outcome.stopped_by is None and (was_read or not self.unallocated):
            self._look_for_allocations(api)  # 1 GET where all guests have one
        report = self._report(decision, outcome)
        if report.error is None and RESHAPE not in outcome.failed:
            at_start = decision.collected.errors.keys() | decision.collected.reshape_pending
            self.started |= {loaded.name for loaded in self.drivers} - at_start
        return report

    def _read(self, api: API, now: float) -> None:
        """Read Placement if it is time, and note whether another service reports the root too.

        If it is unreachable and the view is certain, the period goes on with the view; an answer in
        a wrong form ends it.
        """
        before = self.view.snapshot
        try:
            outside = self.root_rules.outside(self.ledger, before)
            was_read = self.root.refresh(api, now, outside)
        except Unreachable as err:
            if not self.view.certain or isinstance(err, WrongForm):
                raise
            self.root.schedule.unreachable = without_frames(err)
            return
        # Who has undone what this agent wrote can be told only from what was read in between.
        if before is not self.view.snapshot:
            self.reads.append((before, self.view.snapshot))
        if was_read and self.root_rules.policy.owns_root:
            found, root = before.get(self.uuid), self.view.snapshot.get(self.uuid)
            others = other_reporters(found, root, self.node, self.service_tag)
            self.shared_with = tuple(others)

    def _decide(
        self, api: API, now: float, disabled: bool | None, *, repeats_only: bool = False
    ) -> "Decision":
        """Call the drivers, reconcile what all owners claim, and plan; the ledger is replaced.

        ``disabled`` is the service status, ``None`` if unknown.  With ``repeats_only`` nothing new
        is claimed.
        """
        view, refusals = self.view, self.root.refusals
        policy = self.root_rules.policy(
            self.uuid,
            repeats_only=repeats_only,
            contested=self.contested.waiting(now),
            missed=self.missed,
            released=self.released,
            keeps=self.keeps,
            service_tag=self.service_tag,
        )
        arguments = view, self.ledger, policy, self.node, self.rules
        cycle = self.last.result_of("cycle", self._cycle, *arguments)
        collected = cycle.collect()
        moving = list(collected.reshape_pending)
        if moving and (repeats_only or refusals.reshape() is not None):
            moving = []
        elif not self.rules.reshape_when_running:
            moving = [name for name in moving if name not in self.started]
        if moving:
            collected = cycle.with_reshape(api, moving)
        if collected.moves is not None and not (cycle.ledger.known or cycle.policy.takes_over):
            moved = with_moved_classes(cycle.ledger, view.snapshot, collected.answers)
            cycle = replace(cycle, ledger=moved)

        all_failed = len(collected.errors) == len(self.drivers) and not self.released
        if all_failed and (cycle.policy.takes_over or self.uuid not in view.snapshot):
            # Without an answer the agent's traits on the root would end a takeover.
            decision = Decision(Plan(), cycle.ledger)
        else:
            agent = AgentTraits(
                host=Provider(self.uuid, self.node),
                capabilities=[dict(loaded.last_capabilities) for loaded in self.drivers],
                disabled=disabled,
                owners=self.rules.owner_traits,
                images_excluded=self.rules.images_excluded,
                service_tag=self.service_tag,
            )
            overdue = self.root_rules.overdue(view.snapshot, self.rules, now)
            others = self.provider_files.entries, agent, overdue
            try:
                answers, moves = collected.answers, collected.moves
                decision = self.last.result_of("all", Cycle.decide, cycle, answers, moves, *others)
            except AllocationsBroken as err:
                failed = ReshapeFailed(f"node {self.node}: {err}")
                collected = cycle.collect_without_reshape(failed, moving)
                decision = cycle.decide(collected.answers, None, *others)
            self.provider_files.record_matched(self.uuid, decision.matched)
        self.ledger = decision.ledger
        for name in collected.reshape_pending:
            refusals.failed_reshape = collected.errors.get(name, refusals.failed_reshape)
        return replace(decision, collected=collected)

    def _cycle(
        self, view: View, ledger: Ledger, policy: Policy, node: str, rules: Rules
    ) -> "Cycle":
        """Return the cycle that begins with this view; ``policy`` is completed by what it has."""
        providers, own = view.snapshot.providers, identifying_traits(rules.owner_traits)
        ledger = ledger.with_restored(view, self.uuid)
        others = (it for it in view.sharing & providers.keys() if not own & providers[it].traits)
        traits = root.traits if (root := providers.get(self.uuid)) else frozenset[str]()
        # Nova's compute service sets COMPUTE_NODE, and no owner trait of this agent's.
        from_nova = COMPUTE_NODE in traits and not own & traits
        tag, tags = policy.service_tag, tags_of_others(traits, policy.service_tag)
        moved_here = bool(tags) and tag not in {"", *traits}
        more = CAPABILITY_TRAITS.values() if policy.released else ()
        agents = {COMPUTE_NODE, DISABLED, tag, *rules.owner_traits, *tags, *more}
        policy = replace(
            policy,
            foreign=frozenset(uuid for uuid in others if not ledger.owns(uuid)),
            takes_over=policy.owns_root and (moved_here or (self.new_state and from_nova)),
            agent_traits=frozenset(agents),
        )
        shown, hidden = opened(view.snapshot, view.drained), self.root_rules.hidden(view.snapshot)
        drivers = () if policy.released else self.drivers
        return Cycle(drivers, node, view, shown, ledger, policy, hidden, self.root_rules, self.last)

    def _look_for_allocations(self, api: Counting) -> None:
        """Note the guests that have no allocation: what they use is offered again.

        Guests are compared with consumers by UUID.  If there are consumers, and none of them is a
        guest, then whoever wrote the allocations has other UUIDs, and nothing can be said.
        """
        guests, consumers, self.unlisted = set[str](), set[str](), ()
        for loaded in self.drivers:
            try:
                guests |= loaded.guests(self.node)
            except DriverError as err:
                why = of_part(f"driver {loaded.name}", f"guests() failed: {error_text(err)}")
                self.unlisted = (*self.unlisted, why)
        for uuid, provider in self.view.snapshot.providers.items():
            if OF_GUESTS & provider.inventory.keys() and not guests <= consumers:
                consumers.update(allocations_on(uuid, api))
        missing = sorted(guests - consumers) if guests & consumers or not consumers else []
        self.unallocated = first_few(missing)
        self.root.view = replace(self.view, restored=bool(missing or self.unlisted))

    def _report(self, decision: "Decision", outcome: Outcome) -> Report:
        collected, refusals, failed = decision.collected, self.root.refusals, {}
        if outcome.failed or refusals.by_subject:
            failed = refusals.errors(outcome.failed)
        report = Report(
            self.node,
            plan=decision.plan,
            conditions=tuple(self.conditions(decision, failed)),
            driver_errors=collected.errors,
            took={name: time for driver in self.drivers for name, time in driver.took().items()},
            reshape_pending=collected.reshape_pending,
        )
        error = outcome.stopped_by or self.root.schedule.unreachable
        return report if error is None else report.with_error(error)

    def conditions(
        self, decision: "Decision", failed: Mapping[str, BaseException]
    ) -> Iterator[Condition]:
        """Yield what is wrong after a decision, of whose operations some ``failed``."""
        yield from map(of_problem, decision.plan.problems)
        yield from starmap(of_driver, decision.collected.errors.items())
        names = decision.plan.names
        draining = self.root.refusals.draining() if failed else frozenset()
        for key, err in failed.items():
            if key in draining:
                yield of_drain(key, err, names, self.view.drained_since.get(key))
            else:
                yield of_write(key, err, names, self.node)
        yield from (*self.unlisted, *self.shared_with, *self.contested.conditions())
        if self.unallocated:
            text = (
                f"no allocation for {self.unallocated} since Placement was restored or emptied: "
                "what they use is offered again"
            )
            step = "nova-manage placement heal_allocations"
            yield Condition(text, step, "guests", kind=PART)
        for driver in self.drivers:
            yield from starmap(of_part, driver.degraded(self.node).items())
        for name in decision.collected.reshape_pending:
            failure = self.root.refusals.reshape()
            why = "is not allowed now" if failure is None else f"failed: {error_text(failure)}"
            step = "to show it: computectl plan --at-start; to do it: restart compute-agent"
            yield Condition(f"needs a reshape, which {why}", step, f"driver {name}")

    # -- the switch of the host

    def switch(self, now: float, *, disabled: bool, retry: bool = False) -> Report:
        """Set or remove COMPUTE_STATUS_DISABLED on the root, and change nothing else.

        With a certain view it takes one call: a write, or a read if the trait seems right already.
        An uncertain view is read first; in attach mode nothing is sent.  No driver is called.  A
        root that does not exist yet gets the trait in its first period.  With ``retry``,
        a retry that no caller waits for, an unreachable Placement is left to the next periods.
        """
        schedule = self.root.schedule
        unreachable = schedule.unreachable
        if retry and unreachable is not None and schedule.may_wait_for_period(now, self.root.times):
            return Report(self.node, occasion=Occasion.SWITCH).with_error(unreachable)
        report = self.attempt(now, lambda api: self._switch_once(api, now, disabled), urgent=True)
        return replace(report, occasion=Occasion.SWITCH)

    def _switch_once(self, api: Counting, now: float, disabled: bool) -> Report:
        if not self.root_rules.policy.owns_root:
            return Report(self.node)
        root, was_certain = self.root, self.root.view.certain
        if not was_certain:
            self._read(api, now)
        plan = self._switched(disabled=disabled)
        if plan is None and was_certain:
            root.read(api)
            plan = self._switched(disabled=disabled)
        if plan is None:
            return Report(self.node)
        outcome = root.send(plan, api)
        failed = outcome.failed.items()
        conditions = tuple(of_write(key, err, plan.names, self.node) for key, err in failed)
        return Report(self.node, plan=plan, conditions=conditions).with_error(outcome.stopped_by)

    def _switched(self, *, disabled: bool) -> Plan | None:
        """Return the write that sets or removes the trait; ``None`` if there is nothing to write.

        Until a driver has named the node, a root without the service tag may be another service's.
        """
        uuid, view = self.root.uuid, self.root.view
        root = view.snapshot.get(uuid)
        if root is None or (not self.started and self.service_tag not in {"", *root.traits}):
            return None
        traits = root.traits | {DISABLED} if disabled else root.traits - {DISABLED}
        traits -= view.names.absent_traits
        if traits == root.traits:
            return None
        return Plan((SetTraits(uuid, traits),), names={uuid: root.name})


# -- what a cycle asks and decides


class Moves(NamedTuple):
    """The allocations of a tree before and after the drivers have edited them."""

    before: Allocations
    after: Allocations


@dataclass(frozen=True, slots=True)
class Collected:
    """The answers of all drivers of a node.

    ``moves``: what a reshape moves, ``None`` without one.  ``errors`` is by driver name.
    ``reshape_pending`` names the drivers that need a reshape that is not done now.
    """

    answers: Answers = field(default_factory=Answers)
    moves: Moves | None = None
    errors: Mapping[str, BaseException] = field(default_factory=dict)
    reshape_pending: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a period: ``ledger`` is written first, then ``plan``.

    ``absences`` are those of the reconciliation; ``matched`` the keys of entries of provider files
    whose provider exists.
    """

    plan: Plan
    ledger: Ledger
    absences: Mapping[Absence, str] = field(default_factory=dict)
    matched: frozenset[Key] = frozenset()
    collected: Collected = field(default_factory=Collected)


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle of one root after Placement was read: what the drivers are shown, and asked."""

    drivers: Sequence[LoadedDriver]
    node: str
    view: View
    observed: Snapshot
    """The snapshot that drivers edit: Placement's, with drained classes shown open."""
    ledger: Ledger
    policy: Policy
    """Has the root's UUID."""
    hidden: frozenset[str]
    """UUIDs of observed providers that drivers are not shown."""
    root_rules: OwnRoot
    last: LastResults

    def decide(
        self,
        answers: Answers,
        moves: Moves | None,
        entries: Entries | None,
        agent: AgentTraits,
        overdue: frozenset[str] | None,
    ) -> Decision:
        """Reconcile what drivers, provider files and the agent claim, and plan.  Pure.

        ``entries`` are those of the provider files, ``None`` if they can't be read; ``overdue``:
        see :meth:`OwnRoot.overdue`.

        :raises AllocationsBroken: allocations were lost, or another service owns a provider.
        """
        observed, ledger, policy, view = self.observed, self.ledger, self.policy, self.view
        problems, matched = tuple[Problem, ...](), frozenset[Key]()
        if not policy.released:
            found = Answer(FILES)
            if entries is not None and entries.all():
                # They describe providers that drivers may only be about to create.
                described = reconcile(observed, ledger, answers, policy).desired
                found, problems, matched = files_answer(entries, described, policy, ledger)
            unread = frozenset({FILES}) if entries is None else NOTHING
            answers = answers.with_answer(() if entries is None else (found,), unread)
            answers = self.root_rules.with_agents_answer(answers, agent, observed, ledger, policy)
        result = reconcile(observed, ledger, answers, policy)
        desired = result.desired
        if view.drained:
            opened_now = result.classes_set(answers, view.drained)
            desired = view.with_drained(desired, opened_now)
        desired = self.root_rules.with_next_steps(observed, desired, overdue)

        moved, in_use = None, set[str]()
        if moves is not None:
            before, providers = result.before, view.snapshot.providers.items()
            foreign = {uuid: it.name for uuid, it in providers if not policy.may_move(uuid, before)}
            affected = Affected.between(view.snapshot, desired)
            moved = moved_allocations(*moves, affected, foreign)
            in_use = used_providers(moves.after)
        plan = diff(view.snapshot, desired, moved, names=view.names, in_use=in_use)
        kept = (DeleteProvider(uuid, why) for uuid, why in result.kept.items())
        problems = (*plan.problems, *result.problems, *problems)
        plan = replace(plan, operations=(*plan.operations, *kept), problems=problems)
        theirs = None if policy.owns_root else policy.root
        after = result.ledger.with_removed_since(ledger, view, theirs)
        return Decision(plan, after, result.absences, matched)

    def with_reshape(self, api: API, moving: Sequence[str]) -> Collected:
        """Call all drivers again, those in ``moving`` with the allocations, which are read."""
        before = dict(LazyAllocations(self.view, api))
        moved = copy.deepcopy(before)  # edited in place by the drivers, one after the other
        second = self.collect(moved, moving)
        for name in moving:
            # The driver may have edited only a part of the allocations: nothing is moved.
            if name in second.errors:
                return self.collect_without_reshape(second.errors[name], moving)
            if name in second.reshape_pending:
                err = DriverError("raised ReshapeNeeded although the allocations were passed")
                return self.collect_without_reshape(err, moving)
        return replace(second, moves=Moves(before, moved))

    def collect_without_reshape(self, err: BaseException, may_reshape: Container[str]) -> Collected:
        """Call all drivers once more, without allocations; ``err`` is why the reshape failed.

        The answers before the reshape would be older than those that a driver gave since.
        """
        collected = self.collect()
        failed = {name: err for name in collected.reshape_pending if name in may_reshape}
        return replace(collected, errors={**collected.errors, **failed})

    def collect(
        self, allocations: Allocations | None = None, moving: Container[str] = ()
    ) -> Collected:
        """Call all drivers, those in ``moving`` with the allocations."""
        so_far = Answers(order=tuple(DRIVER + loaded.name for loaded in self.drivers))
        errors: dict[str, BaseException] = {}
        pending = []
        for loaded in self.drivers:
            owner = DRIVER + loaded.name
            needs_reshape = False
            try:
                tree = self._tree(owner, so_far)
                try:
                    given = allocations if loaded.name in moving else None
                    loaded.update_provider_tree(tree, self.node, given)
                except ReshapeNeeded:
                    needs_reshape = True
                self._check_root(tree)
                # In the try block: a thread of the driver may still be editing the tree.
                for claims in tree.claims.values() if loaded.name in moving else ():
                    claims.missing.clear()  # what it had moves in this reshape
                last = self.last.answers.get(owner)
                answered = driver_answer(owner, tree, self.ledger, last, self.view.drained)
            except (Exception, SystemExit) as err:  # noqa: BLE001  the agent lives on
                errors[loaded.name] = err
                so_far = so_far.with_answer(unanswered=frozenset({owner}))
                continue
            self.last.answers[owner] = answered
            answers, unanswered = answered.answers, answered.unanswered
            if needs_reshape:
                pending.append(loaded.name)
                answers = tuple(without_moved_classes(each, self.ledger) for each in answers)
                unanswered |= {owner}  # what it left out is not removed
            so_far = so_far.with_answer(answers, unanswered)
        return Collected(so_far, None, errors, tuple(pending))

    def _tree(self, owner: str, so_far: Answers) -> ProviderTree:
        """Return the tree for a driver, with the answers of the drivers before it."""
        whole, ledger, result_of = self.observed, self.ledger, self.last.result_of
        root = whole.get(self.policy.root)
        if root is None or root.name != self.node:
            tree = ProviderTree(whole)
            if root is None:
                tree.new_root(self.node, self.policy.root)
            tree.rename(self.policy.root, self.node)
            whole = tree.freeze()
        if so_far.in_order:
            waiting = frozenset(so_far.order) - so_far.answered()
            before = replace(so_far, waiting=waiting)
            reconciled = result_of(f"before {owner}", reconcile, whole, ledger, before, self.policy)
            whole, ledger = reconciled.desired, reconciled.ledger
        shown = result_of(
            f"shown to {owner}", snapshot_for_driver, owner, whole, ledger, self.hidden
        )

        def last_claims(source: str) -> Mapping[str, Claims]:
            name = owner_of(owner, source)
            return result_of(f"last claims of {name}", Ledger.claims_by, self.ledger, name)

        return ProviderTree(shown, self.view.generations, whole, last_claims, self.policy.root)

    def _check_root(self, tree: ProviderTree) -> None:
        """:raises DriverError: the driver removed, renamed or moved the root."""
        root, node = self.policy.root, self.node
        provider, before = tree.provider(root), tree.whole.get(root)
        if provider is None:
            raise DriverError(f"removed the root provider {node} ({root})")
        if provider.name != node:
            raise DriverError(f"renamed the root provider {node} ({root})")
        if before is not None and provider.parent_uuid != before.parent_uuid:
            raise DriverError(f"moved the root provider {node} ({root}) below another provider")


def snapshot_for_driver(
    driver: str, whole: Snapshot, ledger: Ledger, hidden: frozenset[str]
) -> Snapshot:
    """Return ``whole`` without what is ``hidden``, and what only other owners claim."""
    # What a replaced service had, and what an operator adopted, is shown to every driver.
    every = (REPLACED, ADOPTED)
    own_owners = {it for it in ledger.owners() if driver_of(it) == driver or it in every}
    changed = dict[str, Provider | None]()
    for uuid, row in ledger.claims.items():
        if own_owners.issuperset(row) or uuid not in whole:
            continue
        provider = whole.providers[uuid]
        own = joined(held for owner, held in row.items() if owner in own_owners)
        others = joined(held for owner, held in row.items() if owner not in own_owners)
        theirs, inventory = others.without(own), provider.inventory
        changed[uuid] = replace(
            provider,
            inventory={n: record for n, record in inventory.items() if n not in theirs.classes},
            traits=provider.traits - theirs.traits,
            aggregates=provider.aggregates - theirs.aggregates,
        )
    return whole.with_changes({**changed, **dict.fromkeys(hidden)})
