"""Pure: CPUs, memory and hugepages of the host, or of each NUMA cell, as inventory."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
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
    record,
    root_inventory,
)
from drivers.libvirt.facts.topology import Cell, pages_told
from drivers.libvirt.tree.reported import Records
from reportclient.model import MAX_INT

HUGEPAGES = "CUSTOM_HUGEPAGES_"

OFF, PAGES, MEMORY = "off", "pages", "memory"
"""Values of [libvirt] report_hugepages."""

_LETTERS = "KMGTPE"
_SIZE = re.compile(r"(\d{1,9})([KMGT]?)(?:I?B)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ReservedPages:
    """A value of reserved_huge_pages; ``size`` in KiB."""

    cell: int
    size: int
    count: int


def reserved_pages(records: Sequence[Mapping[str, str]]) -> tuple[ReservedPages, ...]:
    """Parse ``node:0,size:2048,count:64``, the size in KiB or as ``2MB``.

    :raises ValueError: naming the option and the value that is wrong.
    """
    return tuple(map(_reserved_pages, records))


def _reserved_pages(record: Mapping[str, str]) -> ReservedPages:
    if record.keys() == {"node", "size", "count"}:
        cell, size, count = (record[key].strip().upper() for key in ("node", "size", "count"))
        parts = _SIZE.fullmatch(size)
        if parts and cell.isdecimal() and count.isdecimal():
            kib = int(parts[1]) * 1024 ** "KMGT".index(parts[2] or "K")
            return ReservedPages(int(cell), kib, int(count))
    told = ",".join(f"{key}:{value}" for key, value in record.items())
    raise ValueError(
        f"[DEFAULT] reserved_huge_pages = {told!r} is not like node:0,size:2048,count:64"
    )


def memory_mb(kib: int, huge_kib: int, report_hugepages: str) -> int:
    """MEMORY_MB (MiB) out of ``kib`` KiB of which ``huge_kib`` are hugepages.

    A guest on hugepages takes nothing of the other memory and the other way round, so
    they are kept apart, unless whoever schedules counts both in one class.
    """
    return (kib if report_hugepages == MEMORY else max(kib - huge_kib, 0)) // 1024


def hugepage_class(size: int) -> str:
    """The class of pages of ``size`` KiB: CUSTOM_HUGEPAGES_2M, _1G, _64K."""
    power = 0
    while size % 1024 == 0 and size and power < len(_LETTERS) - 1:
        size, power = size // 1024, power + 1
    return f"{HUGEPAGES}{size}{_LETTERS[power]}"


def hugepages(
    pages: Mapping[int, int], reserved: Mapping[int, int], current: CurrentInventory
) -> dict[str, dict[str, Any]]:
    """Inventory of hugepages by size in KiB; amounts are numbers of pages.

    Of sizes that are not in ``reserved``, what an operator reserved in Placement stays.
    """
    records = {}
    for size, count in pages.items():
        if count > 0:
            name = hugepage_class(size)
            there = int(current.get(name, {}).get("reserved") or 0)
            records[name] = record(min(count, MAX_INT), reserved.get(size, there))
    return records


def shared_out(amount: int, weights: Sequence[int]) -> list[int]:
    """``amount`` by ``weights`` (equally where all are 0), in whole units that add up to it."""
    if not weights:
        return []
    if not any(weights):
        weights = [1] * len(weights)
    total = sum(weights)
    parts = [amount * weight // total for weight in weights]
    by_rest = sorted(range(len(parts)), key=lambda n: (-(amount * weights[n] % total), n))
    for number in by_rest[: amount - sum(parts)]:
        parts[number] += 1
    return parts


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """The operator's options for hugepages."""

    report_hugepages: str = OFF
    reserved_pages: tuple[ReservedPages, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """A provider's share: amounts by class, pages by size, and its own policy."""

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


@dataclass(frozen=True, slots=True)
class Capacity:
    """CPUs and memory of a host, for its providers; ``told``: its capabilities could be read.

    ``memory_kib`` is ``None`` where libvirt has never told it.
    """

    cells: Sequence[Cell]
    cpus: GuestCpus
    memory_kib: int | None
    policy: InventoryPolicy
    memory: MemoryPolicy
    told: bool = True

    @property
    def knows_hugepages(self) -> bool:
        """Or that it does not matter."""
        return self.memory.report_hugepages == MEMORY or pages_told(self.cells)

    def whole(self) -> Share:
        """All of it, for the root; also CPUs that are in no cell."""
        among = self.cpus.shared | self.cpus.dedicated
        amounts = self._amounts(self.cells, among, self.memory_kib or 0)
        return self._share(self.cells, amounts, self.policy)

    def by_cell(self) -> dict[int, Share]:
        """Each cell's share of it, by the cell's number; what is reserved is shared out too.

        The cells' own amounts of memory only say how the host's is divided: on machines
        that initialise memory lazily they grow for hours, and the host's does not.
        """
        kib = shared_out(self.memory_kib or 0, [cell.memory_kib for cell in self.cells])
        parts = zip(self.cells, kib, strict=True)
        amounts = [self._amounts([cell], cell.cpus, part) for cell, part in parts]
        cpus = shared_out(self.policy.reserved_cpus, [mine[VCPU] for mine in amounts])
        memory = shared_out(self.policy.reserved_memory_mb, [mine[MEMORY_MB] for mine in amounts])
        policies = (
            replace(self.policy, reserved_cpus=of_cpus, reserved_memory_mb=of_memory)
            for of_cpus, of_memory in zip(cpus, memory, strict=True)
        )
        return {
            cell.number: self._share([cell], mine, own)
            for cell, mine, own in zip(self.cells, amounts, policies, strict=True)
        }

    def _amounts(self, cells: Sequence[Cell], among: frozenset[int], kib: int) -> dict[str, int]:
        huge_kib = sum(cell.huge_kib for cell in cells)
        return {
            VCPU: len(self.cpus.shared & among),
            PCPU: len(self.cpus.dedicated & among),
            MEMORY_MB: memory_mb(kib, huge_kib, self.memory.report_hugepages),
        }

    def _share(
        self, cells: Sequence[Cell], amounts: Mapping[str, int], policy: InventoryPolicy
    ) -> Share:
        if self.memory.report_hugepages != PAGES:
            return Share(amounts, policy)
        pages: Counter[int] = Counter()
        reserved: Counter[int] = Counter()
        for cell in cells:
            pages.update(cell.pages)
            for one in self.memory.reserved_pages:
                reserved[one.size] += one.count if one.cell == cell.number else 0
        return Share(amounts, policy, pages, reserved)
