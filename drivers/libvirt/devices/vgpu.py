"""Pure: vGPUs and other mediated devices as inventory; Nova's rules and names.

Each physical GPU that has an enabled type is a provider, ``<node>_pci_0000_84_00_0``.  It has
VGPU, or the class of its type: what could be made of that type, and what there is of it.  A
GPU whose type is switched off, or of which nothing can be had, is not reported; earlier
releases of Nova had all VGPU on the root, from where it moves here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from drivers.libvirt.devices.mdev import Divisible
from drivers.libvirt.devices.pools import Pool
from reportclient.model import MAX_INT

VGPU = "VGPU"
OPTION = "[devices] enabled_mdev_types"


@dataclass(frozen=True, slots=True)
class MdevType:
    """An enabled type; no ``addresses``: all devices that have it.

    ``max_instances``: on the whole host, at most; ``None``: as many as there can be.
    """

    name: str
    addresses: frozenset[str] = frozenset()
    resource_class: str = VGPU
    max_instances: int | None = None


@dataclass(frozen=True, slots=True)
class MdevSettings:
    """Enabled types; several of them have addresses, all different.  ``notes`` say what is
    odd about the options, by option.
    """

    types: tuple[MdevType, ...] = ()
    group_mdev_devices: bool = False
    notes: tuple[tuple[str, str], ...] = ()


def vgpu_pools(
    node: str, devices: Iterable[Divisible], settings: MdevSettings
) -> tuple[list[Pool], dict[str, str]]:
    """What can be had, and what is wrong with the configuration, by device or type."""
    pools: list[Pool] = []
    listed = list(devices)
    notes = dict(settings.notes)
    for kind in settings.types:
        mine = [one for one in listed if not kind.addresses or one.address in kind.addresses]
        having = [one for one in mine if kind.name in one.free or kind.name in one.made]
        notes |= _missing(kind, having)
        pools += _pools_of(node, kind, having)
    return pools, notes


def divided_addresses(devices: Iterable[Divisible], settings: MdevSettings) -> dict[str, str]:
    """PCI addresses of what is reported here, and that in words."""
    return {
        one.address: f"is divided into {kind.name}: it can't be given away whole"
        for one in devices
        for kind in settings.types
        if one.address and (kind.name in one.free or kind.name in one.made)
        if not kind.addresses or one.address in kind.addresses
    }


def _pools_of(node: str, kind: MdevType, devices: list[Divisible]) -> list[Pool]:
    """What there is counts first; what could be made, as far as the limit allows."""
    made = {one.name: one.made.get(kind.name, 0) for one in devices}
    limit = MAX_INT if kind.max_instances is None else kind.max_instances
    left = max(limit - sum(made.values()), 0)
    pools = []
    for one in devices:
        more = min(one.free.get(kind.name, 0), left)
        left -= more
        total = min(made[one.name] + more, MAX_INT)
        if total:
            pools.append(_pool(node, kind, one, total))
    return pools


def _pool(node: str, kind: MdevType, device: Divisible, total: int) -> Pool:
    return Pool(
        f"{node}_{device.name}",
        kind.resource_class,
        total,
        cell=device.cell,
        from_root=frozenset({VGPU}) & {kind.resource_class},
    )


def _missing(kind: MdevType, having: Iterable[Divisible]) -> dict[str, str]:
    """Where the operator counts on a type that a device does not have."""
    there = {one.address for one in having}
    if not there:
        return {f"mdev type {kind.name}": f"no device has it: see {OPTION}"}
    absent = sorted(kind.addresses - there)
    if not absent:
        return {}
    return {f"mdev type {kind.name}": f"is not to be had from {', '.join(absent)}"}
