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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from drivers.inventory import record
from drivers.libvirt.devices.pci_devices import NodeDevice
from drivers.libvirt.tree.reported import MDEV, VGPU, ReportedProvider
from reportclient.model import MAX_INT


def mdev_parents(devices: Sequence[NodeDevice]) -> tuple[NodeDevice, ...]:
    """Return all devices that support mdev types, by name, with their existing instances."""
    names = {it.address: it.name for it in devices if it.available}
    existing: dict[str, Counter[str]] = {}
    for device in devices:
        if device.mdev_type is not None:
            parent = names.get(device.mdev_address or "") or device.parent or ""
            existing.setdefault(parent, Counter())[device.mdev_type] += 1
    return tuple(
        replace(device, existing=existing.get(device.name, {}))
        for device in sorted(devices, key=lambda device: device.name)
        if device.available
    )


OPTION = "[devices] enabled_mdev_types"
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")


@dataclass(frozen=True, slots=True)
class MdevType:
    """An enabled type; without ``addresses`` it is the default (:meth:`MdevSettings.capable`).

    ``max_instances`` limits the instances on the whole host; ``None``: no limit.
    """

    name: str
    addresses: frozenset[str] = frozenset()
    resource_class: str = VGPU
    max_instances: int | None = None

    @classmethod
    def from_conf(cls, conf: Any, name: str) -> Self:
        """Return a type with the options of its group, ``[mdev_<name>]``.

        :raises ValueError: an option is invalid; the message names group and value.
        """
        options = conf[f"mdev_{name}"]
        addresses = frozenset(address.strip().lower() for address in options.device_addresses)
        for address in sorted(addresses):
            if not _ADDRESS.fullmatch(address):
                raise ValueError(
                    f"[mdev_{name}] device_addresses: {address!r} is not like 0000:84:00.0"
                )
        if not re.fullmatch(r"VGPU|CUSTOM_[A-Z0-9_]{1,248}", options.mdev_class):
            raise ValueError(
                f"[mdev_{name}] mdev_class = {options.mdev_class!r} is neither VGPU nor"
                " CUSTOM_... (capitals, digits and _)"
            )
        return cls(name, addresses, options.mdev_class, options.max_instances)


@dataclass(frozen=True, slots=True)
class MdevSettings:
    """Enabled types; at most one has no addresses.

    ``note`` is the problem of ``OPTION``, empty if there is none.
    """

    types: tuple[MdevType, ...] = ()
    group_mdev_devices: bool = False
    note: str = ""

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        """Return the types of ``[devices]``, with the options of their groups.

        :raises ValueError: an option is invalid; the message names group and value.
        """
        names = dict.fromkeys(conf.devices.enabled_mdev_types)
        types = [MdevType.from_conf(conf, name) for name in names]
        defaults = [mdev_type for mdev_type in types if not mdev_type.addresses]
        note = ""
        if len(defaults) > 1:
            types = [each for each in types if each.addresses or each is defaults[0]]
            note = (
                f"[mdev_{defaults[1].name}] has no device_addresses: only {defaults[0].name} is"
                " used for the devices that are not in the device_addresses of another type"
            )
        taken: dict[str, str] = {}
        for mdev_type in types:
            for address in sorted(mdev_type.addresses):
                other = taken.setdefault(address, mdev_type.name)
                if other != mdev_type.name:
                    raise ValueError(
                        f"[mdev_{mdev_type.name}] device_addresses: {address} is in"
                        f" [mdev_{other}] too; a device is divided into one type"
                    )
        return cls(tuple(types), conf.devices.group_mdev_devices, note)

    def capable(self, mdev_type: MdevType, devices: Iterable[NodeDevice]) -> list[NodeDevice]:
        """Return the devices that support a type, of those that the operator gives it.

        As in Nova, a type without addresses has all devices that are in no other type's addresses.
        """
        taken = frozenset[str]().union(*(each.addresses for each in self.types))
        return [
            device
            for device in devices
            if device.address in (mdev_type.addresses or {device.address} - taken)
            and (mdev_type.name in device.available or mdev_type.name in device.existing)
        ]


def mdev_name(node: str, address: str) -> str:
    """Return the name of the provider of an mdev parent, by its PCI address."""
    return f"{node}_pci_{re.sub('[:.]', '_', address)}"


def vgpu_pools(
    node: str, devices: Sequence[NodeDevice], settings: MdevSettings
) -> tuple[list[ReportedProvider], dict[str, str]]:
    """Return the devices with vGPUs, and notes on the configuration, by option or type.

    ``max_instances`` counts existing instances first.
    """
    pools: list[ReportedProvider] = []
    notes = {OPTION: settings.note} if settings.note else {}
    for mdev_type in settings.types:
        name, capable = mdev_type.name, settings.capable(mdev_type, devices)
        absent = mdev_type.addresses - {device.address for device in capable}
        if not capable:
            notes[f"mdev type {name}"] = f"no device has it: see {OPTION}"
        elif absent:
            notes[f"mdev type {name}"] = f"is not available on {', '.join(sorted(absent))}"
        limit = MAX_INT if mdev_type.max_instances is None else mdev_type.max_instances
        free = max(limit - sum(device.existing.get(name, 0) for device in capable), 0)
        for device in capable:
            more = min(device.available.get(name, 0), free)
            free -= more
            total = min(device.existing.get(name, 0) + more, MAX_INT)
            if total:
                pool = ReportedProvider(
                    f"{node}_{device.name}",
                    {mdev_type.resource_class: record(total)},
                    cell=None if device.pci is None else device.pci.cell,
                    from_root=frozenset({VGPU}) & {mdev_type.resource_class},
                    source=MDEV,
                )
                pools.append(pool)
    return pools, notes


def mdev_parent_addresses(devices: Sequence[NodeDevice], settings: MdevSettings) -> dict[str, str]:
    """Return, by PCI address, why devices that are reported as mdev parents can't be assigned."""
    return {
        device.address: f"is divided into {mdev_type.name}: it can't be assigned as a whole"
        for mdev_type in settings.types
        for device in settings.capable(mdev_type, devices)
        if device.address
    }
