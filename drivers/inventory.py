"""Pure: a root provider's inventory and the CPUs for guests, by the rules of Nova's drivers.

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


# -- CPUs for guests: shared between them, or dedicated to one

SHARED_SET = "[compute] cpu_shared_set"
DEDICATED_SET = "[compute] cpu_dedicated_set"


@dataclass(frozen=True, slots=True)
class GuestCpus:
    """The numbers of the CPUs that are VCPU (shared) and PCPU (dedicated) inventory; disjoint.

    ``uncounted`` has, by option, a text about the CPUs named there that are not counted.
    """

    shared: frozenset[int]
    dedicated: frozenset[int]
    uncounted: Mapping[str, str]


def guest_cpus(
    present: frozenset[int],
    online: frozenset[int],
    policy: InventoryPolicy,
    *,
    wakes_dedicated: bool = False,
) -> GuestCpus:
    """Return the CPUs for guests according to the CPU sets of ``policy``.

    Without any set all online CPUs are shared; with a dedicated set alone, none is.  Offline
    CPUs are not counted, except dedicated ones if the service that starts guests brings them
    online (``wakes_dedicated``).

    :raises ValueError: a set names CPUs that the host does not have.
    """
    shared, dedicated = policy.shared_cpus, policy.dedicated_cpus
    _require_present(SHARED_SET, shared, present | online)
    _require_present(DEDICATED_SET, dedicated, present | online)
    if shared is None and dedicated is None:
        return GuestCpus(online, frozenset(), {})
    usable = present | online if wakes_dedicated else online
    wanted = {SHARED_SET: (shared, online), DEDICATED_SET: (dedicated, usable)}
    uncounted = {
        option: f"CPU {cpu_list(cpus - counted)} is offline: not counted"
        for option, (cpus, counted) in wanted.items()
        if cpus and cpus - counted
    }
    return GuestCpus(
        (shared or frozenset()) & online, (dedicated or frozenset()) & usable, uncounted
    )


def _require_present(option: str, cpus: frozenset[int] | None, present: frozenset[int]) -> None:
    missing = (cpus or frozenset()) - present
    if missing:
        raise ValueError(
            f"{option} names CPU {cpu_list(missing)}, which this host does not have"
            f" (it has {cpu_list(present) or 'none'})"
        )


def split_cores(cpus: GuestCpus, cores: Iterable[frozenset[int]]) -> frozenset[int]:
    """Return the dedicated CPUs that are sibling threads of a shared CPU, on the same core."""
    mixed = (core for core in cores if core & cpus.shared)
    return frozenset().union(*(core & cpus.dedicated for core in mixed))
