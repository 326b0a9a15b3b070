"""Edits a provider tree until it equals a node of the script; foreign data stays.

A provider is the driver's own if its UUID is derived from the node's UUID and the provider's
name, which can be checked after a restart, too.  The agent's ledger has its traits and aggregates.
"""

from collections.abc import Mapping

from driverkit.scripted.script import NodeSpec, ProviderSpec
from drivers.api import Allocations, ProviderTree, ReshapeNeeded
from drivers.devices import SHARED
from drivers.reallocate import Move, move_allocations
from reportclient import provider_tree
from reportclient.plan import create


def own_uuid(root: str, name: str) -> str:
    """Return the UUID of the driver's own provider ``name`` on the node with the UUID ``root``."""
    return provider_tree.own_uuid(root, name, "fake")


def edit(
    tree: ProviderTree, nodename: str, node: NodeSpec, allocations: Allocations | None
) -> None:
    """Edit ``tree`` until it equals ``node``; move ``allocations`` along with its classes.

    :raises ReshapeNeeded: a class of ``node.moves`` leaves a provider, without ``allocations``.
    :raises ReshapeFailed: the targets have no room for a consumer's allocation.
    """
    root = tree.data(nodename).uuid
    leaving = _leaving(tree, root, node)
    if leaving and allocations is None:
        raise ReshapeNeeded(f"the script moves {', '.join(sorted(leaving))} of {nodename}")
    placed: dict[str, str] = {}  # UUIDs by name
    for spec in node.providers:
        if spec.awaited and not tree.exists(spec.name):
            continue
        uuid = placed[spec.name] = _place(tree, root, nodename, spec)
        tree.update_inventory(uuid, spec.inventory)
        tree.set_own_traits(uuid, spec.traits)
        tree.set_own_aggregates(uuid, spec.aggregates)
    if allocations is not None:
        specs = [spec for spec in node.providers if spec.name in placed]
        moves = [
            Move(sources, tuple(placed[spec.name] for spec in specs if name in spec.inventory))
            for name, sources in leaving.items()
        ]
        move_allocations(tree, moves, allocations)
    # Last: a provider to be removed may have had a child that was moved to another parent.
    _remove_unwanted(tree, root, set(placed.values()))


def _leaving(
    tree: ProviderTree, root: str, node: NodeSpec
) -> dict[str, Mapping[str, frozenset[str]]]:
    """Return the moving classes that providers of this driver have to give away, with these."""
    kept = {spec.name: spec.inventory for spec in node.providers}
    leaving: dict[str, Mapping[str, frozenset[str]]] = {}
    for name in node.moves:
        if not any(name in inventory for inventory in kept.values()):
            continue
        sources: dict[str, frozenset[str]] = {}
        for uuid in tree.get_provider_uuids(root):
            data = tree.data(uuid)
            listed = data.name in kept or uuid == own_uuid(root, data.name)
            if listed and name in data.inventory and name not in kept.get(data.name, {}):
                sources[uuid] = frozenset({name})
        if sources:
            leaving[name] = sources
    return leaving


def _place(tree: ProviderTree, root: str, nodename: str, spec: ProviderSpec) -> str:
    """Create, rename or move the provider as needed; return its UUID."""
    if spec.name == nodename:
        return root
    uuid = own_uuid(root, spec.name) if spec.private else provider_tree.own_uuid(SHARED, spec.name)
    if tree.exists(uuid):
        tree.rename(uuid, spec.name)
        tree.move(uuid, spec.parent)
    elif tree.exists(spec.name):
        return tree.data(spec.name).uuid
    else:
        create(tree, uuid, spec.name, spec.parent)
    return uuid


def _remove_unwanted(tree: ProviderTree, root: str, wanted: set[str]) -> None:
    """Remove the driver's own providers that are not ``wanted``, children first."""
    for uuid in reversed(tree.get_provider_uuids()):
        if uuid in wanted or uuid != own_uuid(root, tree.data(uuid).name):
            continue
        if tree.get_provider_uuids(uuid) == [uuid]:
            tree.remove(uuid)
        else:
            # A foreign provider is below: this one stays, empty.
            tree.update_inventory(uuid, {})
            tree.set_own_traits(uuid, ())
            tree.set_own_aggregates(uuid, ())
