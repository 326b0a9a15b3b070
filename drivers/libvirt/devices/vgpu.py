"""Pure: vGPUs and other mediated devices as inventory, by Nova's rules and names.

Each mdev parent device (mostly a physical GPU) that has an enabled type is a provider,
``<node>_pci_0000_84_00_0``.  Its inventory is VGPU, or the class of its type; the total is the
number of existing mediated devices plus those that can still be created.  A device whose type is
not enabled, or whose total is 0, is not reported.  Old releases of Nova had all VGPU on the root,
from where it moves here.

    <device>
      <name>pci_0000_84_00_0</name>
      <capability type='pci'> ...
        <capability type='mdev_types'>
          <type id='nvidia-35'> <availableInstances>16</availableInstances> ...

    <device>
      <name>mdev_4b20d080_1b54_4048_85b3_a6a62d165c01</name>
      <parent>pci_0000_84_00_0</parent>
      <capability type='mdev'> <type id='nvidia-35'/> <parent_addr>0000:84:00.0</parent_addr> ...

Parent devices need not be PCI devices: channel devices and crypto cards of a mainframe are others.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from xml.etree.ElementTree import Element

from drivers.libvirt.devices.pci_devices import cell_of, pci_address
from drivers.libvirt.devices.pools import Pool
from drivers.libvirt.documents import text_of, whole_number
from reportclient.model import MAX_INT


@dataclass(frozen=True, slots=True)
class MdevParent:
    """A device that can be divided into mediated devices: a physical GPU, or a VF of one.

    ``available`` and ``existing`` count instances by type: those that can be created, and those
    that exist. ``address`` is ``None`` for devices that are not on a PCI bus.
    """

    name: str
    available: Mapping[str, int]
    existing: Mapping[str, int]
    address: str | None = None
    cell: int | None = None


def mdev_parents(documents: Iterable[Element]) -> tuple[MdevParent, ...]:
    """Return all devices that support mdev types, by name."""
    listed = list(documents)
    parents: dict[str, Element] = {}
    for document in listed:
        name = text_of(document, "name")
        if name and document.find(".//capability[@type='mdev_types']/type") is not None:
            parents.setdefault(name, document)
    existing = _existing_instances(
        listed, {_address(document): name for name, document in parents.items()}
    )
    return tuple(
        _mdev_parent(name, parents[name], existing.get(name, {})) for name in sorted(parents)
    )


def _mdev_parent(name: str, document: Element, existing: Mapping[str, int]) -> MdevParent:
    available: dict[str, int] = {}
    for mdev_type in document.findall(".//capability[@type='mdev_types']/type"):
        available.setdefault(
            mdev_type.get("id") or "", whole_number(text_of(mdev_type, "availableInstances")) or 0
        )
    pci = document.find("capability[@type='pci']")
    cell = None if pci is None else cell_of(pci)
    return MdevParent(name, available, existing, _address(document), cell)


def _existing_instances(
    documents: Iterable[Element], names: Mapping[str | None, str]
) -> dict[str, Counter[str]]:
    """Count existing mediated devices by the parent's name and by type."""
    existing: dict[str, Counter[str]] = {}
    seen: set[str] = set()
    for document in documents:
        instance = document.find("capability[@type='mdev']")
        mdev_type = None if instance is None else instance.find("type")
        name = text_of(document, "name") or ""
        if instance is None or mdev_type is None or name in seen:
            continue
        seen.add(name)
        parent_address = text_of(instance, "parent_addr")
        parent = names.get(parent_address) if parent_address else None
        existing.setdefault(parent or text_of(document, "parent") or "", Counter())[
            mdev_type.get("id") or ""
        ] += 1
    return existing


def _address(document: Element) -> str | None:
    pci = document.find("capability[@type='pci']")
    return None if pci is None else pci_address(pci)


VGPU = "VGPU"
OPTION = "[devices] enabled_mdev_types"
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")


@dataclass(frozen=True, slots=True)
class MdevType:
    """An enabled type; without ``addresses``, for all devices that support it.

    ``max_instances`` limits the instances on the whole host; ``None``: no limit.
    """

    name: str
    addresses: frozenset[str] = frozenset()
    resource_class: str = VGPU
    max_instances: int | None = None

    @classmethod
    def from_conf(cls, conf: Any, name: str) -> Self:
        """Return a type with the options of its group.

        :raises ValueError: an option is invalid; the message names group and value.
        """
        mdev_type = cls(name)
        options = conf[mdev_type.group]
        addresses = [address.strip().lower() for address in options.device_addresses]
        for address in addresses:
            if not _ADDRESS.fullmatch(address):
                raise ValueError(
                    f"[{mdev_type.group}] device_addresses: {address!r} is not like 0000:84:00.0"
                )
        if not re.fullmatch(r"VGPU|CUSTOM_[A-Z0-9_]{1,248}", options.mdev_class):
            raise ValueError(
                f"[{mdev_type.group}] mdev_class = {options.mdev_class!r} is neither VGPU nor"
                " CUSTOM_... (capitals, digits and _)"
            )
        return cls(name, frozenset(addresses), options.mdev_class, options.max_instances)

    @property
    def group(self) -> str:
        """The group of its options: ``mdev_nvidia-35``."""
        return f"mdev_{self.name}"


@dataclass(frozen=True, slots=True)
class MdevSettings:
    """Enabled types; if there are several, each has addresses of its own.

    ``notes`` are problems of the options, by option.
    """

    types: tuple[MdevType, ...] = ()
    group_mdev_devices: bool = False
    notes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        """Return the types of ``[devices]``, with the options of their groups.

        :raises ValueError: an option is invalid; the message names group and value.
        """
        names = dict.fromkeys(conf.devices.enabled_mdev_types)
        types = [MdevType.from_conf(conf, name) for name in names]
        without_addresses = [mdev_type for mdev_type in types if not mdev_type.addresses]
        notes: tuple[tuple[str, str], ...] = ()
        if len(types) > 1 and without_addresses:
            note = (
                f"[{without_addresses[0].group}] has no device_addresses:"
                f" only {types[0].name} is used"
            )
            types, notes = types[:1], ((OPTION, note),)
        _refuse_shared_devices(types)
        return cls(tuple(types), conf.devices.group_mdev_devices, notes)


def _refuse_shared_devices(types: Iterable[MdevType]) -> None:
    taken: dict[str, MdevType] = {}
    for mdev_type in types:
        for address in sorted(mdev_type.addresses):
            other = taken.setdefault(address, mdev_type)
            if other is not mdev_type:
                raise ValueError(
                    f"[{mdev_type.group}] device_addresses: {address} is in [{other.group}] too;"
                    " a device is divided into one type"
                )


def vgpu_pools(
    node: str, devices: Iterable[MdevParent], settings: MdevSettings
) -> tuple[list[Pool], dict[str, str]]:
    """Return the pools of vGPUs, and notes on the configuration, by option or type."""
    pools: list[Pool] = []
    listed = list(devices)
    notes = dict(settings.notes)
    for mdev_type in settings.types:
        allowed = [
            device
            for device in listed
            if not mdev_type.addresses or device.address in mdev_type.addresses
        ]
        capable = [
            device
            for device in allowed
            if mdev_type.name in device.available or mdev_type.name in device.existing
        ]
        notes |= _missing(mdev_type, capable)
        pools += _pools_of(node, mdev_type, capable)
    return pools, notes


def mdev_parent_addresses(devices: Iterable[MdevParent], settings: MdevSettings) -> dict[str, str]:
    """Return, by PCI address, why devices that are reported as mdev parents can't be assigned."""
    return {
        device.address: f"is divided into {mdev_type.name}: it can't be assigned as a whole"
        for device in devices
        for mdev_type in settings.types
        if device.address
        and (mdev_type.name in device.available or mdev_type.name in device.existing)
        if not mdev_type.addresses or device.address in mdev_type.addresses
    }


def _pools_of(node: str, mdev_type: MdevType, devices: list[MdevParent]) -> list[Pool]:
    """Return the pools of a type; ``max_instances`` counts existing instances first."""
    existing = {device.name: device.existing.get(mdev_type.name, 0) for device in devices}
    limit = MAX_INT if mdev_type.max_instances is None else mdev_type.max_instances
    left = max(limit - sum(existing.values()), 0)
    pools = []
    for device in devices:
        more = min(device.available.get(mdev_type.name, 0), left)
        left -= more
        total = min(existing[device.name] + more, MAX_INT)
        if total:
            pools.append(_pool(node, mdev_type, device, total))
    return pools


def _pool(node: str, mdev_type: MdevType, device: MdevParent, total: int) -> Pool:
    return Pool(
        f"{node}_{device.name}",
        mdev_type.resource_class,
        total,
        cell=device.cell,
        from_root=frozenset({VGPU}) & {mdev_type.resource_class},
    )


def _missing(mdev_type: MdevType, devices: Iterable[MdevParent]) -> dict[str, str]:
    """Return a note where the operator enabled a type on a device that does not support it."""
    addresses = {device.address for device in devices}
    if not addresses:
        return {f"mdev type {mdev_type.name}": f"no device has it: see {OPTION}"}
    absent = sorted(mdev_type.addresses - addresses)
    if not absent:
        return {}
    return {f"mdev type {mdev_type.name}": f"is not available on {', '.join(absent)}"}
