"""Edit: a snapshot that is never touched, and what has changed, kept beside it.

A provider is named by its name or its UUID everywhere; an unknown one is a
:class:`ValueError`.  An edit is cheap to make and cheap to copy, and when in the end
nothing is different :meth:`Edit.freeze` returns the *same* snapshot.
"""

import copy as copylib
import uuid as uuidlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, Self

from reportclient.claims import ClaimsBySource
from reportclient.model import Provider, canonical_uuid, parse_uuid, provider_name
from reportclient.snapshot import EMPTY, Snapshot


class Edit(ClaimsBySource):
    """Providers that can be added, removed, renamed and moved; not yet what they have."""

    def __init__(
        self,
        base: Snapshot = EMPTY,
        generations: Mapping[str, int] | None = None,
        whole: Snapshot | None = None,
    ) -> None:
        """``whole`` is what there is, where ``base`` is only the part that is shown of it."""
        super().__init__()
        self._base = base
        self.whole = base if whole is None else whole
        self.removed_below: set[str] = set()
        """Providers that were taken away along with another."""
        self._generations = dict(generations or {})
        self._changed: dict[str, Provider | None] = {}
        self._names: dict[str, str | None] = {}
        self._children: dict[str | None, dict[str, None]] = {}
        self._resources: dict[str, dict[str, Any]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copy = type(self)(self._base, self._generations, self.whole)
        vars(copy).update(
            claims={source: said.copy() for source, said in self.claims.items()},
            _source=self._source,
            _changed=self._changed.copy(),
            _names=self._names.copy(),
            _children={parent: dict(uuids) for parent, uuids in self._children.items()},
            removed_below=self.removed_below.copy(),
            _resources=copylib.deepcopy(self._resources, memo),
        )
        return copy

    @property
    def base(self) -> Snapshot:
        """The snapshot that is edited."""
        return self._base

    def exists(self, name_or_uuid: str) -> bool:
        """Whether there is such a provider."""
        return self._search(name_or_uuid) is not None

    def get_provider_uuids(self, name_or_uuid: str | None = None) -> list[str]:
        """UUIDs of a provider and all below it, or of all providers; parents come first."""
        start = None if name_or_uuid is None else self._find(name_or_uuid).uuid
        return list(self._walk(start))

    def get_provider_uuids_in_tree(self, name_or_uuid: str) -> list[str]:
        """UUIDs of the whole tree that a provider is a member of; parents come first."""
        return list(self._walk(self._root_of(self._find(name_or_uuid))))

    def new_root(self, name: str, uuid: str, generation: int | None = None) -> str:
        """Add a root and return its UUID.

        If the provider with this UUID is in Placement under another name, somebody
        renamed it: it gets its name back.

        :raises ValueError: it is there already.
        """
        name = provider_name(name)
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
        name = provider_name(name)
        uuid = uuid or own_uuid(self._root_of(above), name)
        child = Provider(canonical_uuid(uuid, f"new child {name}"), name, above.uuid)
        return self._place(child, generation)

    def _place(self, provider: Provider, generation: int | None) -> str:
        """Add it, or take it back as it was before somebody renamed it in Placement."""
        uuid = provider.uuid
        if uuid in self._changed or uuid not in self._base or self._search(provider.name):
            self._add(provider, generation)
        else:
            self.rename(uuid, provider.name)
            self.move(uuid, provider.parent_uuid)
            self._note_generation(provider, generation)
        self._own.placed[uuid] = None
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
        order = _parents_first(listed)
        trial = copylib.deepcopy(self)
        trial._replace([listed[uuid] for uuid in order])
        self.__dict__.update(trial.__dict__)

    def _replace(self, ordered: Sequence[Mapping[str, Any]]) -> None:
        for one in ordered:
            if self.exists(one["uuid"]):
                self.remove(one["uuid"])
        for one in ordered:
            parent = one.get("parent_provider_uuid")
            above = None if parent is None else self._find(parent).uuid
            self._add(Provider(one["uuid"], one["name"], above), one.get("generation"))

    def rename(self, name_or_uuid: str, name: str) -> None:
        """Give a provider another name.  :raises ValueError: the name is taken."""
        provider = self._find(name_or_uuid)
        if name != provider.name:
            name = provider_name(name)
            if name != provider.uuid:  # a provider may be named by its own UUID
                self._refuse_taken(name)
            self._names[provider.name] = None
            self._names[name] = provider.uuid
            self._changed[provider.uuid] = replace(provider, name=name)
        self._own.placed[provider.uuid] = None

    def move(self, name_or_uuid: str, parent: str | None) -> None:
        """Put a provider, with all below it, under another one (``None``: make it a root).

        :raises ValueError: the new parent is not there, or is below the provider.
        """
        provider = self._find(name_or_uuid)
        above = None if parent is None else self._find(parent).uuid
        if above != provider.parent_uuid:
            self._move(provider, above)
        self._own.placed[provider.uuid] = None

    def _move(self, provider: Provider, above: str | None) -> None:
        if above is not None and above in self._walk(provider.uuid):
            raise ValueError(f"provider {provider.name} can't be moved below itself ({above})")
        del self._own_children(provider.parent_uuid)[provider.uuid]
        self._own_children(above)[provider.uuid] = None
        self._changed[provider.uuid] = replace(provider, parent_uuid=above)

    def remove(self, name_or_uuid: str) -> None:
        """Take away a provider and all below it."""
        top = self._find(name_or_uuid)
        for uuid in list(self._walk(top.uuid)):
            self.removed_below.add(uuid)
            provider = self.provider(uuid)
            assert provider is not None
            self._changed[uuid] = None
            self._names[provider.name] = None
            self._children[uuid] = {}
            self._generations.pop(uuid, None)
            self._resources.pop(uuid, None)
        del self._own_children(top.parent_uuid)[top.uuid]
        self.removed_below.discard(top.uuid)

    def provider(self, uuid: str) -> Provider | None:
        """The provider with this UUID, as it is here."""
        return self._changed[uuid] if uuid in self._changed else self._base.get(uuid)

    def edits(self) -> dict[str, Provider | None]:
        """The providers that differ from the base; ``None`` for those that were taken away."""
        there = self._base.get
        return {uuid: new for uuid, new in self._changed.items() if new != there(uuid)}

    def freeze(self, like: Snapshot | None = None) -> Snapshot:
        """This state as a snapshot: the base itself, or ``like``, where that is the same."""
        edits = self.edits()
        changed = set() if like is None else set(like.changed_since(self._base))
        if like is not None and {uuid: like.get(uuid) for uuid in changed} == edits:
            return like
        return self._base.with_changes(edits)

    # -- finding

    def _uuid_named(self, name: str) -> str | None:
        if name in self._names:
            return self._names[name]
        provider = self._base.named(name)
        return None if provider is None else provider.uuid

    def _search(self, name_or_uuid: str) -> Provider | None:
        by_uuid = self.provider(name_or_uuid)
        if by_uuid is not None:
            return by_uuid
        uuid = self._uuid_named(name_or_uuid)
        if uuid is None:
            uuid = parse_uuid(name_or_uuid)
        return None if uuid is None else self.provider(uuid)

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

    def _add(self, provider: Provider, generation: int | None) -> None:
        self._refuse_taken(provider.uuid)
        self._refuse_taken(provider.name)
        self._changed[provider.uuid] = provider
        self._names[provider.name] = provider.uuid
        self._own_children(provider.parent_uuid)[provider.uuid] = None
        self._note_generation(provider, generation)

    def _note_generation(self, provider: Provider, generation: int | None) -> None:
        if generation is not None:
            self._generations[provider.uuid] = generation


def own_uuid(root: str, name: str, driver: str = "") -> str:
    """Return the UUID of a provider below a root, made from the root's and its own name.

    With ``driver``, the name of its entry point, no other driver's provider has the same; a
    provider that a driver left without a UUID gets the one without.  The agent recognises both
    as this host's, also where its ledger is lost.
    """
    return str(uuidlib.uuid5(uuidlib.UUID(root), f"{driver} {name}" if driver else name))


def _parents_first(listed: Mapping[str, Mapping[str, Any]]) -> list[str]:
    sorter = TopologicalSorter[str]()
    for uuid, one in listed.items():
        is_below = one.get("parent_provider_uuid") in listed
        sorter.add(uuid, *([one["parent_provider_uuid"]] if is_below else []))
    try:
        return list(sorter.static_order())
    except CycleError as err:
        cycle = ", ".join(sorted({*err.args[1]}))
        raise ValueError(f"providers that are their own ancestors: {cycle}") from None
