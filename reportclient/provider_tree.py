"""ProviderTree: an editable copy of a snapshot, with the methods of Nova's ProviderTree.

Every method takes a provider by its name or its UUID, and raises :class:`ValueError` if the tree
has no such provider.  Only one thread may use a tree; it has no lock.  A tree is cheap to create
and to copy.  If nothing differs in the end, :meth:`ProviderTree.freeze` returns the *same*
snapshot.

Every edit is recorded as a claim (:class:`SourceClaims`), even if it changes nothing: it records
which driver or source asserts the value.
"""

import copy as copylib
import uuid as uuidlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from graphlib import CycleError, TopologicalSorter
from operator import or_, sub
from typing import Any, ClassVar, NamedTuple, Self

from reportclient.live_provider import LiveProvider, ReadOnly, live_below
from reportclient.model import (
    Inventory,
    Provider,
    ProviderData,
    canonical_uuid,
    meant,
    parse_uuid,
    plain_strs,
    provider_name,
    read_aggregates,
    read_inventory,
    read_traits,
)
from reportclient.snapshot import EMPTY, Snapshot

__all__ = ["Claims", "ProviderData", "ProviderTree", "Snapshot", "key_of", "own_key", "own_uuid"]

Names = frozenset[str]
InventoryDict = Mapping[str, Mapping[str, Any] | Inventory]
NOTHING: Names = frozenset()


class Claims(NamedTuple):
    """The claims of one owner on one provider; ``provider`` is the claim that it exists."""

    provider: bool = False
    classes: Names = NOTHING
    traits: Names = NOTHING
    aggregates: Names = NOTHING

    def joined(self, other: "Claims") -> "Claims":
        """Return the claims of both."""
        if NONE in (self, other):
            return other if self == NONE else self
        return Claims(self[0] or other[0], *map(or_, self[1:], other[1:]))

    def without(self, other: "Claims") -> "Claims":
        """Return the claims that ``other`` does not have."""
        if other == NONE:
            return self
        return Claims(self[0] and not other[0], *map(sub, self[1:], other[1:]))

    def within(self, provider: Provider | None) -> "Claims":
        """Return the claims that hold for ``provider``; this object if all do."""
        if provider is None:
            return NONE
        common = Claims(
            self.provider,
            self.classes & provider.inventory.keys(),
            self.traits & provider.traits,
            self.aggregates & provider.aggregates,
        )
        return self if common == self else common


NONE = Claims()


@dataclass(slots=True)
class SourceClaims:
    """Claims of one source, such as a driver, made by its edits of a tree; by provider UUID.

    ``last``: its last claims, of an earlier tree.  ``claims``: those on the providers that it has
    edited now, its last ones included.  ``absent``: traits and aggregates that it removed by name.
    ``placed``: providers that it created, renamed or moved; ``sets_inventory``: of which it set the
    inventory; ``adopted``: that it took over; ``missing``: that it removed since it does not find
    them now.
    """

    last: Mapping[str, Claims] = field(default_factory=dict, compare=False)
    claims: dict[str, Claims] = field(default_factory=dict)
    absent: dict[str, Claims] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)
    sets_inventory: set[str] = field(default_factory=set)
    adopted: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    unanswered: bool = False
    """Whether the source could not answer, so that its last claims stay."""

    def copy(self) -> "SourceClaims":
        """Return an independent copy."""
        return SourceClaims(*(copylib.copy(getattr(self, each.name)) for each in fields(self)))

    def on(self, uuid: str) -> Claims:
        """Return the claims on a provider."""
        return self.claims.get(uuid) or self.last.get(uuid, NONE)

    def claim(self, uuid: str, **changed: Any) -> None:
        """Replace some of the claims on a provider; one that stays as it is costs nothing."""
        held = self.on(uuid)
        if any(getattr(held, kind) != claimed for kind, claimed in changed.items()):
            self.claims[uuid] = held._replace(**changed)

    def classes_set(self, uuid: str) -> Names:
        """Return the classes that the source has set now, be they as they were."""
        return self.on(uuid).classes if uuid in self.sets_inventory else NOTHING

    def place(self, uuid: str) -> None:
        """Claim a provider, with its name and parent."""
        self.placed.add(uuid)
        self.claim(uuid, provider=True)

    def note_absent(self, uuid: str, kind: str, present: Names, absent: Names = NOTHING) -> None:
        """Note names that are asserted, which may have been removed by name, and removed ones."""
        if uuid in self.absent or absent:
            held = self.absent.pop(uuid, NONE)
            held = held._replace(**{kind: getattr(held, kind) - present | absent})
            if held != NONE:
                self.absent[uuid] = held


def classes_set(claims: Mapping[str, SourceClaims]) -> set[tuple[str, str]]:
    """Return the classes that any source has set now, as UUID of the provider and class."""
    pairs = ((each, uuid) for each in claims.values() for uuid in each.sets_inventory)
    return {(uuid, name) for each, uuid in pairs for name in each.classes_set(uuid)}


class ProviderTree:
    """The tree of a root provider, and its sharing providers as further roots.

    One thread at a time may use it.
    """

    lock: ClassVar[AbstractContextManager[None]] = nullcontext()
    """A context manager that does nothing, for code that takes the lock of all of Nova's trees."""

    def __init__(
        self,
        base: Snapshot = EMPTY,
        generations: Mapping[str, int] | None = None,
        whole: Snapshot | None = None,
        last_claims: Callable[[str], Mapping[str, Claims]] = lambda _: {},
        root: str = "",
    ) -> None:
        """Edit ``base``; ``whole`` is the complete snapshot if ``base`` shows only a part of it.

        ``generations``, and the last claims of a source that ``last_claims`` returns, are by
        provider UUID.  ``root`` is the node's root, which :meth:`set_own_children` never removes.
        """
        self.base = base
        """The snapshot on which this tree is based."""
        self.whole = base if whole is None else whole
        self.claims = {"": SourceClaims(last_claims(""))}
        """Claims by the name of the source; ``""`` is the driver itself."""
        self._source, self._own = "", self.claims[""]
        self._last_claims, self._root = last_claims, root
        self._closed = False
        self._generations = dict(generations or {})
        self._changed: dict[str, Provider | None] = {}
        self._removed: dict[str, Provider] = {}
        self._names: dict[str, str | None] = {}
        self._children: dict[str | None, dict[str, None]] = {}
        self._resources: dict[str, dict[str, Any]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copy = type(self)(self.base, self._generations, self.whole, self._last_claims, self._root)
        claims = {source: claims.copy() for source, claims in self.claims.items()}
        vars(copy).update(
            claims=claims,
            _source=self._source,
            _own=claims[self._source],
            _changed=self._changed.copy(),
            _removed=self._removed.copy(),
            _names=self._names.copy(),
            _children={parent: dict(uuids) for parent, uuids in self._children.items()},
            _resources=copylib.deepcopy(self._resources, memo),
        )
        return copy

    def restore(self, earlier: "ProviderTree") -> None:
        """Undo all edits and claims since the copy ``earlier`` was made of this tree."""
        self._refuse_if_closed()
        vars(self).update(vars(copylib.deepcopy(earlier)))

    def close(self) -> None:
        """Refuse edits from now on: they raise a ValueError.  A copy can still be edited."""
        self._closed = True

    # -- reading

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
        return provider.aggregates.issuperset(read_aggregates(aggregates, provider.name))

    def have_aggregates_changed(self, name_or_uuid: str, aggregates: Iterable[str]) -> bool:
        """Return whether the provider's aggregates differ from these (UUIDs)."""
        provider = self._find(name_or_uuid)
        return provider.aggregates != read_aggregates(aggregates, provider.name)

    @property
    def roots(self) -> list[LiveProvider]:
        """The roots, as live providers: the tree's own root, and the sharing providers."""
        return [*self.roots_by_uuid.values()]

    @property
    def roots_by_uuid(self) -> dict[str, LiveProvider]:
        """The roots by UUID; read-only."""
        return live_below(self, None)

    @property
    def roots_by_name(self) -> dict[str, LiveProvider]:
        """The roots by name; read-only."""
        return ReadOnly({root.name: root for root in self.roots})

    def records(self, name_or_uuid: str) -> Mapping[str, Inventory]:
        """Return the provider's inventory as frozen records by resource class; read-only."""
        return self._find(name_or_uuid).inventory

    def provider(self, uuid: str) -> Provider | None:
        """Return the provider with this UUID as edited, or ``None``."""
        return self._changed[uuid] if uuid in self._changed else self.base.get(uuid)

    def edits(self) -> dict[str, Provider | None]:
        """Return the providers that differ from the base, by UUID; ``None`` for removed ones."""
        before = self.base.get
        return {uuid: new for uuid, new in self._changed.items() if new != before(uuid)}

    def freeze(self) -> Snapshot:
        """Return the edited state as a snapshot: the base itself if nothing differs."""
        return self.base.with_changes(self._changed)

    # -- claims

    @contextmanager
    def source(self, name: str) -> Iterator[None]:
        """Record the edits made inside this context as claims of the source ``name``.

        Inventory that other sources set on the same provider stays.  An exception in the context
        makes the source unanswered; see :meth:`unanswered`.
        """
        before = self._source
        self._source, self._own = name, self._claims_of(name)
        try:
            yield
        except BaseException:
            self.claims[name].unanswered = True
            raise
        finally:
            self._source, self._own = before, self.claims[before]

    def unanswered(self, name: str) -> None:
        """Mark a source that could not answer: what it asserted earlier stays in Placement."""
        self._claims_of(name).unanswered = True

    def _claims_of(self, source: str) -> SourceClaims:
        self._refuse_if_closed()
        if source not in self.claims:
            self.claims[source] = SourceClaims(self._last_claims(source))
        return self.claims[source]

    def set_own_traits(self, name_or_uuid: str, traits: Iterable[str]) -> None:
        """Set the traits that this driver or source asserts on a provider.

        Traits that it asserted earlier, according to the agent's ledger, and that are not in
        ``traits`` are removed.  Traits of others stay.  ``Client`` has no ledger: all traits stay,
        and :meth:`remove_traits` removes them.
        """
        provider = self._find(name_or_uuid, edit=True)
        names = read_traits(traits, provider.name)
        self._assert_names("traits", provider, names, names)

    def set_own_aggregates(self, name_or_uuid: str, aggregates: Iterable[str]) -> None:
        """Set the aggregates (UUIDs) that this driver or source asserts on a provider.

        As with :meth:`set_own_traits`, those of others stay.
        """
        provider = self._find(name_or_uuid, edit=True)
        names = read_aggregates(aggregates, provider.name)
        self._assert_names("aggregates", provider, names, names)

    def get_own_uuids(self) -> frozenset[str]:
        """Return the UUIDs of the providers that this driver or source reported earlier.

        The root is among them if it has inventory of this driver or source.  A tree without an
        agent has none.
        """
        roots = {*self.whole.children(None)}
        last = self._own.last.items()
        return frozenset(
            uuid for uuid, held in last if held.provider or (held.classes and uuid in roots)
        )

    def set_own_children(self, parents: Mapping[str, str | None], *, sharing: bool = False) -> None:
        """Set all providers that this driver or source has below roots: ``{name: parent}``.

        Missing ones are created, and moved if they are below another parent.  Those that it
        reported earlier (:meth:`get_own_uuids`) and that are not listed are removed as ``missing``
        (:meth:`remove`).  Providers of others stay, as do those that another source lists now.
        With ``sharing`` its sharing providers, which have no parent, are listed as well.

        :raises ValueError: there is no such parent, or providers are their own ancestors.
        """
        self._refuse_if_closed()
        if not isinstance(parents, Mapping):
            raise ValueError(f"set_own_children needs {{name: parent}}, not {parents!r}")
        for name in _parents_first(parents):
            if (parent := parents[name]) is not None and self._search(name) is None:
                self.new_child(name, parent)
            else:
                self.move(name, parent)
        own = self.get_own_uuids().difference(self._find(name).uuid for name in parents)
        others = (each.placed for each in self.claims.values() if each is not self._own)
        elsewhere = NOTHING.union(*others)
        for uuid in [uuid for uuid in reversed(self.get_provider_uuids()) if uuid in own]:
            provider = self._find(uuid)
            if uuid in elsewhere:
                self._own.claims[uuid] = NONE  # the other source has it now
            elif provider.parent_uuid or (sharing and provider.shares and uuid != self._root):
                self.remove(uuid, missing=True)

    def adopt(self, name_or_uuid: str) -> None:
        """Take over a provider that another client created, such as nova-compute."""
        self._own.adopted.add(self._find(name_or_uuid, edit=True).uuid)

    # -- providers

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

        Without ``uuid`` the UUID is derived from the root's UUID and the key (:func:`key_of`), so
        that it is the same after a restart, and after the host was renamed.  If the provider with
        this UUID has another name or parent, it gets these.

        :raises ValueError: the provider exists already, the name or the key is taken, or there is
            no such parent.
        """
        parent_provider = self._find(parent, "parent")
        name = provider_name(name)
        if uuid is None:
            root = self._find(self._root_of(parent_provider))
            uuid = own_uuid(root.uuid, key_of(name, root.name))
        child = Provider(canonical_uuid(uuid, f"new child {name}"), name, parent_provider.uuid)
        return self._place(child, generation)

    def _place(self, provider: Provider, generation: int | None) -> str:
        """Add a provider, or rename and move the one with this UUID."""
        self._refuse_if_closed()
        uuid, present = provider.uuid, self.provider(provider.uuid)
        if present is None or self._search(provider.name):
            self._add(provider, generation)
        elif any(uuid in claims.placed for claims in self.claims.values()):
            raise ValueError(
                f"provider {provider.name} already exists as {present.name} ({uuid}): give the two "
                "names that differ in lower case, without the root's name, or UUIDs"
            )
        else:
            self.rename(uuid, provider.name)
            self.move(uuid, provider.parent_uuid)
            self._note_generation(provider, generation)
        self._own.place(uuid)
        return uuid

    def populate_from_iterable(self, provider_dicts: Iterable[Mapping[str, Any]]) -> None:
        """Add or replace providers from the items of ``GET /resource_providers``.

        Each dict has ``uuid`` and ``name``, and may have ``generation`` and
        ``parent_provider_uuid``.  A replaced provider loses its inventory, traits and
        aggregates, and the providers below it unless they are listed too.

        :raises ValueError: a parent is missing, a name is taken, or the providers form
            a cycle; the tree is then unchanged.
        """
        self._refuse_if_closed()
        listed = {item["uuid"]: item for item in provider_dicts}
        parents = {uuid: item.get("parent_provider_uuid") for uuid, item in listed.items()}
        order = _parents_first(parents)
        before = copylib.deepcopy(self)
        try:
            for uuid in order:
                if self.exists(uuid):
                    self.remove(uuid)
            for uuid in order:
                parent = parents[uuid]
                parent_uuid = None if parent is None else self._find(parent).uuid
                provider = Provider(uuid, listed[uuid]["name"], parent_uuid)
                self._add(provider, listed[uuid].get("generation"))
        except Exception:
            self.restore(before)
            raise

    def rename(self, name_or_uuid: str, name: str) -> None:
        """Give a provider another name.  :raises ValueError: the name is taken."""
        provider = self._find(name_or_uuid, edit=True)
        if name != provider.name:
            name = provider_name(name)
            if name != provider.uuid:  # a provider may be named by its own UUID
                self._refuse_taken(name)
            self._names[provider.name] = None
            self._names[name] = provider.uuid
            self._changed[provider.uuid] = replace(provider, name=name)
        self._own.place(provider.uuid)

    def move(self, name_or_uuid: str, parent: str | None) -> None:
        """Move a provider with all below it to another parent (``None``: make it a root).

        :raises ValueError: there is no such parent, or it is below the provider.
        """
        provider = self._find(name_or_uuid, edit=True)
        parent_uuid = None if parent is None else self._find(parent, "parent").uuid
        if parent_uuid != provider.parent_uuid:
            if parent_uuid is not None and parent_uuid in self._walk(provider.uuid):
                text = f"provider {provider.name} can't be moved below itself ({parent_uuid})"
                raise ValueError(text)
            del self._editable_children(provider.parent_uuid)[provider.uuid]
            self._editable_children(parent_uuid)[provider.uuid] = None
            self._changed[provider.uuid] = replace(provider, parent_uuid=parent_uuid)
        self._own.place(provider.uuid)

    def remove(self, name_or_uuid: str, *, missing: bool = False) -> None:
        """Remove a provider and all below it.

        With ``missing`` they are only not found now, such as devices right after a boot: the agent
        removes their inventory, and deletes them if they are missing in the next period too.  A
        provider with a trait, an aggregate, an inventory or a child of others stays, without
        inventory of this driver.
        """
        top = self._find(name_or_uuid, edit=True)
        for uuid in list(self._walk(top.uuid)):
            if missing:
                self._own.missing.add(uuid)
            provider = self.provider(uuid)
            assert provider is not None
            self._changed[uuid], self._removed[uuid] = None, provider
            self._names[provider.name] = None
            self._children[uuid] = {}
            self._generations.pop(uuid, None)
            self._resources.pop(uuid, None)
        del self._editable_children(top.parent_uuid)[top.uuid]

    # -- changing a provider

    def update_inventory(
        self, name_or_uuid: str, inventory: InventoryDict, generation: int | None = None
    ) -> bool:
        """Set the whole inventory: ``{class: {"total": 8, "reserved": 1, …}}``, or records.

        Fields that a record leaves out stay as Placement has them (``reserved`` at most the
        total).  A resource class that is left out is removed.  Return whether anything changed.

        :raises ValueError: the inventory is no dict, or a record is invalid.
        """
        provider = self._find(name_or_uuid, edit=True)
        self._note_generation(provider, generation)
        if not isinstance(inventory, Mapping):
            raise ValueError(
                f"inventory of provider {provider.name}: a dict like {{'VCPU': {{'total': 8}}}} is "
                f"needed, {{}} for none, not {inventory!r}"
            )
        whole = inventory
        if len(self.claims) > 1:  # what other sources set on this provider stays
            others = (claims for name, claims in self.claims.items() if name != self._source)
            theirs = {name for claims in others for name in claims.classes_set(provider.uuid)}
            stays = {name: r for name, r in provider.inventory.items() if name in theirs}
            whole = {**stays, **inventory}
        changed = not _is_same(provider.inventory, whole)
        if changed:
            new = read_inventory(whole, provider.name)
            self._changed[provider.uuid] = replace(provider, inventory=new)
        self._own.sets_inventory.add(provider.uuid)
        self._own.claim(provider.uuid, provider=True, classes=plain_strs(inventory))
        return changed

    def update_traits(
        self, name_or_uuid: str, traits: Iterable[str], generation: int | None = None
    ) -> bool:
        """Set all traits of a provider: others leave this tree.  Return whether anything changed.

        Which of them leave Placement depends on who knows their owners.  The agent removes only
        those that this driver set; ``Client`` removes all from the providers that it may change,
        which ``owns`` decides.  With other services beside the caller, use :meth:`add_traits`.
        """
        provider = self._find(name_or_uuid, edit=True)
        self._note_generation(provider, generation)
        return self._set_names("traits", provider, read_traits(traits, provider.name))

    def add_traits(self, name_or_uuid: str, *traits: str) -> None:
        """Add traits; the others stay.  Without traits, an unknown provider is no error."""
        if traits:
            provider = self._find(name_or_uuid, edit=True)
            self._add_names("traits", provider, read_traits(traits, provider.name))

    def remove_traits(self, name_or_uuid: str, *traits: str) -> None:
        """Remove these traits by name; the others stay.

        They are removed from Placement even if another service set them, or this tree leaves them
        out.  Not removed are: traits that another driver or a provider file asserts, the agent's
        own traits (COMPUTE_NODE, COMPUTE_STATUS_DISABLED, owner traits), and all traits of
        another service's provider.  Without traits, an unknown provider is no error.
        """
        if traits:
            provider = self._find(name_or_uuid, edit=True)
            self._remove_names("traits", provider, read_traits(traits, provider.name))

    def update_aggregates(
        self, name_or_uuid: str, aggregates: Iterable[str], generation: int | None = None
    ) -> bool:
        """Set all aggregates (UUIDs); otherwise as :meth:`update_traits`."""
        provider = self._find(name_or_uuid, edit=True)
        self._note_generation(provider, generation)
        return self._set_names("aggregates", provider, read_aggregates(aggregates, provider.name))

    def add_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """Add aggregates (UUIDs); the others stay."""
        provider = self._find(name_or_uuid, edit=True)
        self._add_names("aggregates", provider, read_aggregates(aggregates, provider.name))

    def remove_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """Remove these aggregates (UUIDs); otherwise as :meth:`remove_traits`."""
        provider = self._find(name_or_uuid, edit=True)
        self._remove_names("aggregates", provider, read_aggregates(aggregates, provider.name))

    # Traits and aggregates are the same but for their names: ``kind`` is one of these words.

    def _set_names(self, kind: str, provider: Provider, names: Names) -> bool:
        uuid, before, own = provider.uuid, getattr(provider, kind), self._own
        own.note_absent(uuid, kind, names)
        if names == before:
            return False
        self._changed[uuid] = replace(provider, **{kind: names})  # type: ignore[arg-type]
        own.claim(uuid, **{kind: getattr(own.on(uuid), kind) & names | (names - before)})
        return True

    def _add_names(self, kind: str, provider: Provider, names: Names) -> None:
        claimed: Names = getattr(self._own.on(provider.uuid), kind)
        self._assert_names(kind, provider, names, claimed | names)

    def _assert_names(self, kind: str, provider: Provider, names: Names, claimed: Names) -> None:
        uuid, before = provider.uuid, getattr(provider, kind)
        if not names <= before:
            self._changed[uuid] = replace(provider, **{kind: before | names})
        self._own.claim(uuid, **{kind: claimed})
        self._own.note_absent(uuid, kind, names)

    def _remove_names(self, kind: str, provider: Provider, names: Names) -> None:
        self._set_names(kind, provider, getattr(provider, kind) - names)
        self._own.note_absent(provider.uuid, kind, NOTHING, names)

    def update_resources(self, name_or_uuid: str, resources: Mapping[str, Any]) -> bool:
        """Set a provider's ``resources`` (Nova's Resource objects); return whether they changed.

        They are in this tree only: Placement has no such field.
        """
        provider = self._find(name_or_uuid, edit=True)
        changed = self._resources.get(provider.uuid, {}) != resources
        self._resources[provider.uuid] = dict(copylib.deepcopy(resources))
        return changed

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

    # -- finding

    def _search(self, name_or_uuid: str) -> Provider | None:
        if (by_uuid := self.provider(name_or_uuid)) is not None:
            return by_uuid
        if name_or_uuid in self._names:
            uuid = self._names[name_or_uuid]
        else:
            named = self.base.named(name_or_uuid)
            uuid = None if named is None else named.uuid
        uuid = uuid or parse_uuid(name_or_uuid)
        return None if uuid is None else self.provider(uuid)

    def _find(self, name_or_uuid: str, what: str = "provider", *, edit: bool = False) -> Provider:
        if edit:
            self._refuse_if_closed()
        provider = self._search(name_or_uuid)
        if provider is None:
            names = [one.name for uuid in self._walk(None) if (one := self.provider(uuid))]
            hint = meant(name_or_uuid, names) if what == "parent" else ""
            raise ValueError(f"no such {what}: {name_or_uuid}{hint}")
        return provider

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ValueError(
                "this tree is closed: a driver may edit its tree only until it returns"
            )

    def _children_of(self, uuid: str | None) -> Iterable[str]:
        return self._children[uuid] if uuid in self._children else self.base.children(uuid)

    def _editable_children(self, parent: str | None) -> dict[str, None]:
        if parent not in self._children:
            self._children[parent] = dict.fromkeys(self.base.children(parent))
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


def own_uuid(root: str, key: str, driver: str = "") -> str:
    """Return the UUID (version 5) of a provider, derived from its root's UUID and its key.

    The case of the key's letters makes no difference, as it makes none to the names of providers
    in a MariaDB.  ``driver``, if given, makes the UUID differ from those that other drivers derive
    for the same key.  :meth:`ProviderTree.new_child` uses this function without ``driver``.
    """
    key = key.casefold()
    return str(uuidlib.uuid5(uuidlib.UUID(root), f"{driver} {key}" if driver else key))


def key_of(name: str, root: str) -> str:
    """Return the key of a provider: its name without the root's name and the ``_`` after it.

    The key does not depend on the host's name, so a renamed host keeps its providers.
    """
    return name.casefold().removeprefix(f"{root.casefold()}_")


def own_key(root: str, uuid: str, name: str, drivers: Iterable[str] = ("",)) -> str | None:
    """Return the key that a provider's UUID is derived from; ``None`` if it is derived otherwise.

    The key is an end of the name, whatever host's name is before it.
    """
    starts = [0, *(number for number, letter in enumerate(name, 1) if letter == "_")]
    ends = [name[start:] for start in starts]
    derived = {own_uuid(root, end, driver): end for driver in drivers for end in ends}
    return derived.get(uuid)


def _parents_first(parents: Mapping[str, str | None]) -> list[str]:
    """Return the keys, each after its parent.  :raises ValueError: they form a cycle."""
    pairs = parents.items()
    graph = {each: (parent,) if parent and parent in parents else () for each, parent in pairs}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as err:
        cycle = ", ".join(sorted({*err.args[1]}))
        raise ValueError(f"providers that are their own ancestors: {cycle}") from None


def _is_same(current: Mapping[str, Inventory], records: InventoryDict) -> bool:
    """Return whether the records equal the current inventory and have its types, unparsed.

    Parsing is slower, and most periods report the same inventory again.
    """
    return current.keys() == records.keys() and all(
        record == current[name]
        if not isinstance(record, Mapping)
        else record.get("total") == current[name].total
        and all(
            getattr(current[name], k, None) == v
            and (isinstance(v, int) or k == "allocation_ratio")
            and not isinstance(v, bool)
            for k, v in record.items()
            if v is not None
        )
        for name, record in records.items()
    )
