"""Pure: all devices of a host, as what is reported below its root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from xml.etree.ElementTree import Element

import os_traits

from drivers.libvirt.devices.encryption import CONTEXT, Encryption, Limits, encryption, moved_traits
from drivers.libvirt.devices.mdev import divisible
from drivers.libvirt.devices.pci import PciSettings, has_remote_managed, pci_pools
from drivers.libvirt.devices.pci_devices import PciBus, pci_bus
from drivers.libvirt.devices.pools import Grouping, many_alike, providers
from drivers.libvirt.devices.vgpu import VGPU, MdevSettings, divided_addresses, vgpu_pools
from drivers.libvirt.facts.numa import Known
from drivers.libvirt.tree.reported import ENCRYPTION, MDEV, PCI, Reported


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """What the operator decided about devices."""

    pci: PciSettings = field(default_factory=PciSettings)
    mdev: MdevSettings = field(default_factory=MdevSettings)
    encryption: Limits = field(default_factory=Limits)
    marks: frozenset[str] = frozenset()
    """Traits that every provider of a device gets; nobody takes them away."""

    def kinds(self) -> tuple[str, ...]:
        """Kinds of node devices to list, by libvirt's names of their flags."""
        pci = ("PCI_DEV",) if self.pci.specs else ()
        names = ("NET",) if self.pci.names_networks else ()
        mdev = ("PCI_DEV", "MDEV_TYPES", "MDEV") if self.mdev.types else ()
        return tuple(dict.fromkeys((*pci, *names, *mdev)))


@dataclass(frozen=True, slots=True)
class Devices:
    """What the host told.  ``documents``: ``None`` if its devices could not be listed;
    ``unread`` are those that could not be read now, and why; ``assigned`` are the PCI
    addresses that guests have.  ``all_read``: of each device it is known what it is, or was.
    """

    documents: tuple[Element, ...] | None = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    assigned: frozenset[str] = frozenset()
    encryption: Encryption = field(default_factory=Encryption)
    all_read: bool = True


@dataclass(frozen=True, slots=True)
class Below:
    """Children, and for the root: classes that it keeps if it has them (``kept``), and
    traits that it has no more.
    """

    children: tuple[Reported, ...]
    notes: Mapping[str, str]
    kept: frozenset[str]
    traits: Mapping[str, bool]
    silent: frozenset[str]
    unsure: frozenset[str]


def below_root(
    node: str, found: Devices, settings: DeviceSettings, by_cell: bool, known: Known
) -> Below:
    """``by_cell`` where NUMA cells are providers."""
    documents = found.documents or ()
    bus, divided = pci_bus(documents), divisible(documents)
    others = _taken(bus, divided_addresses(divided, settings.mdev))
    pci, pci_notes = pci_pools(node, bus, settings.pci, found.assigned, others)
    gpus, gpu_notes = vgpu_pools(node, divided, settings.mdev)
    if found.documents is None:
        pci_notes = gpu_notes = {}
    whole, notes = providers(node, pci, Grouping(settings.pci.group_devices, by_cell), known)
    parts, more = providers(node, gpus, Grouping(settings.mdev.group_mdev_devices, by_cell), known)
    secret, odd = encryption(node, found.encryption, settings.encryption, known)
    unknown = found.documents is None or not found.all_read
    kept = {VGPU} if unknown and settings.mdev.types else set()
    if found.encryption.domain_capabilities is None:
        kept.add(CONTEXT)
    children = (*whole, *(replace(one, source=MDEV) for one in parts), *secret)
    return Below(
        tuple(replace(one, traits=one.traits | settings.marks) for one in children),
        {**pci_notes, **gpu_notes, **notes, **more, **odd, **found.unread},
        frozenset(kept),
        {**moved_traits(secret), **_remote_managed(found, bus, settings.pci)},
        silent=_silent(found),
        unsure=frozenset({PCI, MDEV}) if unknown else frozenset(),
    )


def _remote_managed(found: Devices, bus: PciBus, settings: PciSettings) -> dict[str, bool]:
    """Whether guests can have ports whose network card manages them: where there are such VFs.

    Not told where the entries of device_spec are another service's.
    """
    if not settings.specs or found.documents is None or not found.all_read:
        return {}
    return {os_traits.COMPUTE_REMOTE_MANAGED_PORTS: has_remote_managed(bus, settings)}


def _silent(found: Devices) -> frozenset[str]:
    devices = {PCI, MDEV} if found.documents is None else frozenset[str]()
    secret = set[str]() if found.encryption.told else {ENCRYPTION}
    return frozenset({*devices, *secret})


def _taken(bus: PciBus, divided: Mapping[str, str]) -> dict[str, str]:
    """Why devices can't be given away whole, by address: who gets a PF gets its VFs as well."""
    above = {
        device.physical: f"its VF {address} {why}"
        for address, why in divided.items()
        if (device := bus.devices.get(address)) is not None and device.physical is not None
    }
    return {**above, **divided}


def warnings(below: Below) -> tuple[str, ...]:
    """What works, but not well."""
    return many_alike(below.children)
