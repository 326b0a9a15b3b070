"""Edits a provider tree until it equals a state of the script; foreign data stays.

A provider is the driver's own if its UUID is derived from the node's UUID and the provider's
name, which can be checked after a restart, too.  Providers with a UUID from the script, and
traits and aggregates of the script, are remembered while the process lives.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from driverkit.scripted.script import ROOT, Move, NodeState, ProviderSpec
from drivers import reallocate
from reportclient import provider_tree
from reportclient.model import Allocations
from reportclient.provider_tree import ProviderTree

SHARED = "5d3a3f0a-7d44-4a6b-9f0e-0b6f2c1f7a11"
"""The namespace for UUIDs of sharing providers that several nodes list by the same name."""


@dataclass(slots=True)
class Footprint:
    """Data that this process wrote to one node and may have to remove, by provider UUID."""

    providers: set[str] = field(default_factory=set)
    traits: dict[str, frozenset[str]] = field(default_factory=dict)
    aggregates: dict[str, frozenset[str]] = field(default_factory=dict)


def settle(tree: ProviderTree, nodename: str, state: NodeState, footprint: Footprint) -> None:
    """Edit ``tree`` until it equals ``state`` for this node."""
    root = tree.data(nodename).uuid
    placed: dict[str, str] = {}
    for spec in state.providers:
        if spec.awaited and not tree.exists(spec.name):
            continue
        placed[spec.ref] = uuid = _place(tree, root, spec, placed)
        if spec.uuid is not None and spec.parent is not None:
            footprint.providers.add(uuid)
        tree.update_inventory(
            uuid, {name: record.as_dict() for name, record in spec.inventory.items()}
        )
        _mark(tree, uuid, spec.traits, spec.aggregates, footprint)
    # Last: a provider to be removed may have had a child that was moved to another parent.
    _remove_unwanted(tree, root, set(placed.values()), footprint)


def pending_moves(tree: ProviderTree, moves: Iterable[Move]) -> list[tuple[str, Move]]:
    """Return the moves whose source still has the class, with its UUID; call before an edit."""
    sources = [(tree.data(move.source), move) for move in moves if tree.exists(move.source)]
    return [(data.uuid, move) for data, move in sources if move.resource_class in data.inventory]


def move_allocations(
    tree: ProviderTree, pending: Iterable[tuple[str, Move]], allocations: Allocations
) -> None:
    """Edit ``allocations`` in place; ``tree`` has the targets already.

    :raises ReshapeFailed: the targets have no room for a consumer's allocation.
    """
    moves = (
        reallocate.Move(
            {source: frozenset({move.resource_class})},
            tuple(tree.data(name).uuid for name in move.targets),
            {move.resource_class: move.new_class},
            emptiest_first=True,
        )
        for source, move in pending
    )
    reallocate.move_allocations(tree, moves, allocations)


def own_uuid(root: str, name: str) -> str:
    """Return the UUID of the driver's own provider ``name`` on the node with the UUID ``root``."""
    return provider_tree.own_uuid(root, name, "fake")


def _uuid_of(root: str, spec: ProviderSpec) -> str:
    if spec.uuid is not None:
        return spec.uuid
    return own_uuid(root, spec.name) if spec.private else provider_tree.own_uuid(SHARED, spec.name)


def _place(tree: ProviderTree, root: str, spec: ProviderSpec, placed: dict[str, str]) -> str:
    """Create, rename or move the provider as needed; return its UUID."""
    if spec.ref == ROOT:
        return root
    uuid = _uuid_of(root, spec)
    parent = None if spec.parent is None else placed[spec.parent]
    if tree.exists(uuid):
        tree.rename(uuid, spec.name)
        tree.move(uuid, parent)
    elif tree.exists(spec.name):
        return tree.data(spec.name).uuid
    elif parent is None:
        tree.new_root(spec.name, uuid)
    else:
        tree.new_child(spec.name, parent, uuid)
    return uuid


def _mark(
    tree: ProviderTree,
    uuid: str,
    traits: frozenset[str],
    aggregates: frozenset[str],
    footprint: Footprint,
) -> None:
    """Set traits and aggregates; remove those that this process set before."""
    present = tree.data(uuid)
    # A trait that is gone from the tree was removed; if it comes back, another service set it.
    old_traits = footprint.traits.get(uuid, frozenset()) & present.traits
    old_aggregates = footprint.aggregates.get(uuid, frozenset()) & present.aggregates
    tree.remove_traits(uuid, *(old_traits - traits))
    tree.add_traits(uuid, *traits)
    tree.remove_aggregates(uuid, *(old_aggregates - aggregates))
    tree.add_aggregates(uuid, *aggregates)
    footprint.traits[uuid] = old_traits | traits
    footprint.aggregates[uuid] = old_aggregates | aggregates


def _remove_unwanted(tree: ProviderTree, root: str, wanted: set[str], footprint: Footprint) -> None:
    """Remove the driver's own providers that are not ``wanted``, children first."""
    for uuid in reversed(tree.get_provider_uuids()):
        if uuid in wanted or not _own(tree, root, uuid, footprint):
            continue
        if tree.get_provider_uuids(uuid) == [uuid]:
            tree.remove(uuid)
        else:
            # A foreign provider is below: this one stays, empty.
            tree.update_inventory(uuid, {})
            _mark(tree, uuid, frozenset(), frozenset(), footprint)


def _own(tree: ProviderTree, root: str, uuid: str, footprint: Footprint) -> bool:
    return uuid in footprint.providers or uuid == own_uuid(root, tree.data(uuid).name)
