"""RecordingTree: a provider tree that remembers what was said on it, and by which source.

A driver that repeats what Placement has changes nothing; that it said so is known only
here.  It is not shown what other managers own: what it reads and sets again would be taken
for its own word.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from reportclient.model import Inventory, Provider, canonical_uuids
from reportclient.provider_tree import InventoryDict, ProviderTree
from reportclient.snapshot import EMPTY, Snapshot

Names = frozenset[str]


@dataclass(slots=True)
class Recording:
    """What one source said, by the UUID of the provider.

    ``classes`` are the whole of what it says a provider has; traits and aggregates are those
    that it named, beside which others may stay.
    """

    placed: dict[str, None] = field(default_factory=dict)
    classes: dict[str, Names] = field(default_factory=dict)
    traits: dict[str, Names] = field(default_factory=dict)
    aggregates: dict[str, Names] = field(default_factory=dict)
    adopted: set[str] = field(default_factory=set)
    renewed: set[str] = field(default_factory=set)
    """Providers of which it said all traits that it has to say."""

    def copied(self) -> Recording:
        """The same, for later, whoever still has the tree."""
        said = dict(self.placed), dict(self.classes), dict(self.traits), dict(self.aggregates)
        return Recording(*said, set(self.adopted), set(self.renewed))

    def changed_since(self, old: Recording) -> Iterator[str]:
        """UUIDs of the providers of which it says something else than ``old``."""
        pairs: tuple[tuple[Mapping[str, object], Mapping[str, object]], ...] = (
            (self.placed, old.placed),
            (self.classes, old.classes),
            (self.traits, old.traits),
            (self.aggregates, old.aggregates),
        )
        for now, then in pairs:
            if now != then:
                yield from (uuid for uuid in now if uuid not in then or now[uuid] != then[uuid])
                yield from (uuid for uuid in then if uuid not in now)
        yield from self.renewed ^ old.renewed

    @property
    def spoken(self) -> Iterable[str]:
        """Providers of which it said anything."""
        return {**self.placed, **self.classes, **self.traits, **self.aggregates}


class RecordingTree(ProviderTree):
    """``whole`` is what there is, ``base`` the part of it that this driver is shown."""

    def __init__(
        self,
        base: Snapshot = EMPTY,
        generations: Mapping[str, int] | None = None,
        whole: Snapshot | None = None,
    ) -> None:
        super().__init__(base, generations)
        self._whole = base if whole is None else whole
        self.recordings: dict[str, Recording] = {"": Recording()}
        self.silent_sources: set[str] = set()

    def __deepcopy__(self, memo: dict[int, Any]) -> RecordingTree:
        made = super().__deepcopy__(memo)
        vars(made).update(
            _whole=self._whole,
            recordings=copy.deepcopy(self.recordings, memo),
            silent_sources=set(self.silent_sources),
        )
        return made

    # -- whose word it is

    @contextmanager
    def source(self, name: str) -> Iterator[None]:
        """See :class:`ProviderTree`."""
        self.recordings.setdefault(name, Recording())
        try:
            with super().source(name):
                yield
        except BaseException:
            self.silent_sources.add(name)
            raise

    def silent(self, name: str) -> None:
        """See :class:`ProviderTree`."""
        self.silent_sources.add(name)

    def adopt(self, name_or_uuid: str) -> None:
        """See :class:`ProviderTree`."""
        self._here.adopted.add(self._find(name_or_uuid).uuid)

    @property
    def _here(self) -> Recording:
        return self.recordings[self._source]

    # -- what it leads to

    def provider(self, uuid: str) -> Provider | None:
        """The provider as it was left."""
        return self._get(uuid)

    def edits(self) -> dict[str, Provider | None]:
        """The providers that differ from the base; ``None`` for those that were taken away."""
        changed = self._changed.items()
        return {uuid: new for uuid, new in changed if new is None or new != self._base.get(uuid)}

    def renamed(self) -> Iterator[tuple[str, Provider]]:
        """The UUIDs of providers whose names others have here, with those others."""
        for provider in self._changed.values():
            holder = None if provider is None else self._whole.named(provider.name)
            if provider is not None and holder is not None and holder.uuid != provider.uuid:
                yield holder.uuid, provider

    def gone(self) -> Iterator[str]:
        """UUIDs of providers of the base that were taken away."""
        gone = (uuid for uuid, provider in self._changed.items() if provider is None)
        return (uuid for uuid in gone if self._base.get(uuid) is not None)

    def removed_by_name(self) -> list[str]:
        """UUIDs of providers of the base that were taken away, and not along with another."""
        return [uuid for uuid in self.gone() if uuid not in self._taken_along]

    # -- ProviderTree's methods

    def has_sharing_provider(self, resource_class: str) -> bool:
        """See :class:`ProviderTree`; also of what others say."""
        roots = (self._whole.providers[uuid] for uuid in self._whole.children(None))
        others = any(root.shares and resource_class in root.inventory for root in roots)
        return others or super().has_sharing_provider(resource_class)

    def rename(self, name_or_uuid: str, name: str) -> None:
        """See :class:`ProviderTree`."""
        super().rename(name_or_uuid, name)
        self._here.placed[self._find(name).uuid] = None

    def move(self, name_or_uuid: str, parent: str | None) -> None:
        """See :class:`ProviderTree`."""
        super().move(name_or_uuid, parent)
        self._here.placed[self._find(name_or_uuid).uuid] = None

    def new_root(self, name: str, uuid: str, generation: int | None = None) -> str:
        """See :class:`ProviderTree`."""
        made = super().new_root(name, uuid, generation)
        self._here.placed[made] = None
        return made

    def new_child(
        self, name: str, parent: str, uuid: str | None = None, generation: int | None = None
    ) -> str:
        """See :class:`ProviderTree`."""
        made = super().new_child(name, parent, uuid, generation)
        self._here.placed[made] = None
        return made

    def update_inventory(
        self, name_or_uuid: str, inventory: InventoryDict, generation: int | None = None
    ) -> bool:
        """See :class:`ProviderTree`; what other sources said of the provider stays."""
        uuid = self._find(name_or_uuid).uuid
        changed = super().update_inventory(uuid, inventory, generation)
        self._here.placed[uuid] = None
        self._here.classes[uuid] = frozenset(inventory)
        return changed

    def set_records(self, name_or_uuid: str, inventory: Mapping[str, Inventory]) -> None:
        """See :class:`ProviderTree`."""
        super().set_records(name_or_uuid, inventory)
        uuid = self._find(name_or_uuid).uuid
        self._here.placed[uuid] = None
        self._here.classes[uuid] = frozenset(inventory)

    def update_traits(
        self, name_or_uuid: str, traits: Iterable[str], generation: int | None = None
    ) -> bool:
        """See :class:`ProviderTree`."""
        before = self._find(name_or_uuid)
        changed = super().update_traits(name_or_uuid, traits, generation)
        if changed:
            _note(self._here.traits, before.uuid, before.traits, self._now(before).traits)
        return changed

    def add_traits(self, name_or_uuid: str, *traits: str) -> None:
        """See :class:`ProviderTree`."""
        super().add_traits(name_or_uuid, *traits)
        if traits:
            uuid = self._find(name_or_uuid).uuid
            said = self._here.traits
            said[uuid] = said.get(uuid, frozenset()).union(traits)

    def say_traits(self, name_or_uuid: str, traits: Iterable[str]) -> None:
        """See :class:`ProviderTree`."""
        uuid = self._find(name_or_uuid).uuid
        names = frozenset(traits)
        self.add_traits(uuid, *names)
        self._here.traits[uuid] = names
        self._here.renewed.add(uuid)

    def update_aggregates(
        self, name_or_uuid: str, aggregates: Iterable[str], generation: int | None = None
    ) -> bool:
        """See :class:`ProviderTree`."""
        before = self._find(name_or_uuid)
        changed = super().update_aggregates(name_or_uuid, aggregates, generation)
        if changed:
            after = self._now(before).aggregates
            _note(self._here.aggregates, before.uuid, before.aggregates, after)
        return changed

    def add_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """See :class:`ProviderTree`."""
        super().add_aggregates(name_or_uuid, *aggregates)
        uuid, said = self._find(name_or_uuid).uuid, self._here.aggregates
        said[uuid] = said.get(uuid, frozenset()) | canonical_uuids(aggregates, "aggregate")

    def remove_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """See :class:`ProviderTree`."""
        before = self._find(name_or_uuid)
        super().remove_aggregates(name_or_uuid, *aggregates)
        after = self._now(before).aggregates
        _note(self._here.aggregates, before.uuid, before.aggregates, after)

    def populate_from_iterable(self, provider_dicts: Iterable[Mapping[str, Any]]) -> None:
        """See :class:`ProviderTree`; nobody gets what is listed there, nor loses anything."""
        kept = copy.deepcopy(self.recordings)
        super().populate_from_iterable(provider_dicts)
        self.recordings = kept

    def _now(self, before: Provider) -> Provider:
        return self._find(before.uuid)


def _note(said: dict[str, Names], uuid: str, before: Names, after: Names) -> None:
    """What was added is said, what was taken away is not any more."""
    now = (said.get(uuid, frozenset()) & after) | (after - before)
    if now or uuid in said:
        said[uuid] = now
