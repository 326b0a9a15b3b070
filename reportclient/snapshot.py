"""Snapshot: an immutable, indexed forest of providers.

Invariants: every parent is present; names and UUIDs are unique; parents come before their
children.  A snapshot that is derived from another one shares its unchanged providers: only the
indexes are copied.
"""

import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from reportclient.model import Provider

Children = dict[str | None, dict[str, None]]
"""UUIDs of the children by parent UUID (``None``: the roots); dicts as ordered sets."""


@dataclass(repr=False, slots=True, weakref_slot=True)
class Snapshot:
    """An immutable forest of providers; a ``ProviderTree`` is an editable copy of it."""

    providers: Mapping[str, Provider]
    """All providers by UUID."""
    _by_name: Mapping[str, str] = field(compare=False)
    _children: Children = field(compare=False)
    _base: "weakref.ref[Snapshot] | None" = field(default=None, compare=False)
    """The snapshot from which this one was derived; ``_touched``: the UUIDs of what was edited."""
    _touched: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def build(cls, providers: Iterable[Provider]) -> "Snapshot":
        """Return a snapshot of providers in any order, in linear time.

        :raises ValueError: a duplicate name or UUID, a missing parent or a cycle.
        """
        by_uuid: dict[str, Provider] = {}
        names: dict[str, str] = {}
        children: Children = {None: {}}
        for provider in providers:
            if provider.uuid in by_uuid or provider.name in names:
                raise ValueError(f"duplicate provider {provider.name} ({provider.uuid})")
            by_uuid[provider.uuid] = provider
            names[provider.name] = provider.uuid
            children.setdefault(provider.parent_uuid, {})[provider.uuid] = None
        missing = [uuid for uuid in children if uuid is not None and uuid not in by_uuid]
        if missing:
            raise ValueError(f"missing parent providers: {', '.join(sorted(missing))}")
        below = [*children[None]]
        for uuid in below:  # the list grows in the loop, until it has all below the roots
            below.extend(children.get(uuid, ()))
        if len(below) != len(by_uuid):
            raise ValueError("some providers are their own ancestors: the parents form a cycle")
        return cls(by_uuid, names, children)

    def __len__(self) -> int:
        return len(self.providers)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self.providers

    def get(self, uuid: str) -> Provider | None:
        """Return the provider with this UUID, or ``None``."""
        return self.providers.get(uuid)

    def named(self, name: str) -> Provider | None:
        """Return the provider with this name, or ``None``."""
        uuid = self._by_name.get(name)
        return None if uuid is None else self.providers[uuid]

    def children(self, uuid: str | None) -> Iterable[str]:
        """Return the UUIDs of a provider's children, or of the roots for ``None``."""
        return self._children.get(uuid, {})

    def walk(self, uuid: str | None = None) -> Iterator[Provider]:
        """Yield a provider and all below it, or all providers without ``uuid``; parents first."""
        stack = [uuid] if uuid is not None else [*reversed(list(self.children(None)))]
        while stack:
            provider = self.providers[stack.pop()]
            yield provider
            stack.extend(reversed(list(self.children(provider.uuid))))

    def parents_first(self, uuids: Iterable[str]) -> Iterator[Provider]:
        """Yield these providers, each after its ancestors among them."""
        wanted = dict.fromkeys(uuids)
        passed: set[str] = set()
        for start in wanted:
            chain = []
            uuid: str | None = start
            while uuid is not None and uuid not in passed:
                passed.add(uuid)
                chain.append(self.providers[uuid])
                uuid = self.providers[uuid].parent_uuid
            yield from (provider for provider in reversed(chain) if provider.uuid in wanted)

    def root_of(self, uuid: str) -> str:
        """Return the UUID of the root of this provider's tree."""
        parent = self.providers[uuid].parent_uuid
        while parent is not None:
            uuid, parent = parent, self.providers[parent].parent_uuid
        return uuid

    def changed_since(self, old: Self) -> Iterable[str]:
        """Return the UUIDs of all providers that may differ between ``old`` and this snapshot.

        If this snapshot was derived from ``old`` by an edit, they are in the order of the edit:
        what is planned and what is sent later begin with listings in different orders.
        """
        if self is old:
            return ()
        if self._base is not None and self._base() is old:
            return self._touched
        return changed_keys(self.providers, old.providers)

    def with_changes(self, changed: Mapping[str, Provider | None]) -> "Snapshot":
        """Return a snapshot with providers replaced, added, or (``None``) removed, by UUID.

        Returns this object if nothing differs.  The caller ensures that parents exist and that
        names are unique; this is not checked.
        """
        current = self.providers
        effective = {
            uuid: new
            for uuid, new in changed.items()
            if new is not current.get(uuid) and new != current.get(uuid)
        }
        if not effective:
            return self
        old = {uuid: current[uuid] for uuid in effective if uuid in current}
        new = {uuid: provider for uuid, provider in effective.items() if provider is not None}
        providers, names = {**current, **new}, dict(self._by_name)
        for provider in old.values():
            del names[provider.name]
        names.update({provider.name: uuid for uuid, provider in new.items()})
        children = self._children.copy()
        before = {(provider.parent_uuid, uuid): None for uuid, provider in old.items()}
        after = {(provider.parent_uuid, uuid): None for uuid, provider in new.items()}
        for parent, _ in before.keys() ^ after.keys():
            children[parent] = dict(children.get(parent, {}))  # snapshots share the others
        for parent, uuid in before.keys() - after.keys():
            del children[parent][uuid]
        for parent, uuid in after:  # in their order
            children[parent].setdefault(uuid)
        for uuid in old.keys() - new.keys():
            del providers[uuid]
            children.pop(uuid, None)
        return Snapshot(providers, names, children, weakref.ref(self), tuple(effective))


EMPTY = Snapshot({}, {}, {None: {}})


def changed_keys(now: Mapping[str, object], before: Mapping[str, object]) -> list[str]:
    """Return the keys that were added or removed, or whose value is another object than before."""
    if now is before:
        return []
    changed = [key for key, value in now.items() if before.get(key) is not value]
    return changed + [key for key in before if key not in now]
