"""Operations: what is to be changed in Placement, as data.

One operation is one call (or none, if Placement has the name by then).  ``replay``
says what an operation does to a tree; the diff is tested with it, and applying
uses it once Placement has acknowledged, so both mean the same.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, assert_never

from reportclient.model import Allocations, Inventory
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class EnsureTrait:
    """Make a custom trait known to Placement."""

    trait: str


@dataclass(frozen=True, slots=True)
class EnsureClass:
    """Make a custom resource class known to Placement."""

    resource_class: str


@dataclass(frozen=True, slots=True)
class CreateProvider:
    """Create an empty provider; ``parent_uuid`` is ``None`` for a root."""

    uuid: str
    name: str
    parent_uuid: str | None


@dataclass(frozen=True, slots=True)
class UpdateProvider:
    """Rename a provider, or move it below another one (``moved``)."""

    uuid: str
    name: str
    parent_uuid: str | None
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Reshape:
    """Set inventories and allocations of several providers in one transaction."""

    inventories: Mapping[str, Mapping[str, Inventory]]
    allocations: Allocations


@dataclass(frozen=True, slots=True)
class SetInventories:
    """Replace the whole inventories of several providers in one call."""

    inventories: Mapping[str, Mapping[str, Inventory]]


@dataclass(frozen=True, slots=True)
class DeleteProvider:
    """Delete a provider that has no children and no allocations."""

    uuid: str


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

    ``drains`` are the classes that can't be taken away yet and are reserved whole
    instead, with what was reserved of them before.
    """

    uuid: str
    inventory: Mapping[str, Inventory]
    drains: Mapping[str, int] = field(default_factory=dict)


NameOperation: TypeAlias = EnsureTrait | EnsureClass
ProviderOperation: TypeAlias = (
    CreateProvider | UpdateProvider | DeleteProvider | SetTraits | SetAggregates | SetInventory
)
Operation: TypeAlias = NameOperation | ProviderOperation | SetInventories | Reshape


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of a tree that is not sent: Placement would refuse it, or it is not ours.

    The agent tells it as one of its conditions, of an error.
    """

    uuid: str
    provider: str
    text: str

    def __str__(self) -> str:
        return f"provider {self.provider} ({self.uuid}): {self.text}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Operations in the order in which they have to be sent, and what is left out."""

    operations: tuple[Operation, ...] = ()
    problems: tuple[Problem, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of the providers concerned, by UUID, for whoever reads the plan."""
    desired: Snapshot | None = field(default=None, compare=False, repr=False)
    """What all of it leads to, if nothing of that had to be left out."""

    def __bool__(self) -> bool:
        return bool(self.operations)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.operations)

    def counts(self) -> Counter[str]:
        """How many operations of each kind."""
        return Counter(type(operation).__name__ for operation in self.operations)


def with_bulk_writes(plan: Plan, chunk: int, least: int = 2) -> Plan:
    """The same with inventories written ``chunk`` at a time, where there are ``least`` or more.

    0 leaves them as they are.  What is held back while consumers use it is written alone.
    """
    single = [one for one in plan if isinstance(one, SetInventory) and not one.drains]
    if chunk < 2 or len(single) < least:
        return plan
    bulk_of = set(map(id, single))
    rest = tuple(operation for operation in plan if id(operation) not in bulk_of)
    groups = (single[start : start + chunk] for start in range(0, len(single), chunk))
    bulk = (SetInventories({one.uuid: one.inventory for one in group}) for group in groups)
    return replace(plan, operations=(*rest, *bulk))


def replay(operation: Operation, tree: ProviderTree) -> None:
    """Do to ``tree`` what the operation does in Placement."""
    match operation:
        case EnsureTrait() | EnsureClass():
            pass
        case CreateProvider(uuid, name, parent):
            _create(tree, uuid, name, parent)
        case UpdateProvider(uuid, name, parent):
            tree.rename(uuid, name)
            tree.move(uuid, parent)
        case DeleteProvider(uuid):
            tree.remove(uuid)
        case SetTraits(uuid, traits):
            tree.update_traits(uuid, traits)
        case SetAggregates(uuid, aggregates):
            tree.update_aggregates(uuid, aggregates)
        case SetInventory(uuid, inventory):
            tree.set_records(uuid, inventory)
        case Reshape(inventories) | SetInventories(inventories):
            for uuid, inventory in inventories.items():
                tree.set_records(uuid, inventory)
        case _:
            assert_never(operation)


def _create(tree: ProviderTree, uuid: str, name: str, parent: str | None) -> None:
    if parent is None:
        tree.new_root(name, uuid)
    else:
        tree.new_child(name, parent, uuid)


def as_dicts(inventory: Mapping[str, Inventory]) -> dict[str, dict[str, Any]]:
    """An inventory as Placement and drivers spell it: ``{class: {field: value}}``."""
    return {name: record.as_dict() for name, record in inventory.items()}
