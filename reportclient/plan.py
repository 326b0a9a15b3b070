"""Operations and plans: changes to Placement, as data; diff makes them.  Pure.

One operation is one call to Placement.  ``edits_of`` says what it changes there: this updates the
view after an acknowledged operation, and tests check the diff with it.

The order of operations, and why:

1. custom traits and classes, since traits and inventories refer to them;
2. creates, renames and moves, parents first (see ``placements``);
3. a reshape, once all its providers exist;
4. deletes, children first;
5. traits, aggregates, and inventory last, so that a scheduler can choose a new
   provider only once its traits are set.

A change that Placement would refuse in any case (an invalid name, a total of 0) is
left out and becomes a :class:`Problem`; everything else is still sent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, assert_never

from reportclient.model import (
    Allocations,
    Inventory,
    Names,
    Provider,
    is_custom,
    name_problem,
    name_when_removed,
    used_providers,
)
from reportclient.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class EnsureTrait:
    """Create a custom trait in Placement unless it exists."""

    trait: str


@dataclass(frozen=True, slots=True)
class EnsureClass:
    """Create a custom resource class in Placement unless it exists."""

    resource_class: str


@dataclass(frozen=True, slots=True)
class CreateProvider:
    """Create a provider without inventory; ``parent_uuid`` is ``None`` for a root."""

    uuid: str
    name: str
    parent_uuid: str | None


@dataclass(frozen=True, slots=True)
class UpdateProvider:
    """Rename a provider; if ``moved``, also move it to another parent."""

    uuid: str
    name: str
    parent_uuid: str | None
    moved: bool = False
    old_name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Reshape:
    """Replace whole inventories (by provider UUID) and allocations in one transaction."""

    inventories: Mapping[str, Mapping[str, Inventory]]
    allocations: Allocations


@dataclass(frozen=True, slots=True)
class SetInventories:
    """Replace the whole inventories of several providers in one call."""

    inventories: Mapping[str, Mapping[str, Inventory]]


@dataclass(frozen=True, slots=True)
class DeleteProvider:
    """Delete a provider that has no children and no allocations.

    ``kept``: why it is not deleted, but only drained; nothing is sent.  ``by_owner``: its owner
    withdraws it, whoever shares it.
    """

    uuid: str
    kept: str = ""
    by_owner: bool = False


@dataclass(frozen=True, slots=True)
class SetTraits:
    """Replace all traits of a provider."""

    uuid: str
    traits: frozenset[str]


@dataclass(frozen=True, slots=True)
class SetAggregates:
    """Replace all aggregates of a provider."""

    uuid: str
    aggregates: frozenset[str]


@dataclass(frozen=True, slots=True)
class SetInventory:
    """Replace the whole inventory of a provider.

    ``drains``: resource classes that are fully reserved, since consumers use them and they can't
    be removed yet; with the amounts that were reserved before.
    """

    uuid: str
    inventory: Mapping[str, Inventory]
    drains: Mapping[str, int] = field(default_factory=dict)


SETTERS = {"inventories": SetInventory, "traits": SetTraits, "aggregates": SetAggregates}
"""The operations that replace a part of a provider, which its generation protects."""
NameOperation: TypeAlias = EnsureTrait | EnsureClass
ProviderOperation: TypeAlias = (
    CreateProvider | UpdateProvider | DeleteProvider | SetTraits | SetAggregates | SetInventory
)
Operation: TypeAlias = NameOperation | ProviderOperation | SetInventories | Reshape
Request: TypeAlias = tuple[str, str, dict[str, Any] | None]
"""The HTTP call of an operation: method, path and body."""


_TRAIT, _CLASS, DRAIN = "trait ", "resource class ", "drain "


def subject_of(operation: Operation) -> str:
    """Return the key of an operation in outcomes and refusals.

    It is the provider's UUID, ``trait NAME``, ``resource class NAME``, ``reshape``, ``bulk``, or
    ``drain UUID``.
    """
    match operation:
        case EnsureTrait(name):
            return _TRAIT + name
        case EnsureClass(name):
            return _CLASS + name
        case Reshape():
            return "reshape"
        case SetInventories():
            return "bulk"
        case SetInventory(uuid, drains=drains) if drains:
            return DRAIN + uuid
        case _:
            return operation.uuid


def needs_of(operation: Operation) -> Iterable[str]:
    """Return the keys (:func:`subject_of`) of what the operation requires to exist."""
    match operation:
        case CreateProvider(parent_uuid=str(parent)):
            return (parent,)
        case UpdateProvider(parent_uuid=str(parent), moved=True):
            return (parent,)
        case SetTraits(traits=traits):
            return (_TRAIT + name for name in traits)
        case SetInventory(inventory=inventory):
            return (_CLASS + name for name in inventory)
        case Reshape(inventories, allocations):
            names = {_CLASS + name for inventory in inventories.values() for name in inventory}
            return {*names, *inventories, *used_providers(allocations)}
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class Problem:
    """A change that is not sent, since it is invalid or another service owns the provider.

    ``uuid`` and ``provider`` are the provider's UUID and name.  ``kept``: the provider was to be
    deleted, and only stays for the sake of another service.  ``wrong``: no Placement takes it.
    """

    uuid: str
    provider: str
    text: str
    kept: bool = False
    wrong: bool = False

    def __str__(self) -> str:
        return f"provider {self.provider} ({self.uuid}): {self.text}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Operations in the order in which they have to be sent, and changes that are left out."""

    operations: tuple[Operation, ...] = ()
    problems: tuple[Problem, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of the providers concerned, by UUID, for display."""
    desired: Snapshot | None = field(default=None, compare=False, repr=False)
    """The snapshot for which the plan was computed."""

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.operations)


def with_bulk_writes(plan: Plan, chunk: int, least: int = 2) -> Plan:
    """Return the plan with up to ``chunk`` inventories in one call, if it has ``least`` or more.

    Unchanged if ``chunk`` is below 2.  An inventory with ``drains`` keeps its own call.
    """
    single = [it for it in plan.operations if isinstance(it, SetInventory) and not it.drains]
    if chunk < 2 or len(single) < least:
        return plan
    rest = (it for it in plan.operations if not isinstance(it, SetInventory) or it.drains)
    groups = (single[start : start + chunk] for start in range(0, len(single), chunk))
    bulk = (SetInventories({each.uuid: each.inventory for each in group}) for group in groups)
    return replace(plan, operations=(*rest, *bulk))


def edits_of(
    operation: Operation, provider: Callable[[str], Provider | None]
) -> dict[str, Provider | None]:
    """Return the providers that an operation changes in Placement, as they are after it.

    ``provider`` returns one (UUID) as it was before.  ``None``: it was deleted.
    """
    parts: dict[str, dict[str, Any]]
    match operation:
        case EnsureTrait() | EnsureClass():
            return {}
        case CreateProvider(uuid, name, parent):
            return {uuid: Provider(uuid, name, parent)}
        case DeleteProvider(uuid):
            return {uuid: None}
        case Reshape(inventories) | SetInventories(inventories):
            parts = {uuid: {"inventory": each} for uuid, each in inventories.items()}
        case UpdateProvider(uuid, name, parent):
            parts = {uuid: {"name": name, "parent_uuid": parent}}
        case SetTraits(uuid, traits):
            parts = {uuid: {"traits": traits}}
        case SetAggregates(uuid, aggregates):
            parts = {uuid: {"aggregates": aggregates}}
        case SetInventory(uuid, inventory):
            parts = {uuid: {"inventory": inventory}}
        case _:
            assert_never(operation)
    before = {uuid: provider(uuid) for uuid in parts}
    return {uuid: each and replace(each, **parts[uuid]) for uuid, each in before.items()}


def as_dicts(inventory: Mapping[str, Inventory]) -> dict[str, dict[str, Any]]:
    """Return an inventory in the format of Placement's API: ``{class: {field: value}}``."""
    return {name: record.as_dict() for name, record in inventory.items()}


def diff(  # noqa: PLR0913  the result depends on each of them
    old: Snapshot,
    new: Snapshot,
    allocations: Allocations | None = None,
    *,
    names: Names | None = None,
    in_use: AbstractSet[str] = frozenset(),
    owned: str | None = None,
) -> Plan:
    """Return the operations that turn ``old`` into ``new``.

    :param allocations: the allocations after a reshape; all inventories are then set by one
        :class:`Reshape`.  It also removes the inventory of providers that are deleted afterwards,
        unless they are ``in_use``, so that no new consumer is placed there.
    :param names: the traits and classes that Placement has.
    :param in_use: UUIDs of providers on which other consumers hold allocations.
    :param owned: the root (UUID) whose tree is the caller's: it is deleted whoever shares it.
    :raises ValueError: allocations are to be moved, but no provider in use has inventory.
    """
    names, problems = names or Names(), list[Problem]()
    changed = list(new.changed_since(old))
    if not changed and not allocations:
        return Plan()
    staying = [new.providers[uuid] for uuid in changed if uuid in new]
    removed = {uuid for uuid in changed if uuid not in new}
    traits, aggregates = list[SetTraits](), list[SetAggregates]()
    inventories, placed = list[SetInventory](), list[str]()
    for after in staying:
        uuid, before = after.uuid, old.get(after.uuid)
        if before is None or (before.name, before.parent_uuid) != (after.name, after.parent_uuid):
            placed.append(uuid)
        before = before or Provider(uuid, after.name)
        wanted, inventory = _sendable(after, before, names, problems)
        if wanted != before.traits:
            traits.append(SetTraits(uuid, wanted))
        if after.aggregates != before.aggregates:
            aggregates.append(SetAggregates(uuid, after.aggregates))
        if inventory != before.inventory:
            inventories.append(SetInventory(uuid, inventory))
    used = in_use | used_providers(allocations or {})
    used_traits = {name for operation in traits for name in operation.traits}
    used_classes = {name for operation in inventories for name in operation.inventory}
    deleted = reversed(list(old.parents_first(removed)))
    operations: tuple[Operation, ...] = (
        *map(EnsureTrait, sorted(filter(is_custom, used_traits - names.traits))),
        *map(EnsureClass, sorted(filter(is_custom, used_classes - names.classes))),
        *(placements(old, new.parents_first(placed), removed) if placed else ()),
        *(() if allocations is None else _reshape(old, inventories, allocations, removed, used)),
        *(DeleteProvider(it.uuid, by_owner=old.root_of(it.uuid) == owned) for it in deleted),
        *traits,
        *aggregates,
        *(() if allocations is not None else inventories),
    )
    shown = {uuid: (new.get(uuid) or old.providers[uuid]).name for uuid in changed}
    return Plan(operations, tuple(problems), shown, new)


def _sendable(
    after: Provider, before: Provider, names: Names, problems: list[Problem]
) -> tuple[frozenset[str], Mapping[str, Inventory]]:
    """Return the traits and the inventory of ``after`` that Placement may take.

    An inventory has all fields: an unset one is that of ``before``, else Placement's default.  With
    a record that no Placement takes it stays as it was.
    """
    uuid, name, current = after.uuid, after.name, before.inventory
    wrong = {trait: name_problem(trait, "trait") for trait in after.traits}
    texts = [f"{text}; left out" for text in sorted(filter(None, wrong.values()))]
    inventory = {
        resource_class: record.with_defaults(current.get(resource_class))
        for resource_class, record in after.inventory.items()
        if resource_class not in names.absent_classes
    }
    bad = [
        f"inventory of {each}: {text}"
        for each, record in sorted(inventory.items())
        # What Placement has, it takes again, except for what only its reshaper takes.
        if record != current.get(each) or (record.reserved or 0) > record.total
        if (text := name_problem(each, "resource class") or record.problem())
    ]
    if bad and inventory != current:
        texts.append(f"{'; '.join(bad)}; its inventory is not changed")
    problems += [Problem(uuid, name, text, wrong=True) for text in texts]
    absent = {f"trait {trait}" for trait in after.traits & names.absent_traits}
    absent |= {f"resource class {it}" for it in names.absent_classes & after.inventory.keys()}
    texts = [f"{unknown} is unknown to this Placement; left out" for unknown in sorted(absent)]
    problems += [Problem(uuid, name, text) for text in texts]
    traits = frozenset(trait for trait, text in wrong.items() if text is None)
    return traits - names.absent_traits, current if bad else inventory


def _reshape(
    old: Snapshot,
    inventories: Iterable[SetInventory],
    allocations: Allocations,
    removed: set[str],
    used: AbstractSet[str],
) -> Iterator[Reshape]:
    """Yield the reshape, unless it is empty; ``used`` are providers with allocations."""
    by_uuid = {operation.uuid: operation.inventory for operation in inventories}
    by_uuid |= {uuid: {} for uuid in sorted(removed - used) if old.providers[uuid].inventory}
    if allocations and not by_uuid:  # Placement refuses a reshape without any: one that stays
        known = (old.providers[uuid] for uuid in sorted(used) if uuid in old)
        if (provider := next((it for it in known if it.inventory and not it.shares), None)) is None:
            text = "no provider of the tree has the allocations of"
            raise ValueError(f"{text} {', '.join(allocations)}")
        by_uuid = {provider.uuid: provider.inventory}
    if by_uuid:
        yield Reshape(by_uuid, allocations)


def placements(
    old: Snapshot, placed: Iterable[Provider], removed: set[str]
) -> Iterator[CreateProvider | UpdateProvider]:
    """Yield creates, renames and moves that turn ``old`` into ``placed``, each valid when sent.

    Parents come before children.  A provider that holds a name which another one needs is
    renamed first.  If names are exchanged in a cycle, or the holder can't be placed yet, the
    holder is temporarily renamed to its own UUID.  One that is to be deleted is renamed too, since
    it may be in use.  Names that differ only in the case of letters count as the same: in a MariaDB
    they are.

    ``placed`` are the new, renamed and moved providers, parents first.  ``removed`` are the UUIDs
    of providers that are deleted afterwards.
    """
    wanted = {each.uuid: each for each in placed}
    changing = [old.providers[uuid] for uuid in (*removed, *wanted) if uuid in old]
    holders = {provider.name.casefold(): provider for provider in changing}
    done, freed = set[str](), set[str]()  # freed: those that have given up their name in old
    for uuid in wanted:
        chain, last = [] if uuid in done else [uuid], uuid
        while chain:
            name = wanted[last].name
            holder = old.named(name) or holders.get(name.casefold())
            if holder is None or holder.uuid == last or holder.uuid in freed:
                break
            after = wanted.get(holder.uuid)
            if after is None and holder.uuid not in removed:
                break
            if after and after.parent_uuid == holder.parent_uuid and holder.uuid not in chain:
                last = holder.uuid  # it is only renamed, which can be done first
                chain.append(last)
                continue
            freed.add(holder.uuid)
            name = holder.uuid if after else name_when_removed(holder)
            yield UpdateProvider(holder.uuid, name, holder.parent_uuid, old_name=holder.name)
            break
        for member in reversed(chain):
            done.add(member)
            after, before = wanted[member], old.get(member)
            if before is None:
                yield CreateProvider(member, after.name, after.parent_uuid)
            else:
                freed.add(member)
                moved = before.parent_uuid != after.parent_uuid
                yield UpdateProvider(member, after.name, after.parent_uuid, moved, before.name)
