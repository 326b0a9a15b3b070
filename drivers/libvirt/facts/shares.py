"""Pure: CPUs and memory, of the whole host or of each of its NUMA cells, as inventory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from drivers.guest_cpus import GuestCpus
from drivers.inventory import (
    MEMORY_MB,
    PCPU,
    VCPU,
    CurrentInventory,
    InventoryPolicy,
    over_reserved,
    root_inventory,
)
from drivers.libvirt.facts.cells import Cell
from drivers.libvirt.facts.memory import OFF, PAGES, ReservedPages, hugepages, memory_mb, shared_out


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """What the operator decided about hugepages."""

    report_hugepages: str = OFF
    reserved_pages: tuple[ReservedPages, ...] = ()

    def reserved_of(self, cells: Iterable[Cell]) -> dict[int, int]:
        """Reserved pages of these cells by size in KiB."""
        numbers = {cell.number for cell in cells}
        found: dict[int, int] = {}
        for one in self.reserved_pages:
            if one.cell in numbers:
                found[one.size] = found.get(one.size, 0) + one.count
        return found


@dataclass(frozen=True, slots=True)
class Share:
    """What one provider reports: amounts by class, pages by size, and its own policy."""

    amounts: Mapping[str, int]
    policy: InventoryPolicy
    pages: Mapping[int, int] = field(default_factory=dict)
    reserved_pages: Mapping[int, int] = field(default_factory=dict)

    def inventory(self, current: CurrentInventory) -> dict[str, dict[str, Any]]:
        """Records by class; ``current`` is what Placement knows."""
        return {
            **root_inventory(self.amounts, self.policy, current),
            **hugepages(self.pages, self.reserved_pages, current),
        }

    def over_reserved(self) -> dict[str, str]:
        """Classes of which more is reserved than there is, and that in words."""
        return over_reserved(self.amounts, self.policy)


def whole_host(
    cells: Sequence[Cell],
    cpus: GuestCpus,
    memory_kib: int,
    policy: InventoryPolicy,
    memory: MemoryPolicy,
) -> Share:
    """All of it, for the root."""
    pages: dict[int, int] = {}
    for cell in cells:
        for size, count in cell.pages.items():
            pages[size] = pages.get(size, 0) + count
    huge_kib = sum(cell.huge_kib for cell in cells)
    amounts = _cpus(cpus, cpus.shared | cpus.dedicated)
    amounts[MEMORY_MB] = memory_mb(memory_kib, huge_kib, memory.report_hugepages)
    return _share(amounts, policy, pages, memory, cells)


def of_cells(
    cells: Sequence[Cell],
    cpus: GuestCpus,
    memory_kib: int,
    policy: InventoryPolicy,
    memory: MemoryPolicy,
) -> dict[int, Share]:
    """Each cell's share of it, by the cell's number; what is reserved is shared out too.

    The cells' own amounts of memory only say how the host's is divided: on machines
    that initialise memory lazily they grow for hours, and the host's does not.
    """
    kib = shared_out(memory_kib, [cell.memory_kib for cell in cells])
    amounts = [_cpus(cpus, cell.cpus) for cell in cells]
    for cell, mine, part in zip(cells, amounts, kib, strict=True):
        mine[MEMORY_MB] = memory_mb(part, cell.huge_kib, memory.report_hugepages)
    own_cpus = shared_out(policy.reserved_cpus, [mine[VCPU] for mine in amounts])
    own_memory = shared_out(policy.reserved_memory_mb, [mine[MEMORY_MB] for mine in amounts])
    return {
        cell.number: _share(
            mine,
            replace(policy, reserved_cpus=own_cpus[n], reserved_memory_mb=own_memory[n]),
            cell.pages,
            memory,
            [cell],
        )
        for n, (cell, mine) in enumerate(zip(cells, amounts, strict=True))
    }


def _share(
    amounts: Mapping[str, int],
    policy: InventoryPolicy,
    pages: Mapping[int, int],
    memory: MemoryPolicy,
    cells: Iterable[Cell],
) -> Share:
    if memory.report_hugepages != PAGES:
        return Share(amounts, policy)
    return Share(amounts, policy, pages, memory.reserved_of(cells))


def _cpus(cpus: GuestCpus, among: frozenset[int]) -> dict[str, int]:
    return {VCPU: len(cpus.shared & among), PCPU: len(cpus.dedicated & among)}
