"""Pure: which of a host's CPUs are shared between guests, and which are dedicated to one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drivers.inventory import InventoryPolicy, cpu_list

SHARED_SET = "[compute] cpu_shared_set"
DEDICATED_SET = "[compute] cpu_dedicated_set"


@dataclass(frozen=True, slots=True)
class GuestCpus:
    """The numbers of the CPUs that are VCPU (shared) and PCPU (dedicated) inventory; disjoint.

    ``left_out`` has, by option, a text about the CPUs named there that are not counted.
    """

    shared: frozenset[int]
    dedicated: frozenset[int]
    left_out: Mapping[str, str]


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
    left_out = {
        option: f"CPU {cpu_list(cpus - counted)} is offline: not counted"
        for option, (cpus, counted) in wanted.items()
        if cpus and cpus - counted
    }
    return GuestCpus(
        (shared or frozenset()) & online, (dedicated or frozenset()) & usable, left_out
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
