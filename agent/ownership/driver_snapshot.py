"""What a driver is given: the observed tree without what other managers own.  Pure."""

from collections.abc import Mapping
from dataclasses import replace

from agent.ownership.ledger import (
    ADOPTED,
    NONE,
    NOVA_COMPUTE,
    Drained,
    Holding,
    Ledger,
    driver_of,
    joined,
)
from reportclient.model import Inventory, Provider
from reportclient.snapshot import Snapshot


def snapshot_for_driver(driver: str, whole: Snapshot, ledger: Ledger, drained: Drained) -> Snapshot:
    """Return ``whole`` without the classes, traits and aggregates that only other managers claim.

    Drained classes have the ``reserved`` of before: draining is done by this agent, and a driver
    that reports such a class again ends it.
    """
    own_managers = {
        manager
        for manager in ledger.managers()
        if driver_of(manager) == driver or manager in _SHOWN_TO_ALL
    }
    rows = ledger.holders.items()
    differ = [uuid for uuid, row in rows if uuid in drained or not own_managers.issuperset(row)]
    changed = {}
    for uuid in differ:
        own = joined(
            held for manager, held in ledger.holdings_on(uuid).items() if manager in own_managers
        )
        others = joined(
            held
            for manager, held in ledger.holdings_on(uuid).items()
            if manager not in own_managers
        )
        provider = whole.get(uuid)
        if provider is not None:
            provider = with_original_reserved(provider, drained.get(uuid, {}))
            changed[uuid] = _without(provider, others.without(own))
    return whole.with_changes(changed)


_SHOWN_TO_ALL = (NOVA_COMPUTE, ADOPTED)
"""Managers whose claims are shown to every driver."""


def with_original_reserved(provider: Provider, reserved: Mapping[str, int]) -> Provider:
    """Return a provider with its drained classes as they were before: ``reserved`` by class."""
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
