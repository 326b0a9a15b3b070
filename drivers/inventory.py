"""Pure: a root provider's inventory, by the rules of Nova's drivers.

Totals come from the driver, reserved amounts and ratios from the operator's options; a ratio
that is not configured stays as Placement has it.
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
"""A higher CPU number is a typing error: Linux supports 8,192 CPUs at most."""

CurrentInventory = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Ratio:
    """An allocation ratio: ``configured`` always applies, ``initial`` only to new inventory."""

    configured: float | None = None
    initial: float = 1.0

    def effective(self, current: Mapping[str, Any] | None) -> float:
        """Return the configured ratio; if none, that of ``current``; if none, the initial one."""
        if self.configured:
            return self.configured
        current_ratio = (current or {}).get("allocation_ratio")
        return float(current_ratio) if current_ratio else self.initial


@dataclass(frozen=True, slots=True)
class InventoryPolicy:
    """The operator's options for a root's inventory; a CPU set is ``None`` if not configured."""

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
        """Return the reserved amount in the unit of the class; disk rounds up to whole GiB."""
        return {
            VCPU: self.reserved_cpus,
            MEMORY_MB: self.reserved_memory_mb,
            DISK_GB: -(-self.reserved_disk_mb // 1024),
        }.get(resource_class, 0)


def cpu_set(text: str, option: str) -> frozenset[int]:
    """Return the CPU numbers of a text such as ``4-12,^8,15``; ``^`` excludes a CPU or range.

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
        raise ValueError(f"{option}: {part!r} is neither a CPU number nor a range of them")
    start, end = map(int, numbers)
    if start > end:
        raise ValueError(f"{option}: the range {part!r} runs backwards")
    if end > HIGHEST_CPU:
        raise ValueError(f"{option}: CPU {end} is above {HIGHEST_CPU}")
    return range(start, end + 1)


def cpu_list(cpus: Iterable[int]) -> str:
    """Return CPU numbers as text, such as ``0-3,8``; ``cpu_set`` reads it back."""
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
    """Return inventory records by class; classes with a total of 0 are left out.

    ``current`` is the inventory that Placement has.  A reserved amount above the total is
    lowered to the total, since Placement would refuse it.
    """
    return {
        name: record(
            min(total, MAX_INT),
            policy.reserved(name),
            policy.ratios.get(name, Ratio(configured=1.0)).effective(current.get(name)),
        )
        for name, total in amounts.items()
        if total > 0
    }


def over_reserved(amounts: Mapping[str, int], policy: InventoryPolicy) -> dict[str, str]:
    """Return a message for each class of which more is reserved than the host has."""
    return {
        name: f"{policy.reserved(name)} are reserved by configuration, the host has {total}"
        for name, total in amounts.items()
        if 0 < total < policy.reserved(name)
    }


def record(total: int, reserved: int | None = None, ratio: float = 1.0) -> dict[str, Any]:
    """Return the inventory record of ``total`` items that are allocated one by one.

    Without ``reserved`` Placement's value stays; one guest can have all.
    """
    fields = {
        "total": total,
        "min_unit": 1,
        "max_unit": total,
        "step_size": 1,
        "allocation_ratio": ratio,
    }
    return fields if reserved is None else {**fields, "reserved": min(reserved, total)}
