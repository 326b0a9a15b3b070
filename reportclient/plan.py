"""Operations and plans: changes to Placement, as data.  Pure.

One operation is one call to Placement.  ``edits_of`` says what it changes there: this updates the
view after an acknowledged operation, and tests check the diff with it.  ``rebased`` applies the
changes between two snapshots to a newer one.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, assert_never

from reportclient.model import Allocations, Inventory, Provider
from reportclient.provider_tree import ProviderTree
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
    single = [each for each in plan if isinstance(each, SetInventory) and not each.drains]
    if chunk < 2 or len(single) < least:
        return plan
    bulk_of = set(map(id, single))
    rest = tuple(operation for operation in plan if id(operation) not in bulk_of)
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


def create(tree: ProviderTree, uuid: str, name: str, parent: str | None) -> None:
    """Add a provider to a tree, as a root without ``parent``."""
    if parent is None:
        tree.new_root(name, uuid)
    else:
        tree.new_child(name, parent, uuid)


def as_dicts(inventory: Mapping[str, Inventory]) -> dict[str, dict[str, Any]]:
    """Return an inventory in the format of Placement's API: ``{class: {field: value}}``."""
    return {name: record.as_dict() for name, record in inventory.items()}


def rebased(base: Snapshot, desired: Snapshot, now: Snapshot) -> Snapshot:
    """Return ``now`` with the changes from ``base`` to ``desired``.

    A changed provider that is not in ``now`` any more is created again.  A provider that
    ``desired`` removed stays if ``now`` has another provider below it that was not removed.

    :raises ValueError: the changes conflict: two providers with one name, or moved below
        each other or below one that is not in ``now`` any more.
    """
    if now == base:
        return desired
    changed = list(desired.changed_since(base))
    tree = ProviderTree(now)
    gone = {uuid for uuid in changed if uuid not in desired}
    _remove(gone, tree)  # their names can be used
    for provider in desired.parents_first(uuid for uuid in changed if uuid in desired):
        _apply_changes(provider, base.get(provider.uuid), tree)
    _remove(gone, tree)  # those below which a provider was that is elsewhere now
    return tree.freeze()


def _remove(gone: set[str], tree: ProviderTree) -> None:
    for uuid in gone:
        if tree.exists(uuid) and gone.issuperset(tree.get_provider_uuids(uuid)):
            tree.remove(uuid)


def _apply_changes(provider: Provider, before: Provider | None, tree: ProviderTree) -> None:
    uuid, now = provider.uuid, tree.provider(provider.uuid)
    if now is None:
        create(tree, uuid, provider.name, provider.parent_uuid)
    old = (now and before) or Provider(uuid, "")
    if provider.name != old.name:
        tree.rename(uuid, provider.name)
    if before is None or provider.parent_uuid != old.parent_uuid:
        tree.move(uuid, provider.parent_uuid)
    tree.remove_traits(uuid, *old.traits - provider.traits)
    tree.add_traits(uuid, *provider.traits - old.traits)
    tree.remove_aggregates(uuid, *old.aggregates - provider.aggregates)
    tree.add_aggregates(uuid, *provider.aggregates - old.aggregates)
    tree.update_inventory(uuid, _records(provider.inventory, old.inventory, tree.records(uuid)))


def _records(
    desired: Mapping[str, Inventory], old: Mapping[str, Inventory], now: Mapping[str, Inventory]
) -> dict[str, Inventory]:
    left = {name: record for name, record in now.items() if name in desired or name not in old}
    return {**left, **{name: record for name, record in desired.items() if record != old.get(name)}}


def not_removed(base: Snapshot, desired: Snapshot, new: Snapshot) -> Iterator[Problem]:
    """Yield the removals of ``desired`` that ``new``, the result of :func:`rebased`, leaves out."""
    for uuid in desired.changed_since(base):
        if uuid in new and uuid not in desired:
            text = "not removed: another client has created or moved a provider below it"
            yield Problem(uuid, new.providers[uuid].name, text)
