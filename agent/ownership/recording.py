"""RecordingTree: a provider tree that remembers what was said on it, and by which source.

A driver that repeats what Placement has changes nothing; that it said so is known only
here.  It is not shown what other managers own: what it reads and sets again would be taken
for its own word.
"""
# ruff: noqa: D102  most methods are those of ProviderTree, which says what they do

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from reportclient.model import Provider, canonical_uuids
from reportclient.provider_tree import InventoryDict, ProviderTree
from reportclient.snapshot import EMPTY, Snapshot

Names = frozenset[str]


class Word(NamedTuple):
    """What one source said of a provider; ``None``: nothing.

    ``classes`` are the whole of what it says the provider has; traits and aggregates are
    those that it named, beside which others may stay.
    """

    placed: bool = False
    classes: Names | None = None
    traits: Names | None = None
    aggregates: Names | None = None
    renewed: bool = False
    """Whether these are all traits that it has to say."""
    adopted: bool = False


NO_WORD = Word()


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
        self.words: dict[str, dict[str, Word]] = {"": {}}
        """By source, and by the UUID of the provider."""
        self.silent_sources: set[str] = set()

    def __deepcopy__(self, memo: dict[int, Any]) -> "RecordingTree":
        made = super().__deepcopy__(memo)
        vars(made).update(
            _whole=self._whole,
            words={source: dict(words) for source, words in self.words.items()},
            silent_sources=set(self.silent_sources),
        )
        return made

    # -- whose word it is

    @contextmanager
    def source(self, name: str) -> Iterator[None]:
        self.words.setdefault(name, {})
        try:
            with super().source(name):
                yield
        except BaseException:
            self.silent_sources.add(name)
            raise

    def silent(self, name: str) -> None:
        self.silent_sources.add(name)

    def adopt(self, name_or_uuid: str) -> None:
        self._say(name_or_uuid, adopted=True)

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
        """Also one of others."""
        roots = (self._whole.providers[uuid] for uuid in self._whole.children(None))
        others = any(root.shares and resource_class in root.inventory for root in roots)
        return others or super().has_sharing_provider(resource_class)

    def rename(self, name_or_uuid: str, name: str) -> None:
        super().rename(name_or_uuid, name)
        self._say(name, placed=True)

    def move(self, name_or_uuid: str, parent: str | None) -> None:
        super().move(name_or_uuid, parent)
        self._say(name_or_uuid, placed=True)

    def _place(self, provider: Provider, generation: int | None) -> str:
        made = super()._place(provider, generation)
        self._say(made, placed=True)
        return made

    def update_inventory(
        self, name_or_uuid: str, inventory: InventoryDict, generation: int | None = None
    ) -> bool:
        changed = super().update_inventory(name_or_uuid, inventory, generation)
        self._say(name_or_uuid, placed=True, classes=frozenset(inventory))
        return changed

    def update_traits(
        self, name_or_uuid: str, traits: Iterable[str], generation: int | None = None
    ) -> bool:
        before = self._find(name_or_uuid)
        changed = super().update_traits(before.uuid, traits, generation)
        if changed:
            self._note(before, "traits")
        return changed

    def add_traits(self, name_or_uuid: str, *traits: str) -> None:
        super().add_traits(name_or_uuid, *traits)
        if traits:
            said = self._word(name_or_uuid).traits or frozenset()
            self._say(name_or_uuid, traits=said.union(traits))

    def say_traits(self, name_or_uuid: str, traits: Iterable[str]) -> None:
        names = frozenset(traits)
        self.add_traits(name_or_uuid, *names)
        self._say(name_or_uuid, traits=names, renewed=True)

    def update_aggregates(
        self, name_or_uuid: str, aggregates: Iterable[str], generation: int | None = None
    ) -> bool:
        before = self._find(name_or_uuid)
        changed = super().update_aggregates(before.uuid, aggregates, generation)
        if changed:
            self._note(before, "aggregates")
        return changed

    def add_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        super().add_aggregates(name_or_uuid, *aggregates)
        said = self._word(name_or_uuid).aggregates or frozenset()
        self._say(name_or_uuid, aggregates=said | canonical_uuids(aggregates, "aggregate"))

    def _word(self, name_or_uuid: str) -> Word:
        return self.words[self._source].get(self._find(name_or_uuid).uuid, NO_WORD)

    def _say(self, name_or_uuid: str, **said: Any) -> None:
        uuid, words = self._find(name_or_uuid).uuid, self.words[self._source]
        words[uuid] = words.get(uuid, NO_WORD)._replace(**said)

    def _note(self, before: Provider, kind: str) -> None:
        """What was added is said, what was taken away is not any more."""
        there, now = getattr(before, kind), getattr(self._find(before.uuid), kind)
        said = getattr(self._word(before.uuid), kind)
        names = ((said or frozenset()) & now) | (now - there)
        if names or said is not None:
            self._say(before.uuid, **{kind: names})
