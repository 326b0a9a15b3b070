"""Pure: what is whose where NUMA cells are providers of their own, and where they are not.

``report_numa = off``: the root has VCPU, PCPU, MEMORY_MB, hugepages and all else.
``report_numa = nested``: the cells, ``<node>_numa0`` and so on, have the first four, each
its own, and HW_NUMA_ROOT; the root has all else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from drivers.guest_cpus import GuestCpus
from drivers.inventory import MEMORY_MB, PCPU, VCPU, CurrentInventory, InventoryPolicy, cpu_list
from drivers.libvirt.facts.cells import Cell, pages_told
from drivers.libvirt.facts.handover import cpus_once
from drivers.libvirt.facts.memory import HUGEPAGES, MEMORY
from drivers.libvirt.facts.shares import MemoryPolicy, Share, of_cells, whole_host
from drivers.libvirt.tree.reported import CELLS, Reported

NUMA_ROOT = frozenset({"HW_NUMA_ROOT"})

OFF, NESTED = "off", "nested"
"""Values of [libvirt] report_numa."""

Known = Mapping[str, CurrentInventory]
"""What Placement knows of this host's providers, by name."""


@dataclass(frozen=True, slots=True)
class Processing:
    """CPUs and memory: the root's part, the cells', and what is odd."""

    root: Mapping[str, Mapping[str, Any]]
    cells: Mapping[int, Reported] = field(default_factory=dict)
    complete: bool = True
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Processors:
    """What is to be divided; ``told``: libvirt's capabilities could be read.

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


def cell_name(node: str, number: int) -> str:
    """The provider of a cell."""
    return f"{node}_numa{number}"


def processing(node: str, report_numa: str, host: Processors, known: Known) -> Processing:
    """CPUs and memory of a host, by the operator's choice; no CPU is offered twice."""
    if host.memory_kib is None:
        return _without_memory(node, report_numa, host, known)
    wished = _wished(node, report_numa, host, known)
    if not wished.complete:
        return wished
    return _each_cpu_once(node, wished, known)


def _each_cpu_once(node: str, wished: Processing, known: Known) -> Processing:
    by_name = {node: wished.root, **{one.name: one.inventory for one in wished.cells.values()}}
    there = {name: known[name] for name in known if name == node or _is_cell(node, name)}
    once, waiting = cpus_once(by_name, there)
    return Processing(
        once[node],
        {n: replace(one, inventory=once[one.name]) for n, one in wished.cells.items()},
        notes={**wished.notes, **{f"CPUs of {name}": why for name, why in waiting.items()}},
    )


def _without_memory(node: str, report_numa: str, host: Processors, known: Known) -> Processing:
    """Memory stays as Placement has it; where it would go elsewhere, CPUs wait for it."""
    wished = _wished(node, report_numa, host, known)
    names = {one.name for one in wished.cells.values()} or {node}
    there = {name for name in known if name == node or _is_cell(node, name)}
    if any(MEMORY_MB in known[name] for name in there - names):
        return replace(_unknown(node, known), notes={})
    return _each_cpu_once(
        node,
        replace(
            wished,
            root=_memory_kept(wished.root, known.get(node, {})),
            cells={
                number: replace(one, inventory=_memory_kept(one.inventory, known.get(one.name, {})))
                for number, one in wished.cells.items()
            },
            notes={about: why for about, why in wished.notes.items() if MEMORY_MB not in about},
        ),
        known,
    )


def _memory_kept(
    inventory: Mapping[str, Mapping[str, Any]], before: CurrentInventory
) -> dict[str, Mapping[str, Any]]:
    rest = {name: record for name, record in inventory.items() if not _is_memory(name)}
    return {**rest, **{name: before[name] for name in before if _is_memory(name)}}


def _is_memory(name: str) -> bool:
    return name == MEMORY_MB or name.startswith(HUGEPAGES)


def _wished(node: str, report_numa: str, host: Processors, known: Known) -> Processing:
    if report_numa == OFF:
        share = whole_host(host.cells, host.cpus, host.memory_kib or 0, host.policy, host.memory)
        current = {**_ratios(_of_cells(node, known)), **known.get(node, {})}
        inventory = share.inventory(current)
        before = _memory_of(node, known)
        if host.knows_hugepages or (host.told and not before):
            return Processing(inventory, notes=share.over_reserved())
        less = _at_most(inventory, known.get(node, {}), before)
        unsure = {} if less.get(MEMORY_MB) == inventory.get(MEMORY_MB) else _hugepages_unknown(less)
        return Processing(less, notes={**share.over_reserved(), **unsure})
    if not host.cells:
        return _unknown(node, known)
    shares = of_cells(host.cells, host.cpus, host.memory_kib or 0, host.policy, host.memory)
    notes = {
        f"{name} of NUMA cell {number}": words
        for number, share in shares.items()
        for name, words in share.over_reserved().items()
    }
    return Processing(
        {},
        {number: _cell(node, number, share, host, known) for number, share in shares.items()},
        notes={**notes, **_without_cell(host)},
    )


def _at_most(
    inventory: Mapping[str, Mapping[str, Any]], before: CurrentInventory, memory_mb: int
) -> dict[str, Mapping[str, Any]]:
    """Where it is not told which memory is hugepages, which other guests can't have: hugepages
    as they were ``before``, and no more than ``memory_mb`` of other memory.
    """
    pages = {name: record for name, record in before.items() if name.startswith(HUGEPAGES)}
    memory = inventory.get(MEMORY_MB)
    if memory is None or memory["total"] <= memory_mb:
        return {**pages, **inventory}
    rest = {name: record for name, record in inventory.items() if name != MEMORY_MB}
    if not memory_mb:
        return {**pages, **rest}
    reserved = min(memory["reserved"], memory_mb)
    less = {**memory, "total": memory_mb, "max_unit": memory_mb, "reserved": reserved}
    return {**pages, **rest, MEMORY_MB: less}


def _memory_of(node: str, known: Known) -> int:
    """MEMORY_MB of the root and its cells, as Placement has it."""
    names = (node, *(name for name in known if _is_cell(node, name)))
    return sum(int(known.get(name, {}).get(MEMORY_MB, {}).get("total", 0)) for name in names)


def _hugepages_unknown(inventory: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    memory = inventory.get(MEMORY_MB)
    stays = f"stays at {memory['total']}" if memory else "is not reported"
    words = (
        f"libvirt does not tell which memory is hugepages: it {stays} until then; on a host"
        " without hugepages, set [libvirt] report_hugepages = memory"
    )
    return {MEMORY_MB: words}


def is_processing(name: str) -> bool:
    """Whether a class is one of those that cells and root hand to each other."""
    return name in {VCPU, PCPU} or _is_memory(name)


def _cell(node: str, number: int, share: Share, host: Processors, known: Known) -> Reported:
    """A ratio that somebody set on the root, or on another cell, holds for a new one too."""
    name = cell_name(node, number)
    others = {**_ratios(_of_cells(node, known)), **_ratios(known.get(node, {}))}
    there = known.get(name, {})
    inventory: Mapping[str, Mapping[str, Any]] = share.inventory({**others, **there})
    if MEMORY_MB in there and not host.knows_hugepages:
        inventory = _at_most(inventory, there, int(there[MEMORY_MB]["total"]))
    return Reported(name, inventory, traits=NUMA_ROOT, source=CELLS)


def _of_cells(node: str, known: Known) -> CurrentInventory:
    """Of each class the record of the first cell that has it."""
    found = dict[str, Mapping[str, Any]]()
    for name in sorted(known):
        if _is_cell(node, name):
            found = {**known[name], **found}
    return found


def _is_cell(node: str, name: str) -> bool:
    prefix = cell_name(node, 0)[:-1]
    return name.startswith(prefix) and name.removeprefix(prefix).isdigit()


def _ratios(current: CurrentInventory) -> dict[str, dict[str, Any]]:
    """Amounts belong to their provider; a ratio is the operator's, wherever it stands."""
    return {name: {"allocation_ratio": r.get("allocation_ratio")} for name, r in current.items()}


def _unknown(node: str, known: Known) -> Processing:
    """Nothing moves on the word of a document that says nothing."""
    kept = {name: r for name, r in known.get(node, {}).items() if is_processing(name)}
    words = (
        "libvirt tells of no NUMA cells: CPUs and memory stay as Placement has them; if this"
        " host has none, set it to off"
    )
    cells = {
        int(name.removeprefix(cell_name(node, 0)[:-1])): Reported(
            name, known[name], NUMA_ROOT, source=CELLS
        )
        for name in sorted(known)
        if _is_cell(node, name)
    }
    return Processing(kept, cells, complete=False, notes={"[libvirt] report_numa": words})


def _without_cell(host: Processors) -> dict[str, str]:
    inside = frozenset().union(*(cell.cpus for cell in host.cells))
    outside = (host.cpus.shared | host.cpus.dedicated) - inside
    if not outside:
        return {}
    return {"NUMA": f"CPU {cpu_list(outside)} is in no NUMA cell: not reported"}
