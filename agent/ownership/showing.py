"""What a driver is shown of a tree: what is there, less what others own.  Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from agent.ownership.hearing import Drained
from agent.ownership.ledger import ADOPTED, FORMER, NONE, Holding, Ledger, driver_of, joined
from reportclient.model import Inventory, Provider
from reportclient.snapshot import EMPTY, Snapshot


@dataclass(frozen=True, slots=True)
class Shown:
    """The ``part`` of the ``whole`` that a driver is shown."""

    driver: str
    whole: Snapshot
    ledger: Ledger
    drained: Drained
    part: Snapshot = field(default_factory=lambda: EMPTY)

    def seen(self, uuid: str) -> Provider | None:
        """One provider as the driver sees it."""
        provider, holders = self.whole.get(uuid), self.ledger.of(uuid)
        others = joined(held for who, held in holders.items() if not self._is_mine(who))
        if provider is None or not holders or (others == NONE and uuid not in self.drained):
            return provider
        own = joined(held for who, held in holders.items() if self._is_mine(who))
        return _without(opened(provider, self.drained.get(uuid, {})), others.without(own))

    def changed_since(self, last: "Shown") -> Iterator[str]:
        """UUIDs of the providers that may be seen otherwise than then."""
        yield from self.whole.changed_since(last.whole)
        yield from self.ledger.changed_since(last.ledger)
        yield from (*self.drained, *last.drained)

    def _is_mine(self, manager: str) -> bool:
        return driver_of(manager) == self.driver or manager in (FORMER, ADOPTED)


def shown_to(
    driver: str, whole: Snapshot, ledger: Ledger, drained: Drained, last: Shown | None = None
) -> Shown:
    """``whole`` without the classes, traits and aggregates that only others assert.

    A class that is drained is shown with what was reserved of it before: draining is this
    agent's, and a driver that still reports the class opens it again.  With what it was
    shown ``last``, of whatever, it costs what changed since.
    """
    shown = Shown(driver, whole, ledger, drained)
    if last is None:
        part = whole.with_changes({uuid: shown.seen(uuid) for uuid in ledger.holders})
    else:
        changed = dict.fromkeys(shown.changed_since(last))
        part = last.part.with_changes({uuid: shown.seen(uuid) for uuid in changed})
    return replace(shown, part=part)


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
