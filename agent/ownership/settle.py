"""settle: what Placement has, what is asserted now and the ledger, into what is desired.  Pure.

Ownership is that of Kubernetes' server-side apply.  For each claim (a provider is there,
with its name and parent; it has a class, a trait, an aggregate):

====================  ================  ==================  =================================
in Placement          in the ledger of  asserted now by     outcome
====================  ================  ==================  =================================
yes                   nobody            nobody              foreign: never touched, nor what
                                                            it hangs below
yes                   nobody            M                   adopted, with M's values
no                    nobody            M                   made
yes or no             M                 M                   kept right
yes                   M                 M is silent         stays as it is
yes                   M                 nobody; M answered  released: removed, or drained while
                                                            in use; in the ledger until
                                                            Placement is seen without it
yes                   M and N           nobody; N is        a provider stays, with what N
                                        silent              holds of it
yes                   M, configured     nobody; all others  released
                      no more           answered
no, but it was        M                 M, on another       given up, and told
                                        service's root
any                   M and N           both, exclusive     the first in order; the other told
any                   M and N           M only, shared      stays
yes                   nobody            M denies it by      removed; left alone where M does
                                        name                not have the provider
yes                   N                 M denies it by      stays, also while N is silent
                                        name
====================  ================  ==================  =================================

A provider (its name, its parent) and a class are exclusive; traits and aggregates are
shared.  Where no ledger is kept, nothing is known to be released, with two exceptions that
are :mod:`agent.ownership.assumed`; what was released, and is there again since Placement was
restored, is :mod:`agent.ownership.removed`.  What may be asserted at all is
:mod:`agent.ownership.policy`, what becomes of one provider :mod:`agent.ownership.one_provider`;
here is what becomes of all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.ownership.assumed import assumed
from agent.ownership.hearing import Denial, Drained, Hearing
from agent.ownership.ledger import DRIVER, NOTHING, Holders, Ledger, joined, manager_text
from agent.ownership.one_provider import OneProvider
from agent.ownership.placing import Placing
from agent.ownership.policy import Policy
from agent.ownership.statement import Statements
from reportclient.model import Provider
from reportclient.plan import Problem
from reportclient.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Settled:
    """``desired`` is what Placement shall have; ``ledger`` is to be kept before it is written.

    ``before`` is what held until now, with what is :func:`agent.ownership.assumed.assumed`.
    ``denials`` are traits and aggregates in Placement that a driver asserts absent and nobody
    here claims, with that driver's manager: removed, unless they are contested.
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
    before = assumed(ledger, observed, answers, policy)
    hearing = Hearing(observed, before, answers, policy, drained or {})
    each = {uuid: OneProvider(hearing, uuid) for uuid in hearing.hear()}
    changed = {uuid: one.after() for uuid, one in each.items()}
    rows = {uuid: one.row() for uuid, one in each.items()}
    leaving = [uuid for uuid, one in each.items() if one.is_leaving()]
    _place(hearing, changed, leaving)
    _refuse_removals(hearing)
    desired, after = observed.with_changes(changed), _next_ledger(hearing, rows)
    return Settled(desired, after, tuple(hearing.problems), before, hearing.denials)


def _next_ledger(hearing: Hearing, rows: Mapping[str, Holders]) -> Ledger:
    """Return the new ledger; it begins with the first statement of a driver."""
    before, seen = hearing.ledger, _seen(hearing)
    changed = {uuid: row for uuid, row in rows.items() if row != before.of(uuid)}
    if before.begun and not changed and seen == before.seen:
        return before
    kept = {uuid: row for uuid, row in {**before.holders, **changed}.items() if row}
    spoken = any(one.manager.startswith(DRIVER) for one in hearing.answers.statements)
    return replace(before, holders=kept, seen=seen, begun=before.begun or spoken)


def _seen(hearing: Hearing) -> frozenset[str]:
    """Return our traits on an attached root that Placement was seen with."""
    root = hearing.observed.get(hearing.policy.root) if hearing.policy.attached else None
    if root is None:
        return NOTHING
    holders = hearing.ledger.of(root.uuid)
    said = (one.said.get(root.uuid) for one in hearing.answers.statements)
    wanted = [one.holding for one in said if one is not None]
    silent = [held for who, held in holders.items() if who in hearing.quiet]
    seen = hearing.ledger.seen | joined(holders.values()).traits & root.traits
    return seen & joined([*wanted, *silent]).traits


# -- what is told of the whole


def _place(hearing: Hearing, changed: dict[str, Provider | None], leaving: Sequence[str]) -> None:
    """Mend what the tree as a whole does not allow, and take away what leaves."""
    placing = Placing(hearing.observed, hearing.policy, changed)
    for uuid in placing.placed(leaving):
        for below in hearing.observed.children(uuid):
            if below not in leaving:
                hearing.problem(hearing.observed.providers[below], _why_kept(hearing, below))
    for provider, text in placing.undone:
        hearing.problem(provider, text)


def _why_kept(hearing: Hearing, uuid: str) -> str:
    owner = next((who for who, held in hearing.ledger.of(uuid).items() if held.provider), None)
    if owner is None:
        return "kept with its removed parent: created by another service"
    return f"kept with its removed parent: {manager_text(owner)} still reports it"


def _refuse_removals(hearing: Hearing) -> None:
    for statement in hearing.answers.statements:
        for uuid in statement.removed - statement.adopted:
            provider = hearing.observed.get(uuid)
            if provider is not None and not hearing.ledger.of(uuid):
                hearing.problem(
                    provider,
                    f"not removed, as {manager_text(statement.manager)} asked: created by another "
                    f"service (to take it over: computectl adopt {uuid})",
                )
