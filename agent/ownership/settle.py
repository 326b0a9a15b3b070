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
yes                   M                 nobody; M does not  emptied; released if it is missing in
                                        find it now         the next period too
yes, with others'     M                 nobody; M answered  emptied, then without what is ours; it
trait, aggregate,                                           stays
class or child
yes                   M and N           nobody; N is        a provider stays, with what N
                                        silent              holds of it
yes                   M, configured     nobody; all others  released
                      no more           answered
no longer             M                 M, on another       given up, with a problem
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
:func:`agent.ownership.policy.with_unrecorded_claims` adds.  :class:`agent.ownership.policy.Policy`
limits what may be asserted, and :mod:`agent.ownership.placing` what the tree as a whole allows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from agent.ownership.ledger import (
    AGENT,
    DRIVER,
    FILES,
    NONE,
    NOTHING,
    NOVA_COMPUTE,
    OWN_UUID,
    STATUS,
    Holders,
    Holding,
    Ledger,
    driver_of,
    joined,
    manager_text,
)
from agent.ownership.placing import correct_places, free_names
from agent.ownership.policy import Policy, name_text, record_text, with_unrecorded_claims
from agent.ownership.statement import Assertion, Statements
from reportclient.model import Inventory, Provider
from reportclient.plan import Problem
from reportclient.snapshot import Snapshot

Denial = tuple[str, str]
"""A provider's UUID, and the trait or aggregate that a manager asserts absent from it."""
STAND_INS = frozenset({OWN_UUID, NOVA_COMPUTE})
"""Managers that stand for an owner that no ledger has."""


@dataclass(frozen=True, slots=True)
class Settled:
    """``desired`` is what Placement shall have; ``ledger`` is saved before Placement is written.

    ``before`` is the ledger until now with the additions of ``with_unrecorded_claims``.
    ``denials`` are traits and aggregates in Placement that a driver asserts absent and no manager
    here claims, and the name and records of a sharing provider that yield to a manager's, with
    what it reports: they are removed unless contested.  ``kept`` says why a sharing provider that
    leaves is only drained: other hosts may use it too.
    """

    desired: Snapshot
    ledger: Ledger
    problems: tuple[Problem, ...]
    before: Ledger
    denials: Mapping[Denial, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)

    def is_set(self, statements: Statements, uuid: str, name: str) -> bool:
        """Return whether a manager's statement decides a class of a provider (UUID)."""
        return any(
            name in held.classes and name in self.ledger.holding_of(uuid, manager).classes
            for manager, (held, _) in statements.on(uuid)
        )


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments of :func:`settle`, and what follows from them for all providers."""

    observed: Snapshot
    ledger: Ledger
    answers: Statements
    policy: Policy
    silent: frozenset[str]
    """Managers whose claims stay as they are in this settlement."""
    may_deny: bool
    """Whether the claims of all configured managers are known, so that denials can be checked."""


def settle(  # noqa: C901, PLR0912  one step after the other
    observed: Snapshot, ledger: Ledger, answers: Statements, policy: Policy
) -> Settled:
    """Return the desired snapshot, the new ledger and the problems.

    ``answers`` has the statements in the order that decides exclusive claims: drivers as
    they are configured, then files, then the agent.
    """
    before = with_unrecorded_claims(ledger, observed, answers, policy)
    managers, answered = before.managers(), answers.answered()
    missing = answers.silent | answers.waiting
    complete = missing <= {AGENT, STATUS}
    silent = frozenset(
        manager
        for manager in managers
        if answers.is_silent(manager) or not (complete or driver_of(manager) in answered)
    )
    # Unreadable files may claim traits that no ledger has: see Policy.allowed.
    known_managers = {AGENT, STATUS, *(managers - {FILES}), *map(driver_of, managers - {FILES})}
    inputs = Inputs(observed, before, answers, policy, silent, missing <= known_managers)

    # Each provider by itself.
    uuids = dict.fromkeys(chain(before.holders, *(each.assertions for each in answers.statements)))
    unchanged = _unchanged(inputs)
    settled = {uuid: settle_provider(inputs, uuid) for uuid in uuids if uuid not in unchanged}
    problems = dict.fromkeys(chain(*(each.problems for each in settled.values())))

    # The tree as a whole: names, parents, and what can be removed.
    changes = {uuid: each.after for uuid, each in settled.items()}
    leaving = frozenset(uuid for uuid, each in settled.items() if each.leaves)
    later = frozenset(uuid for uuid in leaving if settled[uuid].stays)
    free_names(changes, later)
    staying, undone = correct_places(observed, policy, changes, leaving - later)
    kept, sakes = dict[str, str](), list[tuple[str, str, str]]()
    for uuid, each in settled.items():
        kinds = zip(("inventory of", "trait", "aggregate"), each.others[1:], strict=True)
        if theirs := [f"{kind} {', '.join(sorted(names))}" for kind, names in kinds if names]:
            sakes.append((uuid, f"set {' and '.join(theirs)}", uuid))
    for uuid in staying:
        provider, now = observed.providers[uuid], settled[uuid].after
        below = [observed.providers[child] for child in observed.children(uuid)]
        stay = [child for child in below if child.uuid not in leaving]
        if now is not None and (not stay or now.inventory != provider.inventory):
            changes[uuid] = replace(provider, inventory=now.inventory)
        for child in stay:
            row = before.holdings_on(child.uuid)
            owner = next((manager for manager, held in row.items() if held.provider), None)
            if owner is not None:
                text = "not removed, nor its parent, which a driver removed: "
                text += f"{manager_text(owner)} still reports it"
                problems[Problem(child.uuid, child.name, text)] = None
            else:
                changes[uuid] = provider if provider.shares else changes[uuid]
                what = f"created provider {child.name} ({child.uuid}) below it"
                sakes.append((uuid, what, child.uuid))
    how = "to remove it, stop nova-compute, then" if policy.attached else "to remove it:"
    for uuid, what, to_delete in sakes:
        provider = observed.providers[uuid]
        sake = f"another service {what}; {how} openstack resource provider delete {to_delete}"
        if provider.shares:
            kept[uuid] = f"draining, and kept: {sake}"
        else:
            text = f"not reported any more, emptied and kept: {sake}"
            problems[Problem(uuid, provider.name, text, kept=True)] = None
    for provider, text in undone:
        problems[Problem(provider.uuid, provider.name, text)] = None
    for statement in answers.statements:
        for uuid in statement.removed - statement.adopted:
            if uuid in observed and not before.holdings_on(uuid):
                text = (
                    f"removal by {manager_text(statement.manager)} ignored: created by another "
                    f"service (to take it over: computectl adopt {uuid})"
                )
                problems[Problem(uuid, observed.providers[uuid].name, text)] = None

    after = _next_ledger(inputs, {uuid: each.holders for uuid, each in settled.items()}, leaving)
    denials = dict(chain(*(each.denials.items() for each in settled.values())))
    return Settled(observed.with_changes(changes), after, tuple(problems), before, denials, kept)


def _unchanged(inputs: Inputs) -> set[str]:
    """Return the providers that need no settlement: almost all in almost all periods.

    Their only manager asserts what it asserted before, and Placement has exactly that.
    """
    observed, rows = inputs.observed.providers, inputs.ledger.holders
    unchanged, others = set[str](), set[str]()
    for statement in inputs.answers.statements:
        denied = statement.denied.items()
        others.update(uuid for uuid, it in denied if it.within(observed.get(uuid)) != NONE)
        for uuid, (holding, provider) in statement.assertions.items():
            row = rows.get(uuid, {})
            same = provider is observed.get(uuid) and row.get(statement.manager) == holding
            (unchanged if same and len(row) == 1 else others).add(uuid)
    return unchanged - others


def _next_ledger(inputs: Inputs, rows: Mapping[str, Holders], leaving: frozenset[str]) -> Ledger:
    """Return the new ledger; it begins with the first statement of a driver."""
    before, statements, seen = inputs.ledger, inputs.answers.statements, NOTHING
    root = inputs.observed.get(inputs.policy.root) if inputs.policy.attached else None
    if root is not None:
        row = before.holdings_on(root.uuid)
        claims = [held for manager, held in row.items() if manager in inputs.silent]
        claims += [asserted.holding for _, asserted in inputs.answers.on(root.uuid)]
        seen = before.seen_on(root).seen & joined(claims).traits
    changed = {uuid: row for uuid, row in rows.items() if row != before.holdings_on(uuid)}
    if before.begun and not changed and (seen, leaving) == (before.seen, before.leaving):
        return before
    holders = {uuid: row for uuid, row in {**before.holders, **changed}.items() if row}
    answered = any(each.manager.startswith(DRIVER) for each in statements)
    begun = before.begun or answered
    return replace(before, holders=holders, seen=seen, begun=begun, leaving=leaving)


class SettledProvider(NamedTuple):
    """A settled provider: ``after`` is ``None`` if it is neither observed nor asserted."""

    after: Provider | None
    holders: Holders
    leaves: bool
    """Whether it is to be removed."""
    problems: list[Problem]
    denials: Mapping[Denial, str]
    stays: bool
    """Whether it is not removed yet."""
    others: Holding
    """The claims of others that keep it although it leaves."""


def settle_provider(  # noqa: C901, PLR0912, PLR0915  one kind of claim after the other
    inputs: Inputs, uuid: str
) -> SettledProvider:
    """Return what one provider shall be, who holds what of it, and whether it leaves."""
    policy, answers, before = inputs.policy, inputs.answers, inputs.observed.get(uuid)
    held_before = inputs.ledger.holdings_on(uuid)
    problems: list[Problem] = []

    # What is asserted of it, who is silent, and what is released.
    assertions: list[tuple[str, Assertion]] = []
    for manager, assertion in answers.on(uuid):
        allowed, reasons = policy.allowed(manager, assertion, inputs.observed, inputs.ledger)
        name = (before or assertion.provider).name
        problems += [Problem(uuid, name, reason) for reason in reasons]
        if allowed is not None:
            assertions.append((manager, allowed))
    is_reported = any(uuid in each.gone or uuid in each.inventoried for each in answers.statements)
    silent = inputs.silent if is_reported or policy.released else inputs.silent | STAND_INS
    silent_claims = joined(held for manager, held in held_before.items() if manager in silent)
    answered = joined(held for manager, held in held_before.items() if manager not in silent)
    asserted = joined(assertion.holding for _, assertion in assertions)
    released = answered.without(silent_claims).without(asserted)

    # Its name and parent: a silent owner's, else those of the first manager that asserts it.
    places = {manager: each.provider for manager, each in assertions if each.holding.provider}
    owners = [m for m, held in held_before.items() if held.provider and m in silent - STAND_INS]
    if owners and before is not None:
        places = {owners[0]: before, **places}
    owner, place = next(iter(places.items()), ("", before))
    after, class_owners, denials = None, dict[str, str](), dict[Denial, str]()
    raised = dict[Denial, str]()
    if place is not None:
        subject = before or Provider(uuid, place.name)

        def add_problem(text: str) -> None:
            problems.append(Problem(uuid, subject.name, text))

        for manager, other in places.items():
            if (other.name, other.parent_uuid) != (place.name, place.parent_uuid):
                add_problem(
                    f"name and parent of {manager_text(manager)} ignored: {manager_text(owner)} "
                    "reports this provider"
                )

        def is_contested(observed: str, reported: str, manager: str) -> bool:
            raised[uuid, observed] = f"{manager_text(manager)} reports {reported}"
            return (uuid, observed) in policy.contested

        is_shared = subject.shares and uuid != policy.root
        yields = is_shared and place.name > subject.name
        if yields and is_contested(name_text(subject), name_text(place), owner):
            place = replace(place, name=subject.name)

        # Its classes: a silent owner keeps one unless a driver before it in order asserts it.
        inventory = dict(subject.inventory)
        if policy.may_drop(uuid):
            for name in released.classes & inventory.keys():
                del inventory[name]
        for name in silent_claims.classes & inventory.keys():
            holders = (manager for manager, held in held_before.items() if name in held.classes)
            class_owners[name] = next(manager for manager in holders if manager in silent)
        for manager, assertion in assertions:
            for name in assertion.holding.classes:
                record = assertion.provider.inventory[name]
                holder = class_owners.get(name, manager)
                yields = holder in inputs.silent and answers.takes_precedence(manager, holder)
                is_taken = holder != manager and not yields
                is_held = any(name in held.classes for held in held_before.values())
                is_foreign = name in subject.inventory and not is_held
                if is_taken and driver_of(manager) == driver_of(holder):
                    continue
                if manager == FILES and (is_taken or is_foreign):
                    lines = (each.places.get((uuid, name)) for each in answers.statements)
                    add_problem(
                        f"{next(filter(None, lines), FILES)}: {name} of the file ignored: a driver "
                        "reports it, or another service has set it; remove it from the file, or "
                        "from Placement"
                    )
                elif is_taken:
                    if record.with_defaults(inventory[name]) != inventory[name]:
                        add_problem(
                            f"{name} of {manager_text(manager)} ignored: {manager_text(holder)}, "
                            "which is before it in compute_driver, reports another inventory"
                        )
                else:
                    observed = subject.inventory.get(name)
                    record, class_owners[name] = record.with_defaults(observed), manager
                    if observed is not None and is_shared and _offers_less(observed, record):
                        texts = record_text(name, observed), record_text(name, record)
                        record = observed if is_contested(*texts, manager) else record
                    inventory[name] = record

        # Its traits and aggregates, which managers share.
        denied, denials = _denied(inputs, uuid)
        denials |= raised
        traits = (subject.traits - released.traits | asserted.traits) - denied.traits
        aggregates = subject.aggregates - released.aggregates | asserted.aggregates
        aggregates -= denied.aggregates
        after = Provider(uuid, place.name, place.parent_uuid, inventory, traits, aggregates)

    # It leaves once its claim is released, but not while silent managers claim anything of it.
    leaves = before is not None and released.provider
    leaves = leaves and (uuid != policy.root or policy.released) and policy.may_drop(uuid)
    if leaves and not answers.waiting:
        silent_holders = held_before.keys() & silent - STAND_INS
        leaves = all(driver_of(manager) == AGENT for manager in silent_holders)
    stays, others = False, NONE
    if leaves and before is not None and after is not None:
        after, stays, others = _leaving(inputs, before, after, asserted)

    # Who holds it from now on.  Released claims stay until Placement no longer has them.
    now: dict[str, Holding] = {}
    for manager, assertion in assertions:
        named = assertion.holding.classes
        now[manager] = assertion.holding._replace(
            provider=assertion.holding.provider and manager == owner,
            classes=frozenset(n for n in named if place is None or class_owners.get(n) == manager),
        )
    claims = (held for manager, held in held_before.items() if manager in inputs.silent - STAND_INS)
    still_claimed = joined([asserted, *claims])
    for manager, held in held_before.items():
        if manager in inputs.silent:
            left = held.without(still_claimed) if manager == NOVA_COMPUTE else held
        else:
            # The provider is created again, and read afterwards: keep what may still exist.
            is_missed = before is None and still_claimed.provider
            left = (held if is_missed else held.within(before)).without(still_claimed)
        now[manager] = now.get(manager, NONE).joined(left)
    now.pop(OWN_UUID, None)
    holders_now = {manager: held for manager, held in now.items() if held != NONE}
    return SettledProvider(after, holders_now, leaves, problems, denials, stays, others)


def _offers_less(observed: Inventory, record: Inventory) -> bool:
    """Return whether Placement's record offers less than a manager's.

    Hosts that report one sharing provider may differ for ever.  The least holds, in a fixed order
    of equal capacities, and the first name: it is written at once, all else once a day by each
    host.
    """
    had, has = ([each.capacity, *each.as_dict().values()] for each in (observed, record))
    return had < has


def _leaving(
    inputs: Inputs, before: Provider, after: Provider, asserted: Holding
) -> tuple[Provider, bool, Holding]:
    """Return the next step of a provider that leaves, from Placement's ``before``.

    ``after`` is without what is ours.  Capacity goes first, so that no guest comes between two
    steps.  Return also whether the provider stays in this period, and what of others keeps it.
    """
    policy, uuid = inputs.policy, before.uuid
    if uuid not in policy.missed and any(uuid in it.missing for it in inputs.answers.statements):
        return before if before.shares else replace(before, inventory=after.inventory), True, NONE
    others = inputs.ledger.others_on(before).without(asserted) if policy.keeps else NONE
    if before.shares:
        return before, others != NONE, others
    if after.inventory != before.inventory and (others != NONE or policy.released):
        return replace(before, inventory=after.inventory), True, others
    tag = frozenset({policy.service_tag}) if policy.keeps else NOTHING  # it marks what vanished
    return replace(after, traits=after.traits | before.traits & tag), others != NONE, others


def _denied(inputs: Inputs, uuid: str) -> tuple[Holding, dict[Denial, str]]:
    """Return the traits and aggregates to be removed whoever set them, and the drivers' denials.

    The agent's denials always count.  A driver's denial counts if the ledger has the provider
    and it is neither foreign nor another service's root, if the claims of all managers are
    known, and if neither the agent nor another manager claims the name.
    """
    result, denials, row = NONE, dict[Denial, str](), inputs.ledger.holdings_on(uuid)
    is_ours = any(held.provider for holder, held in row.items() if holder not in STAND_INS)
    for statement in inputs.answers.statements:
        names, manager = statement.denied.get(uuid, NONE), statement.manager
        if names != NONE and driver_of(manager) != AGENT:
            if not (inputs.may_deny and is_ours and inputs.policy.may_drop(uuid)):
                continue
            others = [each for who, each in inputs.answers.on(uuid) if who != manager]
            asserted = (other.holding for other in others)
            silent = (row[holder] for holder in row.keys() & inputs.silent - {manager})
            agents = Holding(traits=inputs.policy.agent_traits)
            names = names.within(inputs.observed.get(uuid))
            names = names.without(joined([agents, *asserted, *silent]))
            both = [*names.traits, *names.aggregates]
            reason = f"{manager_text(manager)} reports it absent"
            denials.update({(uuid, name): reason for name in both})
            waits = frozenset(name for name in both if (uuid, name) in inputs.policy.contested)
            names = names.without(Holding(traits=waits, aggregates=waits))
        result = result.joined(names)
    return result, denials
