"""Pure: makes a provider tree say what was reported of a host; the only writer of children.

What is ours?  A provider whose UUID is the one that this driver makes from the root's
and the provider's name: that can be seen after a restart, without any state, and no
other driver's children on the same root have one.  And what Nova made on this host before
(:mod:`drivers.libvirt.tree.names`).  Only such are removed, once nothing reports them.
Another provider that has a reported name is taken as it is, and is not ours to remove.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from drivers.errors import ReshapeNeeded
from drivers.libvirt.tree.moving import Moving
from drivers.libvirt.tree.names import child_uuid, earlier, is_same_thing, made_by_nova, sources_of
from drivers.libvirt.tree.reported import HOST, OF_THE_ROOT, TRAITS, HostReport, Records, Reported
from drivers.reallocate import move_allocations
from reportclient.model import Allocations, Inventory, ProviderData
from reportclient.provider_tree import ProviderTree

LONGEST_NAME = 200
"""Characters of a provider's name that Placement takes."""


def write_report(
    tree: ProviderTree,
    nodename: str,
    report: HostReport,
    allocations: Allocations | None,
    guest_cells: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """Edit ``tree``; ``allocations`` as ``update_provider_tree`` gets them.

    ``guest_cells`` are the cells of guests that are bound to one, by the guest's UUID.

    Returns what could not be written and why, by provider name.

    :raises ReshapeNeeded: inventory moves, and ``allocations`` is ``None``.  What does not
        depend on that is in the tree by then.
    :raises ReshapeFailed: the allocations have no room where their inventory went.
    """
    root = tree.data(nodename)
    reported, problems = _writable(tree, root.uuid, report)
    gone = _going(tree, root, report, reported)
    moving = Moving(tree, root, report, reported, gone)
    transfers = moving.transfers()
    waits = bool(transfers) and allocations is None
    if waits:
        report, reported = moving.before(transfers)
        giving = {uuid for one in transfers for uuid in one.sources}
        gone = [one for one in gone if one.uuid not in giving]
    before = {uuid: tree.data(uuid).inventory for uuid in tree.get_provider_uuids(root.uuid)}
    placed = _place_all(tree, root, report, reported, gone)
    _write_root(tree, root.uuid, report)
    if allocations is not None:
        uuids = {root.name: root.uuid, **placed}
        moves = [replace(one, targets=tuple(uuids[n] for n in one.targets)) for one in transfers]
        cells = {number: placed.get(cell.name, "") for number, cell in report.cells.items()}
        where = {who: cells.get(number, "") for who, number in (guest_cells or {}).items()}
        move_allocations(tree, moves, allocations, where)
        used = _keep_used(tree, before, allocations, {one.uuid for one in gone})
        gone = [one for one in gone if one.uuid not in used]
    for one in gone:
        _remove(tree, one)
    for source in report.silent:
        tree.silent(source)
    if waits:
        classes = sorted({name for one in transfers for name in one.classes})
        raise ReshapeNeeded(f"{', '.join(classes)} moves to other providers of {nodename}")
    return problems


def _write_root(tree: ProviderTree, root: str, report: HostReport) -> None:
    for source in dict.fromkeys((*OF_THE_ROOT, *report.whose.values())):
        records = report.inventory.items()
        mine = {name: one for name, one in records if report.whose.get(name, HOST) == source}
        with tree.source(source):
            tree.update_inventory(root, mine)
    with tree.source(TRAITS):
        tree.remove_traits(root, *(name for name, has in report.traits.items() if not has))
        tree.add_traits(root, *(name for name, has in report.traits.items() if has))


def _going(
    tree: ProviderTree, root: ProviderData, report: HostReport, reported: Mapping[str, Reported]
) -> list[ProviderData]:
    """Return children that are gone; of silent sources only those with a new name.

    What the host's parts were called before it was renamed is theirs all the same.
    """
    unsure = report.silent | report.unsure
    new = [one.name for one in reported.values() if not tree.exists(one.name)]
    return [
        data
        for data in _unreported(tree, root.uuid, reported)
        if not unsure & sources_of(data.name)
        or any(is_same_thing(root.name, name, data.name) for name in new)
    ]


def _writable(
    tree: ProviderTree, root: str, report: HostReport
) -> tuple[dict[str, Reported], dict[str, str]]:
    """Return writable children by name, cells first, and errors of the others."""
    inside = set(tree.get_provider_uuids(root))
    good: dict[str, Reported] = {}
    problems: dict[str, str] = {}
    for one in (*report.cells.values(), *report.children):
        if one.name in good:
            problems[one.name] = "is reported twice: the first one counts"
        elif len(one.name) > LONGEST_NAME:
            problems[one.name] = f"a provider's name has at most {LONGEST_NAME} characters"
        elif tree.exists(one.name) and tree.data(one.name).uuid not in inside:
            problems[one.name] = "is the name of another host's provider: rename that one"
        else:
            good[one.name] = one
    return good, problems


def _unreported(
    tree: ProviderTree, root: str, reported: Mapping[str, Reported]
) -> Iterable[ProviderData]:
    """Own providers, and Nova's, that nothing reports any more, children first."""
    wanted = {child_uuid(root, name) for name in reported}
    for uuid in reversed(tree.get_provider_uuids(root)[1:]):
        data = tree.data(uuid)
        is_ours = uuid == child_uuid(root, data.name) or made_by_nova(data)
        if is_ours and data.name not in reported and uuid not in wanted:
            yield data


def _place_all(
    tree: ProviderTree,
    root: ProviderData,
    report: HostReport,
    reported: Mapping[str, Reported],
    gone: Sequence[ProviderData],
) -> dict[str, str]:
    """UUIDs by name, of providers that are there now, with what they carry."""
    placed: dict[str, str] = {}
    for one in reported.values():
        cell = report.cells.get(-1 if one.cell is None else one.cell)
        above = (
            root.uuid if cell is None or cell.name == one.name else placed.get(cell.name, root.uuid)
        )
        old = None if tree.exists(one.name) else earlier(root.name, one.name, gone)
        with tree.source(one.source):
            placed[one.name] = uuid = _place(tree, root.uuid, above, one.name)
            inventory = {k: v for k, v in one.inventory.items() if v["total"] > 0}
            tree.update_inventory(uuid, inventory if old is None else _inherited(inventory, old))
            tree.set_own_traits(uuid, one.traits)
        if old is not None:
            tree.add_traits(uuid, *old.traits - one.traits)
            tree.add_aggregates(uuid, *old.aggregates)
    return placed


def _inherited(inventory: Records, old: ProviderData) -> Records:
    """Where it says nothing of what is reserved with what the old one had."""
    had = {name: int(record.get("reserved") or 0) for name, record in old.inventory.items()}
    return {
        name: {"reserved": min(had.get(name, 0), record["total"]), **record}
        for name, record in inventory.items()
    }


def _place(tree: ProviderTree, root: str, parent: str, name: str) -> str:
    """The provider's UUID; it is created, moved, or given its name back if need be."""
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
    """What is still in use and does not move stays for now as it is, or it would keep all from
    moving: a reshape is done whole or not at all.  The agent drains it from the next period on.
    Providers that are ``gone`` keep nothing else, or what moved would be there twice.

    Returns the UUIDs of such providers.
    """
    amounts = _amounts(allocations)
    for uuid in before.keys() & amounts.keys():
        desired = {} if uuid in gone else tree.data(uuid).inventory
        kept = {
            name: before[uuid][name]
            for name, held in amounts[uuid].items()
            if name in before[uuid] and not _holds(desired.get(name), held)
        }
        tree.update_inventory(uuid, {**desired, **kept})
    return frozenset(amounts)


def _amounts(allocations: Allocations) -> dict[str, dict[str, list[int]]]:
    """Return the amounts of each consumer, by provider and class."""
    amounts: dict[str, dict[str, list[int]]] = {}
    for held in allocations.values():
        for uuid, part in held["allocations"].items():
            for name, amount in part["resources"].items():
                amounts.setdefault(uuid, {}).setdefault(name, []).append(amount)
    return amounts


def _holds(record: Mapping[str, object] | None, held: Sequence[int]) -> bool:
    """Whether Placement would take these amounts once more, which a reshape asks it to."""
    if record is None:
        return False
    full = Inventory.from_dict(record).with_defaults(None)
    assert full.max_unit is not None
    return max(held) <= full.max_unit and sum(held) <= full.capacity


def _remove(tree: ProviderTree, provider: ProviderData) -> None:
    uuid = provider.uuid
    tree.adopt(uuid)  # Nova's, from before: nobody else's are here
    if tree.get_provider_uuids(uuid) == [uuid]:
        tree.remove(uuid)
    else:
        # Somebody else's provider is below: ours has to stay, with nothing in it.
        tree.update_inventory(uuid, {})
