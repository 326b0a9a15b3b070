"""ProviderTree: one owner's edit of an immutable snapshot.

The methods are those that authors of Nova drivers know.  A provider is named by
its name or its UUID everywhere; an unknown one is a :class:`ValueError`.  The
tree belongs to whoever was handed it, so there is no lock.

The snapshot below is never touched: what changes is kept beside it, which makes
a tree cheap to hand out, cheap to copy, and lets :meth:`ProviderTree.freeze`
return the *same* snapshot when in the end nothing is different.
"""

from __future__ import annotations

import copy as copylib
import uuid as uuidlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from reportclient.model import (
    Inventory,
    Provider,
    ProviderData,
    canonical_uuid,
    canonical_uuids,
    read_inventory,
)
from reportclient.snapshot import EMPTY, Snapshot

__all__ = ["ProviderData", "ProviderTree", "Snapshot"]

V = TypeVar("V")
InventoryDict = Mapping[str, Mapping[str, Any]]


class ProviderTree:
    """All providers of a host, and the sharing providers that it is associated with."""

    def __init__(
        self, base: Snapshot = EMPTY, generations: Mapping[str, int] | None = None
    ) -> None:
        self._base = base
        self._generations = dict(generations or {})
        self._changed: dict[str, Provider | None] = {}
        self._names: dict[str, str | None] = {}
        self._children: dict[str | None, dict[str, None]] = {}
        self._resources: dict[str, dict[str, Any]] = {}
        self._taken_along: set[str] = set()

    def __deepcopy__(self, memo: dict[int, Any]) -> ProviderTree:
        copy = type(self)(self._base, self._generations)
        vars(copy).update(
            _changed=self._changed.copy(),
            _names=self._names.copy(),
            _children={parent: dict(uuids) for parent, uuids in self._children.items()},
            _taken_along=self._taken_along.copy(),
            _resources=copylib.deepcopy(self._resources, memo),
        )
        return copy

    # -- looking

    def exists(self, name_or_uuid: str) -> bool:
        """Whether there is such a provider."""
        return self._search(name_or_uuid) is not None

    def data(self, name_or_uuid: str) -> ProviderData:
        """A copy of what is known of a provider; changing it changes nothing here."""
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

    def get_provider_uuids(self, name_or_uuid: str | None = None) -> list[str]:
        """UUIDs of a provider and all below it, or of all providers; parents come first."""
        start = None if name_or_uuid is None else self._find(name_or_uuid).uuid
        return list(self._walk(start))

    def get_provider_uuids_in_tree(self, name_or_uuid: str) -> list[str]:
        """UUIDs of the whole tree that a provider is a member of; parents come first."""
        return list(self._walk(self._root_of(self._find(name_or_uuid))))

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
        """Whether any provider here shares inventory of this class."""
        found = (self._get(uuid) for uuid in self._walk(None))
        return any(p is not None and p.shares and resource_class in p.inventory for p in found)

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

    def touched(self) -> list[str]:
        """UUIDs of the providers here that are new, or that somebody has edited."""
        return [uuid for uuid, provider in self._changed.items() if provider is not None]

    # -- adding and removing providers

    def new_root(self, name: str, uuid: str, generation: int | None = None) -> str:
        """Add a root and return its UUID.  :raises ValueError: it is there already."""
        return self._add(Provider(canonical_uuid(uuid, f"new root {name}"), name), generation)

    def new_child(
        self, name: str, parent: str, uuid: str | None = None, generation: int | None = None
    ) -> str:
        """Add a provider below ``parent`` and return its UUID.

        Left unnumbered it gets a UUID made from the root's and its name, so that the
        same device gets the same one after a restart.  If that provider is there under
        another name, somebody renamed it: it gets its name back.

        :raises ValueError: it is there already, or the parent is not.
        """
        above = self._find(parent)
        if uuid is None:
            uuid = own_uuid(self._root_of(above), name)
            if self._get(uuid) is not None and self._search(name) is None:
                return self._take_back(uuid, name, above.uuid)
        child = Provider(canonical_uuid(uuid, f"new child {name}"), name, above.uuid)
        return self._add(child, generation)

    def _take_back(self, uuid: str, name: str, parent: str) -> str:
        """Somebody renamed the provider that has the UUID which only this name gives."""
        self.rename(uuid, name)
        self.move(uuid, parent)
        return uuid

    def remove(self, name_or_uuid: str) -> None:
        """Take away a provider and all below it."""
        top = self._find(name_or_uuid)
        for uuid in list(self._walk(top.uuid)):
            self._taken_along.add(uuid)
            provider = self._get(uuid)
            assert provider is not None
            self._changed[uuid] = None
            self._names[provider.name] = None
            self._children[uuid] = {}
            self._generations.pop(uuid, None)
            self._resources.pop(uuid, None)
        del self._own_children(top.parent_uuid)[top.uuid]
        self._taken_along.discard(top.uuid)

    def taken_along(self) -> list[str]:
        """UUIDs of providers that were removed only because one above them was."""
        return [uuid for uuid in self._taken_along if self._get(uuid) is None]

    def put_back(self, uuid: str) -> list[str]:
        """Undo the removal of a provider of the base, and of those above it; their UUIDs."""
        chain: list[Provider] = []
        lost = self._base.get(uuid)
        while lost is not None and self._get(lost.uuid) is None:
            chain.insert(0, lost)
            lost = None if lost.parent_uuid is None else self._base.get(lost.parent_uuid)
        for provider in chain:
            self._add(provider, None)
        return [provider.uuid for provider in chain]

    def populate_from_iterable(self, provider_dicts: Iterable[Mapping[str, Any]]) -> None:
        """Add or replace providers, as Placement lists them.

        Each dict has ``uuid`` and ``name``, and may have ``generation`` and
        ``parent_provider_uuid``.  A provider that is replaced loses what it had, and
        the providers below it unless they are listed too.

        :raises ValueError: a parent is missing, a name is taken, or the providers form
            a cycle; the tree is then as before.
        """
        listed = {pdict["uuid"]: pdict for pdict in provider_dicts}
        order = _parents_first(listed, self.exists)
        trial = copylib.deepcopy(self)
        trial._replace(listed, order)
        self.__dict__.update(trial.__dict__)

    def _replace(self, listed: Mapping[str, Mapping[str, Any]], order: Iterable[str]) -> None:
        for uuid in order:
            if self.exists(uuid):
                self.remove(uuid)
        for uuid in order:
            pdict = listed[uuid]
            parent = pdict.get("parent_provider_uuid")
            above = None if parent is None else self._find(parent).uuid
            self._add(Provider(uuid, pdict["name"], above), pdict.get("generation"))

    def rename(self, name_or_uuid: str, name: str) -> None:
        """Give a provider another name.  :raises ValueError: the name is taken."""
        provider = self._find(name_or_uuid)
        if name == provider.name:
            return
        if name != provider.uuid:  # a provider may be named by its own UUID
            self._refuse_taken(name)
        self._names[provider.name] = None
        self._names[name] = provider.uuid
        self._changed[provider.uuid] = replace(provider, name=name)

    def move(self, name_or_uuid: str, parent: str | None) -> None:
        """Put a provider, with all below it, under another one (``None``: make it a root).

        :raises ValueError: the new parent is not there, or is below the provider.
        """
        provider = self._find(name_or_uuid)
        above = None if parent is None else self._find(parent).uuid
        if above == provider.parent_uuid:
            return
        if above is not None and above in self._walk(provider.uuid):
            raise ValueError(f"provider {provider.name} can't be moved below itself ({above})")
        del self._own_children(provider.parent_uuid)[provider.uuid]
        self._own_children(above)[provider.uuid] = None
        self._changed[provider.uuid] = replace(provider, parent_uuid=above)

    # -- changing a provider

    def update_inventory(
        self, name_or_uuid: str, inventory: InventoryDict, generation: int | None = None
    ) -> bool:
        """Set the whole inventory, ``{class: {total: …, reserved: …, …}}``.

        Fields that a record leaves out stay as Placement has them.  Returns whether
        anything changed.
        """
        provider = self._find(name_or_uuid)
        self._note_generation(provider, generation)
        if _repeats(provider.inventory, inventory):
            return False
        new = read_inventory(inventory, provider.name)
        self._changed[provider.uuid] = replace(provider, inventory=new)
        return True

    def update_traits(
        self, name_or_uuid: str, traits: Iterable[str], generation: int | None = None
    ) -> bool:
        """Set all traits, strangers' too.  Returns whether anything changed."""
        provider = self._find(name_or_uuid)
        self._note_generation(provider, generation)
        wanted = _not_one_word(traits, f"traits of provider {provider.name}")
        if wanted == provider.traits:
            return False
        self._changed[provider.uuid] = replace(provider, traits=wanted)
        return True

    def add_traits(self, name_or_uuid: str, *traits: str) -> None:
        """Add traits and leave the others alone."""
        self.update_traits(name_or_uuid, self._find(name_or_uuid).traits.union(traits))

    def remove_traits(self, name_or_uuid: str, *traits: str) -> None:
        """Take away traits and leave the others alone."""
        self.update_traits(name_or_uuid, self._find(name_or_uuid).traits.difference(traits))

    def update_aggregates(
        self, name_or_uuid: str, aggregates: Iterable[str], generation: int | None = None
    ) -> bool:
        """Set all aggregates, strangers' too.  Returns whether anything changed."""
        provider = self._find(name_or_uuid)
        self._note_generation(provider, generation)
        members = _aggregates(provider, aggregates)
        return self._put(provider, replace(provider, aggregates=members))

    def add_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """Add aggregates (UUIDs) and leave the others alone."""
        provider = self._find(name_or_uuid)
        members = provider.aggregates | _aggregates(provider, aggregates)
        self._put(provider, replace(provider, aggregates=members))

    def remove_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """Take away aggregates (UUIDs) and leave the others alone."""
        provider = self._find(name_or_uuid)
        members = provider.aggregates - _aggregates(provider, aggregates)
        self._put(provider, replace(provider, aggregates=members))

    def update_resources(self, name_or_uuid: str, resources: Mapping[str, Any]) -> bool:
        """Keep resources that a driver hands out one by one; Placement never sees them."""
        provider = self._find(name_or_uuid)
        changed = self._resources.get(provider.uuid, {}) != resources
        self._resources[provider.uuid] = dict(copylib.deepcopy(resources))
        return changed

    # -- whole trees

    def subtree(self, name_or_uuid: str) -> ProviderTree:
        """A tree of its own with one root and all below it.

        :raises ValueError: the provider is not there, or is no root.
        """
        root = self._find(name_or_uuid)
        if root.parent_uuid is not None:
            raise ValueError(f"provider {root.name} is not a root")
        found = (self._get(uuid) for uuid in self._walk(root.uuid))
        snapshot = Snapshot.build(provider for provider in found if provider is not None)
        part = ProviderTree(
            snapshot, {uuid: g for uuid, g in self._generations.items() if uuid in snapshot}
        )
        kept = {uuid: r for uuid, r in self._resources.items() if uuid in snapshot}
        part._resources = copylib.deepcopy(kept)
        return part

    def freeze(self) -> Snapshot:
        """This state as a snapshot: the base itself when nothing is different."""
        changed = {
            uuid: provider
            for uuid, provider in self._changed.items()
            if provider != self._base.get(uuid)
        }
        if not changed:
            return self._base
        providers, names, children = self._base.parts()
        _overlay(providers, changed)
        _overlay(names, self._names)
        for parent, uuids in self._children.items():
            if parent is None or parent in providers:
                children[parent] = dict(uuids)
            else:
                children.pop(parent, None)
        return Snapshot(providers, names, children).descend_from(self._base, tuple(changed))

    # -- the overlay

    def _get(self, uuid: str) -> Provider | None:
        return self._changed[uuid] if uuid in self._changed else self._base.get(uuid)

    def _uuid_named(self, name: str) -> str | None:
        if name in self._names:
            return self._names[name]
        provider = self._base.named(name)
        return None if provider is None else provider.uuid

    def _search(self, name_or_uuid: str) -> Provider | None:
        found = self._get(name_or_uuid)
        if found is not None:
            return found
        uuid = self._uuid_named(name_or_uuid)
        if uuid is None:
            uuid = _other_spelling(name_or_uuid)
        return None if uuid is None else self._get(uuid)

    def _find(self, name_or_uuid: str) -> Provider:
        provider = self._search(name_or_uuid)
        if provider is None:
            raise ValueError(f"no such provider: {name_or_uuid}")
        return provider

    def _kids(self, uuid: str | None) -> Iterable[str]:
        return self._children[uuid] if uuid in self._children else self._base.children(uuid)

    def _own_children(self, parent: str | None) -> dict[str, None]:
        if parent not in self._children:
            self._children[parent] = dict.fromkeys(self._base.children(parent))
        return self._children[parent]

    def _walk(self, start: str | None) -> Iterator[str]:
        stack = [start] if start is not None else [*reversed(list(self._kids(None)))]
        while stack:
            uuid = stack.pop()
            yield uuid
            stack.extend(reversed(list(self._kids(uuid))))

    def _root_of(self, provider: Provider) -> str:
        while provider.parent_uuid is not None:
            provider = self._find(provider.parent_uuid)
        return provider.uuid

    def _refuse_taken(self, name_or_uuid: str) -> None:
        taken = self._search(name_or_uuid)
        if taken is not None:
            raise ValueError(f"provider {name_or_uuid} already exists: {taken.name} ({taken.uuid})")

    def _add(self, provider: Provider, generation: int | None) -> str:
        self._refuse_taken(provider.uuid)
        self._refuse_taken(provider.name)
        self._changed[provider.uuid] = provider
        self._names[provider.name] = provider.uuid
        self._own_children(provider.parent_uuid)[provider.uuid] = None
        self._note_generation(provider, generation)
        return provider.uuid

    def _put(self, old: Provider, new: Provider) -> bool:
        if new == old:
            return False
        self._changed[new.uuid] = new
        return True

    def _note_generation(self, provider: Provider, generation: int | None) -> None:
        if generation is not None:
            self._generations[provider.uuid] = generation


def own_uuid(root: str, name: str) -> str:
    """The UUID of a provider that a driver left unnumbered, from its root's and its name."""
    return str(uuidlib.uuid5(uuidlib.UUID(root), name))


def _repeats(current: Mapping[str, Inventory], records: InventoryDict) -> bool:
    """Whether these say nothing else than what is there: the usual answer of a driver.

    The records are compared as they come; only others are worth being read.
    """
    return current.keys() == records.keys() and all(
        isinstance(record, Mapping)
        and record.get("total") == current[name].total
        and all(v is None or getattr(current[name], k, _UNKNOWN) == v for k, v in record.items())
        for name, record in records.items()
    )


_UNKNOWN = object()


def _not_one_word(values: Iterable[str], what: str) -> frozenset[str]:
    """A string is an iterable too, of letters: nobody means that."""
    if isinstance(values, str):
        raise ValueError(f"{what}: a list or a set is needed, not the string {values!r}")
    return frozenset(values)


def _aggregates(provider: Provider, aggregates: Iterable[str]) -> frozenset[str]:
    what = f"aggregate of provider {provider.name}"
    return canonical_uuids(_not_one_word(aggregates, what), what)


def _other_spelling(value: str) -> str | None:
    try:
        return str(uuidlib.UUID(value))
    except (ValueError, AttributeError, TypeError):
        return None


def _overlay(below: dict[str, V], above: Mapping[str, V | None]) -> None:
    for key, value in above.items():
        if value is None:
            below.pop(key, None)
        else:
            below[key] = value


def _parents_first(listed: Mapping[str, Mapping[str, Any]], exists: Any) -> list[str]:
    """UUIDs in an order in which parents come before children."""
    below: dict[str, list[str]] = {}
    ready: list[str] = []
    for uuid, pdict in listed.items():
        parent = pdict.get("parent_provider_uuid")
        if parent is not None and parent in listed:
            below.setdefault(parent, []).append(uuid)
        elif parent is None or exists(parent):
            ready.append(uuid)
        else:
            raise ValueError(f"the parent of {pdict['name']} was not found: {parent}")
    order = []
    while ready:
        order.append(uuid := ready.pop())
        ready.extend(below.get(uuid, ()))
    if len(order) != len(listed):
        cycle = sorted(set(listed).difference(order))
        raise ValueError(f"providers that are their own ancestors: {', '.join(cycle)}")
    return order
