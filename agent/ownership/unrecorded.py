"""Claims that count as this host's although no ledger has them.  Pure."""

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
    """Return the ledger with the claims that no ledger has, but that are this host's.

    - Providers below the root whose UUID is derived from the root's UUID and their name.  They are
      removed when a driver removes them.
    - In a takeover from nova-compute: all classes of the providers whose inventory a driver sets,
      since in Nova an inventory belongs to the service that reports it.  Classes that the driver
      leaves out are removed.
    - Providers that a driver adopts, with all that they have, unless a manager here owns them.
    """
    if policy.repeats_only:
        return ledger
    more: dict[str, Holders] = {}
    drivers = {driver_of(statement.manager) for statement in answers.statements}
    reported = NOTHING.union(*(statement.inventoried for statement in answers.statements))
    taken_over = reported if policy.takes_over and not ledger.begun else NOTHING
    unclaimed = observed.providers.keys() - ledger.holders.keys()
    for uuid in (uuid for uuid in observed.providers if uuid in taken_over | unclaimed):
        if policy.root not in observed or observed.root_of(uuid) != policy.root:
            continue
        provider, row = observed.providers[uuid], dict(ledger.holdings_on(uuid))
        if uuid in taken_over and row.keys() <= _NO_DRIVERS:
            row[NOVA_COMPUTE] = Holding(classes=frozenset(provider.inventory))
        if uuid in unclaimed and _is_derived(provider, policy.root, drivers):
            classes = NOTHING if uuid in reported else frozenset(provider.inventory)
            row[OWN_UUID] = Holding(True, classes)
        more[uuid] = row
    # In attach mode the other service still manages the providers that it created.
    for statement in () if policy.attached else answers.statements:
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
    names = ("", *(driver.removeprefix(DRIVER) for driver in drivers))
    return any(provider.uuid == own_uuid(root, provider.name, driver) for driver in names)
