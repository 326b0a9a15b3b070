"""Pure: writes the report of a host into a provider tree; the only writer of children.

This driver's own children have the UUID that it makes from the root's UUID and the provider's name.
So they are recognised after a restart without any state, and no other driver's children on the root
have such UUIDs.  Children that Nova created on this host are recognised too
(:mod:`drivers.libvirt.tree.names`).  Only these are removed, once nothing reports them.  Another
provider that has a reported name is used as it is, and never removed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from drivers.errors import ReshapeNeeded
from drivers.libvirt.tree.moving import Moving
from drivers.libvirt.tree.names import (
    child_uuid,
    created_by_nova,
    earlier_provider,
    is_renamed_from,
    sources_of,
)
from drivers.libvirt.tree.reported import (
    HOST,
    ROOT_SOURCES,
    TRAITS,
    HostReport,
    Records,
    ReportedProvider,
)
from drivers.reallocate import move_allocations
from reportclient.model import Allocations, Inventory, ProviderData
from reportclient.provider_tree import ProviderTree

LONGEST_NAME = 200
"""Characters that Placement accepts for a provider's name."""


def write_report(
    tree: ProviderTree,
    nodename: str,
    report: HostReport,
    allocations: Allocations | None,
    guest_cells: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """Edit ``tree``; ``allocations`` are those of ``update_provider_tree``.

    ``guest_cells``: the NUMA cell of each guest that is bound to one, by the guest's UUID.

    Return the problems of children that could not be written, or not below their cell, by name.

    :raises ReshapeNeeded: inventory moves, and ``allocations`` is ``None``; the tree has all
        changes that do not depend on that.
    :raises ReshapeFailed: the allocations have no room where their inventory moved.
    """
    root = tree.data(nodename)
    reported, problems = _writable(tree, root.uuid, report)
    gone = _gone_children(tree, root, report, reported)
    moving = Moving(tree, root, report, reported, gone)
    transfers = moving.transfers()
    must_wait = bool(transfers) and allocations is None
    if must_wait:
        report, reported = moving.before_transfers(transfers)
        sources = {uuid for move in transfers for uuid in move.sources}
        gone = [provider for provider in gone if provider.uuid not in sources]
    before = {uuid: tree.data(uuid).inventory for uuid in tree.get_provider_uuids(root.uuid)}
    placed = _place_all(tree, root, report, reported, gone)
    _write_root(tree, root.uuid, report)
    if allocations is not None:
        uuids = {root.name: root.uuid, **placed}
        moves = [
            replace(move, targets=tuple(uuids[name] for name in move.targets)) for move in transfers
        ]
        cells = {number: placed.get(cell.name, "") for number, cell in report.cells.items()}
        target_by_consumer = {
            consumer: cells.get(number, "") for consumer, number in (guest_cells or {}).items()
        }
        move_allocations(tree, moves, allocations, target_by_consumer)
        still_used = _keep_used(tree, before, allocations, {provider.uuid for provider in gone})
        gone = [provider for provider in gone if provider.uuid not in still_used]
    for provider in gone:
        _remove(tree, provider)
    for source in report.silent:
        tree.silent(source)
    if must_wait:
        classes = sorted({name for move in transfers for name in move.classes})
        raise ReshapeNeeded(f"{', '.join(classes)} moves to other providers of {nodename}")
    return problems


def _write_root(tree: ProviderTree, root: str, report: HostReport) -> None:
    for source in dict.fromkeys((*ROOT_SOURCES, *report.source_by_class.values())):
        records = report.inventory.items()
        asserted = {
            name: record
            for name, record in records
            if report.source_by_class.get(name, HOST) == source
        }
        with tree.source(source):
            tree.update_inventory(root, asserted)
    with tree.source(TRAITS):
        tree.remove_traits(root, *(name for name, has in report.traits.items() if not has))
        tree.add_traits(root, *(name for name, has in report.traits.items() if has))


def _gone_children(
    tree: ProviderTree,
    root: ProviderData,
    report: HostReport,
    reported: Mapping[str, ReportedProvider],
) -> list[ProviderData]:
    """Return the children to be removed.

    Those of silent or incomplete sources only if a new child replaces them under the host's new
    name.
    """
    incomplete = report.silent | report.incomplete
    created = [child.name for child in reported.values() if not tree.exists(child.name)]
    return [
        data
        for data in _unreported_children(tree, root.uuid, reported)
        if not incomplete & sources_of(data.name)
        or any(is_renamed_from(root.name, name, data.name) for name in created)
    ]


def _writable(
    tree: ProviderTree, root: str, report: HostReport
) -> tuple[dict[str, ReportedProvider], dict[str, str]]:
    """Return the children that can be written, by name, cells first.

    And problems: of the others, and of those whose NUMA cell is not known.
    """
    below_root = set(tree.get_provider_uuids(root))
    writable: dict[str, ReportedProvider] = {}
    problems: dict[str, str] = {}
    for child in (*report.cells.values(), *report.children):
        if child.name in writable:
            problems[child.name] = "is reported twice: only the first report is used"
        elif len(child.name) > LONGEST_NAME:
            problems[child.name] = f"a provider's name has at most {LONGEST_NAME} characters"
        elif tree.exists(child.name) and tree.data(child.name).uuid not in below_root:
            problems[child.name] = "is the name of another host's provider: rename that provider"
        else:
            writable[child.name] = child
            if report.cells and child.cell is not None and child.cell not in report.cells:
                problems[child.name] = (
                    f"libvirt reports no NUMA cell {child.cell}, which it is on: it is a child of"
                    " the host"
                )
    return writable, problems


def _unreported_children(
    tree: ProviderTree, root: str, reported: Mapping[str, ReportedProvider]
) -> Iterable[ProviderData]:
    """Yield this driver's and Nova's children that nothing reports, children first."""
    wanted = {child_uuid(root, name) for name in reported}
    for uuid in reversed(tree.get_provider_uuids(root)[1:]):
        data = tree.data(uuid)
        is_ours = uuid == child_uuid(root, data.name) or created_by_nova(data)
        if is_ours and data.name not in reported and uuid not in wanted:
            yield data


def _place_all(
    tree: ProviderTree,
    root: ProviderData,
    report: HostReport,
    reported: Mapping[str, ReportedProvider],
    gone: Sequence[ProviderData],
) -> dict[str, str]:
    """Write all children; return their UUIDs by name."""
    placed: dict[str, str] = {}
    for child in reported.values():
        cell = report.cells.get(-1 if child.cell is None else child.cell)
        parent = (
            root.uuid
            if cell is None or cell.name == child.name
            else placed.get(cell.name, root.uuid)
        )
        earlier = None if tree.exists(child.name) else earlier_provider(root.name, child.name, gone)
        with tree.source(child.source):
            placed[child.name] = uuid = _place(tree, root.uuid, parent, child.name)
            inventory = {k: v for k, v in child.inventory.items() if v["total"] > 0}
            tree.update_inventory(
                uuid, inventory if earlier is None else _with_reserved(inventory, earlier)
            )
            tree.set_own_traits(uuid, child.traits)
        if earlier is not None:
            tree.add_traits(uuid, *earlier.traits - child.traits)
            tree.add_aggregates(uuid, *earlier.aggregates)
    return placed


def _with_reserved(inventory: Records, old: ProviderData) -> Records:
    """Return records, which get the old provider's ``reserved`` where they have none."""
    reserved = {name: int(record.get("reserved") or 0) for name, record in old.inventory.items()}
    return {
        name: {"reserved": min(reserved.get(name, 0), record["total"]), **record}
        for name, record in inventory.items()
    }


def _place(tree: ProviderTree, root: str, parent: str, name: str) -> str:
    """Return the provider's UUID; create, move or rename the provider if needed."""
    uuid = child_uuid(root, name)
    if tree.exists(name):
        uuid = tree.data(name).uuid
        tree.move(uuid, parent)
    elif tree.exists(uuid):
        tree.rename(uuid, name)
        tree.move(uuid, parent)
    else:
        tree.new_child(name, parent, uuid)
    return uuid


def _keep_used(
    tree: ProviderTree,
    before: Mapping[str, Records],
    allocations: Allocations,
    gone: Collection[str],
) -> frozenset[str]:
    """Keep inventory that is in use and does not move; return the UUIDs of providers with
    allocations.

    A reshape is done whole or not at all, and inventory in use can't be removed.  The agent drains
    it from the next period on.  Providers that are ``gone`` keep nothing else, or what moved would
    exist twice.
    """
    amounts = _amounts(allocations)
    for uuid in before.keys() & amounts.keys():
        desired = {} if uuid in gone else tree.data(uuid).inventory
        in_use = {
            name: before[uuid][name]
            for name, held in amounts[uuid].items()
            if name in before[uuid] and not _has_room(desired.get(name), held)
        }
        tree.update_inventory(uuid, {**desired, **in_use})
    return frozenset(amounts)


def _amounts(allocations: Allocations) -> dict[str, dict[str, list[int]]]:
    """Return the amounts of each consumer, by provider and class."""
    amounts: dict[str, dict[str, list[int]]] = {}
    for held in allocations.values():
        for uuid, part in held["allocations"].items():
            for name, amount in part["resources"].items():
                amounts.setdefault(uuid, {}).setdefault(name, []).append(amount)
    return amounts


def _has_room(record: Mapping[str, object] | None, held: Sequence[int]) -> bool:
    """Return whether Placement would accept these amounts again, as in a reshape."""
    if record is None:
        return False
    full = Inventory.from_dict(record).with_defaults(None)
    assert full.max_unit is not None
    return max(held) <= full.max_unit and sum(held) <= full.capacity


def _remove(tree: ProviderTree, provider: ProviderData) -> None:
    uuid = provider.uuid
    tree.adopt(uuid)  # it may be Nova's; other services' never get here
    if tree.get_provider_uuids(uuid) == [uuid]:
        tree.remove(uuid)
    else:
        # Another service has a provider below it: it has to stay, without inventory.
        tree.update_inventory(uuid, {})
