"""Pure: what a root's inventory says, by the rules that Nova's drivers follow.

Amounts come from the driver, policy from the operator, and what Placement knows
decides only where the operator said nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reportclient.model import MAX_INT

VCPU = "VCPU"
PCPU = "PCPU"
MEMORY_MB = "MEMORY_MB"
DISK_GB = "DISK_GB"

HIGHEST_CPU = 0xFFFF
"""Numbers above it are typing errors: Linux knows of 8,192 CPUs at most."""

CurrentInventory = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Ratio:
    """``configured``: always holds; ``initial``: only for a class that is new."""

    configured: float | None = None
    initial: float = 1.0

    def given(self, current: Mapping[str, Any] | None) -> float:
        """Configured, else already in Placement, else initial."""
        if self.configured:
            return self.configured
        current_ratio = (current or {}).get("allocation_ratio")
        return float(current_ratio) if current_ratio else self.initial


@dataclass(frozen=True, slots=True)
class InventoryPolicy:
    """The operator's options for a root; ``None`` for a CPU set: not set."""

    reserved_cpus: int = 0
    reserved_memory_mb: int = 0
    reserved_disk_mb: int = 0
    ratios: Mapping[str, Ratio] = field(
        default_factory=lambda: {VCPU: Ratio(initial=4.0), MEMORY_MB: Ratio(), DISK_GB: Ratio()}
    )
    shared_cpus: frozenset[int] | None = None
    dedicated_cpus: frozenset[int] | None = None

    def __post_init__(self) -> None:
        shared, dedicated = self.shared_cpus, self.dedicated_cpus
        both = (shared or frozenset()) & (dedicated or frozenset())
        if both:
            raise ValueError(
                "[compute] cpu_shared_set and [compute] cpu_dedicated_set both name"
                f" CPU {cpu_list(both)}"
            )
        if self.reserved_cpus and (shared is not None or dedicated is not None):
            raise ValueError(
                "[DEFAULT] reserved_host_cpus can't be used with [compute] cpu_shared_set or"
                " cpu_dedicated_set: CPUs in neither set are the host's own"
            )

    def reserved(self, resource_class: str) -> int:
        """In the unit of the class; megabytes of disk round up to gigabytes."""
        return {
            VCPU: self.reserved_cpus,
            MEMORY_MB: self.reserved_memory_mb,
            DISK_GB: -(-self.reserved_disk_mb // 1024),
        }.get(resource_class, 0)


def cpu_set(text: str, option: str) -> frozenset[int]:
    """The CPUs that ``4-12,^8,15`` names: numbers, ranges, and what is taken out of them.

    :raises ValueError: naming ``option`` and the part that is wrong, or that no CPU is left.
    """
    named: set[int] = set()
    removed: set[int] = set()
    for part in filter(None, map(str.strip, text.split(","))):
        target = removed if part.startswith("^") else named
        target.update(_cpu_range(part.removeprefix("^"), option))
    if not named - removed:
        raise ValueError(f"{option} = {text!r} names no CPU")
    return frozenset(named - removed)


def _cpu_range(part: str, option: str) -> range:
    first, dash, last = (piece.strip() for piece in part.partition("-"))
    numbers = (first, last if dash else first)
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise ValueError(f"{option}: {part!r} is no CPU number and no range of them")
    start, end = map(int, numbers)
    if start > end:
        raise ValueError(f"{option}: the range {part!r} runs backwards")
    if end > HIGHEST_CPU:
        raise ValueError(f"{option}: CPU {end} is above {HIGHEST_CPU}")
    return range(start, end + 1)


def cpu_list(cpus: Iterable[int]) -> str:
    """CPU numbers as text that ``cpu_set`` reads: ``0-3,8``."""
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def root_inventory(
    amounts: Mapping[str, int], policy: InventoryPolicy, current: CurrentInventory
) -> dict[str, dict[str, Any]]:
    """Inventory records by class; a class that there is nothing of is left out.

    ``current`` is what Placement knows.  More reserved than there is reserves all:
    Placement would refuse it, and nothing would be left to use anyhow.
    """
    return {
        name: record(
            min(total, MAX_INT),
            policy.reserved(name),
            policy.ratios.get(name, Ratio(configured=1.0)).given(current.get(name)),
        )
        for name, total in amounts.items()
        if total > 0
    }


def over_reserved(amounts: Mapping[str, int], policy: InventoryPolicy) -> dict[str, str]:
    """Classes of which more is reserved than there is, and that in words."""
    return {
        name: f"{policy.reserved(name)} are reserved by configuration, the host has {total}"
        for name, total in amounts.items()
        if 0 < total < policy.reserved(name)
    }


def record(
    total: int, reserved: int | None = None, ratio: float = 1.0, max_unit: int | None = None
) -> dict[str, Any]:
    """Return the record of ``total`` items, each of which a guest can have alone.

    ``reserved`` ``None``: as Placement has it; ``max_unit`` ``None``: one guest can have all.
    """
    made = {
        "total": total,
        "min_unit": 1,
        "max_unit": total if max_unit is None else max_unit,
        "step_size": 1,
        "allocation_ratio": ratio,
    }
    return made if reserved is None else {**made, "reserved": min(reserved, total)}
