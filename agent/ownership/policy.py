"""Limits on the claims of owners, and claims that are this host's without a ledger.  Pure.

- On this agent's own root everything, and below it on all providers but those that another
  service created.
- On a root of another service (``AttachedPolicy``) only traits, and below it only what this agent
  created; that may be below a provider of another service.
- On a sharing provider of another service nothing.
- A second root is allowed only if it shares its inventory.
- The agent's own traits (the disabled status) are the agent's only.
- A trait or aggregate that a driver reports absent and another service sets again is removed at
  growing intervals.
- Of what several hosts report of a sharing provider the least inventory and the first name hold;
  what is set again after a driver here has replaced it is replaced once a day.

In attach mode ``agent.period.attach.AttachedRoot`` has what the agent itself asserts, and
``Policy.may_describe`` what provider files may.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

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
    adopted_on,
    driver_of,
    joined,
    owner_text,
)
from agent.reporting.condition import PART, Condition
from reportclient.model import Inventory, Provider
from reportclient.provider_tree import NONE, NOTHING, Claims, own_key
from reportclient.snapshot import Snapshot

DISABLED = "COMPUTE_STATUS_DISABLED"
MANAGED_BY_NOVA = "COMPUTE_MANAGED_PCI_DEVICE"
"""Nova removes each provider with this trait that it did not create; with ``[pci]
report_in_placement`` off it refuses to start.  So in attach mode no provider gets it."""


REPORT_AFTER = 3
"""Number of removals of a contested name from which a condition names it."""
DAY = 86400.0
"""Seconds; the longest pause between two removals of a contested name."""
MOST = 16
"""The number of removals after which the pause is not doubled any more."""


@dataclass(slots=True)
class Removals:
    """The removals of a trait, aggregate or record; ``reason`` is what a driver reports."""

    reason: str
    times: int = 0
    until: float = 0.0
    """Monotonic time until which it is not removed again."""
    is_set: bool = False
    """Whether another service has set it again."""


@dataclass(slots=True)
class ContestedNames:
    """Removed traits, aggregates and records of one root's tree, by provider UUID and name."""

    removals: dict[tuple[str, str], Removals] = field(default_factory=dict)

    def waiting(self, now: float) -> frozenset[tuple[str, str]]:
        """Return the names that are not to be removed yet."""
        return frozenset(absence for absence, each in self.removals.items() if now < each.until)

    def note_absent(
        self, absences: Mapping[tuple[str, str], str], after: Snapshot, now: float, gap: float
    ) -> Iterator[tuple[str, str]]:
        """Note which absent names ``after``, the acknowledged state, has; yield removed names.

        ``absences`` has the reason of each.  The next removal of the same name waits ``gap``
        seconds, each later one twice as long; that of a record waits a day.
        """
        for absence, reason in absences.items():
            if _has(after, absence):
                if (removal := self.removals.get(absence)) is not None:
                    removal.is_set, removal.reason = True, reason
                continue
            if absence not in self.removals:
                differs = " " in absence[1]  # of many hosts each would write its own in turn
                self.removals[absence] = Removals(reason, MOST if differs else 0)
                if not differs:
                    yield absence
            removal = self.removals[absence]
            removal.until = now + min(DAY, gap * 2.0 ** min(removal.times, MOST))
            removal.times, removal.is_set = removal.times + 1, False
        for absence in self.removals.keys() - absences.keys():
            self.removals[absence].is_set = False
            if _has(after, absence) or now > self.removals[absence].until + DAY:
                del self.removals[absence]  # no driver reports it absent any more

    def conditions(self) -> Iterator[Condition]:
        """Yield a condition that names the first contested name, if there is one."""
        contested = [
            (absence, each.reason)
            for absence, each in self.removals.items()
            if each.is_set and each.times >= REPORT_AFTER
        ]
        if contested:
            (provider, name), reason = contested[0]
            more = f" (and {len(contested) - 1} more such names)" if contested[1:] else ""
            text = (
                f"{name} of provider {provider}{more} is set again by another service or host, "
                f"while {reason}"
            )
            yield Condition(text, "change what sets it, or the driver", "contested", kind=PART)


def _has(snapshot: Snapshot, absence: tuple[str, str]) -> bool:
    uuid, name = absence
    provider = snapshot.get(uuid)
    if provider is None:
        return False
    records = (record_text(each, record) for each, record in provider.inventory.items())
    return name in {*provider.traits, *provider.aggregates, *records, name_text(provider)}


def name_text(provider: Provider) -> str:
    """Return a provider's name as a name that is reported absent."""
    return f"the name {provider.name}"


def record_text(name: str, record: Inventory) -> str:
    """Return an inventory record as an absent name: ``DISK_GB (total 900, reserved 0, ...)``."""
    return f"{name} ({', '.join(f'{key} {value}' for key, value in record.as_dict().items())})"


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits in one root's tree; ``agent_traits`` are those that no driver removes by name."""

    owns_root: ClassVar[bool] = True
    """Whether this agent reports the root; else another service does."""
    only_the_agents: ClassVar[frozenset[str]] = frozenset({DISABLED})
    """Traits that no driver and no provider file may claim."""

    root: str
    foreign: frozenset[str] = frozenset()
    """UUIDs of sharing providers that another service created."""
    takes_over: bool = False
    """Whether another service reported the root until now: nova-compute, and this agent has never
    run with this state directory; or one with another service tag."""
    repeats_only: bool = False
    """Whether no ledger can be written: then only claims of the last ledger count."""
    agent_traits: frozenset[str] = frozenset({DISABLED})
    contested: frozenset[tuple[str, str]] = frozenset()
    """Names reported absent that another service sets again: not removed in this period."""
    missed: frozenset[str] = frozenset()
    """Providers that nothing here reported in the period before."""
    released: bool = False
    """Whether nothing is claimed any more, so that the root leaves too."""
    keeps: bool = True
    """Whether a provider that leaves stays for the sake of what others have put there."""
    service_tag: str = ""

    def allowed(
        self, owner: str, reported: Reported, observed: Snapshot, ledger: Ledger
    ) -> tuple[Reported | None, list[str]]:
        """Return the part of a claim that counts, and a reason for each part that does not."""
        claims, wanted = reported
        before, held = observed.get(wanted.uuid), joined(ledger.claims_on(wanted.uuid).values())
        problems: list[str] = []
        if self.repeats_only:
            is_agents = driver_of(owner) == AGENT and ledger.owns(wanted.uuid)
            may = held.joined(Claims(traits=claims.traits)) if is_agents else held
            claims = claims.without(claims.without(may))
            if claims == NONE:
                return None, []
        if driver_of(owner) != AGENT:
            if DISABLED in claims.traits and (before is None or DISABLED not in before.traits):
                who = owner_text(owner)
                problems.append(f"{DISABLED} of {who} ignored: only the agent sets this trait")
            claims = claims._replace(traits=claims.traits - self.only_the_agents)
        if before is None:
            is_second = wanted.parent_uuid is None and wanted.uuid != self.root
            if is_second and (why := self.second_root_refused(wanted)):
                return None, [*problems, why]
            return Reported(claims, wanted), problems
        if owner == FILES:  # a trait that another service has set stays that service's
            claims = claims._replace(traits=claims.traits - (before.traits - held.traits))
        counts, more = self.allowed_on(before, owner, Reported(claims, wanted), ledger)
        return counts, problems + more

    def second_root_refused(self, wanted: Provider) -> str:
        """Return why a driver may not create a second root; empty if it may."""
        if wanted.shares:
            return ""
        return (
            "not created: a second root provider has to be a sharing provider; make it a child of "
            "the root, or give it the trait MISC_SHARES_VIA_AGGREGATE and an aggregate"
        )

    def allowed_on(
        self, before: Provider, owner: str, reported: Reported, ledger: Ledger
    ) -> tuple[Reported | None, list[str]]:
        """Return as :meth:`allowed` what counts on a provider that Placement has."""
        uuid, is_root = before.uuid, before.parent_uuid is None or before.uuid == self.root
        if uuid in self.foreign:
            why = "not changed: sharing provider of another service"
        elif is_root or not ledger.known or ledger.owns(uuid):  # unknown without a ledger
            return reported, []
        else:
            why = (
                "not changed: created by another service (to take it over: computectl adopt "
                f"{uuid}, or ProviderTree.adopt in the driver)"
            )
        return None, [why] if _differs(before, reported) else []

    def may_describe(self, uuid: str, ledger: Ledger) -> bool:
        """Return whether provider files may say something of an observed provider."""
        return uuid not in self.foreign

    def may_drop(self, uuid: str) -> bool:
        """Return whether a provider, or more of it than traits, may be removed."""
        return uuid not in self.foreign

    def may_move(self, uuid: str, ledger: Ledger) -> bool:
        """Return whether a reshape may move allocations from and to an observed provider."""
        return uuid == self.root or (uuid not in self.foreign and uuid in ledger.claims)


class AttachedPolicy(Policy):
    """The limits below a root that another service owns, such as nova-compute's."""

    owns_root = False
    only_the_agents = frozenset({DISABLED, MANAGED_BY_NOVA})

    def second_root_refused(self, wanted: Provider) -> str:
        """Refuse it: the owner of the root decides over roots."""
        return "not created: [compute] root_provider = attach allows no other root provider"

    def allowed_on(
        self, before: Provider, owner: str, reported: Reported, ledger: Ledger
    ) -> tuple[Reported | None, list[str]]:
        """Return what counts; on the root that is traits that its owner has not set."""
        if before.uuid in self.foreign or ledger.owns(before.uuid):
            return super().allowed_on(before, owner, reported, ledger)
        if before.uuid != self.root or owner == FILES:
            why = "not changed: created by another service"
            return None, [why] if _differs(before, reported) else []
        (claims, wanted), problems = reported, list[str]()
        other = [name for name in sorted(claims.classes) if not _has_record(wanted, before, name)]
        if other:
            text = "not reported: another service owns this root and its inventory"
            problems.append(f"{', '.join(other)} {text}")
        if claims.aggregates - before.aggregates:
            problems.append("aggregates not changed: another service owns this root")
        # A trait that the root had before is its owner's, also if a driver claims it.
        held = ledger.claims_of(before.uuid, owner).traits
        traits = claims.traits - (before.traits - held)
        removed = traits & ledger.accepted - before.traits
        problems += [
            f"{name} not set again: the owner of this root removed it" for name in sorted(removed)
        ]
        return Reported(Claims(traits=traits - removed), wanted), problems

    def may_describe(self, uuid: str, ledger: Ledger) -> bool:
        """Return whether this agent created the provider: the rest is the other service's."""
        return uuid != self.root and uuid not in self.foreign and ledger.owns(uuid)

    def may_drop(self, uuid: str) -> bool:
        """Return whether it may be removed: the root never."""
        return uuid != self.root and super().may_drop(uuid)

    def may_move(self, uuid: str, ledger: Ledger) -> bool:
        """Return whether a reshape may move its allocations: the root's never."""
        return uuid != self.root and super().may_move(uuid, ledger)


def _differs(before: Provider, reported: Reported) -> bool:
    """Return whether a claim would change the observed provider."""
    claims, wanted = reported.claims, reported.provider
    if claims.within(before) != claims or not all(
        _has_record(wanted, before, name) for name in claims.classes
    ):
        return True
    placed = (wanted.name, wanted.parent_uuid) == (before.name, before.parent_uuid)
    return claims.provider and not (placed and before.inventory.keys() <= wanted.inventory.keys())


def _has_record(wanted: Provider, before: Provider, name: str) -> bool:
    """Return whether the observed record of a class has all values of the wanted one."""
    observed = before.inventory.get(name)
    return observed is not None and wanted.inventory[name].with_defaults(observed) == observed


def with_unrecorded_claims(
    ledger: Ledger, observed: Snapshot, answers: Answers, policy: Policy
) -> Ledger:
    """Return the ledger with the claims that no ledger has, but that are this host's.

    - Providers below the root whose UUID is derived from the root's UUID and their key.  They are
      removed when a driver removes them.
    - In a takeover from another service: all classes of the providers whose inventory a driver
      sets, since an inventory belongs to the service that reports it.  Classes that the driver
      leaves out are removed.
    - Providers that a driver adopts, unless an owner here owns them: see ``adopted_on``.
    - A root that is released, with all classes and the agent's traits.
    """
    if policy.repeats_only:
        return ledger
    more: dict[str, ClaimsByOwner] = {}
    names = {driver_of(each.owner).removeprefix(DRIVER) for each in answers.in_order} | {""}
    reported = NOTHING.union(*(answer.sets_inventory for answer in answers.in_order))
    replaced = reported if policy.takes_over and not ledger.known else NOTHING
    unclaimed = {uuid for uuid in observed.providers if not ledger.owns(uuid)}
    for uuid in filter((replaced | unclaimed).__contains__, observed.providers):
        if observed.root_of(uuid) != policy.root or not policy.may_drop(uuid):
            continue
        provider, row = observed.providers[uuid], dict(ledger.claims_on(uuid))
        if uuid in replaced and row.keys() <= {AGENT, STATUS, FILES}:
            row[REPLACED] = Claims(classes=frozenset(provider.inventory))
        key = own_key(policy.root, uuid, provider.name, names)
        if uuid in unclaimed and (policy.released if uuid == policy.root else key is not None):
            classes = frozenset(() if uuid in reported else provider.inventory)
            traits = policy.agent_traits if uuid == policy.root else NOTHING
            row[OWN_UUID] = Claims(True, classes - joined(row.values()).classes, traits)
        more[uuid] = row
    # In attach mode the other service still manages the providers that it created.
    for answer in answers.in_order if policy.owns_root else ():
        for uuid in answer.adopted & observed.providers.keys():
            row = dict(more.get(uuid, ledger.claims_on(uuid)))
            if not any(held.provider for held in row.values()):
                held = row.get(answer.owner, NONE)
                row[answer.owner] = held.joined(adopted_on(observed.providers[uuid]))
                more[uuid] = row
    more = {uuid: row for uuid, row in more.items() if row != ledger.claims_on(uuid)}
    return replace(ledger, claims={**ledger.claims, **more}) if more else ledger
