"""settle: from Placement's state, the ledger and the drivers' statements to what is desired.  Pure.

The rules of ownership are those of Kubernetes' server-side apply.  For each claim (a provider
exists, with its name and parent; it has a class, a trait, an aggregate):

====================  ================  ==================  =================================
in Placement          in the ledger of  asserted now by     outcome
====================  ================  ==================  =================================
yes                   nobody            nobody              foreign: never touched, nor its
                                                            parents
yes                   nobody            M                   adopted, with M's values
no                    nobody            M                   created
yes or no             M                 M                   written where it differs
yes                   M                 M is silent         stays as it is
yes                   M                 nobody; M answered  released: removed, or drained while
                                                            in use; in the ledger until
                                                            Placement no longer has it
yes                   M and N           nobody; N is        a provider stays, with what N
                                        silent              holds of it
yes                   M, configured     nobody; all others  released
                      no more           answered
no, but it was        M                 M, on another       given up, with a problem
                                        service's root
any                   M and N           both, exclusive     the first in order; a problem
any                   M and N           M only, shared      stays
yes                   nobody            M denies it by      removed; left alone where M does
                                        name                not have the provider
yes                   N                 M denies it by      stays, also while N is silent
                                        name
====================  ================  ==================  =================================

A provider (its name, its parent) and a class are exclusive; traits and aggregates are
shared.  Without a ledger nothing counts as released, except the claims that
:mod:`agent.ownership.unrecorded` adds.  :mod:`agent.ownership.removed` handles claims that a
restored Placement brings back.  :mod:`agent.ownership.policy` limits what may be asserted;
:mod:`agent.ownership.provider_settlement` settles one provider, this module the tree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.ownership.ledger import DRIVER, NOTHING, Holders, Ledger, joined, manager_text
from agent.ownership.placing import PlaceChanges
from agent.ownership.policy import Policy
from agent.ownership.provider_settlement import ProviderSettlement
from agent.ownership.settlement import Denial, Drained, Settlement
from agent.ownership.statement import Statements
from agent.ownership.unrecorded import with_unrecorded_claims
from reportclient.model import Provider
from reportclient.plan import Problem
from reportclient.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Settled:
    """``desired`` is what Placement shall have; ``ledger`` is saved before Placement is written.

    ``before`` is the ledger until now with the additions of :mod:`agent.ownership.unrecorded`.
    ``denials`` are traits and aggregates in Placement that a driver asserts absent and no manager
    here claims, with that driver's manager: they are removed unless contested.
    """

    desired: Snapshot
    ledger: Ledger
    problems: tuple[Problem, ...]
    before: Ledger
    denials: Mapping[Denial, str] = field(default_factory=dict)


def settle(
    observed: Snapshot,
    ledger: Ledger,
    answers: Statements,
    policy: Policy,
    drained: Drained | None = None,
) -> Settled:
    """Return the desired snapshot, the new ledger and the problems.

    ``answers`` has the statements in the order that decides exclusive claims: drivers as
    they are configured, then files, then the agent.
    """
    before = with_unrecorded_claims(ledger, observed, answers, policy)
    settlement = Settlement(observed, before, answers, policy, drained or {})
    each = {uuid: ProviderSettlement(settlement, uuid) for uuid in settlement.collect_assertions()}
    changed = {uuid: provider.after() for uuid, provider in each.items()}
    rows = {uuid: provider.row() for uuid, provider in each.items()}
    leaving = [uuid for uuid, provider in each.items() if provider.is_leaving()]
    _place(settlement, changed, leaving)
    _refuse_removals(settlement)
    desired, after = observed.with_changes(changed), _next_ledger(settlement, rows)
    return Settled(desired, after, tuple(settlement.problems), before, settlement.denials)


def _next_ledger(settlement: Settlement, rows: Mapping[str, Holders]) -> Ledger:
    """Return the new ledger; it begins with the first statement of a driver."""
    before, seen = settlement.ledger, _seen(settlement)
    changed = {uuid: row for uuid, row in rows.items() if row != before.holdings_on(uuid)}
    if before.begun and not changed and seen == before.seen:
        return before
    holders = {uuid: row for uuid, row in {**before.holders, **changed}.items() if row}
    answered = any(each.manager.startswith(DRIVER) for each in settlement.answers.statements)
    return replace(before, holders=holders, seen=seen, begun=before.begun or answered)


def _seen(settlement: Settlement) -> frozenset[str]:
    """Return this agent's traits on another service's root that Placement has had."""
    root = settlement.observed.get(settlement.policy.root) if settlement.policy.attached else None
    if root is None:
        return NOTHING
    holders = settlement.ledger.holdings_on(root.uuid)
    assertions = (each.assertions.get(root.uuid) for each in settlement.answers.statements)
    wanted = [assertion.holding for assertion in assertions if assertion is not None]
    silent = [held for manager, held in holders.items() if manager in settlement.silent_managers]
    seen = settlement.ledger.seen | joined(holders.values()).traits & root.traits
    return seen & joined([*wanted, *silent]).traits


# -- the tree as a whole


def _place(
    settlement: Settlement, changed: dict[str, Provider | None], leaving: Sequence[str]
) -> None:
    """Undo changes that the tree as a whole does not allow; remove the providers that leave."""
    places = PlaceChanges(settlement.observed, settlement.policy, changed)
    for uuid in places.check(leaving):
        for below in settlement.observed.children(uuid):
            if below not in leaving:
                settlement.add_problem(
                    settlement.observed.providers[below], _why_kept(settlement, below)
                )
    for provider, text in places.undone:
        settlement.add_problem(provider, text)


def _why_kept(settlement: Settlement, uuid: str) -> str:
    owner = next(
        (who for who, held in settlement.ledger.holdings_on(uuid).items() if held.provider), None
    )
    why = (
        "created by another service" if owner is None else f"{manager_text(owner)} still reports it"
    )
    return f"not removed, nor its parent, which a driver removed: {why}"


def _refuse_removals(settlement: Settlement) -> None:
    for statement in settlement.answers.statements:
        for uuid in statement.removed - statement.adopted:
            provider = settlement.observed.get(uuid)
            if provider is not None and not settlement.ledger.holdings_on(uuid):
                settlement.add_problem(
                    provider,
                    f"removal by {manager_text(statement.manager)} ignored: created by another "
                    f"service (to take it over: computectl adopt {uuid})",
                )
