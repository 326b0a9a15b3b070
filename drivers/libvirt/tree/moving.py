"""Pure: what has to move along with its allocations, and what can be reported before it does.

A class that leaves the root for its cells or devices moves, what was on cells that are gone,
and what was on a device that has another provider now.  What else vanishes is left to the
agent: it drains what is in use.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from drivers.libvirt.devices.pools import is_group_of
from drivers.libvirt.tree.names import child_uuid, is_same_thing
from drivers.libvirt.tree.reported import HostReport, Records, Reported
from drivers.reallocate import Move
from reportclient.model import ProviderData
from reportclient.provider_tree import ProviderTree


@dataclass(frozen=True, slots=True)
class Moving:
    """The tree as Placement has it, and the report that it shall say.

    ``reported`` are the children that can be written, ``gone`` those that nothing reports.
    """

    tree: ProviderTree
    root: ProviderData
    report: HostReport
    reported: Mapping[str, Reported]
    gone: Sequence[ProviderData]

    def transfers(self) -> tuple[Move, ...]:
        """In the order in which they are done; targets by name."""
        moves = (self._renamed_cells(), self._host_wide(), self._to_devices(), self._replaced())
        return tuple(one for each in moves for one in each)

    def before(self, transfers: Iterable[Move]) -> tuple[HostReport, dict[str, Reported]]:
        """The report, and its children, as far as they don't wait for the transfers.

        Both ends of what moves stay as they are; what is yet to be made for it is not made.
        """
        held: dict[str, frozenset[str]] = {}
        for each in transfers:
            ends = {**each.sources, **dict.fromkeys(each.targets, each.classes)}
            for end, classes in ends.items():
                held[end] = held.get(end, frozenset()) | classes
        root, stays = self.root, dict[str, Reported]()
        for name, one in self.reported.items():
            there = self._there(name)
            if name not in held:
                stays[name] = one
            elif there is not None:
                stays[name] = replace(
                    one, inventory=_as_it_is(one.inventory, there.inventory, held[name])
                )
        classes = held.get(root.uuid, frozenset()) | held.get(root.name, frozenset())
        inventory = _as_it_is(self.report.inventory, root.inventory, classes)
        return replace(self.report, inventory=inventory), stays

    def _there(self, name: str) -> ProviderData | None:
        """The provider that is called so, or was until somebody renamed it."""
        own = child_uuid(self.root.uuid, name)
        uuid = next((each for each in (name, own) if self.tree.exists(each)), None)
        return None if uuid is None else self.tree.data(uuid)

    @property
    def _cells(self) -> list[Reported]:
        return [one for one in self.report.cells.values() if one.name in self.reported]

    def _renamed_cells(self) -> Iterator[Move]:
        """Each to the one that it is; what has no room there to the others."""
        for cell in self._cells:
            for old in self.gone:
                if is_same_thing(self.root.name, cell.name, old.name):
                    others = (one.name for one in self._cells if one is not cell)
                    classes = frozenset(old.inventory.keys() & cell.inventory.keys())
                    yield Move({old.uuid: classes}, (cell.name, *others))

    def _host_wide(self) -> Iterator[Move]:
        """Return moves between cells and root, by source."""
        cells = self.report.cells.values()
        kept = [one.inventory for one in cells] or [self.report.inventory]
        taken = frozenset(name for inventory in kept for name in inventory)
        leaving = self._leaving if cells else frozenset()
        sources = {self.root.uuid: leaving, **{old.uuid: old.inventory.keys() for old in self.gone}}
        given = {uuid: taken & classes for uuid, classes in sources.items() if taken & classes}
        if given:
            yield Move(given, tuple(c.name for c in self._cells) if cells else (self.root.name,))

    @property
    def _leaving(self) -> frozenset[str]:
        return frozenset(self.root.inventory) - frozenset(self.report.inventory)

    def _to_devices(self) -> Iterator[Move]:
        for name in sorted(self._leaving):
            devices = [one for one in self.report.children if name in one.from_root]
            having = [one.name for one in devices if name in one.inventory]
            if having:
                targets = tuple(one for one in having if one in self.reported)
                yield Move({self.root.uuid: frozenset({name})}, targets)

    def _replaced(self) -> Iterator[Move]:
        """Yield moves of a removed provider's classes to those that have its devices now."""
        for old in self.gone:
            for name in sorted(old.inventory):
                heirs = [one.name for one in self.report.children if self._inherits(one, old, name)]
                # Where heirs have the class already, this is what is left of an earlier change.
                if heirs and not any(name in self._had(one) for one in heirs):
                    targets = tuple(one for one in heirs if one in self.reported)
                    yield Move({old.uuid: frozenset({name})}, targets)

    def _had(self, name: str) -> Records:
        return self.tree.data(name).inventory if self.tree.exists(name) else {}

    def _inherits(self, one: Reported, old: ProviderData, resource_class: str) -> bool:
        """Whether it has the same devices under that class now."""
        return resource_class in one.inventory and (
            old.name in one.replaces
            or is_same_thing(self.root.name, one.name, old.name)
            or (bool(one.replaces) and is_group_of(self.root.name, resource_class, old.name))
        )


def _as_it_is(wanted: Records, there: Records, held: Iterable[str]) -> Records:
    """Return the wanted records, with the present ones of classes that are ``held``."""
    kept = {name: there[name] for name in held if name in there}
    return {name: record for name, record in wanted.items() if name not in held} | kept
