"""Pure: makes a provider tree say what was reported of a host; the only writer of children.

What is ours?  A provider whose UUID is the one that this driver makes from the root's
and the provider's name: that can be seen after a restart, without any state, and no
other driver's children on the same root have one.  And what Nova made on this host before
(:mod:`drivers.libvirt.tree.predecessors`).  Only such are removed, once nothing reports them.
Another provider that has a reported name is taken as it is, and is not ours to remove.

What moves?  A class that leaves the root for its cells or devices, what was on cells
that are gone, and what was on a device that has another provider now.  That takes a
reshape, in which the allocations go along.  What else vanishes is left to the agent: it
drains what is in use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from drivers.errors import ReshapeNeeded
from drivers.libvirt.devices.pools import is_group_of
from drivers.libvirt.tree.moves import Move, move_allocations
from drivers.libvirt.tree.predecessors import TECHNIQUES, made_by_nova
from drivers.libvirt.tree.renaming import inherited, is_cell_of_any, is_same_thing, predecessor
from drivers.libvirt.tree.reported import (
    CELLS,
    ENCRYPTION,
    HOST,
    MDEV,
    PCI,
    TRAITS,
    HostReport,
    Reported,
)
from reportclient.model import Allocations, Inventory
from reportclient.provider_tree import ProviderTree, own_uuid

LONGEST_NAME = 200
"""Characters of a provider's name that Placement takes."""


def child_uuid(root: str, name: str) -> str:
    """The UUID of this driver's provider ``name`` below the root with the UUID ``root``."""
    return own_uuid(root, f"libvirt {name}")


def write_report(
    tree: ProviderTree,
    nodename: str,
    report: HostReport,
    allocations: Allocations | None,
    homes: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """Edit ``tree``; ``allocations`` as ``update_provider_tree`` gets them.

    ``homes`` are the cells of guests that are bound to one, by the guest's UUID.

    Returns what could not be written and why, by provider name.

    :raises ReshapeNeeded: inventory moves, and ``allocations`` is ``None``.
    :raises ReshapeFailed: the allocations have no room where their inventory went.
    """
    root = tree.data(nodename).uuid
    reported, problems = _writable(tree, root, report)
    gone = _going(tree, nodename, report, reported)
    moving = _Moving(tree, root, report, gone)
    before = {uuid: tree.data(uuid).inventory for uuid in tree.get_provider_uuids(root)}
    if allocations is None and (what := moving.words()):
        raise ReshapeNeeded(f"{', '.join(what)} moves to other providers of {nodename}")
    placed = _place_all(tree, root, report, reported, gone)
    _write_root(tree, root, report)
    if allocations is not None:
        cells = {number: placed.get(cell.name, "") for number, cell in report.cells.items()}
        where = {who: cells.get(number, "") for who, number in (homes or {}).items()}
        move_allocations(tree, moving.moves(placed), allocations, where)
        used = _keep_used(tree, before, allocations, gone)
        gone = [uuid for uuid in gone if uuid not in used]
    for uuid in gone:
        _remove(tree, uuid)
    for source in report.silent:
        tree.silent(source)
    return problems


def _write_root(tree: ProviderTree, root: str, report: HostReport) -> None:
    with tree.source(HOST):
        tree.update_inventory(root, report.inventory)
    there = {trait for trait, has in report.traits.items() if has}
    with tree.source(TRAITS):
        tree.update_traits(root, tree.data(root).traits - report.traits.keys() | there)
        tree.add_traits(root, *there)


def _going(
    tree: ProviderTree, node: str, report: HostReport, reported: Mapping[str, Reported]
) -> list[str]:
    """What is not there any more; of sources that can't say only what has another name now.

    What the host's parts were called before it was renamed is theirs all the same.
    """
    unsure = report.silent | report.unsure
    names = [one.name for one in reported.values() if not tree.exists(one.name)]
    return [
        uuid
        for uuid in _unreported(tree, tree.data(node).uuid, reported)
        if not unsure & _sources_of(name := tree.data(uuid).name) or _is_any_of(names, node, name)
    ]


def _sources_of(name: str) -> frozenset[str]:
    """Who may have reported a provider that is called so; the host may have been renamed."""
    if is_cell_of_any(name):
        return frozenset({CELLS})
    return frozenset({ENCRYPTION} if name.endswith(TECHNIQUES) else {PCI, MDEV})


def _writable(
    tree: ProviderTree, root: str, report: HostReport
) -> tuple[dict[str, Reported], dict[str, str]]:
    """By name, cells first; and what is wrong with the others."""
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


def _unreported(tree: ProviderTree, root: str, reported: Mapping[str, Reported]) -> list[str]:
    """UUIDs of own providers, and Nova's, that nothing reports any more, children first."""
    wanted = {child_uuid(root, name) for name in reported}
    below = [tree.data(uuid) for uuid in tree.get_provider_uuids(root)[1:]]
    return [
        data.uuid
        for data in reversed(below)
        if data.name not in reported
        and data.uuid not in wanted
        and (data.uuid == child_uuid(root, data.name) or made_by_nova(data))
    ]


def _place_all(
    tree: ProviderTree,
    root: str,
    report: HostReport,
    reported: Mapping[str, Reported],
    gone: Sequence[str],
) -> dict[str, str]:
    """UUIDs by name, of providers that are there now, with what they carry."""
    node = tree.data(root).name
    placed: dict[str, str] = {}
    for one in reported.values():
        cell = report.cells.get(-1 if one.cell is None else one.cell)
        above = root if cell is None or cell is one else placed.get(cell.name, root)
        before = None if tree.exists(one.name) else predecessor(tree, node, one.name, gone)
        old = None if before is None else tree.data(before)
        with tree.source(one.source):
            placed[one.name] = uuid = _place(tree, root, above, one.name)
            inventory = {k: v for k, v in one.inventory.items() if v["total"] > 0}
            tree.update_inventory(uuid, inventory if old is None else inherited(inventory, old))
            tree.say_traits(uuid, one.traits)
        if old is not None:
            tree.add_traits(uuid, *old.traits - one.traits)
            tree.add_aggregates(uuid, *old.aggregates)
    return placed


def _is_any_of(names: Iterable[str], node: str, old: str) -> bool:
    return any(is_same_thing(node, name, old) for name in names)


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
    before: Mapping[str, Mapping[str, Any]],
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
        wished = {} if uuid in gone else tree.data(uuid).inventory
        kept = {
            name: before[uuid][name]
            for name, held in amounts[uuid].items()
            if name in before[uuid] and not _holds(wished.get(name), held)
        }
        tree.update_inventory(uuid, {**wished, **kept})
    return frozenset(amounts)


def _amounts(allocations: Allocations) -> dict[str, dict[str, list[int]]]:
    """What each consumer has, by provider and class."""
    found: dict[str, dict[str, list[int]]] = {}
    for held in allocations.values():
        for uuid, part in held["allocations"].items():
            for name, amount in part["resources"].items():
                found.setdefault(uuid, {}).setdefault(name, []).append(amount)
    return found


def _holds(record: Mapping[str, Any] | None, held: Sequence[int]) -> bool:
    """Whether Placement would take these amounts once more, which a reshape asks it to."""
    if record is None:
        return False
    full = Inventory.from_dict(record).over(None)
    assert full.max_unit is not None and full.allocation_ratio is not None
    room = (full.total - (full.reserved or 0)) * full.allocation_ratio
    return max(held) <= full.max_unit and sum(held) <= room


def _remove(tree: ProviderTree, uuid: str) -> None:
    tree.adopt(uuid)  # Nova's, from before: nobody else's are here
    if tree.get_provider_uuids(uuid) == [uuid]:
        tree.remove(uuid)
    else:
        # A stranger's provider is below: ours has to stay, with nothing in it.
        tree.update_inventory(uuid, {})


class _Moving:
    """What moves, as the tree was before it is edited."""

    def __init__(
        self, tree: ProviderTree, root: str, report: HostReport, gone: Iterable[str]
    ) -> None:
        self._root = root
        self._report = report
        self._leaving = frozenset(tree.data(root).inventory) - frozenset(report.inventory)
        self._gone = {uuid: frozenset(tree.data(uuid).inventory) for uuid in gone}
        self._node = tree.data(root).name
        there = (tree.data(uuid) for uuid in tree.get_provider_uuids(root)[1:])
        self._had = {data.name: frozenset(data.inventory) for data in there}
        self._names = {uuid: tree.data(uuid).name for uuid in self._gone}

    def words(self) -> list[str]:
        """Classes that move."""
        sources = [self._host_wide(), *({self._root: one} for one in self._to_devices())]
        sources += [{uuid: classes} for uuid, classes, _ in self._replaced()]
        return sorted({name for found in sources for classes in found.values() for name in classes})

    def moves(self, placed: Mapping[str, str]) -> Iterator[Move]:
        """With the UUIDs of providers that are ``placed`` by now."""
        cells = tuple(placed[c.name] for c in self._report.cells.values() if c.name in placed)
        yield from self._renamed_cells(placed, cells)
        if sources := self._host_wide():
            yield Move(sources, cells if self._report.cells else (self._root,))
        for classes in self._to_devices():
            devices = (
                placed[one.name]
                for one in self._report.children
                if one.name in placed and classes & one.from_root & one.inventory.keys()
            )
            yield Move({self._root: classes}, tuple(dict.fromkeys(devices)))
        for uuid, classes, names in self._replaced():
            yield Move({uuid: classes}, tuple(placed[name] for name in names if name in placed))

    def _replaced(self) -> list[tuple[str, frozenset[str], list[str]]]:
        """Providers that are gone, one class of each, and who has it instead."""
        found = []
        for uuid, classes in self._gone.items():
            for name in sorted(classes):
                names = self._heirs(self._names[uuid], name)
                # Where heirs have the class already, this is what is left of an earlier change.
                if names and not any(name in self._had.get(one, ()) for one in names):
                    found.append((uuid, frozenset({name}), names))
        return found

    def _heirs(self, old: str, resource_class: str) -> list[str]:
        """Who has the same devices under that class now."""
        return [
            one.name
            for one in self._report.children
            if resource_class in one.inventory
            and (
                old in one.replaces
                or is_same_thing(self._node, one.name, old)
                or (one.replaces and is_group_of(self._node, resource_class, old))
            )
        ]

    def _renamed_cells(self, placed: Mapping[str, str], cells: tuple[str, ...]) -> Iterator[Move]:
        """Each to the one that it is; what has no room there to the others."""
        for cell in self._report.cells.values():
            for uuid, classes in self._gone.items():
                if cell.name in placed and is_same_thing(self._node, cell.name, self._names[uuid]):
                    mine = placed[cell.name]
                    others = tuple(one for one in cells if one != mine)
                    yield Move({uuid: classes & cell.inventory.keys()}, (mine, *others))

    def _host_wide(self) -> dict[str, frozenset[str]]:
        """What cells and root hand to each other, by the provider that gives it up."""
        cells = self._report.cells.values()
        kept = (one.inventory for one in cells) if cells else (self._report.inventory,)
        taken = frozenset(name for inventory in kept for name in inventory)
        sources = {self._root: self._leaving if cells else frozenset(), **self._gone}
        return {uuid: taken & classes for uuid, classes in sources.items() if taken & classes}

    def _to_devices(self) -> list[frozenset[str]]:
        classes = {
            name
            for one in self._report.children
            for name in one.from_root & one.inventory.keys() & self._leaving
        }
        return [frozenset({name}) for name in sorted(classes)]
