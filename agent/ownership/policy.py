"""Limits on the claims of managers, and claims that are this host's without a ledger.  Pure.

- On this agent's own root everything, and below it on all providers but those that another
  service created.
- On a root of another service (``attached``) only traits, and below it only what this agent
  created; that may be below a provider of another service.
- On a sharing provider of another service nothing.
- A second root is allowed only if it shares its inventory.
- The agent's own traits (the disabled status) are the agent's only.
- A trait or aggregate that a driver reports absent and another service sets again is removed at
  growing intervals.
- Of what several hosts report of a sharing provider the least inventory and the first name hold;
  what is set again after a driver here has replaced it is replaced once a day.

In attach mode ``agent.period.attach.agent_statement`` has what the agent itself asserts, and
``agent.provider_config.asserted`` what provider files may.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

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
    adopted_on,
    driver_of,
    joined,
    manager_text,
)
from agent.ownership.statement import Assertion, Statements
from agent.reporting.condition import PART, Condition
from reportclient.model import Inventory, Provider
from reportclient.provider_tree import own_key
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
        return frozenset(denial for denial, each in self.removals.items() if now < each.until)

    def note_denied(
        self, denials: Mapping[tuple[str, str], str], after: Snapshot, now: float, gap: float
    ) -> Iterator[tuple[str, str]]:
        """Note which denied names ``after``, the acknowledged state, has; yield removed names.

        ``denials`` has the reason of each.  The next removal of the same name waits ``gap``
        seconds, each later one twice as long; that of a record waits a day.
        """
        for denial, reason in denials.items():
            if _has(after, denial):
                if (removal := self.removals.get(denial)) is not None:
                    removal.is_set, removal.reason = True, reason
                continue
            if denial not in self.removals:
                differs = " " in denial[1]  # of many hosts each would write its own in turn
                self.removals[denial] = Removals(reason, MOST if differs else 0)
                if not differs:
                    yield denial
            removal = self.removals[denial]
            removal.until = now + min(DAY, gap * 2.0 ** min(removal.times, MOST))
            removal.times, removal.is_set = removal.times + 1, False
        for denial in self.removals.keys() - denials.keys():
            self.removals[denial].is_set = False
            if _has(after, denial) or now > self.removals[denial].until + DAY:
                del self.removals[denial]  # no driver denies it any more

    def conditions(self) -> Iterator[Condition]:
        """Yield a condition that names the first contested name, if there is one."""
        contested = [
            (denial, each.reason)
            for denial, each in self.removals.items()
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


def _has(snapshot: Snapshot, denial: tuple[str, str]) -> bool:
    uuid, name = denial
    provider = snapshot.get(uuid)
    if provider is None:
        return False
    records = (record_text(each, record) for each, record in provider.inventory.items())
    return name in {*provider.traits, *provider.aggregates, *records, name_text(provider)}


def name_text(provider: Provider) -> str:
    """Return a provider's name as a name to deny."""
    return f"the name {provider.name}"


def record_text(name: str, record: Inventory) -> str:
    """Return an inventory record as a name to deny: ``DISK_GB (total 900, reserved 0, ...)``."""
    return f"{name} ({', '.join(f'{key} {value}' for key, value in record.as_dict().items())})"


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits in one root's tree; ``agent_traits`` are those that no driver removes by name."""

    root: str
    attached: bool = False
    foreign: frozenset[str] = frozenset()
    """UUIDs of sharing providers that another service created."""
    takes_over: bool = False
    """Whether nova-compute reported the root until now: the root looks so, and this agent has never
    run with this state directory."""
    repeats_only: bool = False
    """Whether no ledger can be written: then only claims of the last ledger count."""
    agent_traits: frozenset[str] = frozenset({DISABLED})
    contested: frozenset[tuple[str, str]] = frozenset()
    """Denials that another service undoes: not removed in this period."""
    missed: frozenset[str] = frozenset()
    """Providers that nothing here reported in the period before."""
    released: bool = False
    """Whether nothing is asserted any more, so that the root leaves too."""
    keeps: bool = True
    """Whether a provider that leaves stays for the sake of what others have put there."""
    service_tag: str = ""

    def allowed(  # noqa: C901, PLR0912  one limit after the other
        self, manager: str, assertion: Assertion, observed: Snapshot, ledger: Ledger
    ) -> tuple[Assertion | None, list[str]]:
        """Return the part of an assertion that counts, and a reason for each part that does not."""
        holding, wanted = assertion
        uuid, before = wanted.uuid, observed.get(wanted.uuid)
        held = joined(ledger.holdings_on(uuid).values())
        problems: list[str] = []
        if self.repeats_only:
            may = held
            if driver_of(manager) == AGENT and ledger.is_ours(uuid):
                may = held.joined(Holding(traits=holding.traits))
            holding = holding.without(holding.without(may))
            if holding == NONE:
                return None, []
        if driver_of(manager) != AGENT:
            if DISABLED in holding.traits and (before is None or DISABLED not in before.traits):
                who = manager_text(manager)
                problems.append(f"{DISABLED} of {who} ignored: only the agent sets this trait")
            never = {DISABLED, MANAGED_BY_NOVA} if self.attached else {DISABLED}
            holding = holding._replace(traits=holding.traits - never)
        if before is None:
            is_second = wanted.parent_uuid is None and uuid != self.root
            if is_second and (self.attached or not wanted.shares):
                text = "not created: [compute] root_provider = attach allows no other root provider"
                if not self.attached:
                    text = (
                        "not created: a second root provider has to be a sharing provider; make it "
                        "a child of the root, or give it the trait MISC_SHARES_VIA_AGGREGATE and "
                        "an aggregate"
                    )
                return None, [*problems, text]
            return Assertion(holding, wanted), problems
        if manager == FILES:  # a trait that another service has set stays that service's
            holding = holding._replace(traits=holding.traits - (before.traits - held.traits))
        assertion, foreign = Assertion(holding, wanted), ""
        is_root, is_ours = before.parent_uuid is None or uuid == self.root, ledger.is_ours(uuid)
        if uuid in self.foreign:
            foreign = "not changed: sharing provider of another service"
        elif self.attached and not is_ours:
            counts, more = self._beside_owner(manager, assertion, before, ledger)
            return counts, problems + more
        elif ledger.begun and not is_root and not is_ours:  # without a ledger it is not known
            foreign = (
                "not changed: created by another service (to take it over: computectl adopt "
                f"{uuid}, or ProviderTree.adopt in the driver)"
            )
        if foreign:
            return None, [*problems, foreign] if _differs(before, assertion) else problems
        return assertion, problems

    def _beside_owner(
        self, manager: str, assertion: Assertion, before: Provider, ledger: Ledger
    ) -> tuple[Assertion | None, list[str]]:
        """Return what may be claimed on another service's root: traits that it has not set."""
        (holding, wanted), problems = assertion, list[str]()
        other = [name for name in sorted(holding.classes) if not _has_record(wanted, before, name)]
        if other:
            text = "not reported: another service owns this root and its inventory"
            problems.append(f"{', '.join(other)} {text}")
        if holding.aggregates - before.aggregates:
            problems.append("aggregates not changed: another service owns this root")
        if before.uuid != self.root or manager == FILES:
            return None, problems
        # A trait that the root had before is its owner's, also if a driver asserts it.
        held = ledger.holding_of(before.uuid, manager).traits
        traits = holding.traits - (before.traits - held)
        removed = traits & ledger.seen - before.traits
        problems += [
            f"{name} not set again: the owner of this root removed it" for name in sorted(removed)
        ]
        return Assertion(Holding(traits=traits - removed), wanted), problems

    def may_drop(self, uuid: str) -> bool:
        """Return whether a provider, or more of it than traits, may be removed."""
        return not (self.attached and uuid == self.root) and uuid not in self.foreign

    def may_move(self, uuid: str, ledger: Ledger) -> bool:
        """Return whether a reshape may move allocations from and to an observed provider."""
        if uuid == self.root:
            return not self.attached
        return uuid not in self.foreign and bool(ledger.holdings_on(uuid))


def _differs(before: Provider, assertion: Assertion) -> bool:
    """Return whether an assertion would change the observed provider."""
    holding, wanted = assertion.holding, assertion.provider
    if holding.within(before) != holding or not all(
        _has_record(wanted, before, name) for name in holding.classes
    ):
        return True
    placed = (wanted.name, wanted.parent_uuid) == (before.name, before.parent_uuid)
    return holding.provider and not (placed and before.inventory.keys() <= wanted.inventory.keys())


def _has_record(wanted: Provider, before: Provider, name: str) -> bool:
    """Return whether the observed record of a class has all values of the wanted one."""
    observed = before.inventory.get(name)
    return observed is not None and wanted.inventory[name].with_defaults(observed) == observed


def with_unrecorded_claims(
    ledger: Ledger, observed: Snapshot, answers: Statements, policy: Policy
) -> Ledger:
    """Return the ledger with the claims that no ledger has, but that are this host's.

    - Providers below the root whose UUID is derived from the root's UUID and their key.  They are
      removed when a driver removes them.
    - In a takeover from nova-compute: all classes of the providers whose inventory a driver sets,
      since in Nova an inventory belongs to the service that reports it.  Classes that the driver
      leaves out are removed.
    - Providers that a driver adopts, unless a manager here owns them: see ``adopted_on``.
    - A root that is released, with all classes and the agent's traits.
    """
    if policy.repeats_only:
        return ledger
    more: dict[str, Holders] = {}
    names = {driver_of(each.manager).removeprefix(DRIVER) for each in answers.statements} | {""}
    reported = NOTHING.union(*(statement.inventoried for statement in answers.statements))
    taken_over = reported if policy.takes_over and not ledger.begun else NOTHING
    unclaimed = observed.providers.keys() - ledger.holders.keys()
    new = taken_over | unclaimed
    for uuid in (uuid for uuid in observed.providers if uuid in new):
        if observed.root_of(uuid) != policy.root:
            continue
        provider, row = observed.providers[uuid], dict(ledger.holdings_on(uuid))
        if uuid in taken_over and row.keys() <= {AGENT, STATUS, FILES}:
            row[NOVA_COMPUTE] = Holding(classes=frozenset(provider.inventory))
        key = own_key(policy.root, uuid, provider.name, names)
        if uuid in unclaimed and (policy.released if uuid == policy.root else key is not None):
            classes = NOTHING if uuid in reported else frozenset(provider.inventory)
            traits = policy.agent_traits if uuid == policy.root else NOTHING
            row[OWN_UUID] = Holding(True, classes, traits)
        more[uuid] = row
    # In attach mode the other service still manages the providers that it created.
    for statement in () if policy.attached else answers.statements:
        for uuid in statement.adopted & observed.providers.keys():
            row = dict(more.get(uuid, ledger.holdings_on(uuid)))
            if not any(held.provider for held in row.values()):
                held = row.get(statement.manager, NONE)
                row[statement.manager] = held.joined(adopted_on(observed.providers[uuid]))
                more[uuid] = row
    more = {uuid: row for uuid, row in more.items() if row != ledger.holdings_on(uuid)}
    return replace(ledger, holders={**ledger.holders, **more}) if more else ledger
