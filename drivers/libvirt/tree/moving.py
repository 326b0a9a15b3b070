"""Pure: what has to move together with its allocations, and what can be reported before that.

Classes move that leave the root for its cells or devices, that were on cells of which others have
a part now, or on a device that has another provider now.  Everything else that is gone is left to
the agent, which drains what is in use.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from drivers.libvirt.devices.pools import is_group_of
from drivers.libvirt.tree.reported import HostReport, Records, ReportedProvider, total_of
from drivers.reallocate import Move
from reportclient.model import ProviderData
from reportclient.provider_tree import ProviderTree


@dataclass(frozen=True, slots=True)
class Moving:
    """The tree as Placement has it, and the report to write.

    ``reported``: the children that can be written, by name, ``uuids`` their UUIDs; ``unreported``:
    those that nothing reports.
    """

    tree: ProviderTree
    root: ProviderData
    report: HostReport
    reported: Mapping[str, ReportedProvider]
    uuids: Mapping[str, str]
    unreported: Sequence[ProviderData]

    def transfers(self) -> tuple[Move, ...]:
        """Return the moves in the order in which they are done; targets are names."""
        moves = (self._host_wide(), self._to_devices(), self._replaced())
        return tuple(move for group in moves for move in group)

    def before_transfers(
        self, transfers: Iterable[Move]
    ) -> tuple[HostReport, dict[str, ReportedProvider]]:
        """Return the report and the children that can be written before the transfers.

        Both ends of a move stay as they are; a child that is yet to be created for one is left out.
        """
        held: dict[str, frozenset[str]] = {}
        for move in transfers:
            ends = {**move.sources, **dict.fromkeys(move.targets, move.classes)}
            for end, classes in ends.items():
                held[end] = held.get(end, frozenset()) | classes
        root, children = self.root, dict[str, ReportedProvider]()
        for name, child in self.reported.items():
            existing = self._existing(name)
            if name not in held:
                children[name] = child
            elif existing is not None:
                children[name] = replace(
                    child, inventory=_keep_held(child.inventory, existing.inventory, held[name])
                )
        classes = held.get(root.uuid, frozenset()) | held.get(root.name, frozenset())
        inventory = _keep_held(self.report.inventory, root.inventory, classes)
        return replace(self.report, inventory=inventory), children

    def _existing(self, name: str) -> ProviderData | None:
        """Return a reported child as Placement has it; ``None`` if it is to be created."""
        uuid = self.uuids.get(name, name)
        return self.tree.data(uuid) if self.tree.exists(uuid) else None

    @property
    def _cells(self) -> list[ReportedProvider]:
        return [cell for cell in self.report.cells.values() if cell.name in self.reported]

    def _host_wide(self) -> Iterator[Move]:
        """Yield the move between cells and root, or from cells to other cells."""
        cells = self.report.cells.values()
        inventories = [cell.inventory for cell in cells] or [self.report.inventory]
        taken = frozenset(name for inventory in inventories for name in inventory)
        sources = {old.uuid: taken & old.inventory.keys() for old in self.unreported}
        if cells and self._is_missing():
            sources.clear()
        if cells:
            sources = {self.root.uuid: taken & self._leaving, **sources}
            sources.update(dict.fromkeys(self._divided(), taken))
        moving = {uuid: classes for uuid, classes in sources.items() if classes}
        if moving:
            yield Move(moving, tuple(c.name for c in self._cells) if cells else (self.root.name,))

    def _is_missing(self) -> bool:
        """Return whether no cell has got half of anything that unreported providers had.

        Then it is not divided otherwise, but gone, such as memory that was removed or is late.
        """
        old, more = Counter[str](), Counter[str]()
        for provider in self.unreported:
            old.update({key: record["total"] for key, record in provider.inventory.items()})
        for cell in self._cells:
            existing = self._existing(cell.name)
            before = existing.inventory if existing else {}
            more.update({key: total_of(cell.inventory, key) - total_of(before, key) for key in old})
        return not any(2 * more[key] >= old[key] for key in old)

    def _divided(self) -> Iterator[str]:
        """Yield the UUIDs of cells that shrink while a cell that is still empty gets the class."""
        existing = {cell.name: self._existing(cell.name) for cell in self._cells}
        old = {name: it for name, it in existing.items() if it is not None and it.inventory}
        gained = {key for cell in self._cells if cell.name not in old for key in cell.inventory}
        for name, before in old.items():
            now = self.reported[name].inventory
            if any(total_of(now, key) < total_of(before.inventory, key) for key in gained):
                yield before.uuid

    @property
    def _leaving(self) -> frozenset[str]:
        return frozenset(self.root.inventory) - frozenset(self.report.inventory)

    def _to_devices(self) -> Iterator[Move]:
        for name in sorted(self._leaving):
            devices = [child for child in self.report.children if name in child.from_root]
            with_class = [device.name for device in devices if name in device.inventory]
            if with_class:
                targets = tuple(device for device in with_class if device in self.reported)
                yield Move({self.root.uuid: frozenset({name})}, targets)

    def _replaced(self) -> Iterator[Move]:
        """Yield moves from a removed provider to those that have its devices now."""
        for old in self.unreported:
            for name in sorted(old.inventory):
                successors = [
                    child.name for child in self.report.children if self._inherits(child, old, name)
                ]
                # If a successor has the class, the old inventory is left from an earlier change.
                existing = filter(None, map(self._existing, successors))
                has_it_already = any(name in each.inventory for each in existing)
                if successors and not has_it_already:
                    targets = tuple(each for each in successors if each in self.reported)
                    yield Move({old.uuid: frozenset({name})}, targets)

    def _inherits(self, child: ReportedProvider, old: ProviderData, resource_class: str) -> bool:
        """Return whether a child has the devices of an old provider, under the same class."""
        return resource_class in child.inventory and (
            old.name in {child.name, *child.replaces}
            or (bool(child.replaces) and is_group_of(self.root.name, resource_class, old.name))
        )


def _keep_held(wanted: Records, current: Records, held: Iterable[str]) -> Records:
    """Return the wanted records, but for ``held`` classes the current ones."""
    unchanged = {name: current[name] for name in held if name in current}
    return {name: record for name, record in wanted.items() if name not in held} | unchanged
