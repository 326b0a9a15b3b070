"""Decide one period: from Placement's state and the drivers' statements to a plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.attach.leaving import LeavingChildren
from agent.ownership.ledger import AGENT, FILES, STATUS, Holding, Ledger
from agent.ownership.policy import MANAGED_BY_NOVA, Policy, with_unrecorded_claims
from agent.ownership.result_cache import ResultCache
from agent.ownership.settle import Denial, Settled, settle
from agent.ownership.statement import Statement, Statements
from agent.period.driver_answers import DriverAnswers, DriverQueries
from agent.period.rules import Rules
from agent.period.service_tag import tags_of_others
from agent.period.traits import COMPUTE_NODE, DISABLED, agent_statements, identifying_traits
from agent.provider_config.asserted import Asserted, asserted
from agent.provider_config.entries import Entries
from drivers.errors import ReshapeFailed
from drivers.loader import LoadedDriver
from reportclient.diff import diff
from reportclient.model import Allocations, Provider
from reportclient.plan import Plan
from reportclient.reshape import (
    Affected,
    AllocationsBroken,
    edited_providers,
    moved_allocations,
    refuse_malformed,
    used_providers,
)
from reportclient.snapshot import Snapshot
from reportclient.view import View


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of one decision: the drivers' answer, the ledger and the plan."""

    answer: DriverAnswers
    plan: Plan
    ledger: Ledger
    files: Asserted = field(default_factory=Asserted)
    denials: Mapping[Denial, str] = field(default_factory=dict)
    """See :class:`agent.ownership.settle.Settled`."""
    takes_over: bool = False
    """Whether this agent takes the root over from nova-compute."""


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides what to write for one root.

    ``entries`` are those of the provider files, ``None`` if the files can't be read.
    """

    uuid: str
    node: str
    drivers: Sequence[LoadedDriver]
    rules: Rules
    ledger: Ledger = field(default_factory=Ledger)
    service_tag: str = ""
    new_state: bool = False
    """Whether this agent has never run with this state directory."""
    repeats_only: bool = False
    """Whether no ledger can be written: then nothing new is claimed."""
    contested: frozenset[Denial] = frozenset()
    """Denied names that another service sets again; not removed in this period."""
    entries: Entries | None = field(default_factory=Entries)
    outside_for: Mapping[str, float] = field(default_factory=dict)
    """Seconds since removed children left another service's tree, by UUID (attach mode)."""
    cache: ResultCache = field(default_factory=ResultCache)

    def decide(
        self,
        view: View,
        disabled: bool | None,
        allocations: Callable[[], Allocations] | None,
    ) -> Decision:
        """Call the drivers and return the decision.

        ``disabled`` is the service status, ``None`` if unknown.  ``allocations`` reads the
        allocations for a reshape; without it no reshape is done now.
        """
        policy = self._policy(view)
        hidden = self._leaving(view).hidden() if self.rules.attached else frozenset[str]()
        queries = DriverQueries(
            self.drivers, self.node, view, self.ledger, policy, hidden, self.cache
        )
        answer = queries.collect(allocations)
        if len(answer.errors) == len(self.drivers) and self.uuid not in view.snapshot:
            return Decision(answer, Plan(), self.ledger)  # a new host, and all drivers failed
        files, settled = self._settled(view, answer, policy, disabled)
        moved: Allocations | None = None
        if answer.allocations is not None and answer.allocations_before is not None:
            try:
                moved = _moved(view.snapshot, settled, answer, policy)
            except AllocationsBroken as err:
                answer = answer.without_reshape(ReshapeFailed(f"node {self.node}: {err}"))
                files, settled = self._settled(view, answer, policy, disabled)
        in_use = used_providers(answer.allocations or {})
        plan = diff(view.snapshot, settled.desired, moved, names=view.names, in_use=in_use)
        problems = (*plan.problems, *settled.problems, *files.problems)
        theirs = self.uuid if self.rules.attached else None
        ledger = settled.ledger.with_removed_since(self.ledger, view, theirs)
        return Decision(
            answer,
            replace(plan, problems=problems),
            ledger,
            files,
            settled.denials,
            policy.takes_over,
        )

    def _settled(
        self, view: View, answer: DriverAnswers, policy: Policy, disabled: bool | None
    ) -> tuple[Asserted, Settled]:
        drivers, observed = answer.statements, view.snapshot
        files, statements = Asserted(), drivers
        if self.entries is None:
            statements = statements.with_answer(silent=frozenset({FILES}))
        else:
            base = observed
            if self.entries.all():
                base = self._settle(view, drivers, policy).desired
            files = asserted(self.entries, base, policy, self.ledger)
            statements = statements.with_answer((files.statement,))
        if policy.attached:
            ledger = with_unrecorded_claims(self.ledger, observed, drivers, policy)
            theirs = Statement(AGENT, denied=_managed_by_nova(observed, ledger))
            statements = statements.with_answer((theirs,), frozenset({AGENT, STATUS}))
        else:
            host, owners = Provider(self.uuid, self.node), self.rules.owner_traits
            capabilities = [loaded.capabilities() for loaded in self.drivers]
            own = agent_statements(
                host,
                observed,
                drivers,
                capabilities=capabilities,
                disabled=disabled,
                owners=owners,
                service_tag=self.service_tag,
            )
            statements = statements.with_answer(
                own, frozenset({STATUS} if disabled is None else ())
            )
        settled = self._settle(view, statements, policy)
        if policy.attached:
            settled = replace(settled, desired=self._leaving(view).with_next_steps(settled.desired))
        return files, settled

    def _settle(self, view: View, statements: Statements, policy: Policy) -> Settled:
        step = len(statements.statements)
        arguments = view.snapshot, self.ledger, statements, policy, view.drained
        return self.cache.cached(step, settle, *arguments)

    def _leaving(self, view: View) -> LeavingChildren:
        return LeavingChildren(self.uuid, view.snapshot, self.rules.child_wait, self.outside_for)

    def _policy(self, view: View) -> Policy:
        providers, own = view.snapshot.providers, identifying_traits(self.rules.owner_traits)
        others = (uuid for uuid in view.sharing if not own & providers[uuid].traits)
        root = providers.get(self.uuid)
        traits = frozenset[str]() if root is None else root.traits
        from_nova = COMPUTE_NODE in traits and not own & traits
        agents = {COMPUTE_NODE, DISABLED, self.service_tag, *self.rules.owner_traits}
        return Policy(
            self.uuid,
            self.rules.attached,
            foreign=frozenset(uuid for uuid in others if not self.ledger.is_ours(uuid)),
            takes_over=self.new_state and from_nova and not self.rules.attached,
            repeats_only=self.repeats_only,
            agent_traits=frozenset(agents) | tags_of_others(traits, self.service_tag),
            contested=self.contested,
        )


def _managed_by_nova(observed: Snapshot, ledger: Ledger) -> dict[str, Holding]:
    """Return denials of COMPUTE_MANAGED_PCI_DEVICE on this agent's providers, by UUID."""
    ours = (uuid for uuid in ledger.holders if ledger.is_ours(uuid) and uuid in observed)
    return dict.fromkeys(ours, Holding(traits=frozenset({MANAGED_BY_NOVA})))


def _moved(
    observed: Snapshot, settled: Settled, answer: DriverAnswers, policy: Policy
) -> Allocations:
    """Return the allocations that a reshape changes.

    :raises AllocationsBroken: they are not well-formed, or another service owns a provider.
    """
    before, after = answer.allocations_before, answer.allocations
    assert before is not None and after is not None
    refuse_malformed(after)
    edited = edited_providers(before, {who: after[who] for who in after.keys() & before.keys()})
    foreign = [
        observed.providers[uuid].name
        for uuid in edited
        if uuid in observed and not policy.may_move(uuid, settled.before)
    ]
    if foreign:
        raise AllocationsBroken(
            f"the driver moved allocations of {', '.join(sorted(foreign))}, which another service "
            "owns"
        )
    return moved_allocations(before, after, Affected.between(observed, settled.desired))
