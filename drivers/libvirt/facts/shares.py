"""Pure: CPUs and memory, of the whole host or of each of its NUMA cells, as inventory."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

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
from drivers.libvirt.tree.reported import Records


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """What the operator decided about hugepages."""

    report_hugepages: str = OFF
    reserved_pages: tuple[ReservedPages, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """What one provider reports: amounts by class, pages by size, and its own policy."""

    amounts: Mapping[str, int]
    policy: InventoryPolicy
    pages: Mapping[int, int] = field(default_factory=dict)
    reserved_pages: Mapping[int, int] = field(default_factory=dict)

    def inventory(self, current: CurrentInventory) -> Records:
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
    """All of it, for the root; also CPUs that are in no cell."""
    amounts = _amounts(cells, cpus, cpus.shared | cpus.dedicated, memory_kib, memory)
    return _share(cells, amounts, policy, memory)


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
    amounts = [
        _amounts([c], cpus, c.cpus, part, memory) for c, part in zip(cells, kib, strict=True)
    ]
    own_cpus = shared_out(policy.reserved_cpus, [mine[VCPU] for mine in amounts])
    own_memory = shared_out(policy.reserved_memory_mb, [mine[MEMORY_MB] for mine in amounts])
    policies = (
        replace(policy, reserved_cpus=of_cpus, reserved_memory_mb=of_memory)
        for of_cpus, of_memory in zip(own_cpus, own_memory, strict=True)
    )
    return {
        cell.number: _share([cell], mine, own, memory)
        for cell, mine, own in zip(cells, amounts, policies, strict=True)
    }


def _amounts(
    cells: Sequence[Cell], cpus: GuestCpus, among: frozenset[int], kib: int, memory: MemoryPolicy
) -> dict[str, int]:
    huge_kib = sum(cell.huge_kib for cell in cells)
    return {
        VCPU: len(cpus.shared & among),
        PCPU: len(cpus.dedicated & among),
        MEMORY_MB: memory_mb(kib, huge_kib, memory.report_hugepages),
    }


def _share(
    cells: Sequence[Cell],
    amounts: Mapping[str, int],
    policy: InventoryPolicy,
    memory: MemoryPolicy,
) -> Share:
    if memory.report_hugepages != PAGES:
        return Share(amounts, policy)
    pages: Counter[int] = Counter()
    reserved: Counter[int] = Counter()
    for cell in cells:
        pages.update(cell.pages)
        for one in memory.reserved_pages:
            reserved[one.size] += one.count if one.cell == cell.number else 0
    return Share(amounts, policy, pages, reserved)
