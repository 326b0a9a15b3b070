"""reconcile: from what Placement has and what each owner claims to what is desired.  Pure.

The rules of ownership are those of Kubernetes' server-side apply.  A claim is that a provider
exists, with its name and parent, or that it has a class, a trait or an aggregate.  ``TABLE`` says
what becomes of each; what it does not say:

- Exclusive are a provider (its name, its parent) and a class: of several owners the first in order
  decides, and the others are problems (``_place``, ``_inventory``).  Traits and aggregates are
  shared.
- A provider stays while an owner that has not answered claims anything of it.  One that is only
  not found loses its capacity first, and goes in the next period.  While others have something on
  it or below it, one that leaves stays without what is ours (``_leaving``, ``_while_below``).
- A claim is in the ledger until Placement no longer has it (``_next_rows``).  Without a ledger
  nothing is released, but for the claims that
  :func:`agent.ownership.policy.with_unrecorded_claims` adds.
- :class:`agent.ownership.policy.Policy` limits what may be claimed: nothing of another service's
  provider, only traits of another service's root.  :mod:`agent.ownership.placing` has what the
  tree as a whole allows.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain
from typing import NamedTuple

from agent.ownership.answers import Answers, Reported
from agent.ownership.ledger import (
    AGENT,
    DRIVER,
    FILES,
    OWN_UUID,
    REPLACED,
    STATUS,
    ClaimsByOwner,
    Ledger,
    driver_of,
    everything_on,
    joined,
    owner_text,
)
from agent.ownership.placing import correct_places
from agent.ownership.policy import Policy, name_text, record_text, with_unrecorded_claims
from reportclient.model import Inventory, Provider
from reportclient.plan import Problem
from reportclient.provider_tree import NONE, NOTHING, Claims
from reportclient.snapshot import Snapshot
from reportclient.view import Drained

Absence = tuple[str, str]
"""A provider's UUID, and the trait or aggregate that an owner reports absent from it."""
STAND_INS = frozenset({OWN_UUID, REPLACED})
"""Owners that stand for an owner that no ledger has."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """``desired`` is what Placement shall have; ``ledger`` is saved before Placement is written.

    ``before`` is the ledger until now with the additions of ``with_unrecorded_claims``.
    ``absences`` are traits and aggregates in Placement that a driver reports absent and no owner
    here claims, and the name and records of a sharing provider that yield to an owner's, with
    what it reports: they are removed unless contested.  ``kept`` says why a sharing provider that
    leaves is only drained: other hosts may use it too.
    """

    desired: Snapshot
    ledger: Ledger
    problems: tuple[Problem, ...]
    before: Ledger
    absences: Mapping[Absence, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)

    def classes_set(self, answers: Answers, among: Drained) -> set[tuple[str, str]]:
        """Return those classes, of the ones ``among`` them, that an owner's answer decides."""
        return {
            (uuid, name)
            for uuid in among
            for owner, (held, _) in answers.on(uuid)
            for name in held.classes & self.ledger.claims_of(uuid, owner).classes
        }


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments of :func:`reconcile`, and what follows from them for all providers."""

    observed: Snapshot
    ledger: Ledger
    answers: Answers
    policy: Policy
    unanswered: frozenset[str]
    """Owners whose claims stay as they are in this period."""
    all_known: bool
    """Whether the claims of all configured owners are known, so that absences can be checked."""

    @classmethod
    def of(cls, observed: Snapshot, ledger: Ledger, answers: Answers, policy: Policy) -> "Inputs":
        """Add the claims that no ledger has, and find out who has not answered."""
        ledger = with_unrecorded_claims(ledger, observed, answers, policy)
        owners, answered = ledger.owners(), answers.answered()
        missing = answers.unanswered | answers.waiting
        # A driver that is configured no more keeps its claims until all others have answered: the
        # one that reports the same now may be among them.
        complete = missing <= {AGENT, STATUS}
        unanswered = frozenset(
            owner
            for owner in owners
            if answers.is_unanswered(owner) or not (complete or driver_of(owner) in answered)
        )
        # Unreadable files may claim traits that no ledger has: see Policy.allowed.
        known = {AGENT, STATUS, *(owners - {FILES}), *map(driver_of, owners - {FILES})}
        return cls(observed, ledger, answers, policy, unanswered, missing <= known)


def reconcile(observed: Snapshot, ledger: Ledger, answers: Answers, policy: Policy) -> Reconciled:
    """Return the desired snapshot, the new ledger and the problems.

    ``answers`` has the answers in the order that decides exclusive claims: drivers as
    they are configured, then files, then the agent.
    """
    inputs = Inputs.of(observed, ledger, answers, policy)
    before, unchanged = inputs.ledger, _unchanged(inputs)
    uuids = dict.fromkeys(chain(before.claims, *(each.reported for each in answers.in_order)))
    reconciled = {uuid: reconcile_provider(inputs, uuid) for uuid in uuids if uuid not in unchanged}
    problems = list(chain(*(each.problems for each in reconciled.values())))

    # The tree as a whole: names, parents, and what can be removed.
    changes = {uuid: each.after for uuid, each in reconciled.items()}
    leaving = frozenset(uuid for uuid, each in reconciled.items() if each.leaves)
    later = frozenset(uuid for uuid in leaving if reconciled[uuid].stays)
    staying, undone = correct_places(observed, policy, changes, leaving, later)

    # What keeps a provider that leaves: what others have put on it, or a provider below it.
    others = {uuid: each.others for uuid, each in reconciled.items() if each.others != NONE}
    kept = [Kept(uuid, _set(theirs), uuid) for uuid, theirs in others.items()]
    for uuid in staying:
        if (now := reconciled[uuid].after) is not None:
            changes[uuid], more = _while_below(inputs, uuid, now, leaving)
            kept += (each for each in more if isinstance(each, Kept))
            problems += (each for each in more if isinstance(each, Problem))
    shared, more_problems = _explained(inputs, kept)
    problems += more_problems
    problems += (Problem(provider.uuid, provider.name, text) for provider, text in undone)
    problems += _ignored_removals(inputs)

    after = _next_ledger(inputs, {uuid: each.rows for uuid, each in reconciled.items()}, leaving)
    absences = dict(chain(*(each.absences.items() for each in reconciled.values())))
    desired, texts = observed.with_changes(changes), tuple(dict.fromkeys(problems))
    return Reconciled(desired, after, texts, before, absences, shared)


class Kept(NamedTuple):
    """Why a provider (UUID) that leaves is kept: ``what`` another service did, on ``by``."""

    uuid: str
    what: str
    by: str


def _set(others: Claims) -> str:
    """Return what others have set on a provider, in words; empty if that is nothing."""
    kinds = zip(("inventory of", "trait", "aggregate"), others[1:], strict=True)
    texts = [f"{kind} {', '.join(sorted(names))}" for kind, names in kinds if names]
    return f"set {' and '.join(texts)}" if texts else ""


def _while_below(
    inputs: Inputs, uuid: str, after: Provider, leaving: frozenset[str]
) -> tuple[Provider, list[Kept | Problem]]:
    """Return a provider that would leave, but that has one below it that stays, and who keeps it.

    Its inventory goes, so that nothing more is placed on it.
    """
    provider, texts = inputs.observed.providers[uuid], list[Kept | Problem]()
    below = [inputs.observed.providers[child] for child in inputs.observed.children(uuid)]
    stay = [child for child in below if child.uuid not in leaving]
    if not stay or after.inventory != provider.inventory:
        after = replace(provider, inventory=after.inventory)
    for child in stay:
        row = inputs.ledger.claims_on(child.uuid)
        reporter = next((owner for owner, held in row.items() if held.provider), None)
        if reporter is not None:
            text = "not removed, nor its parent, which a driver removed: "
            text += f"{owner_text(reporter)} still reports it"
            texts.append(Problem(child.uuid, child.name, text))
        else:
            after = provider if provider.shares else after
            what = f"created provider {child.name} ({child.uuid}) below it"
            texts.append(Kept(uuid, what, child.uuid))
    return after, texts


def _explained(inputs: Inputs, kept: list[Kept]) -> tuple[dict[str, str], list[Problem]]:
    """Return the texts of sharing providers that are kept, by UUID, and the others' problems."""
    shared, problems = dict[str, str](), list[Problem]()
    how = "to remove it:" if inputs.policy.owns_root else "to remove it, stop nova-compute, then"
    for uuid, what, by in kept:
        provider = inputs.observed.providers[uuid]
        sake = f"another service {what}; {how} openstack resource provider delete {by}"
        if provider.shares:
            shared[uuid] = f"draining, and kept: {sake}"
        else:
            text = f"not reported any more, emptied and kept: {sake}"
            problems.append(Problem(uuid, provider.name, text, kept=True))
    return shared, problems


def _ignored_removals(inputs: Inputs) -> Iterator[Problem]:
    """Yield the removals of providers that another service created."""
    for answer in inputs.answers.in_order:
        for uuid in answer.removed - answer.adopted:
            provider = inputs.observed.get(uuid)
            is_top = provider is not None and provider.parent_uuid not in answer.removed
            if provider is not None and is_top and not inputs.ledger.claims_on(uuid):
                text = (
                    f"removal by {owner_text(answer.owner)} ignored: created by another "
                    f"service (to take it over: computectl adopt {uuid})"
                )
                yield Problem(uuid, provider.name, text)


def _unchanged(inputs: Inputs) -> set[str]:
    """Return the providers that need no reconciliation: almost all in almost all periods.

    Their only owner claims what it claimed before, and Placement has exactly that.
    """
    observed, rows = inputs.observed.providers, inputs.ledger.claims
    unchanged, others = set[str](), set[str]()
    for answer in inputs.answers.in_order:
        absent = answer.absent.items()
        others.update(uuid for uuid, it in absent if it.within(observed.get(uuid)) != NONE)
        for uuid, (claims, provider) in answer.reported.items():
            row = rows.get(uuid, {})
            same = provider is observed.get(uuid) and row.get(answer.owner) == claims
            (unchanged if same and len(row) == 1 else others).add(uuid)
    return unchanged - others


def _next_ledger(
    inputs: Inputs, rows: Mapping[str, ClaimsByOwner], leaving: frozenset[str]
) -> Ledger:
    """Return the new ledger; it begins with the first answer of a driver."""
    before, answers, accepted = inputs.ledger, inputs.answers.in_order, NOTHING
    root = None if inputs.policy.owns_root else inputs.observed.get(inputs.policy.root)
    if root is not None:
        row = before.claims_on(root.uuid)
        claims = [held for owner, held in row.items() if owner in inputs.unanswered]
        claims += [each.claims for _, each in inputs.answers.on(root.uuid)]
        accepted = before.with_accepted(root).accepted & joined(claims).traits
    changed = {uuid: row for uuid, row in rows.items() if row != before.claims_on(uuid)}
    if before.known and not changed and (accepted, leaving) == (before.accepted, before.leaving):
        return before
    holders = {uuid: row for uuid, row in {**before.claims, **changed}.items() if row}
    answered = any(each.owner.startswith(DRIVER) for each in answers)
    known = before.known or answered
    return replace(before, claims=holders, accepted=accepted, known=known, leaving=leaving)


# -- one provider


class Outcome(Enum):
    """What becomes of a claim in Placement."""

    WRITTEN = "as the first owner that claims it reports it"
    STAYS = "as Placement has it"
    REMOVED = "removed; drained first while consumers use it"


class Row(NamedTuple):
    """A row of the table: which claims on a provider it is about, and what becomes of them."""

    claims: Callable[["Facts"], Claims]
    outcome: Outcome


TABLE: Mapping[str, Row] = {
    # whoever has set it, also another service
    "the agent, or a driver alone, reports it absent": Row(
        lambda facts: facts.absent, Outcome.REMOVED
    ),
    # created, adopted from another service with the owner's values, or kept right
    "an owner claims it": Row(lambda facts: facts.claimed, Outcome.WRITTEN),
    # a driver that failed is unknown, not empty
    "its owner has not answered": Row(lambda facts: facts.unanswered, Outcome.STAYS),
    # a driver that is configured no more counts as answered once all others have
    "its owners have answered without it": Row(lambda facts: facts.recorded, Outcome.REMOVED),
    # another service's, or an operator's
    "nobody here has ever claimed it": Row(lambda facts: facts.observed, Outcome.STAYS),
}
"""The table of ownership: of each claim on a provider the first row that has it decides."""


@dataclass(slots=True)
class Facts:
    """What is known of the claims on one provider, and in the end what becomes of them."""

    inputs: Inputs
    before: Provider | None
    """The provider as Placement has it."""
    is_pool: bool
    """Whether that is a sharing provider, which several hosts may report."""
    rows: ClaimsByOwner
    """The last claims, by owner."""
    reported: list[tuple[str, Reported]]
    """The claims that the policy allows now, those of the first owner first."""
    claimed: Claims
    """What is claimed now."""
    unanswered: Claims
    """The last claims of owners that have not answered."""
    recorded: Claims
    """The last claims of owners that have answered, as far as they may be removed."""
    absent: Claims
    """What shall be absent whoever has set it."""
    problems: list[Problem]
    absences: dict[Absence, str]

    @property
    def observed(self) -> Claims:
        """All claims that Placement has."""
        if self.before is None:
            return NONE
        return everything_on(self.before)._replace(aggregates=self.before.aggregates)

    def outcomes(self) -> Mapping[Outcome, Claims]:
        """Return the claims by what becomes of them."""
        outcomes, decided = dict.fromkeys(Outcome, NONE), NONE
        for row in TABLE.values():
            claims = row.claims(self).without(decided)
            decided = decided.joined(claims)
            outcomes[row.outcome] = outcomes[row.outcome].joined(claims)
        return outcomes


class ReconciledProvider(NamedTuple):
    """A reconciled provider: ``after`` is ``None`` if it is neither observed nor claimed."""

    after: Provider | None
    rows: ClaimsByOwner
    leaves: bool
    """Whether it is to be removed."""
    problems: list[Problem]
    absences: Mapping[Absence, str]
    stays: bool
    """Whether it is not removed yet."""
    others: Claims
    """The claims of others that keep it although it leaves."""


def reconcile_provider(inputs: Inputs, uuid: str) -> ReconciledProvider:
    """Return what one provider shall be, who holds what of it, and whether it leaves."""
    facts = _facts(inputs, uuid)
    outcomes = facts.outcomes()
    removed, written = outcomes[Outcome.REMOVED], outcomes[Outcome.WRITTEN]
    decider, place = _place(facts, uuid)
    after, class_deciders = None, dict[str, str]()
    if place is not None:
        inventory, class_deciders = _inventory(facts, place, removed.classes)
        subject = facts.before or place
        traits, aggregates = frozenset[str](), frozenset[str]()
        if facts.before is not None:
            traits, aggregates = facts.before.traits, facts.before.aggregates
        traits = traits - removed.traits | written.traits
        aggregates = aggregates - removed.aggregates | written.aggregates
        name = place.name
        if facts.is_pool and name > subject.name:  # of what several hosts say the first holds
            reason = f"{owner_text(decider)} reports {name_text(place)}"
            if _is_contested(facts, uuid, name_text(subject), reason):
                name = subject.name
        after = Provider(uuid, name, place.parent_uuid, inventory, traits, aggregates)
    rows = _next_rows(facts, decider, None if place is None else class_deciders)
    leaves, stays, others = removed.provider, False, NONE
    if leaves and facts.before is not None and after is not None:
        after, stays, others = _leaving(inputs, facts.before, after, facts.claimed)
    return ReconciledProvider(after, rows, leaves, facts.problems, facts.absences, stays, others)


def _facts(inputs: Inputs, uuid: str) -> Facts:
    """Collect the facts about one provider."""
    policy, answers, before = inputs.policy, inputs.answers, inputs.observed.get(uuid)
    rows, problems = inputs.ledger.claims_on(uuid), list[Problem]()
    reported: list[tuple[str, Reported]] = []
    for owner, wanted in answers.on(uuid):
        allowed, reasons = policy.allowed(owner, wanted, inputs.observed, inputs.ledger)
        name = (before or wanted.provider).name
        problems += [Problem(uuid, name, reason) for reason in reasons]
        if allowed is not None:
            reported.append((owner, allowed))
    # Who stands in for an unknown owner answers once a driver has said something of the provider.
    is_reported = any(
        uuid in each.removed or uuid in each.sets_inventory for each in answers.in_order
    )
    missing = inputs.unanswered if is_reported or policy.released else inputs.unanswered | STAND_INS
    unanswered = joined(held for owner, held in rows.items() if owner in missing)
    recorded = joined(held for owner, held in rows.items() if owner not in missing)
    # A provider stays while an owner that has not answered claims anything of it.
    others = {owner for owner in rows.keys() & missing - STAND_INS if driver_of(owner) != AGENT}
    if others and not answers.waiting:
        unanswered = unanswered._replace(provider=True)
    # Of another service's root or pool nothing goes but traits of this agent's.
    if not policy.may_drop(uuid):
        recorded = recorded._replace(provider=False, classes=NOTHING)
    # The root goes with the host only (computectl retire): guests may be on it.
    if before is None or (uuid == policy.root and not policy.released):
        recorded = recorded._replace(provider=False)
    reports = any(each.claims.provider for _, each in reported)
    if recorded.without(unanswered).provider and not reports:  # it leaves, with what files add
        reported = [each for each in reported if each[0] != FILES]
    absent, absences = _absent(inputs, uuid)
    return Facts(
        inputs=inputs,
        before=before,
        is_pool=before is not None and before.shares and uuid != policy.root,
        rows=rows,
        reported=reported,
        claimed=joined(each.claims for _, each in reported),
        unanswered=unanswered,
        recorded=recorded,
        absent=absent,
        problems=problems,
        absences=absences,
    )


def _place(facts: Facts, uuid: str) -> tuple[str, Provider | None]:
    """Return who decides over name and parent, and the provider that has these.

    Those of an owner that has not answered stay, else those of the first that claims it hold.
    """
    unanswered, before = facts.inputs.unanswered - STAND_INS, facts.before
    places = {owner: each.provider for owner, each in facts.reported if each.claims.provider}
    deciders = [it for it, held in facts.rows.items() if held.provider and it in unanswered]
    if deciders and before is not None:
        places = {deciders[0]: before, **places}
    if not places:
        return "", before
    decider, place = next(iter(places.items()))
    for owner, other in places.items():
        if (other.name, other.parent_uuid) != (place.name, place.parent_uuid):
            text = f"name and parent of {owner_text(owner)} ignored: "
            text += f"{owner_text(decider)} reports this provider"
            facts.problems.append(Problem(uuid, (before or place).name, text))
    return decider, place


def _is_contested(facts: Facts, uuid: str, observed: str, reason: str) -> bool:
    """Note that Placement's name or record yields; return whether it holds for now."""
    facts.absences[uuid, observed] = reason
    return (uuid, observed) in facts.inputs.policy.contested


def _inventory(
    facts: Facts, place: Provider, removed: frozenset[str]
) -> tuple[dict[str, Inventory], dict[str, str]]:
    """Return the records of the classes, and who holds each class.

    An owner that has not answered keeps a class unless a driver before it in order claims it.
    """
    inputs, observed = facts.inputs, {} if facts.before is None else facts.before.inventory
    inventory = {name: record for name, record in observed.items() if name not in removed}
    deciders: dict[str, str] = {}
    for owner, held in facts.rows.items():
        for name in held.classes & inventory.keys():
            if owner in inputs.unanswered | STAND_INS and name in facts.unanswered.classes:
                deciders.setdefault(name, owner)
    recorded = joined(facts.rows.values()).classes
    for owner, reported in facts.reported:
        for name in reported.claims.classes:
            record, decider = reported.provider.inventory[name], deciders.get(name, owner)
            is_first = inputs.answers.takes_precedence(owner, decider)
            is_taken = decider != owner and not (is_first and decider in inputs.unanswered)
            is_foreign = name in observed and name not in recorded
            if is_taken and driver_of(owner) == driver_of(decider):
                continue  # sources of one driver: no operator could end this conflict
            if owner == FILES and (is_taken or is_foreign):
                facts.problems.append(_file_ignored(facts, place, name))
            elif not is_taken:
                deciders[name] = owner
                inventory[name] = _record(facts, place.uuid, name, record, owner)
            elif record.with_defaults(inventory[name]) != inventory[name]:
                text = (
                    f"{name} of {owner_text(owner)} ignored: {owner_text(decider)}, "
                    "which is before it in compute_driver, reports another inventory"
                )
                subject = facts.before or place
                facts.problems.append(Problem(subject.uuid, subject.name, text))
    return inventory, deciders


def _file_ignored(facts: Facts, place: Provider, name: str) -> Problem:
    """Return the problem that a provider file asks for a class that it may not have."""
    uuid, answers = place.uuid, facts.inputs.answers.in_order
    where = next(filter(None, (each.places.get((uuid, name)) for each in answers)), FILES)
    text = f"{where}: {name} of the file ignored: the provider has it without the file; "
    text += "remove it from the file, or from Placement if it is a leftover"
    return Problem(uuid, (facts.before or place).name, text)


def _record(facts: Facts, uuid: str, name: str, record: Inventory, owner: str) -> Inventory:
    """Return the record of a class that an owner decides.

    Hosts that report one sharing provider may differ for ever.  The least holds, in a fixed order
    of equal capacities: it is written at once, all else once a day by each host.
    """
    before = facts.before
    observed = before.inventory.get(name) if before is not None else None
    record = record.with_defaults(observed)
    if observed is None or not facts.is_pool:
        return record
    had, has = ([each.capacity, *each.as_dict().values()] for each in (observed, record))
    if had < has:
        reason = f"{owner_text(owner)} reports {record_text(name, record)}"
        if _is_contested(facts, uuid, record_text(name, observed), reason):
            return observed
    return record


def _next_rows(
    facts: Facts, decider: str, class_deciders: Mapping[str, str] | None
) -> ClaimsByOwner:
    """Return who holds what from now on; released claims stay until Placement is without them."""
    inputs, now = facts.inputs, dict[str, Claims]()
    for owner, reported in facts.reported:
        named = reported.claims.classes
        if class_deciders is not None:
            named = frozenset(name for name in named if class_deciders.get(name) == owner)
        is_decider = reported.claims.provider and owner == decider
        now[owner] = reported.claims._replace(provider=is_decider, classes=named)
    unanswered = inputs.unanswered - STAND_INS
    claims = (held for owner, held in facts.rows.items() if owner in unanswered)
    still_claimed = joined([facts.claimed, *claims])
    # The provider is created again, and read afterwards: keep what may still exist.
    is_missed = facts.before is None and still_claimed.provider
    for owner, held in facts.rows.items():
        if owner in inputs.unanswered:
            # What a driver here reports is nova-compute's no more.
            released = held.without(still_claimed) if owner == REPLACED else held
        else:
            released = (held if is_missed else held.within(facts.before)).without(still_claimed)
        now[owner] = now.get(owner, NONE).joined(released)
    now.pop(OWN_UUID, None)  # follows from the UUID in each period anew
    return {owner: held for owner, held in now.items() if held != NONE}


def _leaving(
    inputs: Inputs, before: Provider, after: Provider, claimed: Claims
) -> tuple[Provider, bool, Claims]:
    """Return the next step of a provider that leaves, from Placement's ``before``.

    ``after`` is without what is ours.  Capacity goes first, so that no guest comes between two
    steps.  Return also whether the provider stays in this period, and what of others keeps it.
    """
    policy, uuid = inputs.policy, before.uuid
    # A device may be away for a moment, as while its driver is reloaded: not offered, but kept.
    if uuid not in policy.missed and any(uuid in it.missing for it in inputs.answers.in_order):
        return before if before.shares else replace(before, inventory=after.inventory), True, NONE
    others = inputs.ledger.others_on(before).without(claimed) if policy.keeps else NONE
    # Guests of other hosts may use a pool: it is drained as it is, with its traits and aggregates.
    if before.shares:
        return before, others != NONE, others
    if after.inventory != before.inventory and (others != NONE or policy.released):
        return replace(before, inventory=after.inventory), True, others
    tag = frozenset({policy.service_tag}) if policy.keeps else NOTHING  # it marks what vanished
    return replace(after, traits=after.traits | before.traits & tag), others != NONE, others


def _absent(inputs: Inputs, uuid: str) -> tuple[Claims, dict[Absence, str]]:
    """Return the traits and aggregates to be removed whoever set them, and the drivers' absences.

    The agent's absences always count.  A driver's absence counts if the ledger has the provider
    and it is neither foreign nor another service's root, if the claims of all owners are
    known, and if neither the agent nor another owner claims the name.
    """
    result, absences, row = NONE, dict[Absence, str](), inputs.ledger.claims_on(uuid)
    is_owned = any(held.provider for who, held in row.items() if who not in STAND_INS)
    for answer in inputs.answers.in_order:
        names, owner = answer.absent.get(uuid, NONE), answer.owner
        if names != NONE and driver_of(owner) != AGENT:
            if not (inputs.all_known and is_owned and inputs.policy.may_drop(uuid)):
                continue
            others = [each for who, each in inputs.answers.on(uuid) if who != owner]
            claimed = (other.claims for other in others)
            unanswered = (row[who] for who in row.keys() & inputs.unanswered - {owner})
            agents = Claims(traits=inputs.policy.agent_traits)
            names = names.within(inputs.observed.get(uuid))
            names = names.without(joined([agents, *claimed, *unanswered]))
            both = [*names.traits, *names.aggregates]
            reason = f"{owner_text(owner)} reports it absent"
            absences.update({(uuid, name): reason for name in both})
            waits = frozenset(name for name in both if (uuid, name) in inputs.policy.contested)
            names = names.without(Claims(traits=waits, aggregates=waits))
        result = result.joined(names)
    return result, absences
