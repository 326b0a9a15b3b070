"""Pure: inventory of CPUs, memory and hugepages, of the host or of each NUMA cell."""

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
from drivers.libvirt.facts.topology import Cell, hugepages_known
from drivers.libvirt.tree.reported import Records
from reportclient.model import MAX_INT

HUGEPAGES = "CUSTOM_HUGEPAGES_"

OFF, PAGES, MEMORY = "off", "pages", "memory"
"""Values of [libvirt] report_hugepages."""

_LETTERS = "KMGTPE"
_SIZE = re.compile(r"(\d{1,9})([KMGT]?)(?:I?B)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ReservedPages:
    """A value of reserved_huge_pages; ``size`` in KiB, ``count`` in pages."""

    cell: int
    size: int
    count: int


def reserved_pages(records: Sequence[Mapping[str, str]]) -> tuple[ReservedPages, ...]:
    """Parse ``node:0,size:2048,count:64``; the size is in KiB, or like ``2MB``.

    :raises ValueError: a value is invalid; the message names option and value.
    """
    return tuple(map(_reserved_pages, records))


def _reserved_pages(record: Mapping[str, str]) -> ReservedPages:
    if record.keys() == {"node", "size", "count"}:
        cell, size, count = (record[key].strip().upper() for key in ("node", "size", "count"))
        parts = _SIZE.fullmatch(size)
        if parts and cell.isdecimal() and count.isdecimal():
            kib = int(parts[1]) * 1024 ** "KMGT".index(parts[2] or "K")
            return ReservedPages(int(cell), kib, int(count))
    text = ",".join(f"{key}:{value}" for key, value in record.items())
    raise ValueError(
        f"[DEFAULT] reserved_huge_pages = {text!r} is not like node:0,size:2048,count:64"
    )


def memory_mb(kib: int, huge_kib: int, report_hugepages: str) -> int:
    """Return MEMORY_MB (MiB) of ``kib`` KiB of memory, of which ``huge_kib`` are hugepages.

    Guests use either hugepages or other memory.  So hugepages are not counted, unless the operator
    reports both in one class (``MEMORY``).
    """
    return (kib if report_hugepages == MEMORY else max(kib - huge_kib, 0)) // 1024


def hugepage_class(size: int) -> str:
    """Return the class of pages of ``size`` KiB: CUSTOM_HUGEPAGES_2M, _1G, _64K."""
    power = 0
    while size % 1024 == 0 and size and power < len(_LETTERS) - 1:
        size, power = size // 1024, power + 1
    return f"{HUGEPAGES}{size}{_LETTERS[power]}"


def hugepages(
    pages: Mapping[int, int], reserved: Mapping[int, int], current: CurrentInventory
) -> dict[str, dict[str, Any]]:
    """Return the inventory of hugepages by size in KiB; amounts are numbers of pages.

    Sizes that are not in ``reserved`` keep the amount reserved in Placement.
    """
    records = {}
    for size, count in pages.items():
        if count > 0:
            name = hugepage_class(size)
            current_reserved = int(current.get(name, {}).get("reserved") or 0)
            records[name] = record(min(count, MAX_INT), reserved.get(size, current_reserved))
    return records


def apportion(amount: int, weights: Sequence[int]) -> list[int]:
    """Divide ``amount`` by ``weights``, equally if all are 0, into integers that add up to it."""
    if not weights:
        return []
    if not any(weights):
        weights = [1] * len(weights)
    total = sum(weights)
    parts = [amount * weight // total for weight in weights]
    by_remainder = sorted(range(len(parts)), key=lambda n: (-(amount * weights[n] % total), n))
    for number in by_remainder[: amount - sum(parts)]:
        parts[number] += 1
    return parts


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """The operator's options for hugepages."""

    report_hugepages: str = OFF
    reserved_pages: tuple[ReservedPages, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """One provider's amounts by class, hugepages by size (KiB), and policy."""

    amounts: Mapping[str, int]
    policy: InventoryPolicy
    pages: Mapping[int, int] = field(default_factory=dict)
    reserved_pages: Mapping[int, int] = field(default_factory=dict)

    def inventory(self, current: CurrentInventory) -> Records:
        """Return the records by class; ``current`` is the inventory in Placement."""
        return {
            **root_inventory(self.amounts, self.policy, current),
            **hugepages(self.pages, self.reserved_pages, current),
        }

    def over_reserved(self) -> dict[str, str]:
        """Return a note for each class with more reserved than its total."""
        return over_reserved(self.amounts, self.policy)


@dataclass(frozen=True, slots=True)
class Capacity:
    """CPUs and memory of a host, to be divided among its providers.

    ``memory_kib`` is ``None`` if libvirt never reported it; ``capabilities_read``: whether the
    capabilities were ever read.
    """

    cells: Sequence[Cell]
    cpus: GuestCpus
    memory_kib: int | None
    policy: InventoryPolicy
    memory: MemoryPolicy
    capabilities_read: bool = True

    @property
    def knows_hugepages(self) -> bool:
        """Whether the amount of hugepages is known, or does not matter."""
        return self.memory.report_hugepages == MEMORY or hugepages_known(self.cells)

    def whole_host(self) -> Share:
        """Return the share of a root without cells, including CPUs that are in no cell."""
        cpus = self.cpus.shared | self.cpus.dedicated
        amounts = self._amounts(self.cells, cpus, self.memory_kib or 0)
        return self._share(self.cells, amounts, self.policy)

    def by_cell(self) -> dict[int, Share]:
        """Return the share of each cell by its number; reserved amounts are divided too.

        The cells' memory is only the weight by which the host's is divided: on machines that
        initialise memory lazily, the cells' memory grows for hours, the host's does not.
        """
        kib = apportion(self.memory_kib or 0, [cell.memory_kib for cell in self.cells])
        parts = zip(self.cells, kib, strict=True)
        amounts = [self._amounts([cell], cell.cpus, part) for cell, part in parts]
        cpus = apportion(
            self.policy.reserved_cpus, [cell_amounts[VCPU] for cell_amounts in amounts]
        )
        memory = apportion(
            self.policy.reserved_memory_mb, [cell_amounts[MEMORY_MB] for cell_amounts in amounts]
        )
        policies = (
            replace(self.policy, reserved_cpus=of_cpus, reserved_memory_mb=of_memory)
            for of_cpus, of_memory in zip(cpus, memory, strict=True)
        )
        return {
            cell.number: self._share([cell], cell_amounts, policy)
            for cell, cell_amounts, policy in zip(self.cells, amounts, policies, strict=True)
        }

    def _amounts(self, cells: Sequence[Cell], cpus: frozenset[int], kib: int) -> dict[str, int]:
        huge_kib = sum(cell.huge_kib for cell in cells)
        return {
            VCPU: len(self.cpus.shared & cpus),
            PCPU: len(self.cpus.dedicated & cpus),
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
            for reservation in self.memory.reserved_pages:
                reserved[reservation.size] += (
                    reservation.count if reservation.cell == cell.number else 0
                )
        return Share(amounts, policy, pages, reserved)
