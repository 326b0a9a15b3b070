"""Pure: the host's memory, and the part of it that is set aside as hugepages."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivers.inventory import CurrentInventory, record
from reportclient.model import MAX_INT

HUGEPAGES = "CUSTOM_HUGEPAGES_"

OFF, PAGES, MEMORY = "off", "pages", "memory"
"""Values of [libvirt] report_hugepages."""

_LETTERS = "KMGTPE"
_SIZE = re.compile(r"(\d{1,9})([KMGT]?)(?:I?B)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ReservedPages:
    """One value of reserved_huge_pages; ``size`` in KiB."""

    cell: int
    size: int
    count: int


def reserved_pages(records: Sequence[Mapping[str, str]]) -> tuple[ReservedPages, ...]:
    """What the option says: ``node:0,size:2048,count:64``, the size in KiB or as ``2MB``.

    :raises ValueError: naming the option and the value that is wrong.
    """
    return tuple(map(_reserved_pages, records))


def _reserved_pages(record: Mapping[str, str]) -> ReservedPages:
    if record.keys() == {"node", "size", "count"}:
        cell, size, count = (record[key].strip().upper() for key in ("node", "size", "count"))
        found = _SIZE.fullmatch(size)
        if found and cell.isdecimal() and count.isdecimal():
            kib = int(found[1]) * 1024 ** "KMGT".index(found[2] or "K")
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
    found = {}
    for size, count in pages.items():
        if count > 0:
            name = hugepage_class(size)
            there = int(current.get(name, {}).get("reserved") or 0)
            found[name] = record(min(count, MAX_INT), reserved.get(size, there))
    return found


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
