"""ProviderTree: one owner's edit of an immutable snapshot.

The methods are those that authors of Nova drivers know.  A provider is named by
its name or its UUID everywhere; an unknown one is a :class:`ValueError`.  The
tree belongs to whoever was handed it, so there is no lock.  How changes are kept:
:class:`reportclient.edit.Edit`.

What is said is recorded (:mod:`reportclient.claims`), also where it changes nothing.
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
    """All providers of a host, and the sharing providers that it is associated with."""

    @property
    def lock(self) -> AbstractContextManager[None]:
        """Holds up nobody: the tree belongs to one thread.  Nova's tree has one."""
        return nullcontext()

    # -- looking

    def data(self, name_or_uuid: str) -> ProviderData:
        """A copy of what a provider is and has; changing it changes nothing here."""
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
        """Whether the provider has inventory of any class."""
        return bool(self._find(name_or_uuid).inventory)

    def has_inventory_changed(self, name_or_uuid: str, inventory: InventoryDict) -> bool:
        """Whether ``inventory`` says anything else than what is there.

        Fields that a record leaves out are not compared.
        """
        provider = self._find(name_or_uuid)
        if _repeats(provider.inventory, inventory):
            return False
        read_inventory(inventory, provider.name)
        return True

    def has_sharing_provider(self, resource_class: str) -> bool:
        """Whether any provider here, or one that is not shown, shares inventory of this class."""
        providers = [self.provider(uuid) for uuid in self._walk(None)]
        providers += (self.whole.get(uuid) for uuid in self.whole.children(None))
        return any(p is not None and p.shares and resource_class in p.inventory for p in providers)

    def has_traits(self, name_or_uuid: str, traits: Iterable[str]) -> bool:
        """Whether the provider has all of these traits."""
        return self._find(name_or_uuid).traits.issuperset(traits)

    def have_traits_changed(self, name_or_uuid: str, traits: Iterable[str]) -> bool:
        """Whether the provider's traits are others than these."""
        return self._find(name_or_uuid).traits != frozenset(traits)

    def in_aggregates(self, name_or_uuid: str, aggregates: Iterable[str]) -> bool:
        """Whether the provider is a member of all of these aggregates."""
        provider = self._find(name_or_uuid)
        return provider.aggregates.issuperset(_aggregates(provider, aggregates))

    def have_aggregates_changed(self, name_or_uuid: str, aggregates: Iterable[str]) -> bool:
        """Whether the provider's aggregates are others than these."""
        provider = self._find(name_or_uuid)
        return provider.aggregates != _aggregates(provider, aggregates)

    @property
    def roots(self) -> list[ProviderData]:
        """Copies of the roots: the host's own, and sharing providers beside it."""
        return [self.data(uuid) for uuid in self._kids(None)]

    def records(self, name_or_uuid: str) -> Mapping[str, Inventory]:
        """The inventory as frozen records; not to be changed."""
        return self._find(name_or_uuid).inventory

    def set_records(self, name_or_uuid: str, inventory: Mapping[str, Inventory]) -> None:
        """The same as :meth:`update_inventory`, which takes frozen records as well as dicts."""
        self.update_inventory(name_or_uuid, inventory)

    # -- whose word it is

    def set_own_traits(self, name_or_uuid: str, traits: Iterable[str]) -> None:
        """Set this source's traits of a provider: those that it set before and not now are removed.

        Others' stay.  Where nobody keeps who said what, nothing goes.
        """
        there = self._find(name_or_uuid)
        names, uuid = _traits(there, traits), there.uuid
        self.add_traits(uuid, *names)
        self._own.traits[uuid], self._own.renewed[uuid] = names, None

    def adopt(self, name_or_uuid: str) -> None:
        """From now on this is the driver's, though somebody else made it: its predecessor."""
        self._own.adopted[self._find(name_or_uuid).uuid] = None

    # -- changing a provider

    def update_inventory(
        self, name_or_uuid: str, inventory: InventoryDict, generation: int | None = None
    ) -> bool:
        """Set the whole inventory, ``{class: {total: …, reserved: …, …}}``, or of records.

        Fields that a record leaves out stay as Placement has them.  Returns whether
        anything changed.
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
        changed = not _repeats(provider.inventory, whole)
        if changed:
            new = read_inventory(whole, provider.name)
            self._changed[provider.uuid] = replace(provider, inventory=new)
        self._own.classes[provider.uuid] = _names(inventory)
        return changed

    def _beside_others(self, provider: Provider, inventory: InventoryDict) -> InventoryDict:
        others = [claims for source, claims in self.claims.items() if source != self._source]
        named = frozenset[str]().union(*(one.classes.get(provider.uuid, ()) for one in others))
        kept = {name: one for name, one in provider.inventory.items() if name in named}
        return {**kept, **inventory}

    def update_traits(
        self, name_or_uuid: str, traits: Iterable[str], generation: int | None = None
    ) -> bool:
        """Set all traits.  Return whether anything changed.

        The set names what is there, and nothing as absent: what other services set stays in
        Placement.  See :meth:`remove_traits`.
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
        """Add traits and leave the others alone.  Without any, the provider need not be there."""
        if traits:
            there = self._find(name_or_uuid)
            named = _traits(there, traits)
            if not named <= there.traits:
                self._changed[there.uuid] = replace(there, traits=there.traits | named)
            said = self._own.traits
            said[there.uuid] = said.get(there.uuid, named) | named
            _allow(self._own.absent_traits, there.uuid, named)

    def remove_traits(self, name_or_uuid: str, *traits: str) -> None:
        """Say that the provider does not have these traits, and leave the others alone.

        They are removed from Placement whoever set them, also where they are not shown here,
        unless another driver or a provider file asserts them, they are the agent's own
        (COMPUTE_NODE, COMPUTE_STATUS_DISABLED, owner traits), or the provider is another
        service's.  Without any, as :meth:`add_traits`.
        """
        if traits:
            there = self._find(name_or_uuid)
            named = _traits(there, traits)
            self.update_traits(there.uuid, there.traits - named)
            _deny(self._own.absent_traits, there.uuid, named)

    def update_aggregates(
        self, name_or_uuid: str, aggregates: Iterable[str], generation: int | None = None
    ) -> bool:
        """Set all aggregates, as :meth:`update_traits` does traits."""
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
        """Add aggregates (UUIDs) and leave the others alone."""
        provider = self._find(name_or_uuid)
        named = _aggregates(provider, aggregates)
        self.update_aggregates(provider.uuid, provider.aggregates | named)
        said = self._own.aggregates
        said[provider.uuid] = said.get(provider.uuid, named) | named

    def remove_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """Say that the provider is in none of these aggregates, as :meth:`remove_traits` does."""
        provider = self._find(name_or_uuid)
        named = _aggregates(provider, aggregates)
        self.update_aggregates(provider.uuid, provider.aggregates - named)
        _deny(self._own.absent_aggregates, provider.uuid, named)

    def update_resources(self, name_or_uuid: str, resources: Mapping[str, Any]) -> bool:
        """Keep resources that a driver hands out one by one; Placement never sees them."""
        provider = self._find(name_or_uuid)
        changed = self._resources.get(provider.uuid, {}) != resources
        self._resources[provider.uuid] = dict(copylib.deepcopy(resources))
        return changed

    # -- whole trees

    def subtree(self, name_or_uuid: str) -> "ProviderTree":
        """A tree of its own with one root and all below it.

        :raises ValueError: the provider is not there, or is no root.
        """
        root = self._find(name_or_uuid)
        if root.parent_uuid is not None:
            raise ValueError(f"provider {root.name} is not a root")
        members = (self.provider(uuid) for uuid in self._walk(root.uuid))
        snapshot = Snapshot.build(provider for provider in members if provider is not None)
        part = ProviderTree(
            snapshot, {uuid: g for uuid, g in self._generations.items() if uuid in snapshot}
        )
        kept = {uuid: r for uuid, r in self._resources.items() if uuid in snapshot}
        part._resources = copylib.deepcopy(kept)
        return part


def _note(said: dict[str, Names], uuid: str, there: Names, now: Names) -> None:
    """Record added names as claims, and drop the claims of removed ones."""
    names = (said.get(uuid, frozenset()) & now) | (now - there)
    if names or uuid in said:
        said[uuid] = names


def _deny(absent: dict[str, Names], uuid: str, names: Names) -> None:
    if names:
        absent[uuid] = absent.get(uuid, frozenset()) | names


def _allow(absent: dict[str, Names], uuid: str, names: Names) -> None:
    """Names that are asserted now are not absent any more."""
    left = absent.pop(uuid, frozenset()) - names
    if left:
        absent[uuid] = left


def _repeats(current: Mapping[str, Inventory], records: InventoryDict) -> bool:
    """Whether these say nothing else than what is there: the usual answer of a driver.

    The records are compared as they come; only others are worth being read.
    """
    return current.keys() == records.keys() and all(
        record == current[name]
        if not isinstance(record, Mapping)
        else record.get("total") == current[name].total
        and all(v is None or getattr(current[name], k, _UNKNOWN) == v for k, v in record.items())
        for name, record in records.items()
    )


_UNKNOWN = object()


def _not_one_word(values: Iterable[str], what: str) -> frozenset[str]:
    """A string is an iterable too, of letters: nobody means that."""
    if isinstance(values, str):
        raise ValueError(f"{what}: a list or a set is needed, not the string {values!r}")
    try:
        return frozenset(values)
    except TypeError:
        raise ValueError(f"{what}: a list or a set of names is needed, not {values!r}") from None


def _traits(provider: Provider, traits: Iterable[str]) -> Names:
    """Check that traits are texts, since the ledger keeps them."""
    what = f"traits of provider {provider.name}"
    named = _not_one_word(traits, what)
    for name in named:
        if not isinstance(name, str):
            raise ValueError(f"{what}: {name!r} is no name of a trait")
    return _names(named)


def _names(values: Iterable[str]) -> Names:
    names = frozenset(values)
    return names if _TEXT.issuperset(map(type, names)) else frozenset(map(plain_str, names))


_TEXT = frozenset([str])


def _aggregates(provider: Provider, aggregates: Iterable[str]) -> frozenset[str]:
    what = f"aggregate of provider {provider.name}"
    return canonical_uuids(_not_one_word(aggregates, what), what)
