"""Pure: inventory of CPUs, memory and hugepages: of the root, or of its NUMA cells.

``report_numa = off``: the root has VCPU, PCPU, MEMORY_MB, hugepages and everything else.
``report_numa = nested``: the cells, ``<node>_numa0`` and so on, have HW_NUMA_ROOT and their share
of these four classes; the root has everything else.

What libvirt does not report stays as Placement has it.

A CPU is offered in one class only, VCPU or PCPU, or two guests could get the same CPU.  If all CPUs
change their class, the write that removes the old one adds the new one, and whoever drains the old
one waits with the new one (:mod:`reportclient.refusals`).  If they change their provider at once,
which no write shows, the new class waits here until Placement has no inventory of the old one, as
it does on the cells that a cell was divided into.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from drivers.inventory import (
    MEMORY_MB,
    PCPU,
    VCPU,
    GuestCpus,
    InventoryPolicy,
    cpu_list,
    over_reserved,
    record,
    root_inventory,
)
from drivers.libvirt.facts.topology import Cell, hugepages_known
from drivers.libvirt.tree.reported import (
    CELLS,
    HostReport,
    Observed,
    Records,
    ReportedProvider,
    total_of,
)
from reportclient.model import MAX_INT

NUMA_ROOT = frozenset({"HW_NUMA_ROOT"})
HUGEPAGES = "CUSTOM_HUGEPAGES_"
OFF, NESTED = "off", "nested"
"""Values of [libvirt] report_numa."""
PAGES, MEMORY = "pages", "memory"
"""Values of [libvirt] report_hugepages, beside ``OFF``."""
RESERVED_PAGES = "[DEFAULT] reserved_huge_pages"
_LETTERS = "KMGTPE"
_SIZE = re.compile(r"(\d{1,9})([KMGT]?)(?:I?B)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ReservedPages:
    """A value of reserved_huge_pages; ``size`` in KiB, ``count`` in pages."""

    cell: int
    size: int
    count: int

    @classmethod
    def from_option(cls, value: Mapping[str, str]) -> "ReservedPages":
        """Parse ``node:0,size:2048,count:64``; the size is in KiB, or like ``2MB``.

        :raises ValueError: the value is invalid; the message names option and value.
        """
        if value.keys() == {"node", "size", "count"}:
            cell, size, count = (value[key].strip().upper() for key in ("node", "size", "count"))
            parts = _SIZE.fullmatch(size)
            if parts and cell.isdecimal() and count.isdecimal():
                kib = int(parts[1]) * 1024 ** _LETTERS.index(parts[2] or "K")
                return cls(int(cell), kib, int(count))
        text = ",".join(f"{key}:{part}" for key, part in value.items())
        raise ValueError(f"{RESERVED_PAGES} = {text!r} is not like node:0,size:2048,count:64")


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """The operator's options for hugepages."""

    report_hugepages: str = OFF
    reserved_pages: tuple[ReservedPages, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """Amounts of a provider by class, its policy, and the inventory of its hugepages."""

    amounts: Mapping[str, int]
    policy: InventoryPolicy
    pages: Records


@dataclass(frozen=True, slots=True)
class Capacity:
    """CPUs and memory of a host, to be divided among its providers.

    ``memory_kib`` is ``None`` if libvirt never reported it; ``cells_read``: whether the cells were
    ever read.
    """

    cells: Sequence[Cell]
    cpus: GuestCpus
    memory_kib: int | None
    policy: InventoryPolicy
    memory: MemoryPolicy
    cells_read: bool = True

    def shares(self, node: str, report_numa: str) -> dict[str, Share]:
        """Return the share of each provider by its name; reserved amounts are divided too.

        The root's includes CPUs that are in no cell.  The cells' memory is only the weight by which
        the host's is divided: on machines that initialise memory lazily, the cells' memory grows
        for hours, the host's does not.
        """
        parts = {node: (self.cells, self.cpus.shared | self.cpus.dedicated)}
        if report_numa == NESTED:
            parts = {f"{node}_numa{cell.number}": ([cell], cell.cpus) for cell in self.cells}
        weights = [sum(cell.memory_kib for cell in cells) for cells, _ in parts.values()]
        memory = apportion(self.memory_kib or 0, weights)
        amounts = []
        for (cells, cpus), kib in zip(parts.values(), memory, strict=True):
            huge_kib = sum(cell.huge_kib for cell in cells)
            amount = {VCPU: len(self.cpus.shared & cpus), PCPU: len(self.cpus.dedicated & cpus)}
            amount[MEMORY_MB] = memory_mb(kib, huge_kib, self.memory.report_hugepages)
            amounts.append(amount)
        policy = self.policy
        vcpus = apportion(policy.reserved_cpus, [amount[VCPU] for amount in amounts])
        mib = apportion(policy.reserved_memory_mb, [amount[MEMORY_MB] for amount in amounts])
        shares = {}
        for number, (name, (cells, _)) in enumerate(parts.items()):
            reserved = replace(policy, reserved_cpus=vcpus[number], reserved_memory_mb=mib[number])
            shares[name] = Share(amounts[number], reserved, self._pages(cells))
        return shares

    def _pages(self, cells: Sequence[Cell]) -> Records:
        """Return the inventory of hugepages, in pages; empty if they are not reported.

        Sizes for which nothing is configured keep the amount reserved in Placement.
        """
        pages, reserved = Counter[int](), Counter[int]()
        for cell in cells if self.memory.report_hugepages == PAGES else ():
            pages.update(cell.pages)
            for reservation in self.memory.reserved_pages:
                count = reservation.count if reservation.cell == cell.number else 0
                reserved[reservation.size] += count
        return {
            hugepage_class(size): record(min(count, MAX_INT), reserved.get(size))
            for size, count in pages.items()
            if count > 0
        }


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


def reserved_pages_note(cells: Sequence[Cell], reserved: Iterable[ReservedPages]) -> dict[str, str]:
    """Return a note if cells lack pages that are reserved; none while the pages are not known."""
    pages_by_cell = {cell.number: cell.pages for cell in cells}
    problems = []
    for each in reserved if hugepages_known(cells) else ():
        pages = pages_by_cell.get(each.cell)
        has = "does not exist" if pages is None else f"has {pages.get(each.size, 0)} such pages"
        if pages is None or each.count > pages.get(each.size, 0):
            value = f"node:{each.cell},size:{each.size},count:{each.count}"
            problems.append(f"{value}: NUMA cell {each.cell} {has}")
    return {RESERVED_PAGES: "; ".join(problems)} if problems else {}


def cpus_and_memory_report(
    node: str, report_numa: str, host: Capacity, observed: Observed
) -> HostReport:
    """Return the report of CPUs and memory; no CPU is offered in two classes."""
    current = {
        name: observed[name]
        for name in observed
        if name == node or _cell_number(node, name) is not None
    }
    if report_numa == NESTED and not host.cells:
        note = (
            "no NUMA cells are known: CPUs and memory stay as in Placement; if this host has none,"
            " set report_numa = off"
        )
        return _unchanged(node, current, {"[libvirt] report_numa": note})
    shares = host.shares(node, report_numa)
    if host.memory_kib is None and any(
        MEMORY_MB in current[name] for name in current.keys() - shares.keys()
    ):
        # Memory has to move to other providers, but its amount is unknown: the CPUs stay too.
        return _unchanged(node, current, {})
    notes = reserved_pages_note(host.cells, host.memory.reserved_pages)
    in_cells = frozenset[int]().union(*(cell.cpus for cell in host.cells))
    outside = (host.cpus.shared | host.cpus.dedicated) - in_cells
    if report_numa == NESTED and outside:
        notes["NUMA"] = f"CPU {cpu_list(outside)} is in no NUMA cell: not reported"
    desired: dict[str, dict[str, Any]] = {}
    for name, share in shares.items():
        records, problems = _records(node, name, share, host, current)
        desired[name] = dict(records)
        suffix = "" if name == node else f" of NUMA cell {_cell_number(node, name)}"
        notes |= {f"{subject}{suffix}": problem for subject, problem in problems.items()}
    for old, new in ((VCPU, PCPU), (PCPU, VCPU)):
        is_unreported = not any(old in records for records in desired.values())
        if is_unreported and any(old in records for records in current.values()):
            for name, records in desired.items():
                if not {old, new} & current.get(name, {}).keys() and records.pop(new, None):
                    text = f"Placement still has {old}: {new} is reported once no guest uses it"
                    notes[f"CPUs of {node}"] = text
    return HostReport(desired.pop(node, {}), _cells(node, desired), notes=notes)


def _records(
    node: str, name: str, share: Share, host: Capacity, current: Observed
) -> tuple[Records, dict[str, str]]:
    """Return the inventory of one provider, and notes.

    A new provider gets the allocation ratio that the root, or else the first cell, has in
    Placement.
    """
    before, known = current.get(name, {}), dict[str, Mapping[str, Any]]()
    for provider in (*sorted(current.keys() - {node}, reverse=True), node, name):
        known |= current.get(provider, {})
    inventory = {**root_inventory(share.amounts, share.policy, known), **share.pages}
    problems = over_reserved(share.amounts, share.policy)
    if host.memory_kib is None:
        problems.pop(MEMORY_MB, None)
        cpus = {key: inventory[key] for key in inventory if not _is_memory(key)}
        return {**cpus, **{key: before[key] for key in before if _is_memory(key)}}, problems
    previous = current.values() if name == node else [before]
    limit = sum(total_of(records, MEMORY_MB) for records in previous)
    if (
        host.memory.report_hugepages == MEMORY
        or hugepages_known(host.cells)
        or (host.cells_read and not limit)
    ):
        return inventory, problems
    # It is unknown how much memory is hugepages, which are not for all guests: keep the hugepages
    # as they were, and report no more MEMORY_MB than before.
    kept = {key: records for key, records in before.items() if key.startswith(HUGEPAGES)}
    amounts = {**share.amounts, MEMORY_MB: min(share.amounts[MEMORY_MB], limit)}
    if name == node and amounts != share.amounts:
        state = f"stays at {limit}" if limit else "is not reported"
        problems[MEMORY_MB] = (
            f"{state}, since libvirt does not report which memory is hugepages, or those from"
            " before the boot are not allocated yet; on a host without hugepages, set [libvirt]"
            " report_hugepages = memory"
        )
    return {**kept, **root_inventory(amounts, share.policy, known), **share.pages}, problems


def _is_memory(name: str) -> bool:
    return name == MEMORY_MB or name.startswith(HUGEPAGES)


def _cell_number(node: str, name: str) -> int | None:
    """Return the number of a cell's provider; ``None``: it is another provider."""
    number = name.removeprefix(f"{node}_numa")
    return int(number) if number != name and number.isdigit() else None


def _cells(node: str, inventories: Observed) -> dict[int, ReportedProvider]:
    return {
        number: ReportedProvider(name, inventories[name], NUMA_ROOT, source=CELLS)
        for name in inventories
        if (number := _cell_number(node, name)) is not None
    }


def _unchanged(node: str, current: Observed, notes: Mapping[str, str]) -> HostReport:
    """Return the report in which CPUs and memory stay as in Placement."""
    of_root = current.get(node, {}).items()
    root = {name: record for name, record in of_root if name in {VCPU, PCPU} or _is_memory(name)}
    cells = _cells(node, dict(sorted(current.items())))
    return HostReport(root, cells, notes=notes, unanswered=frozenset({CELLS}))
