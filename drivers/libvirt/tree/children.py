"""Pure: writes the report of a host into a provider tree; the only writer of children.

This driver's own children have the UUID that it makes from the root's UUID and their key.  So they
are recognised after a restart without any state, and after the host was renamed, and no other
driver's children on the root have such UUIDs.  Children that Nova created on this host are
recognised too (:mod:`drivers.libvirt.tree.reported`).  Only these are removed, once nothing reports
them.  Another provider that has a reported name is used as it is, and never removed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from drivers.errors import ReshapeNeeded
from drivers.libvirt.tree.moving import Moving
from drivers.libvirt.tree.reported import (
    GROUP,
    HOST,
    MDEV,
    TRAITS,
    HostReport,
    Records,
    ReportedProvider,
    child_uuid,
    name_now,
    sources_of,
)
from drivers.reallocate import held_amounts, move_allocations
from reportclient.model import LONGEST_NAME, Allocations, Inventory, ProviderData
from reportclient.plain_text import first_few
from reportclient.provider_tree import ProviderTree, key_of


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
    uuids, unreported = _recognised(tree, root, report, reported)
    moving = Moving(tree, root, report, reported, uuids, unreported)
    transfers = moving.transfers()
    must_wait = bool(transfers) and allocations is None
    if must_wait:
        report, reported = moving.before_transfers(transfers)
        moved = {uuid for move in transfers for uuid in move.sources}
        unreported = [provider for provider in unreported if provider.uuid not in moved]
    before = {uuid: tree.data(uuid).inventory for uuid in tree.get_provider_uuids(root.uuid)}
    _place_all(tree, root, report, reported, uuids)
    _write_root(tree, root.uuid, report)
    if allocations is not None:
        targets = {root.name: root.uuid, **uuids}
        moves = [
            replace(move, targets=tuple(targets[name] for name in move.targets))
            for move in transfers
        ]
        cells = {number: uuids.get(cell.name, "") for number, cell in report.cells.items()}
        target_by_consumer = {
            consumer: cells.get(number, "") for consumer, number in (guest_cells or {}).items()
        }
        move_allocations(tree, moves, allocations, target_by_consumer)
        sources = {uuids[name]: child.source for name, child in reported.items()}
        leaving = {provider.uuid for provider in unreported}
        still_used = _keep_used(tree, before, allocations, leaving, sources)
        unreported = [provider for provider in unreported if provider.uuid not in still_used]
    for provider in unreported:
        uuid = provider.uuid
        tree.adopt(uuid)  # it may be Nova's; other services' never get here
        if tree.get_provider_uuids(uuid) == [uuid]:
            tree.remove(uuid, missing=True)
        else:  # another service has a provider below it: it has to stay, without inventory
            tree.update_inventory(uuid, {})
    for source in report.unanswered:
        tree.unanswered(source)
    if must_wait:
        classes = sorted({name for move in transfers for name in move.classes})
        ends = first_few(sorted({name for move in transfers for name in move.targets}))
        raise ReshapeNeeded(f"{', '.join(classes)} moves with its allocations to {ends}")
    return problems


def _write_root(tree: ProviderTree, root: str, report: HostReport) -> None:
    # Without an answer of its own, what a source left as it is would count as gone.
    for source in (*report.sources, MDEV):
        asserted = {
            name: record
            for name, record in report.inventory.items()
            if report.source_by_class.get(name, HOST) == source
        }
        with tree.source(source):
            tree.update_inventory(root, asserted)
    with tree.source(TRAITS):
        tree.remove_traits(root, *(name for name, has in report.traits.items() if not has))
        tree.add_traits(root, *(name for name, has in report.traits.items() if has))


def _recognised(
    tree: ProviderTree,
    root: ProviderData,
    report: HostReport,
    reported: Mapping[str, ReportedProvider],
) -> tuple[dict[str, str], list[ProviderData]]:
    """Return the UUIDs of the reported children by name, of those to be created too.

    And this driver's and Nova's children to be removed, children first, since nothing reports them;
    those that are incomplete, or of an unanswered or incomplete source, stay.  Their names have the
    host's current name.
    """
    children = {}
    for uuid in reversed(tree.get_provider_uuids(root.uuid)[1:]):
        data = tree.data(uuid)
        name = name_now(root, data)
        if name is not None:
            children[uuid] = data._replace(name=name)
    renamed = {child.name: uuid for uuid, child in children.items()}
    uuids = {}
    for name in reported:
        own = child_uuid(root.uuid, key_of(name, root.name))
        if tree.exists(name):
            uuids[name] = tree.data(name).uuid
        else:
            uuids[name] = own if tree.exists(own) else renamed.get(name, own)
    incomplete, used = report.unanswered | report.incomplete, {*uuids.values()}
    unmatched = (child for uuid, child in children.items() if uuid not in used)
    return uuids, [it for it in unmatched if not incomplete & {it.name, *sources_of(it.name)}]


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
                devices = sorted(name for name in child.replaces if GROUP not in name)
                problems[child.name] = (
                    f"libvirt reports no NUMA cell {child.cell}, which {', '.join(devices) or 'it'}"
                    " is on: it is a child of the host"
                )
    return writable, problems


def _place_all(
    tree: ProviderTree,
    root: ProviderData,
    report: HostReport,
    reported: Mapping[str, ReportedProvider],
    uuids: Mapping[str, str],
) -> None:
    """Write all children; ``uuids`` by name."""
    for name, child in reported.items():
        cell = None if child.cell is None else report.cells.get(child.cell)
        parent = uuids[cell.name] if cell is not None and cell.name in reported else root.uuid
        with tree.source(child.source):
            uuid = uuids[name]
            if tree.exists(uuid):
                tree.rename(uuid, name)
                tree.move(uuid, parent)
            else:
                tree.new_child(name, parent, uuid)
            records = child.inventory.items()
            tree.update_inventory(uuid, {key: it for key, it in records if it["total"] > 0})
            tree.set_own_traits(uuid, child.traits)


def _keep_used(
    tree: ProviderTree,
    before: Mapping[str, Records],
    allocations: Allocations,
    leaving: Collection[str],
    sources: Mapping[str, str],
) -> frozenset[str]:
    """Keep inventory that is in use and does not move; return the UUIDs of providers with
    allocations.

    A reshape is done whole or not at all, and inventory in use can't be removed.  The agent drains
    it from the next period on.  Providers that are ``leaving`` keep nothing else, or what moved
    would exist twice.  A child that keeps a class gets no new one, which may be the same device;
    ``sources`` has the children's sources by UUID.
    """
    held = held_amounts(allocations)
    for uuid in before.keys() & held.keys():
        desired = {} if uuid in leaving else tree.data(uuid).inventory
        in_use = {
            name: before[uuid][name]
            for name, amounts in held[uuid].items()
            if name in before[uuid] and not _has_room(desired.get(name), amounts)
        }
        if uuid in sources and in_use.keys() - desired.keys():
            with tree.source(sources[uuid]):
                desired = {n: desired[n] for n in desired if n in before[uuid] or n in held[uuid]}
                tree.update_inventory(uuid, desired)
        tree.update_inventory(uuid, {**desired, **in_use})
    return frozenset(held)


def _has_room(record: Mapping[str, object] | None, held: Sequence[int]) -> bool:
    """Return whether Placement would accept these amounts again, as in a reshape."""
    if record is None:
        return False
    full = Inventory.from_dict(record).with_defaults(None)
    return max(held) <= (full.max_unit or 0) and sum(held) <= full.capacity
