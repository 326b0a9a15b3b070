"""Pure: which of a host's CPUs guests share, and which they get for themselves."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drivers.inventory import InventoryPolicy, cpu_list

SHARED_SET = "[compute] cpu_shared_set"
DEDICATED_SET = "[compute] cpu_dedicated_set"


@dataclass(frozen=True, slots=True)
class GuestCpus:
    """Numbers of the CPUs that are VCPU and PCPU inventory; disjoint.

    ``left_out`` says by option which CPUs were named there and are not counted.
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
    """Return the CPUs of guests by the sets of ``policy``.

    With no set at all each online CPU is shared; with a dedicated set alone, none is.
    Offline CPUs are not counted, unless whoever starts guests brings dedicated ones
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
        option: f"CPU {cpu_list(cpus - there)} is offline: not counted"
        for option, (cpus, there) in wanted.items()
        if cpus and cpus - there
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
    """Dedicated CPUs whose core also runs shared ones, by the cores' sibling threads."""
    mixed = (core for core in cores if core & cpus.shared)
    return frozenset().union(*(core & cpus.dedicated for core in mixed))
