"""Pure: vGPUs and other mediated devices as inventory; Nova's rules and names.

Each physical GPU that has an enabled type is a provider, ``<node>_pci_0000_84_00_0``.  It has
VGPU, or the class of its type: what could be made of that type, and what there is of it.  A
GPU whose type is switched off, or of which nothing can be had, is not reported; earlier
releases of Nova had all VGPU on the root, from where it moves here.

    <device>
      <name>pci_0000_84_00_0</name>
      <capability type='pci'> ...
        <capability type='mdev_types'>
          <type id='nvidia-35'> <availableInstances>16</availableInstances> ...

    <device>
      <name>mdev_4b20d080_1b54_4048_85b3_a6a62d165c01</name>
      <parent>pci_0000_84_00_0</parent>
      <capability type='mdev'> <type id='nvidia-35'/> <parent_addr>0000:84:00.0</parent_addr> ...

Not only PCI devices can be divided: channel devices and crypto cards of a mainframe, too.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from xml.etree.ElementTree import Element

from drivers.libvirt.devices.pci_devices import cell_of, pci_address
from drivers.libvirt.devices.pools import Pool
from drivers.libvirt.documents import text_of, whole
from reportclient.model import MAX_INT


@dataclass(frozen=True, slots=True)
class Divisible:
    """A physical GPU, or a VF of one: what it can be divided into.

    ``free`` and ``made`` count instances by type: those that could be made now, and those
    that there are.  ``address`` is ``None`` for what is not on a PCI bus.
    """

    name: str
    free: Mapping[str, int]
    made: Mapping[str, int]
    address: str | None = None
    cell: int | None = None


def divisible(documents: Iterable[Element]) -> tuple[Divisible, ...]:
    """All devices that know types, by name."""
    listed = list(documents)
    parents: dict[str, Element] = {}
    for one in listed:
        name = text_of(one, "name")
        if name and one.find(".//capability[@type='mdev_types']/type") is not None:
            parents.setdefault(name, one)
    made = _made(listed, {_address(one): name for name, one in parents.items()})
    return tuple(_divisible(name, parents[name], made.get(name, {})) for name in sorted(parents))


def _divisible(name: str, document: Element, made: Mapping[str, int]) -> Divisible:
    free: dict[str, int] = {}
    for one in document.findall(".//capability[@type='mdev_types']/type"):
        free.setdefault(one.get("id") or "", whole(text_of(one, "availableInstances")) or 0)
    pci = document.find("capability[@type='pci']")
    cell = None if pci is None else cell_of(pci)
    return Divisible(name, free, made, _address(document), cell)


def _made(documents: Iterable[Element], names: Mapping[str | None, str]) -> dict[str, Counter[str]]:
    """Instances by type, by the name of what they are a part of."""
    made: dict[str, Counter[str]] = {}
    seen: set[str] = set()
    for one in documents:
        instance = one.find("capability[@type='mdev']")
        kind = None if instance is None else instance.find("type")
        name = text_of(one, "name") or ""
        if instance is None or kind is None or name in seen:
            continue
        seen.add(name)
        told = text_of(instance, "parent_addr")
        parent = names.get(told) if told else None
        made.setdefault(parent or text_of(one, "parent") or "", Counter())[
            kind.get("id") or ""
        ] += 1
    return made


def _address(document: Element) -> str | None:
    pci = document.find("capability[@type='pci']")
    return None if pci is None else pci_address(pci)


VGPU = "VGPU"
OPTION = "[devices] enabled_mdev_types"
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")


@dataclass(frozen=True, slots=True)
class MdevType:
    """An enabled type; no ``addresses``: all devices that have it.

    ``max_instances``: on the whole host, at most; ``None``: as many as there can be.
    """

    name: str
    addresses: frozenset[str] = frozenset()
    resource_class: str = VGPU
    max_instances: int | None = None

    @classmethod
    def of(cls, conf: Any, name: str) -> Self:
        """Return a type by its group.  :raises ValueError: naming it and the wrong value."""
        kind = cls(name)
        options = conf[kind.group]
        addresses = [address.strip().lower() for address in options.device_addresses]
        for address in addresses:
            if not _ADDRESS.fullmatch(address):
                raise ValueError(
                    f"[{kind.group}] device_addresses: {address!r} is not like 0000:84:00.0"
                )
        if not re.fullmatch(r"VGPU|CUSTOM_[A-Z0-9_]{1,248}", options.mdev_class):
            raise ValueError(
                f"[{kind.group}] mdev_class = {options.mdev_class!r} is neither VGPU nor"
                " CUSTOM_... (capitals, digits and _)"
            )
        return cls(name, frozenset(addresses), options.mdev_class, options.max_instances)

    @property
    def group(self) -> str:
        """The group of its options: ``mdev_nvidia-35``."""
        return f"mdev_{self.name}"


@dataclass(frozen=True, slots=True)
class MdevSettings:
    """Enabled types; several of them have addresses, all different.  ``notes`` say what is
    odd about the options, by option.
    """

    types: tuple[MdevType, ...] = ()
    group_mdev_devices: bool = False
    notes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, conf: Any) -> Self:
        """Return the types by ``[devices]`` and their groups.

        :raises ValueError: naming the group and the value that is wrong.
        """
        names = dict.fromkeys(conf.devices.enabled_mdev_types)
        types = [MdevType.of(conf, name) for name in names]
        bare = [kind for kind in types if not kind.addresses]
        notes: tuple[tuple[str, str], ...] = ()
        if len(types) > 1 and bare:
            words = f"[{bare[0].group}] has no device_addresses: only {types[0].name} is used"
            types, notes = types[:1], ((OPTION, words),)
        _refuse_shared_devices(types)
        return cls(tuple(types), conf.devices.group_mdev_devices, notes)


def _refuse_shared_devices(types: Iterable[MdevType]) -> None:
    taken: dict[str, MdevType] = {}
    for kind in types:
        for address in sorted(kind.addresses):
            other = taken.setdefault(address, kind)
            if other is not kind:
                raise ValueError(
                    f"[{kind.group}] device_addresses: {address} is in [{other.group}] too;"
                    " a device is divided into one type"
                )


def vgpu_pools(
    node: str, devices: Iterable[Divisible], settings: MdevSettings
) -> tuple[list[Pool], dict[str, str]]:
    """Return the pools of vGPUs, and errors of the configuration, by device or type."""
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
    """Return pools: existing mediated devices, then those that the limit allows."""
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
    return {f"mdev type {kind.name}": f"is not available on {', '.join(absent)}"}
