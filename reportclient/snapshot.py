"""Snapshot: an immutable, indexed forest of providers.

Invariants: every parent is present; names and UUIDs are unique; providers are
kept in an order in which parents come before their children.  Records are
shared between snapshots, so making one from another costs what changed (and a
copy of pointers), and most of two related snapshots is equal by identity.
"""

import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Self

from reportclient.model import Provider

Children = dict[str | None, dict[str, None]]
"""UUIDs of the children by parent (``None``: the roots); dicts for their order."""


class Snapshot:
    """Look up, walk and compare; ``reportclient.provider_tree`` makes edits of it."""

    __slots__ = ("__weakref__", "_base", "_by_name", "_children", "_providers", "_touched")

    def __init__(
        self, providers: dict[str, Provider], names: dict[str, str], children: Children
    ) -> None:
        self._providers = providers
        self._by_name = names
        self._children = children
        self._base: weakref.ref[Snapshot] | None = None
        self._touched: tuple[str, ...] = ()

    @classmethod
    def build(cls, providers: Iterable[Provider]) -> "Snapshot":
        """From providers in any order; linear in their number.

        :raises ValueError: a duplicate name or UUID, a missing parent or a cycle.
        """
        by_uuid: dict[str, Provider] = {}
        names: dict[str, str] = {}
        children: Children = {None: {}}
        for provider in providers:
            if provider.uuid in by_uuid or provider.name in names:
                raise ValueError(f"provider {provider.name} ({provider.uuid}) is there twice")
            by_uuid[provider.uuid] = provider
            names[provider.name] = provider.uuid
            children.setdefault(provider.parent_uuid, {})[provider.uuid] = None
        missing = [str(uuid) for uuid in children if uuid is not None and uuid not in by_uuid]
        if missing:
            raise ValueError(f"parents that are not there: {', '.join(sorted(missing))}")
        below = [*children[None]]
        for uuid in below:  # it grows meanwhile, by all that is below a root
            below.extend(children.get(uuid, ()))
        if len(below) != len(by_uuid):
            raise ValueError("some providers are their own ancestors")
        return cls(by_uuid, names, children)

    @property
    def providers(self) -> Mapping[str, Provider]:
        """All providers by UUID; not to be changed."""
        return self._providers

    def __len__(self) -> int:
        return len(self._providers)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self._providers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        return self is other or self._providers == other._providers

    __hash__ = None  # type: ignore[assignment]  # compared by value

    def get(self, uuid: str) -> Provider | None:
        """The provider with this UUID."""
        return self._providers.get(uuid)

    def named(self, name: str) -> Provider | None:
        """The provider with this name."""
        uuid = self._by_name.get(name)
        return None if uuid is None else self._providers[uuid]

    def children(self, uuid: str | None) -> Iterable[str]:
        """UUIDs of the children of a provider, or of the roots for ``None``."""
        return self._children.get(uuid, {})

    def walk(self, uuid: str | None = None) -> Iterator[Provider]:
        """A provider and all below it (or everything), parents first."""
        stack = [uuid] if uuid is not None else [*reversed(list(self.children(None)))]
        while stack:
            provider = self._providers[stack.pop()]
            yield provider
            stack.extend(reversed(list(self.children(provider.uuid))))

    def root_of(self, uuid: str) -> str:
        """UUID of the root of the tree that this provider is in."""
        parent = self._providers[uuid].parent_uuid
        while parent is not None:
            uuid, parent = parent, self._providers[parent].parent_uuid
        return uuid

    def changed_since(self, old: Self) -> Iterable[str]:
        """UUIDs of all providers that may differ between ``old`` and this one.

        Costs what changed where one was made from the other by an edit.
        """
        if self is old:
            return ()
        if self._base is not None and self._base() is old:
            return self._touched
        return changed_keys(self._providers, old._providers)

    def with_changes(self, changed: Mapping[str, Provider | None]) -> "Snapshot":
        """This forest with providers replaced, added, or (``None``) taken away.

        The same object if that makes no difference.  Costs a copy of pointers and what
        changed; that parents are there and names unique is for the caller to see to.
        """
        there = self._providers
        real = {
            uuid: new
            for uuid, new in changed.items()
            if new is not there.get(uuid) and new != there.get(uuid)
        }
        if not real:
            return self
        old = {uuid: self._providers[uuid] for uuid in real if uuid in self._providers}
        new = {uuid: provider for uuid, provider in real.items() if provider is not None}
        gone = [uuid for uuid in old if uuid not in new]
        providers, names = self._providers.copy(), self._by_name.copy()
        children = self._children.copy()
        for provider in old.values():
            del names[provider.name]
        for uuid in gone:
            del providers[uuid]
        providers.update(new)
        names.update({provider.name: uuid for uuid, provider in new.items()})
        _regroup(children, old, new)
        for uuid in gone:
            children.pop(uuid, None)
        made = Snapshot(providers, names, children)
        made._base, made._touched = weakref.ref(self), tuple(real)
        return made


EMPTY = Snapshot({}, {}, {None: {}})


def changed_keys(now: Mapping[str, object], before: Mapping[str, object]) -> list[str]:
    """Keys of what is another object than before, or is gone."""
    if now is before:
        return []
    changed = [key for key, value in now.items() if before.get(key) is not value]
    return changed + [key for key in before if key not in now]


def _regroup(children: Children, old: Mapping[str, Provider], new: Mapping[str, Provider]) -> None:
    """Move those that are elsewhere now; what is shared with other snapshots is copied first."""
    leaving = [one for uuid, one in old.items() if not _is_below(new.get(uuid), one.parent_uuid)]
    coming = [one for uuid, one in new.items() if not _is_below(old.get(uuid), one.parent_uuid)]
    for parent in {one.parent_uuid for one in (*leaving, *coming)}:
        children[parent] = dict(children.get(parent, {}))
    for one in leaving:
        children[one.parent_uuid].pop(one.uuid, None)
    for one in coming:
        children[one.parent_uuid][one.uuid] = None


def _is_below(provider: Provider | None, parent: str | None) -> bool:
    return provider is not None and provider.parent_uuid == parent
