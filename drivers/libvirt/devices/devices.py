"""PCI devices and parts of them, as what is reported below the root."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self
from xml.etree.ElementTree import Element

import os_traits

from drivers.api import DriverContext
from drivers.libvirt.connection.events import DEVICES, GUESTS
from drivers.libvirt.connection.host import Host
from drivers.libvirt.connection.listed import Listed, guests, node_devices
from drivers.libvirt.devices.pci import PciSettings, has_remote_managed, pci_pools
from drivers.libvirt.devices.pci_devices import PciBus, assigned_addresses, pci_bus, too_little
from drivers.libvirt.devices.pools import Pool, many_alike, providers
from drivers.libvirt.devices.vgpu import (
    VGPU,
    MdevSettings,
    divided_addresses,
    divisible,
    vgpu_pools,
)
from drivers.libvirt.documents import read
from drivers.libvirt.facts.fact import Sources, Subject
from drivers.libvirt.opts import register_mdev_types
from drivers.libvirt.tree.reported import MDEV, PCI, HostReport, Reported
from drivers.opts import nova_owner_traits


@dataclass(frozen=True, slots=True)
class Devices:
    """What the host told.  ``documents``: ``None`` if its devices could not be listed;
    ``unread`` are those that could not be read now, and why; ``assigned`` are the PCI
    addresses that guests have.  ``all_read``: of each device it is known what it is, or was.
    """

    documents: tuple[Element, ...] | None = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    assigned: frozenset[str] = frozenset()
    all_read: bool = True


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """``owner_traits`` are traits that every provider of a device gets; nobody takes them away."""

    pci: PciSettings = field(default_factory=PciSettings)
    mdev: MdevSettings = field(default_factory=MdevSettings)
    owner_traits: frozenset[str] = frozenset()
    name: ClassVar[str] = PCI

    @classmethod
    def of(cls, context: DriverContext) -> Self:
        """Return the fact by its options.  :raises ValueError: naming the wrong value."""
        conf = context.conf
        register_mdev_types(conf)
        return cls(PciSettings.of(conf), MdevSettings.of(conf), nova_owner_traits(conf))

    def ask(self, sources: Sources) -> Devices:
        """Only what the options need.  A device that can't be read is the one that it was."""
        kinds, binding = self.kinds(), sources.host.binding
        now: Listed | None = Listed()
        if kinds:
            now = sources.listed(DEVICES, lambda c: node_devices(c, binding, kinds, too_little))
        taken = Listed()
        if any(spec.one_time_use for spec in self.pci.specs):  # not to be given again
            taken = sources.listed(GUESTS, lambda c: guests(c, binding)) or taken
        assigned = assigned_addresses(taken.documents.values())
        if now is None:
            return Devices(None, taken.notes("guest"), assigned)
        return Devices(
            tuple(map(read, now.documents.values())),
            {**now.notes("node device"), **taken.notes("guest")},
            assigned,
            all_read=now.unread.keys() <= now.documents.keys(),
        )

    def judge(self, answer: Devices, of: Subject) -> HostReport:
        """Judge each kind of device; a device has one kind."""
        documents = answer.documents or ()
        bus, divided = pci_bus(documents), divisible(documents)
        others = _taken(bus, divided_addresses(divided, self.mdev))
        pci, pci_notes = pci_pools(of.node, bus, self.pci, answer.assigned, others)
        gpus, gpu_notes = vgpu_pools(of.node, divided, self.mdev)
        whole, notes = self._providers(of, pci, self.pci.group_devices, PCI)
        parts, more = self._providers(of, gpus, self.mdev.group_mdev_devices, MDEV)
        odd = {} if answer.documents is None else {**pci_notes, **gpu_notes}
        unknown = answer.documents is None or not answer.all_read
        both = frozenset({PCI, MDEV})
        return HostReport(
            children=[*whole, *parts],
            traits={} if unknown else self._remote_managed(bus),
            notes={**odd, **notes, **more, **answer.unread},
            warnings=many_alike([*whole, *parts]),
            silent=both if answer.documents is None else frozenset(),
            unsure=both if unknown else frozenset(),
            kept=frozenset({VGPU} if unknown and self.mdev.types else ()),
        )

    def kinds(self) -> tuple[str, ...]:
        """Kinds of node devices to list, by libvirt's names of their flags."""
        pci = ("PCI_DEV",) if self.pci.specs else ()
        names = ("NET",) if any(spec.devname for spec in self.pci.specs) else ()
        mdev = ("PCI_DEV", "MDEV_TYPES", "MDEV") if self.mdev.types else ()
        return tuple(dict.fromkeys((*pci, *names, *mdev)))

    def _providers(
        self, of: Subject, pools: Sequence[Pool], grouped: bool, source: str
    ) -> tuple[list[Reported], dict[str, str]]:
        children, notes = providers(
            of.node, pools, of.observed, grouped=grouped, by_cell=of.by_cell
        )
        return [
            replace(one, traits=one.traits | self.owner_traits, source=source) for one in children
        ], notes

    def _remote_managed(self, bus: PciBus) -> dict[str, bool]:
        """Not told where the entries of device_spec are another service's."""
        name = os_traits.COMPUTE_REMOTE_MANAGED_PORTS
        return {name: has_remote_managed(bus, self.pci)} if self.pci.specs else {}


def all_guests(host: Host) -> Listed:
    """Running or not."""
    return host.ask_over_side_connection(GUESTS, lambda c: guests(c, host.binding), Listed())


def _taken(bus: PciBus, divided: Mapping[str, str]) -> dict[str, str]:
    """Why devices can't be given away whole, by address: who gets a PF gets its VFs as well."""
    above = {
        device.physical: f"its VF {address} {why}"
        for address, why in divided.items()
        if (device := bus.devices.get(address)) is not None and device.physical is not None
    }
    return {**above, **divided}
