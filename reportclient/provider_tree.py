"""ProviderTree: an editable copy of a snapshot, with the methods of Nova's ProviderTree.

Every method takes a provider by its name or its UUID, and raises :class:`ValueError` if the tree
has no such provider.  Only one thread may use a tree; it has no lock.  The methods that add, move
and remove providers are in :class:`reportclient.edit.Edit`.

Every edit is recorded as a claim (:mod:`reportclient.claims`), even if it changes nothing.
"""

import copy as copylib
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from reportclient.claims import Names
from reportclient.edit import Edit, own_uuid
from reportclient.model import (
    Inventory,
    Provider,
    ProviderData,
    canonical_uuids,
    plain_str,
    read_inventory,
)
from reportclient.snapshot import Snapshot

__all__ = ["ProviderData", "ProviderTree", "Snapshot", "own_uuid"]

InventoryDict = Mapping[str, Mapping[str, Any] | Inventory]


class ProviderTree(Edit):
    """The tree of a root provider, and its sharing providers as further roots."""

    @property
    def lock(self) -> AbstractContextManager[None]:
        """A context manager that does nothing, for code that takes the lock of Nova's tree."""
        return nullcontext()

    # -- reading

    def data(self, name_or_uuid: str) -> ProviderData:
        """Return a copy of a provider's data; changing it does not change the tree."""
        provider = self._find(name_or_uuid)
        return ProviderData(
            provider.uuid,
            provider.name,
            self._generations.get(provider.uuid),
            provider.parent_uuid,
            {name: record.as_dict() for name, record in provider.inventory.items()},
            set(provider.traits),
            set(provider.aggregates),
            copylib.deepcopy(self._resources.get(provider.uuid, {})),
        )

    def has_inventory(self, name_or_uuid: str) -> bool:
        """Return whether the provider has inventory of any class."""
        return bool(self._find(name_or_uuid).inventory)

    def has_inventory_changed(self, name_or_uuid: str, inventory: InventoryDict) -> bool:
        """Return whether ``inventory`` differs from the provider's inventory.

        Fields that a record leaves out are not compared.

        :raises ValueError: a record is invalid.
        """
        provider = self._find(name_or_uuid)
        if _is_same(provider.inventory, inventory):
            return False
        read_inventory(inventory, provider.name)
        return True

    def has_sharing_provider(self, resource_class: str) -> bool:
        """Return whether a sharing provider has this class, even one that this tree leaves out."""
        providers = [self.provider(uuid) for uuid in self._walk(None)]
        providers += (self.whole.get(uuid) for uuid in self.whole.children(None))
        return any(p is not None and p.shares and resource_class in p.inventory for p in providers)

    def has_traits(self, name_or_uuid: str, traits: Iterable[str]) -> bool:
        """Return whether the provider has all of these traits."""
        return self._find(name_or_uuid).traits.issuperset(traits)

    def have_traits_changed(self, name_or_uuid: str, traits: Iterable[str]) -> bool:
        """Return whether the provider's traits differ from these."""
        return self._find(name_or_uuid).traits != frozenset(traits)

    def in_aggregates(self, name_or_uuid: str, aggregates: Iterable[str]) -> bool:
        """Return whether the provider is a member of all of these aggregates (UUIDs)."""
        provider = self._find(name_or_uuid)
        return provider.aggregates.issuperset(_aggregates(provider, aggregates))

    def have_aggregates_changed(self, name_or_uuid: str, aggregates: Iterable[str]) -> bool:
        """Return whether the provider's aggregates differ from these (UUIDs)."""
        provider = self._find(name_or_uuid)
        return provider.aggregates != _aggregates(provider, aggregates)

    @property
    def roots(self) -> list[ProviderData]:
        """Copies of the roots: the tree's own root, and the sharing providers."""
        return [self.data(uuid) for uuid in self._children_of(None)]

    def records(self, name_or_uuid: str) -> Mapping[str, Inventory]:
        """Return the provider's inventory as frozen records by resource class; read-only."""
        return self._find(name_or_uuid).inventory

    def set_records(self, name_or_uuid: str, inventory: Mapping[str, Inventory]) -> None:
        """Set the whole inventory, as :meth:`update_inventory`, from frozen records."""
        self.update_inventory(name_or_uuid, inventory)

    # -- ownership

    def set_own_traits(self, name_or_uuid: str, traits: Iterable[str]) -> None:
        """Set the traits that this driver or source asserts on a provider.

        Traits that it asserted earlier, according to the ledger, and that are not in ``traits``
        are removed.  Traits of others stay.
        """
        provider = self._find(name_or_uuid)
        names, uuid = _traits(provider, traits), provider.uuid
        self.add_traits(uuid, *names)
        self._own.traits[uuid], self._own.renewed[uuid] = names, None

    def adopt(self, name_or_uuid: str) -> None:
        """Take over a provider that another client created, such as nova-compute."""
        self._own.adopted[self._find(name_or_uuid).uuid] = None

    # -- changing a provider

    def update_inventory(
        self, name_or_uuid: str, inventory: InventoryDict, generation: int | None = None
    ) -> bool:
        """Set the whole inventory: ``{class: {"total": 8, "reserved": 1, …}}``, or records.

        Fields that a record leaves out stay as Placement has them.  A resource class that is
        left out is removed.  Return whether anything changed.

        :raises ValueError: the inventory is no dict, or a record is invalid.
        """
        provider = self._find(name_or_uuid)
        self._note_generation(provider, generation)
        if not isinstance(inventory, Mapping):
            raise ValueError(
                f"inventory of provider {provider.name}: a dict like {{'VCPU': {{'total': 8}}}} is "
                f"needed, {{}} for none, not {inventory!r}"
            )
        whole = inventory
        if len(self.claims) > 1:
            whole = self._beside_others(provider, inventory)
        changed = not _is_same(provider.inventory, whole)
        if changed:
            new = read_inventory(whole, provider.name)
            self._changed[provider.uuid] = replace(provider, inventory=new)
        self._own.classes[provider.uuid] = _names(inventory)
        return changed

    def _beside_others(self, provider: Provider, inventory: InventoryDict) -> InventoryDict:
        others = [claims for source, claims in self.claims.items() if source != self._source]
        named = frozenset[str]().union(
            *(claims.classes.get(provider.uuid, ()) for claims in others)
        )
        theirs = {name: record for name, record in provider.inventory.items() if name in named}
        return {**theirs, **inventory}

    def update_traits(
        self, name_or_uuid: str, traits: Iterable[str], generation: int | None = None
    ) -> bool:
        """Set all traits of a provider.  Return whether anything changed.

        Traits that other services set stay in Placement: only :meth:`remove_traits` removes them.
        """
        provider = self._find(name_or_uuid)
        self._note_generation(provider, generation)
        wanted = _traits(provider, traits)
        _allow(self._own.absent_traits, provider.uuid, wanted)
        if wanted == provider.traits:
            return False
        self._changed[provider.uuid] = replace(provider, traits=wanted)
        _note(self._own.traits, provider.uuid, provider.traits, wanted)
        return True

    def add_traits(self, name_or_uuid: str, *traits: str) -> None:
        """Add traits; the others stay.  Without traits, an unknown provider is no error."""
        if traits:
            provider = self._find(name_or_uuid)
            named = _traits(provider, traits)
            if not named <= provider.traits:
                self._changed[provider.uuid] = replace(provider, traits=provider.traits | named)
            claimed = self._own.traits
            claimed[provider.uuid] = claimed.get(provider.uuid, named) | named
            _allow(self._own.absent_traits, provider.uuid, named)

    def remove_traits(self, name_or_uuid: str, *traits: str) -> None:
        """Remove these traits by name; the others stay.

        They are removed from Placement even if another service set them, or this tree leaves them
        out.  Not removed are: traits that another driver or a provider file asserts, the agent's
        own traits (COMPUTE_NODE, COMPUTE_STATUS_DISABLED, owner traits), and all traits of
        another service's provider.  Without traits, an unknown provider is no error.
        """
        if traits:
            provider = self._find(name_or_uuid)
            named = _traits(provider, traits)
            self.update_traits(provider.uuid, provider.traits - named)
            _deny(self._own.absent_traits, provider.uuid, named)

    def update_aggregates(
        self, name_or_uuid: str, aggregates: Iterable[str], generation: int | None = None
    ) -> bool:
        """Set all aggregates (UUIDs); otherwise as :meth:`update_traits`."""
        provider = self._find(name_or_uuid)
        self._note_generation(provider, generation)
        members = _aggregates(provider, aggregates)
        _allow(self._own.absent_aggregates, provider.uuid, members)
        if members == provider.aggregates:
            return False
        self._changed[provider.uuid] = replace(provider, aggregates=members)
        _note(self._own.aggregates, provider.uuid, provider.aggregates, members)
        return True

    def add_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """Add aggregates (UUIDs); the others stay."""
        provider = self._find(name_or_uuid)
        named = _aggregates(provider, aggregates)
        self.update_aggregates(provider.uuid, provider.aggregates | named)
        claimed = self._own.aggregates
        claimed[provider.uuid] = claimed.get(provider.uuid, named) | named

    def remove_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """Remove these aggregates (UUIDs); otherwise as :meth:`remove_traits`."""
        provider = self._find(name_or_uuid)
        named = _aggregates(provider, aggregates)
        self.update_aggregates(provider.uuid, provider.aggregates - named)
        _deny(self._own.absent_aggregates, provider.uuid, named)

    def update_resources(self, name_or_uuid: str, resources: Mapping[str, Any]) -> bool:
        """Set a provider's ``resources`` (Nova's Resource objects); return whether they changed.

        They are in this tree only: Placement has no such field.
        """
        provider = self._find(name_or_uuid)
        changed = self._resources.get(provider.uuid, {}) != resources
        self._resources[provider.uuid] = dict(copylib.deepcopy(resources))
        return changed

    # -- whole trees

    def subtree(self, name_or_uuid: str) -> "ProviderTree":
        """Return a new tree with one root and all below it.

        :raises ValueError: the provider does not exist or is not a root.
        """
        root = self._find(name_or_uuid)
        if root.parent_uuid is not None:
            raise ValueError(f"provider {root.name} is not a root")
        members = (self.provider(uuid) for uuid in self._walk(root.uuid))
        snapshot = Snapshot.build(provider for provider in members if provider is not None)
        part = ProviderTree(
            snapshot, {uuid: g for uuid, g in self._generations.items() if uuid in snapshot}
        )
        resources = {uuid: r for uuid, r in self._resources.items() if uuid in snapshot}
        part._resources = copylib.deepcopy(resources)
        return part


def _note(claimed: dict[str, Names], uuid: str, before: Names, now: Names) -> None:
    """Record added names as claims, and drop the claims of removed ones."""
    names = (claimed.get(uuid, frozenset()) & now) | (now - before)
    if names or uuid in claimed:
        claimed[uuid] = names


def _deny(absent: dict[str, Names], uuid: str, names: Names) -> None:
    if names:
        absent[uuid] = absent.get(uuid, frozenset()) | names


def _allow(absent: dict[str, Names], uuid: str, names: Names) -> None:
    """Remove names from ``absent``, since they are asserted now."""
    left = absent.pop(uuid, frozenset()) - names
    if left:
        absent[uuid] = left


def _is_same(current: Mapping[str, Inventory], records: InventoryDict) -> bool:
    """Return whether the records equal the current inventory, without parsing them.

    Parsing is slower, and most periods report the same inventory again.
    """
    return current.keys() == records.keys() and all(
        record == current[name]
        if not isinstance(record, Mapping)
        else record.get("total") == current[name].total
        and all(v is None or getattr(current[name], k, _UNKNOWN) == v for k, v in record.items())
        for name, record in records.items()
    )


_UNKNOWN = object()


def _name_set(values: Iterable[str], what: str) -> frozenset[str]:
    """Return the values as a set; a single string is an error, not a set of its letters."""
    if isinstance(values, str):
        raise ValueError(f"{what}: a list or a set is needed, not the string {values!r}")
    try:
        return frozenset(values)
    except TypeError:
        raise ValueError(f"{what}: a list or a set of names is needed, not {values!r}") from None


def _traits(provider: Provider, traits: Iterable[str]) -> Names:
    """Return the traits as plain ``str``, since claims are saved as JSON."""
    what = f"traits of provider {provider.name}"
    named = _name_set(traits, what)
    for name in named:
        if not isinstance(name, str):
            raise ValueError(f"{what}: {name!r} is not the name of a trait")
    return _names(named)


def _names(values: Iterable[str]) -> Names:
    names = frozenset(values)
    return names if _TEXT.issuperset(map(type, names)) else frozenset(map(plain_str, names))


_TEXT = frozenset([str])


def _aggregates(provider: Provider, aggregates: Iterable[str]) -> frozenset[str]:
    what = f"aggregate of provider {provider.name}"
    return canonical_uuids(_name_set(aggregates, what), what)
