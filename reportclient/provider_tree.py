"""ProviderTree: one owner's edit of an immutable snapshot.

The methods are those that authors of Nova drivers know.  A provider is named by
its name or its UUID everywhere; an unknown one is a :class:`ValueError`.  The
tree belongs to whoever was handed it, so there is no lock.  How changes are kept:
:class:`reportclient.edit.Edit`.
"""

from __future__ import annotations

import copy as copylib
import uuid as uuidlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Self

from reportclient.edit import Edit, refuse_no_name
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

InventoryDict = Mapping[str, Mapping[str, Any]]


class ProviderTree(Edit):
    """All providers of a host, and the sharing providers that it is associated with."""

    def __init__(
        self, base: Snapshot = EMPTY, generations: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(base, generations)
        self._source = ""
        self._classes_of: dict[str, dict[str, tuple[str, ...]]] = {"": {}}
        """What sources said in this edit, by source and the UUID of the provider."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copy = super().__deepcopy__(memo)
        classes_of = {source: dict(named) for source, named in self._classes_of.items()}
        vars(copy).update(_source=self._source, _classes_of=classes_of)
        return copy

    @property
    def lock(self) -> AbstractContextManager[None]:
        """Holds up nobody: the tree belongs to one thread.  Nova's tree has one."""
        return nullcontext()

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

    @property
    def roots(self) -> list[ProviderData]:
        """Copies of the roots: the host's own, and sharing providers beside it."""
        return [self.data(uuid) for uuid in self._kids(None)]

    def records(self, name_or_uuid: str) -> Mapping[str, Inventory]:
        """The inventory as frozen records; not to be changed."""
        return self._find(name_or_uuid).inventory

    def set_records(self, name_or_uuid: str, inventory: Mapping[str, Inventory]) -> None:
        """Set the whole inventory from records; :meth:`update_inventory` does it from dicts."""
        provider = self._find(name_or_uuid)
        self._classes_of[self._source][provider.uuid] = tuple(inventory)
        self._put(provider, replace(provider, inventory=inventory))

    # -- whose word it is

    @contextmanager
    def source(self, name: str) -> Iterator[None]:
        """What is said inside is said by this source of the driver; see :meth:`silent`.

        Inventory that other sources gave the same provider in this edit stays.  A source that
        fails takes only what it said before along, where the agent keeps who said what.
        """
        before, self._source = self._source, name
        self._classes_of.setdefault(name, {})
        try:
            yield
        finally:
            self._source = before

    def silent(self, name: str) -> None:
        """This source of the driver can't say anything now: what it said before stays."""

    def say_traits(self, name_or_uuid: str, traits: Iterable[str]) -> None:
        """Of its traits this source says these: what it said before and not now goes.

        Others' stay.  Where nobody keeps who said what, nothing goes.
        """
        self.add_traits(name_or_uuid, *traits)

    def adopt(self, name_or_uuid: str) -> None:
        """From now on this is the driver's, though somebody else made it: its predecessor."""
        self._find(name_or_uuid)

    # -- adding and removing providers

    def new_root(self, name: str, uuid: str, generation: int | None = None) -> str:
        """Add a root and return its UUID.

        If the provider with this UUID is in Placement under another name, somebody
        renamed it: it gets its name back.

        :raises ValueError: it is there already.
        """
        refuse_no_name(name)
        return self._place(Provider(canonical_uuid(uuid, f"new root {name}"), name), generation)

    def new_child(
        self, name: str, parent: str, uuid: str | None = None, generation: int | None = None
    ) -> str:
        """Add a provider below ``parent`` and return its UUID.

        Left unnumbered it gets a UUID made from the root's and its name, so that the
        same device gets the same one after a restart.  If that provider is there under
        another name, somebody renamed it: it gets its name and its place back.

        :raises ValueError: it is there already, or the parent is not.
        """
        above = self._find(parent)
        refuse_no_name(name)
        uuid = uuid or own_uuid(self._root_of(above), name)
        child = Provider(canonical_uuid(uuid, f"new child {name}"), name, above.uuid)
        return self._place(child, generation)

    def _place(self, provider: Provider, generation: int | None) -> str:
        """Add it, or take it back as it was before somebody renamed it in Placement."""
        uuid = provider.uuid
        if uuid in self._changed or uuid not in self._base or self._search(provider.name):
            return self._add(provider, generation)
        self.rename(uuid, provider.name)
        self.move(uuid, provider.parent_uuid)
        self._note_generation(provider, generation)
        return uuid

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
        if not isinstance(inventory, Mapping):
            raise ValueError(
                f"inventory of provider {provider.name}: a dict like {{'VCPU': {{'total': 8}}}} is "
                f"needed, {{}} for none, not {inventory!r}"
            )
        self._classes_of[self._source][provider.uuid] = tuple(inventory)
        if len(self._classes_of) > 1:
            inventory = self._beside_others(provider, inventory)
        if _repeats(provider.inventory, inventory):
            return False
        new = read_inventory(inventory, provider.name)
        self._changed[provider.uuid] = replace(provider, inventory=new)
        return True

    def _beside_others(self, provider: Provider, inventory: InventoryDict) -> InventoryDict:
        said = {source: of.get(provider.uuid, ()) for source, of in self._classes_of.items()}
        others = {name for source in said.keys() - {self._source} for name in said[source]}
        kept = {n: one.as_dict() for n, one in provider.inventory.items() if n in others}
        return {**kept, **inventory}

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
        """Add traits and leave the others alone.  Without any, the provider need not be there."""
        if traits:
            there = self._find(name_or_uuid)
            named = _not_one_word(traits, f"traits of provider {there.name}")
            self.update_traits(name_or_uuid, there.traits | named)

    def remove_traits(self, name_or_uuid: str, *traits: str) -> None:
        """Take away traits and leave the others alone.  Without any, as :meth:`add_traits`."""
        if traits:
            there = self._find(name_or_uuid)
            named = _not_one_word(traits, f"traits of provider {there.name}")
            self.update_traits(name_or_uuid, there.traits - named)

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
        self.update_aggregates(name_or_uuid, self._find(name_or_uuid).aggregates.union(aggregates))

    def remove_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """Take away aggregates (UUIDs) and leave the others alone."""
        provider = self._find(name_or_uuid)
        members = provider.aggregates - _aggregates(provider, aggregates)
        self.update_aggregates(provider.uuid, members)

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
    try:
        return frozenset(values)
    except TypeError:
        raise ValueError(f"{what}: a list or a set of names is needed, not {values!r}") from None


def _aggregates(provider: Provider, aggregates: Iterable[str]) -> frozenset[str]:
    what = f"aggregate of provider {provider.name}"
    return canonical_uuids(_not_one_word(aggregates, what), what)


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
