"""The tree that a driver is shown: the observed one without what other managers own.  Pure."""

from collections.abc import Mapping
from dataclasses import replace

from agent.ownership.ledger import ADOPTED, NONE, NOVA_COMPUTE, Holding, Ledger, driver_of, joined
from agent.ownership.settlement import Drained
from reportclient.model import Inventory, Provider
from reportclient.snapshot import Snapshot


def snapshot_for_driver(driver: str, whole: Snapshot, ledger: Ledger, drained: Drained) -> Snapshot:
    """``whole`` without the classes, traits and aggregates that only others assert.

    A class that is drained is shown with what was reserved of it before: draining is this
    agent's, and a driver that still reports the class opens it again.
    """
    mine = {who for who in ledger.managers() if driver_of(who) == driver or who in _ANYBODYS}
    rows = ledger.holders.items()
    differ = [uuid for uuid, row in rows if uuid in drained or not mine.issuperset(row)]
    changed = {}
    for uuid in differ:
        own = joined(held for who, held in ledger.holdings_on(uuid).items() if who in mine)
        others = joined(held for who, held in ledger.holdings_on(uuid).items() if who not in mine)
        provider = whole.get(uuid)
        if provider is not None:
            provider = opened(provider, drained.get(uuid, {}))
            changed[uuid] = _without(provider, others.without(own))
    return whole.with_changes(changed)


_ANYBODYS = (NOVA_COMPUTE, ADOPTED)


def opened(provider: Provider, reserved: Mapping[str, int]) -> Provider:
    """With its drained classes as they were before."""
    if not reserved:
        return provider
    inventory = {
        name: replace(record, reserved=min(reserved[name], record.total))
        if name in reserved
        else record
        for name, record in provider.inventory.items()
    }
    return replace(provider, inventory=inventory)


def _without(provider: Provider, others: Holding) -> Provider:
    if others == NONE:
        return provider
    inventory: dict[str, Inventory] = {
        name: record for name, record in provider.inventory.items() if name not in others.classes
    }
    traits, aggregates = provider.traits - others.traits, provider.aggregates - others.aggregates
    return replace(provider, inventory=inventory, traits=traits, aggregates=aggregates)
