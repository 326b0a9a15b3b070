"""diff: the plan from the observed snapshot to the desired one.  Pure.

The order of operations, and why:

1. custom traits and classes, since traits and inventories refer to them;
2. creates, renames and moves, parents first (see ``Placing``);
3. a reshape, once all its providers exist;
4. deletes, children first;
5. traits, aggregates, and inventory last, so that a scheduler can choose a new
   provider only once its traits are set.

A change that Placement would refuse in any case (an invalid name, a total of 0) is
left out and becomes a :class:`Problem`; everything else is still sent.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from reportclient.model import (
    Allocations,
    Inventory,
    Names,
    Provider,
    is_custom,
    name_problem,
    used_providers,
)
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    NameOperation,
    Operation,
    Plan,
    Problem,
    Reshape,
    SetAggregates,
    SetInventory,
    SetTraits,
    UpdateProvider,
)
from reportclient.snapshot import Snapshot

KEPT_NAME = 150
"""Characters of a removed provider's name in its new name; Placement allows 200."""


def diff(  # noqa: PLR0913  the result depends on each of them
    old: Snapshot,
    new: Snapshot,
    allocations: Allocations | None = None,
    *,
    names: Names | None = None,
    foreign: frozenset[str] = frozenset(),
    in_use: AbstractSet[str] = frozenset(),
    owned: str | None = None,
) -> Plan:
    """Return the operations that turn ``old`` into ``new``.

    :param allocations: the allocations after a reshape; all inventories are then set by one
        :class:`Reshape`.  It also removes the inventory of providers that are deleted afterwards,
        unless they are ``in_use``, so that no new consumer is placed there.
    :param names: the traits and classes that Placement has.
    :param foreign: UUIDs of providers that are never written; changes to them become problems.
    :param in_use: UUIDs of providers on which other consumers hold allocations.
    :param owned: the root (UUID) whose tree is the caller's: it is deleted whoever shares it.
    :raises ValueError: allocations are to be moved, but no provider in use has
        inventory that may be written.
    """
    used = in_use | used_providers(allocations or {})
    return _Differ(old, new, allocations, names or Names(), foreign, used, owned).plan()


@dataclass(slots=True)
class _Differ:
    old: Snapshot
    new: Snapshot
    allocations: Allocations | None
    names: Names
    foreign: frozenset[str]
    in_use: AbstractSet[str]
    owned: str | None
    problems: list[Problem] = field(default_factory=list)

    def plan(self) -> Plan:
        changed = [uuid for uuid in self.new.changed_since(self.old) if self._may_write(uuid)]
        staying = [uuid for uuid in changed if uuid in self.new]
        gone = set(changed).difference(staying)
        if not changed and not self.allocations:
            return Plan((), tuple(self.problems))
        wanted = {provider.uuid: provider for provider in self.new.parents_first(staying)}
        traits = list(self._traits(staying))
        inventories = list(self._inventories(staying))
        operations: tuple[Operation, ...] = (
            *self._names(traits, inventories),
            *Placing(self.old, wanted, gone).operations(),
            *self._reshape(inventories, gone),
            *self._deletes(gone),
            *traits,
            *self._aggregates(staying),
            *(() if self.allocations is not None else inventories),
        )
        concerned = (self.new.get(uuid) or self.old.get(uuid) for uuid in changed)
        names = {provider.uuid: provider.name for provider in concerned if provider is not None}
        return Plan(operations, tuple(self.problems), names, self.new)

    def _may_write(self, uuid: str) -> bool:
        before, after = self.old.get(uuid), self.new.get(uuid)
        if uuid in self.foreign:
            if before != after and before is not None:
                self._problem(before, "not changed: sharing provider of another service")
            return False
        if after is not None and self.foreign and self.new.root_of(uuid) in self.foreign:
            self._problem(after, "not created: its parent is owned by another service")
            return False
        return True

    def _problem(self, provider: Provider, text: str, *, wrong: bool = False) -> None:
        self.problems.append(Problem(provider.uuid, provider.name, text, wrong=wrong))

    # -- providers

    def _deletes(self, gone: Iterable[str]) -> Iterator[DeleteProvider]:
        for provider in reversed(list(self.old.parents_first(gone))):
            by_owner = self.old.root_of(provider.uuid) == self.owned
            yield DeleteProvider(provider.uuid, by_owner=by_owner)

    # -- traits, aggregates and inventory

    def _traits(self, staying: Iterable[str]) -> Iterator[SetTraits]:
        for provider, before in self._pairs(staying):
            desired = self._sendable_traits(provider)
            if desired != (before.traits if before else frozenset()):
                yield SetTraits(provider.uuid, desired)

    def _sendable_traits(self, provider: Provider) -> frozenset[str]:
        problems = {name: name_problem(name, "trait") for name in provider.traits}
        absent = provider.traits & self.names.absent_traits
        for problem in sorted(text for text in problems.values() if text):
            self._problem(provider, f"{problem}; left out", wrong=True)
        for name in sorted(absent):
            self._problem(provider, f"{_unknown('trait', name)}; left out")
        return frozenset(name for name, text in problems.items() if text is None) - absent

    def _aggregates(self, staying: Iterable[str]) -> Iterator[SetAggregates]:
        for provider, before in self._pairs(staying):
            if provider.aggregates != (before.aggregates if before else frozenset()):
                yield SetAggregates(provider.uuid, provider.aggregates)

    def _inventories(self, staying: Iterable[str]) -> Iterator[SetInventory]:
        for provider, before in self._pairs(staying):
            current = before.inventory if before else {}
            desired = resolved(provider.inventory, current, self.names.absent_classes)
            for name in sorted(self.names.absent_classes & provider.inventory.keys()):
                self._problem(provider, f"{_unknown('resource class', name)}; left out")
            if desired != current and self._acceptable(provider, desired, current):
                yield SetInventory(provider.uuid, desired)

    def _acceptable(
        self, provider: Provider, desired: Mapping[str, Inventory], current: Mapping[str, Inventory]
    ) -> bool:
        bad = [
            f"inventory of {name}: {text}"
            for name, record in sorted(desired.items())
            # What Placement has, it takes again, except for what only its reshaper takes.
            if record != current.get(name) or (record.reserved or 0) > record.total
            if (text := name_problem(name, "resource class") or record.problem())
        ]
        if bad:
            text = f"{'; '.join(bad)}; its inventory is not changed"
            self._problem(provider, text, wrong=True)
        return not bad

    def _reshape(self, inventories: Iterable[SetInventory], gone: set[str]) -> Iterator[Reshape]:
        if self.allocations is None:
            return
        by_uuid = {operation.uuid: operation.inventory for operation in inventories}
        left = [self.old.providers[uuid] for uuid in sorted(gone - self.in_use)]
        by_uuid.update({provider.uuid: {} for provider in left if provider.inventory})
        if self.allocations and not by_uuid:
            by_uuid = self._an_unchanged_inventory()
        if by_uuid:
            yield Reshape(by_uuid, self.allocations)

    def _an_unchanged_inventory(self) -> dict[str, Mapping[str, Inventory]]:
        """Return one provider's current inventory: Placement refuses a reshape without any."""
        for uuid in sorted(self.in_use):
            provider = self.old.get(uuid)
            if provider is not None and provider.inventory and uuid not in self.foreign:
                return {uuid: provider.inventory}
        raise ValueError(
            f"no provider of the tree has the allocations of {', '.join(self.allocations or ())}"
        )

    def _names(
        self, traits: Iterable[SetTraits], inventories: Iterable[SetInventory]
    ) -> Iterator[NameOperation]:
        used_traits = {name for operation in traits for name in operation.traits}
        for trait in sorted(filter(is_custom, used_traits - self.names.traits)):
            yield EnsureTrait(trait)
        used_classes = {name for operation in inventories for name in operation.inventory}
        for resource_class in sorted(filter(is_custom, used_classes - self.names.classes)):
            yield EnsureClass(resource_class)

    def _pairs(self, staying: Iterable[str]) -> Iterator[tuple[Provider, Provider | None]]:
        for uuid in staying:
            yield self.new.providers[uuid], self.old.get(uuid)


def resolved(
    desired: Mapping[str, Inventory], current: Mapping[str, Inventory], absent: frozenset[str]
) -> dict[str, Inventory]:
    """Return ``desired`` with unset fields taken from ``current``, else Placement's defaults.

    Classes in ``absent`` are left out.
    """
    return {
        name: record.with_defaults(current.get(name))
        for name, record in desired.items()
        if name not in absent
    }


def _unknown(what: str, name: str) -> str:
    return f"{what} {name} is unknown to this Placement"


@dataclass(slots=True)
class Placing:
    """Creates, renames and moves that turn ``old`` into ``wanted``, each valid when it is sent.

    Parents come before children.  A provider that holds a name which another one needs is
    renamed first.  If names are exchanged in a cycle, or the holder can't be placed yet, the
    holder is temporarily renamed to its own UUID.  One that is to be deleted is renamed too, since
    it may be in use.  Names that differ only in the case of letters count as the same: in a MariaDB
    they are.

    ``wanted`` has the changed providers by UUID, parents first.  ``gone`` are the UUIDs of
    providers that are deleted afterwards.
    """

    old: Snapshot
    wanted: dict[str, Provider]
    gone: set[str]
    placed: set[str] = field(default_factory=set)
    freed: set[str] = field(default_factory=set)
    """UUIDs of the providers that have given up their name in ``old``."""
    holders: dict[str, Provider] = field(init=False)
    """The changing and removed providers by their name in ``old``, in lower case."""

    def __post_init__(self) -> None:
        before = (self.old.get(uuid) for uuid in (*self.gone, *self.wanted))
        self.holders = {provider.name.casefold(): provider for provider in before if provider}

    def operations(self) -> Iterator[CreateProvider | UpdateProvider]:
        """Yield the operations in order."""
        for uuid in self.wanted:
            if uuid not in self.placed:
                yield from self._with_names_freed(uuid)

    def _with_names_freed(self, uuid: str) -> Iterator[CreateProvider | UpdateProvider]:
        chain = {uuid: None}
        last = uuid
        while (holder := self._holder(last)) is not None:
            after = self.wanted.get(holder.uuid)
            is_renamed_only = after is not None and after.parent_uuid == holder.parent_uuid
            if holder.uuid in chain or not is_renamed_only:
                self.freed.add(holder.uuid)
                name = holder.uuid if after else f"{holder.name[:KEPT_NAME]}_removed_{holder.uuid}"
                yield UpdateProvider(holder.uuid, name, holder.parent_uuid, old_name=holder.name)
                break
            chain[last := holder.uuid] = None
        for member in reversed(chain):
            yield from self._place(member)

    def _place(self, uuid: str) -> Iterator[CreateProvider | UpdateProvider]:
        self.placed.add(uuid)
        provider, before = self.wanted[uuid], self.old.get(uuid)
        place = (uuid, provider.name, provider.parent_uuid)
        if before is None:
            yield CreateProvider(*place)
        elif (before.name, before.parent_uuid) != (provider.name, provider.parent_uuid):
            self.freed.add(uuid)
            moved = before.parent_uuid != provider.parent_uuid
            yield UpdateProvider(*place, moved, before.name)

    def _holder(self, uuid: str) -> Provider | None:
        """Return the changing or removed provider that still holds the wanted name, or ``None``."""
        name = self.wanted[uuid].name
        holder = self.old.named(name) or self.holders.get(name.casefold())
        if holder is None or holder.uuid == uuid or holder.uuid in self.freed:
            return None
        return holder if holder.uuid in self.wanted or holder.uuid in self.gone else None
