"""From what Placement has and what the drivers say to a plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.attach.leaving import LeavingChildren
from agent.ownership.ledger import AGENT, FILES, STATUS, Holding, Ledger
from agent.ownership.policy import MANAGED_BY_NOVA, Policy
from agent.ownership.removed import noting_removed
from agent.ownership.result_cache import ResultCache
from agent.ownership.settle import Settled, settle
from agent.ownership.settlement import Denial
from agent.ownership.statement import Statement, Statements
from agent.ownership.unrecorded import with_unrecorded_claims
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
    """Whether nova-compute reported the root until now."""


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides for one root; knows nothing but its identity, its managers and the rules.

    ``entries`` are those of provider files, ``None`` if nobody knows what they say.
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
    """Denied names that another service sets again, to be left alone in this period."""
    entries: Entries | None = field(default_factory=Entries)
    outside_for: Mapping[str, float] = field(default_factory=dict)
    """For how long children that leave another service's root are outside its tree."""
    cache: ResultCache = field(default_factory=ResultCache)

    def decide(
        self,
        view: View,
        disabled: bool | None,
        allocations: Callable[[], Allocations] | None,
    ) -> Decision:
        """Ask the drivers and plan.

        ``allocations`` reads them, should a driver need a reshape; ``None`` means that
        none may be done now.
        """
        policy = self._policy(view)
        hidden = self._leaving(view).hidden() if self.rules.attached else frozenset[str]()
        asking = DriverQueries(
            self.drivers, self.node, view, self.ledger, policy, hidden, self.cache
        )
        answer = asking.answer(allocations)
        if len(answer.errors) == len(self.drivers) and self.uuid not in view.snapshot:
            return Decision(answer, Plan(), self.ledger)  # nobody could say anything of a new host
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
        ledger = noting_removed(settled.ledger, self.ledger, view, theirs)
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
        files, said = Asserted(), drivers
        if self.entries is None:
            said = said.with_failed(FILES)
        else:
            there = observed
            if self.entries.all():
                there = self._settle(view, drivers, policy).desired
            files = asserted(self.entries, there, policy, self.ledger)
            said = said.with_answer((files.statement,), frozenset())
        if policy.attached:
            ledger = with_unrecorded_claims(self.ledger, observed, drivers, policy)
            theirs = Statement(AGENT, denied=_managed_by_nova(observed, ledger))
            said = said.with_answer((theirs,), frozenset({AGENT, STATUS}))
        else:
            host, owners = Provider(self.uuid, self.node), self.rules.owner_traits
            can = [loaded.capabilities() for loaded in self.drivers]
            own = agent_statements(
                host,
                observed,
                drivers,
                capabilities=can,
                disabled=disabled,
                owners=owners,
                service_tag=self.service_tag,
            )
            said = said.with_answer(own, frozenset({STATUS} if disabled is None else ()))
        settled = self._settle(view, said, policy)
        if policy.attached:
            settled = replace(settled, desired=self._leaving(view).with_next_steps(settled.desired))
        return files, settled

    def _settle(self, view: View, said: Statements, policy: Policy) -> Settled:
        step = len(said.statements)
        asked = view.snapshot, self.ledger, said, policy, view.drained
        return self.cache.cached(step, settle, *asked)

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
    """Traits that an earlier version gave its providers on another service's root."""
    ours = (uuid for uuid in ledger.holders if ledger.is_ours(uuid) and uuid in observed)
    return dict.fromkeys(ours, Holding(traits=frozenset({MANAGED_BY_NOVA})))


def _moved(
    observed: Snapshot, settled: Settled, answer: DriverAnswers, policy: Policy
) -> Allocations:
    """The allocations that move.  :raises AllocationsBroken: they may not, or not like this."""
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
            f"inventory of {', '.join(sorted(foreign))} is its owner's, and can't be moved"
        )
    return moved_allocations(before, after, Affected.between(observed, settled.desired))
