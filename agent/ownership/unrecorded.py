"""Providers and classes that are this host's although no ledger has them.  Pure."""

from collections.abc import Iterable
from dataclasses import replace

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
    everything_on,
)
from agent.ownership.policy import Policy
from agent.ownership.statement import Statements
from reportclient.model import Provider
from reportclient.provider_tree import own_uuid
from reportclient.snapshot import Snapshot


def with_unrecorded_claims(
    ledger: Ledger, observed: Snapshot, answers: Statements, policy: Policy
) -> Ledger:
    """With what counts as this host's though it stands in no ledger.

    Providers below the root whose UUID is made from it and their name; where this host takes
    over from nova-compute, also the classes of the providers whose inventory a driver sets, as
    in Nova an inventory belongs to the service that reports it.  No configured manager holds
    them: a provider goes if a driver removes it, a class if its driver leaves it out.  And what
    drivers adopt: all that a provider has which no manager here holds.
    """
    if policy.repeats_only:
        return ledger
    more: dict[str, Holders] = {}
    drivers = {driver_of(one.manager) for one in answers.statements}
    reported = NOTHING.union(*(one.inventoried for one in answers.statements))
    spoken = reported if policy.takes_over and not ledger.begun else NOTHING
    unheld = observed.providers.keys() - ledger.holders.keys()
    for uuid in (one for one in observed.providers if one in spoken or one in unheld):
        if policy.root not in observed or observed.root_of(uuid) != policy.root:
            continue
        provider, row = observed.providers[uuid], dict(ledger.holdings_on(uuid))
        if uuid in spoken and row.keys() <= _NO_DRIVERS:
            row[NOVA_COMPUTE] = Holding(classes=frozenset(provider.inventory))
        if uuid in unheld and _is_derived(provider, policy.root, drivers):
            classes = NOTHING if uuid in reported else frozenset(provider.inventory)
            row[OWN_UUID] = Holding(True, classes)
        more[uuid] = row
    for statement in () if policy.attached else answers.statements:  # who made it is at work there
        for uuid in statement.adopted & observed.providers.keys():
            row = dict(more.get(uuid, ledger.holdings_on(uuid)))
            if not any(held.provider for held in row.values()):
                held = row.get(statement.manager, NONE)
                row[statement.manager] = held.joined(everything_on(observed.providers[uuid]))
                more[uuid] = row
    more = {uuid: row for uuid, row in more.items() if row != ledger.holdings_on(uuid)}
    return replace(ledger, holders={**ledger.holders, **more}) if more else ledger


_NO_DRIVERS = {AGENT, STATUS, FILES}


def _is_derived(provider: Provider, root: str, drivers: Iterable[str]) -> bool:
    if provider.uuid == root:
        return False
    names = ("", *(one.removeprefix(DRIVER) for one in drivers))
    return any(provider.uuid == own_uuid(root, provider.name, driver) for driver in names)
