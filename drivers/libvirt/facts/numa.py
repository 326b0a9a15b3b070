"""Pure: which provider has the CPUs and the memory: the root, or its NUMA cells.

``report_numa = off``: the root has VCPU, PCPU, MEMORY_MB, hugepages and everything else.
``report_numa = nested``: the cells, ``<node>_numa0`` and so on, have HW_NUMA_ROOT and their share
of these four classes; the root has everything else.

What libvirt does not report stays as Placement has it.

A CPU is offered in one class only, VCPU or PCPU, or two guests could get the same CPU.  After an
operator moved a CPU from one class to the other, the new class waits until Placement has no
inventory of the old one: for one period, or while guests use it and the agent drains it.  A note
says that it waits.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from drivers.inventory import MEMORY_MB, PCPU, VCPU, CurrentInventory, cpu_list
from drivers.libvirt.facts.shares import (
    HUGEPAGES,
    Capacity,
    Share,
)
from drivers.libvirt.tree.reported import CELLS, HostReport, Records, ReportedProvider

NUMA_ROOT = frozenset({"HW_NUMA_ROOT"})

OFF, NESTED = "off", "nested"
"""Values of [libvirt] report_numa."""

Observed = Mapping[str, CurrentInventory]
"""Inventory in Placement of this host's providers, by name."""


def cell_name(node: str, number: int) -> str:
    """Return the name of a cell's provider."""
    return f"{node}_numa{number}"


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
        return _without_cells(node, current)
    shares = {cell_name(node, number): share for number, share in host.by_cell().items()}
    if report_numa == OFF:
        shares = {node: host.whole_host()}
    if host.memory_kib is None and any(
        MEMORY_MB in current[n] for n in current.keys() - shares.keys()
    ):
        # Memory has to move to other providers, but its amount is unknown: the CPUs stay too.
        return HostReport(*_unchanged(node, current), silent=frozenset({CELLS}))
    desired: dict[str, Records] = {}
    notes = _cpus_without_cell(host) if report_numa == NESTED else {}
    for name, share in shares.items():
        desired[name], problems = _records(node, name, share, host, current)
        suffix = "" if name == node else f" of NUMA cell {_cell_number(node, name)}"
        notes |= {f"{subject}{suffix}": problem for subject, problem in problems.items()}
    settled, waiting = one_class_per_cpu({node: {}, **desired}, current)
    notes |= {f"CPUs of {name}": problem for name, problem in waiting.items()}
    return HostReport(settled.pop(node), _cells(node, settled), notes=notes)


def _records(
    node: str, name: str, share: Share, host: Capacity, current: Observed
) -> tuple[Records, dict[str, str]]:
    """Return the inventory of one provider, and notes.

    A new provider gets the allocation ratio that the root, or another cell, has in Placement.
    """
    before = current.get(name, {})
    inventory: Records = share.inventory({**_ratios(node, current), **before})
    problems = share.over_reserved()
    if host.memory_kib is None:
        rest = {key: record for key, record in inventory.items() if not _is_memory(key)}
        previous_memory = {key: before[key] for key in before if _is_memory(key)}
        return {**rest, **previous_memory}, {
            key: problems[key] for key in problems if key != MEMORY_MB
        }
    previous = current.values() if name == node else [before]
    memory_mb = sum(int(records.get(MEMORY_MB, {}).get("total", 0)) for records in previous)
    if host.knows_hugepages or (host.capabilities_read and not memory_mb):
        return inventory, problems
    # It is unknown how much memory is hugepages, which are not for all guests: keep the hugepages
    # as they were, and report no more MEMORY_MB than before.
    pages = {key: record for key, record in before.items() if key.startswith(HUGEPAGES)}
    if MEMORY_MB not in inventory or inventory[MEMORY_MB]["total"] <= memory_mb:
        return {**pages, **inventory}, problems
    limited = {**pages, **capped(inventory, MEMORY_MB, memory_mb)}
    return limited, problems | (_hugepages_unknown(limited) if name == node else {})


def _hugepages_unknown(inventory: Records) -> dict[str, str]:
    memory = inventory.get(MEMORY_MB)
    state = f"stays at {memory['total']}" if memory else "is not reported"
    note = (
        f"{state}, since libvirt does not report which memory is hugepages; on a host without"
        " hugepages, set [libvirt] report_hugepages = memory"
    )
    return {MEMORY_MB: note}


def _is_memory(name: str) -> bool:
    return name == MEMORY_MB or name.startswith(HUGEPAGES)


def _cell_number(node: str, name: str) -> int | None:
    """Return the number of a cell's provider; ``None``: it is another provider."""
    number = name.removeprefix(cell_name(node, 0)[:-1])
    return int(number) if number != name and number.isdigit() else None


def _cells(node: str, inventories: Observed) -> dict[int, ReportedProvider]:
    return {
        number: ReportedProvider(name, inventories[name], NUMA_ROOT, source=CELLS)
        for name in inventories
        if (number := _cell_number(node, name)) is not None
    }


def _ratios(node: str, current: Observed) -> dict[str, dict[str, Any]]:
    """Return the allocation ratio of each class: the root's, else the first cell's."""
    order = [*sorted(current.keys() - {node}, reverse=True), node]
    return {
        name: {"allocation_ratio": record.get("allocation_ratio")}
        for provider in order
        for name, record in current.get(provider, {}).items()
    }


def _unchanged(node: str, current: Observed) -> tuple[Records, dict[int, ReportedProvider]]:
    of_root = current.get(node, {}).items()
    root = {name: record for name, record in of_root if name in {VCPU, PCPU} or _is_memory(name)}
    return root, _cells(node, dict(sorted(current.items())))


def _without_cells(node: str, current: Observed) -> HostReport:
    """Return the report where libvirt reports no cells: everything stays as in Placement."""
    note = (
        "libvirt reports no NUMA cells: CPUs and memory stay as in Placement; if this host has"
        " none, set report_numa = off"
    )
    notes = {"[libvirt] report_numa": note}
    return HostReport(*_unchanged(node, current), notes=notes, silent=frozenset({CELLS}))


def _cpus_without_cell(host: Capacity) -> dict[str, str]:
    inside = frozenset().union(*(cell.cpus for cell in host.cells))
    outside = (host.cpus.shared | host.cpus.dedicated) - inside
    if not outside:
        return {}
    return {"NUMA": f"CPU {cpu_list(outside)} is in no NUMA cell: not reported"}


def waiting_note(old_classes: Iterable[str], new_class: str) -> str:
    """Return a note that a new class waits until the old ones are gone."""
    old = ", ".join(old_classes)
    return f"Placement still has {old}: {new_class} is reported once no guest uses it"


def one_class_per_cpu(
    desired: Mapping[str, Records], observed: Mapping[str, CurrentInventory]
) -> tuple[dict[str, Records], dict[str, str]]:
    """Reduce a class by the CPUs that Placement still has in the other class.

    Both arguments are inventories by provider name.  A class is not reduced below the total that
    Placement has.  Return the inventories, and a note for each provider that waits.
    """
    settled, notes = dict(desired), dict[str, str]()
    for old, new in ((VCPU, PCPU), (PCPU, VCPU)):
        for name, records in desired.items():
            still_old = _old_class_total(old, name, desired, observed)
            if new not in records or not still_old:
                continue
            limit = max(
                _total(observed.get(name, {}).get(new, {})), records[new]["total"] - still_old
            )
            if limit < records[new]["total"]:
                settled[name] = capped(records, new, limit)
                notes[name] = waiting_note([old], new)
    return settled, notes


def _old_class_total(
    old: str, name: str, desired: Mapping[str, Records], observed: Mapping[str, CurrentInventory]
) -> int:
    """Return how many CPUs a provider still has in a class that it gives up.

    If it has none, and every provider gives up the class, return the CPUs of all providers.
    """
    if old in desired[name]:
        return 0
    if old in observed.get(name, {}):
        return _total(observed[name][old])
    if any(old in records for records in desired.values()):
        return 0
    return sum(_total(current.get(old, {})) for current in observed.values())


def capped(records: Records, name: str, limit: int) -> Records:
    """Return the records, with a total of at most ``limit`` for one class."""
    rest = {key: record for key, record in records.items() if key != name}
    if not limit:
        return rest
    record = records[name]
    capped_fields = {"total": limit, "max_unit": limit, "reserved": min(record["reserved"], limit)}
    return {**rest, name: {**record, **capped_fields}}


def _total(record: Mapping[str, Any]) -> int:
    return int(record.get("total") or 0)
