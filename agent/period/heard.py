"""HeardTree: a provider tree that remembers what was said on it.  Pure.

A driver that repeats what Placement has changes nothing; that it said so is known only
here.  It is not shown the resource classes that other drivers report: what it reads and
sets again would be taken for its own word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.period.parts import Claim, Kind
from reportclient.model import ProviderData, canonical_uuids
from reportclient.plan import as_dicts
from reportclient.provider_tree import InventoryDict, ProviderTree
from reportclient.snapshot import EMPTY, Snapshot


class HeardTree(ProviderTree):
    """``heard`` are the claims made since it was made or copied."""

    def __init__(
        self, base: Snapshot = EMPTY, generations: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(base, generations)
        self.heard: set[Claim] = set()
        self.hidden: frozenset[Claim] = frozenset()
        """Classes that are not shown; they are there all the same."""

    def __deepcopy__(self, memo: dict[int, Any]) -> HeardTree:
        copy = super().__deepcopy__(memo)
        assert isinstance(copy, HeardTree)
        copy.hidden = self.hidden
        return copy

    def data(self, name_or_uuid: str) -> ProviderData:
        """See :class:`ProviderTree`; without what is hidden."""
        data = super().data(name_or_uuid)
        shown = [key for key in data.inventory if Claim("class", data.uuid, key) not in self.hidden]
        if len(shown) < len(data.inventory):
            return data._replace(inventory={key: data.inventory[key] for key in shown})
        return data

    def has_inventory_changed(self, name_or_uuid: str, inventory: InventoryDict) -> bool:
        """See :class:`ProviderTree`; what is hidden is not compared."""
        provider = self._find(name_or_uuid)
        hidden = {name for kind, uuid, name in self.hidden if uuid == provider.uuid}
        there = {name: record for name, record in provider.inventory.items() if name in hidden}
        return super().has_inventory_changed(name_or_uuid, {**as_dicts(there), **inventory})

    def new_root(self, name: str, uuid: str, generation: int | None = None) -> str:
        """See :class:`ProviderTree`."""
        made = super().new_root(name, uuid, generation)
        self.heard.add(Claim("provider", made))
        return made

    def new_child(
        self, name: str, parent: str, uuid: str | None = None, generation: int | None = None
    ) -> str:
        """See :class:`ProviderTree`."""
        made = super().new_child(name, parent, uuid, generation)
        self.heard.add(Claim("provider", made))
        return made

    def populate_from_iterable(self, provider_dicts: Iterable[Mapping[str, Any]]) -> None:
        """See :class:`ProviderTree`; nobody gets what is listed there, nor loses anything."""
        heard = self.heard
        super().populate_from_iterable(provider_dicts)
        self.heard = heard

    def update_inventory(
        self, name_or_uuid: str, inventory: InventoryDict, generation: int | None = None
    ) -> bool:
        """See :class:`ProviderTree`."""
        changed = super().update_inventory(name_or_uuid, inventory, generation)
        provider = self._find(name_or_uuid)
        if provider.parent_uuid is not None:
            self.heard.add(Claim("provider", provider.uuid))
        self._hear("class", provider.uuid, inventory)
        return changed

    def update_traits(
        self, name_or_uuid: str, traits: Iterable[str], generation: int | None = None
    ) -> bool:
        """See :class:`ProviderTree`."""
        before = self._find(name_or_uuid)
        changed = super().update_traits(name_or_uuid, traits, generation)
        self._hear("trait", before.uuid, self._find(before.uuid).traits - before.traits)
        return changed

    def add_traits(self, name_or_uuid: str, *traits: str) -> None:
        """See :class:`ProviderTree`."""
        super().add_traits(name_or_uuid, *traits)
        self._hear("trait", self._find(name_or_uuid).uuid, traits)

    def update_aggregates(
        self, name_or_uuid: str, aggregates: Iterable[str], generation: int | None = None
    ) -> bool:
        """See :class:`ProviderTree`."""
        before = self._find(name_or_uuid)
        changed = super().update_aggregates(name_or_uuid, aggregates, generation)
        self._hear("aggregate", before.uuid, self._find(before.uuid).aggregates - before.aggregates)
        return changed

    def add_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """See :class:`ProviderTree`."""
        super().add_aggregates(name_or_uuid, *aggregates)
        said = canonical_uuids(aggregates, "aggregate")
        self._hear("aggregate", self._find(name_or_uuid).uuid, said)

    def removed(self) -> list[str]:
        """UUIDs of providers that were in the base, or added, and are not here any more."""
        return [uuid for uuid, provider in self._changed.items() if provider is None]

    def _hear(self, kind: Kind, uuid: str, names: Iterable[str]) -> None:
        self.heard.update(Claim(kind, uuid, name) for name in names)
