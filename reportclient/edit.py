"""Edit: changes on top of an immutable snapshot; the base class of ProviderTree.

Every method takes a provider by its name or its UUID, and raises :class:`ValueError` if there is
no such provider.  An edit is cheap to create and to copy.  If nothing differs in the end,
:meth:`Edit.freeze` returns the *same* snapshot.
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
    """Adds, removes, renames and moves providers; ProviderTree also changes what they have."""

    def __init__(
        self,
        base: Snapshot = EMPTY,
        generations: Mapping[str, int] | None = None,
        whole: Snapshot | None = None,
    ) -> None:
        """Edit ``base``; ``whole`` is the complete snapshot if ``base`` shows only a part of it.

        ``generations`` are the providers' generations, by UUID.
        """
        super().__init__()
        self._base = base
        self.whole = base if whole is None else whole
        self.removed_below: set[str] = set()
        """UUIDs of the providers that were removed together with an ancestor."""
        self._generations = dict(generations or {})
        self._changed: dict[str, Provider | None] = {}
        self._names: dict[str, str | None] = {}
        self._children: dict[str | None, dict[str, None]] = {}
        self._resources: dict[str, dict[str, Any]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copy = type(self)(self._base, self._generations, self.whole)
        vars(copy).update(
            claims={source: claims.copy() for source, claims in self.claims.items()},
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
        """The snapshot on which this edit is based."""
        return self._base

    def exists(self, name_or_uuid: str) -> bool:
        """Return whether the tree has this provider."""
        return self._search(name_or_uuid) is not None

    def get_provider_uuids(self, name_or_uuid: str | None = None) -> list[str]:
        """Return the UUIDs of a provider and all below it, or of all providers, parents first."""
        start = None if name_or_uuid is None else self._find(name_or_uuid).uuid
        return list(self._walk(start))

    def get_provider_uuids_in_tree(self, name_or_uuid: str) -> list[str]:
        """Return the UUIDs of the whole tree that the provider is in; parents come first."""
        return list(self._walk(self._root_of(self._find(name_or_uuid))))

    def new_root(self, name: str, uuid: str, generation: int | None = None) -> str:
        """Add a root provider and return its UUID.

        If the provider with this UUID was renamed in Placement, it gets its name back.

        :raises ValueError: the provider exists already, or the name is taken.
        """
        name = provider_name(name)
        return self._place(Provider(canonical_uuid(uuid, f"new root {name}"), name), generation)

    def new_child(
        self, name: str, parent: str, uuid: str | None = None, generation: int | None = None
    ) -> str:
        """Add a provider below ``parent`` and return its UUID.

        Without ``uuid`` the UUID is derived from the root's UUID and the name, so that it is the
        same after a restart.  If the provider with this UUID was renamed or moved in Placement,
        it gets its name and its parent back.

        :raises ValueError: the provider exists already, the name is taken, or there is no
            such parent.
        """
        parent_provider = self._find(parent)
        name = provider_name(name)
        uuid = uuid or own_uuid(self._root_of(parent_provider), name)
        child = Provider(canonical_uuid(uuid, f"new child {name}"), name, parent_provider.uuid)
        return self._place(child, generation)

    def _place(self, provider: Provider, generation: int | None) -> str:
        """Add a provider, or undo that it was renamed or moved in Placement."""
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
        """Add or replace providers from the items of ``GET /resource_providers``.

        Each dict has ``uuid`` and ``name``, and may have ``generation`` and
        ``parent_provider_uuid``.  A replaced provider loses its inventory, traits and
        aggregates, and the providers below it unless they are listed too.

        :raises ValueError: a parent is missing, a name is taken, or the providers form
            a cycle; the tree is then unchanged.
        """
        listed = {pdict["uuid"]: pdict for pdict in provider_dicts}
        order = _parents_first(listed)
        trial = copylib.deepcopy(self)
        trial._replace([listed[uuid] for uuid in order])
        self.__dict__.update(trial.__dict__)

    def _replace(self, ordered: Sequence[Mapping[str, Any]]) -> None:
        for item in ordered:
            if self.exists(item["uuid"]):
                self.remove(item["uuid"])
        for item in ordered:
            parent = item.get("parent_provider_uuid")
            parent_uuid = None if parent is None else self._find(parent).uuid
            self._add(Provider(item["uuid"], item["name"], parent_uuid), item.get("generation"))

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
        """Move a provider with all below it to another parent (``None``: make it a root).

        :raises ValueError: there is no such parent, or it is below the provider.
        """
        provider = self._find(name_or_uuid)
        parent_uuid = None if parent is None else self._find(parent).uuid
        if parent_uuid != provider.parent_uuid:
            self._move(provider, parent_uuid)
        self._own.placed[provider.uuid] = None

    def _move(self, provider: Provider, parent_uuid: str | None) -> None:
        if parent_uuid is not None and parent_uuid in self._walk(provider.uuid):
            raise ValueError(
                f"provider {provider.name} can't be moved below itself ({parent_uuid})"
            )
        del self._editable_children(provider.parent_uuid)[provider.uuid]
        self._editable_children(parent_uuid)[provider.uuid] = None
        self._changed[provider.uuid] = replace(provider, parent_uuid=parent_uuid)

    def remove(self, name_or_uuid: str) -> None:
        """Remove a provider and all below it."""
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
        del self._editable_children(top.parent_uuid)[top.uuid]
        self.removed_below.discard(top.uuid)

    def provider(self, uuid: str) -> Provider | None:
        """Return the provider with this UUID as edited, or ``None``."""
        return self._changed[uuid] if uuid in self._changed else self._base.get(uuid)

    def edits(self) -> dict[str, Provider | None]:
        """Return the providers that differ from the base, by UUID; ``None`` for removed ones."""
        before = self._base.get
        return {uuid: new for uuid, new in self._changed.items() if new != before(uuid)}

    def freeze(self, like: Snapshot | None = None) -> Snapshot:
        """Return the edited state as a snapshot.

        Returns the base itself, or ``like``, if the edited state equals it.
        """
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

    def _children_of(self, uuid: str | None) -> Iterable[str]:
        return self._children[uuid] if uuid in self._children else self._base.children(uuid)

    def _editable_children(self, parent: str | None) -> dict[str, None]:
        if parent not in self._children:
            self._children[parent] = dict.fromkeys(self._base.children(parent))
        return self._children[parent]

    def _walk(self, start: str | None) -> Iterator[str]:
        stack = [start] if start is not None else [*reversed(list(self._children_of(None)))]
        while stack:
            uuid = stack.pop()
            yield uuid
            stack.extend(reversed(list(self._children_of(uuid))))

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
        self._editable_children(provider.parent_uuid)[provider.uuid] = None
        self._note_generation(provider, generation)

    def _note_generation(self, provider: Provider, generation: int | None) -> None:
        if generation is not None:
            self._generations[provider.uuid] = generation


def own_uuid(root: str, name: str, driver: str = "") -> str:
    """Return the UUID (version 5) of a provider, derived from its root's UUID and its name.

    ``driver``, if given, makes the UUID differ from those that other drivers derive for the same
    name.  :meth:`Edit.new_child` uses this function without ``driver``.
    """
    return str(uuidlib.uuid5(uuidlib.UUID(root), f"{driver} {name}" if driver else name))


def _parents_first(listed: Mapping[str, Mapping[str, Any]]) -> list[str]:
    sorter = TopologicalSorter[str]()
    for uuid, item in listed.items():
        is_below = item.get("parent_provider_uuid") in listed
        sorter.add(uuid, *([item["parent_provider_uuid"]] if is_below else []))
    try:
        return list(sorter.static_order())
    except CycleError as err:
        cycle = ", ".join(sorted({*err.args[1]}))
        raise ValueError(f"providers that are their own ancestors: {cycle}") from None
