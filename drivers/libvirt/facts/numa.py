"""Pure: what is whose where NUMA cells are providers of their own, and where they are not.

``report_numa = off``: the root has VCPU, PCPU, MEMORY_MB, hugepages and all else.
``report_numa = nested``: the cells, ``<node>_numa0`` and so on, have the first four, each
its own, and HW_NUMA_ROOT; the root has all else.

What libvirt does not tell stays as Placement has it, and nothing moves on its silence.

A CPU, as a device, has one class at a time.  When an operator gives it another one, the old
class has to be gone from Placement before the new one is offered, or two guests could get the
same thing.  What nobody uses is gone after one period; while guests use the old class the agent
drains it.  Meanwhile it is told what waits.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from drivers.inventory import MEMORY_MB, PCPU, VCPU, CurrentInventory, cpu_list
from drivers.libvirt.facts.shares import (
    HUGEPAGES,
    Capacity,
    Share,
)
from drivers.libvirt.tree.reported import CELLS, HostReport, Records, Reported

NUMA_ROOT = frozenset({"HW_NUMA_ROOT"})

OFF, NESTED = "off", "nested"
"""Values of [libvirt] report_numa."""

Observed = Mapping[str, CurrentInventory]
"""What Placement has of this host's providers, by name."""


def cell_name(node: str, number: int) -> str:
    """The provider of a cell."""
    return f"{node}_numa{number}"


def processing(node: str, report_numa: str, host: Capacity, observed: Observed) -> HostReport:
    """CPUs and memory of a host, by the operator's choice; no CPU is offered twice."""
    there = {
        name: observed[name] for name in observed if name == node or _number(node, name) is not None
    }
    if report_numa == NESTED and not host.cells:
        return _unknown(node, there)
    shares = {cell_name(node, number): share for number, share in host.by_cell().items()}
    if report_numa == OFF:
        shares = {node: host.whole()}
    if host.memory_kib is None and any(MEMORY_MB in there[n] for n in there.keys() - shares.keys()):
        # Memory would go elsewhere: CPUs wait for it.
        return HostReport(*_as_it_was(node, there), silent=frozenset({CELLS}))
    desired: dict[str, Records] = {}
    notes = _without_cell(host) if report_numa == NESTED else {}
    for name, share in shares.items():
        desired[name], odd = _records(node, name, share, host, there)
        on = "" if name == node else f" of NUMA cell {_number(node, name)}"
        notes |= {f"{about}{on}": words for about, words in odd.items()}
    once, waiting = cpus_once({node: {}, **desired}, there)
    notes |= {f"CPUs of {name}": words for name, words in waiting.items()}
    return HostReport(once.pop(node), _cells(node, once), notes=notes)


def _records(
    node: str, name: str, share: Share, host: Capacity, there: Observed
) -> tuple[Records, dict[str, str]]:
    """Return the records of one provider, and notes.

    A ratio that somebody set on the root, or on another cell, holds for a new one too.
    """
    before = there.get(name, {})
    inventory: Records = share.inventory({**_ratios(node, there), **before})
    odd = share.over_reserved()
    if host.memory_kib is None:
        rest = {one: record for one, record in inventory.items() if not _is_memory(one)}
        kept = {one: before[one] for one in before if _is_memory(one)}
        return {**rest, **kept}, {one: odd[one] for one in odd if one != MEMORY_MB}
    had = there.values() if name == node else [before]
    memory_mb = sum(int(one.get(MEMORY_MB, {}).get("total", 0)) for one in had)
    if host.knows_hugepages or (host.told and not memory_mb):
        return inventory, odd
    # Which memory is hugepages, which other guests can't have, is not told: those as they were,
    # and no more other memory than there was.
    pages = {one: record for one, record in before.items() if one.startswith(HUGEPAGES)}
    if MEMORY_MB not in inventory or inventory[MEMORY_MB]["total"] <= memory_mb:
        return {**pages, **inventory}, odd
    less = {**pages, **at_most(inventory, MEMORY_MB, memory_mb)}
    return less, odd | (_hugepages_unknown(less) if name == node else {})


def _hugepages_unknown(inventory: Records) -> dict[str, str]:
    memory = inventory.get(MEMORY_MB)
    stays = f"stays at {memory['total']}" if memory else "is not reported"
    words = (
        f"libvirt does not tell which memory is hugepages: it {stays} until then; on a host"
        " without hugepages, set [libvirt] report_hugepages = memory"
    )
    return {MEMORY_MB: words}


def _is_memory(name: str) -> bool:
    return name == MEMORY_MB or name.startswith(HUGEPAGES)


def _number(node: str, name: str) -> int | None:
    """Of a cell's provider."""
    number = name.removeprefix(cell_name(node, 0)[:-1])
    return int(number) if number != name and number.isdigit() else None


def _cells(node: str, inventories: Observed) -> dict[int, Reported]:
    return {
        number: Reported(name, inventories[name], NUMA_ROOT, source=CELLS)
        for name in inventories
        if (number := _number(node, name)) is not None
    }


def _ratios(node: str, there: Observed) -> dict[str, dict[str, Any]]:
    """Amounts belong to their provider; a ratio is the operator's, wherever it stands.

    The root's counts before that of the first cell that has one.
    """
    order = [*sorted(there.keys() - {node}, reverse=True), node]
    return {
        name: {"allocation_ratio": record.get("allocation_ratio")}
        for provider in order
        for name, record in there.get(provider, {}).items()
    }


def _as_it_was(node: str, there: Observed) -> tuple[Records, dict[int, Reported]]:
    mine = there.get(node, {}).items()
    root = {name: r for name, r in mine if name in {VCPU, PCPU} or _is_memory(name)}
    return root, _cells(node, dict(sorted(there.items())))


def _unknown(node: str, there: Observed) -> HostReport:
    """Nothing moves on the word of a document that says nothing."""
    words = (
        "libvirt tells of no NUMA cells: CPUs and memory stay as Placement has them; if this"
        " host has none, set it to off"
    )
    notes = {"[libvirt] report_numa": words}
    return HostReport(*_as_it_was(node, there), notes=notes, silent=frozenset({CELLS}))


def _without_cell(host: Capacity) -> dict[str, str]:
    inside = frozenset().union(*(cell.cpus for cell in host.cells))
    outside = (host.cpus.shared | host.cpus.dedicated) - inside
    if not outside:
        return {}
    return {"NUMA": f"CPU {cpu_list(outside)} is in no NUMA cell: not reported"}


def waits_for(old: Iterable[str], new: str) -> str:
    """In words."""
    return f"still has {', '.join(old)}: {new} is reported once no guest uses that"


def cpus_once(
    desired: Mapping[str, Records], observed: Mapping[str, CurrentInventory]
) -> tuple[dict[str, Records], dict[str, str]]:
    """What the root and the cells report, less CPUs that are inventory of the other class still;
    and what waits for that, by provider.

    Both by provider name; ``observed`` is what Placement has.  Of CPUs that were in both classes
    as many as were there stay.
    """
    settled, notes = dict(desired), dict[str, str]()
    for old, new in ((VCPU, PCPU), (PCPU, VCPU)):
        for name, records in desired.items():
            held = _held(old, name, desired, observed)
            if new not in records or not held:
                continue
            most = max(_total(observed.get(name, {}).get(new, {})), records[new]["total"] - held)
            if most < records[new]["total"]:
                settled[name] = at_most(records, new, most)
                notes[name] = waits_for([old], new)
    return settled, notes


def _held(
    old: str, name: str, desired: Mapping[str, Records], observed: Mapping[str, CurrentInventory]
) -> int:
    """CPUs that this provider gives up as ``old`` ones, or, if all do, that anyone has so."""
    if old in desired[name]:
        return 0
    if old in observed.get(name, {}):
        return _total(observed[name][old])
    if any(old in records for records in desired.values()):
        return 0
    return sum(_total(current.get(old, {})) for current in observed.values())


def at_most(records: Records, name: str, most: int) -> Records:
    """With no more than ``most`` of a class."""
    rest = {key: record for key, record in records.items() if key != name}
    if not most:
        return rest
    record = records[name]
    less = {"total": most, "max_unit": most, "reserved": min(record["reserved"], most)}
    return {**rest, name: {**record, **less}}


def _total(record: Mapping[str, Any]) -> int:
    return int(record.get("total") or 0)
