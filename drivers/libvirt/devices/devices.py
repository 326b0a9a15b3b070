"""PCI and mediated devices, as providers below the root."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self
from xml.etree.ElementTree import Element

import os_traits

from drivers.api import DriverContext
from drivers.libvirt.connection.events import DEVICES, GUESTS
from drivers.libvirt.connection.host import Host
from drivers.libvirt.connection.listed import ListedDocuments, list_guests, list_node_devices
from drivers.libvirt.devices.pci import PciSettings, has_remote_managed, pci_pools
from drivers.libvirt.devices.pci_devices import (
    PciBus,
    assigned_addresses,
    device_document_problem,
    one_document_per_address,
    pci_bus,
)
from drivers.libvirt.devices.pools import Pool, pool_providers, similar_provider_warnings
from drivers.libvirt.devices.vgpu import (
    VGPU,
    MdevSettings,
    mdev_parent_addresses,
    mdev_parents,
    vgpu_pools,
)
from drivers.libvirt.documents import parse_document
from drivers.libvirt.facts.fact import ReportContext, Sources
from drivers.libvirt.opts import register_mdev_types
from drivers.libvirt.tree.reported import MDEV, PCI, HostReport, ReportedProvider
from drivers.opts import nova_owner_traits


@dataclass(frozen=True, slots=True)
class DevicesAnswer:
    """What the host reported.

    ``documents``: ``None`` if its devices could never be listed; ``unread``: devices that could not
    be read now, and why; ``assigned``: PCI addresses that guests have; ``all_read``: each device
    was read, now or earlier.
    """

    documents: tuple[Element, ...] | None = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    assigned: frozenset[str] = frozenset()
    all_read: bool = True


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """``owner_traits`` are set on every provider of a device, and never removed."""

    pci: PciSettings = field(default_factory=PciSettings)
    mdev: MdevSettings = field(default_factory=MdevSettings)
    owner_traits: frozenset[str] = frozenset()
    name: ClassVar[str] = PCI

    @classmethod
    def from_context(cls, context: DriverContext) -> Self:
        """Return the fact with its options.

        :raises ValueError: an option is invalid; the message names the value.
        """
        conf = context.conf
        register_mdev_types(conf)
        return cls(
            PciSettings.from_conf(conf), MdevSettings.from_conf(conf), nova_owner_traits(conf)
        )

    def query_host(self, sources: Sources) -> DevicesAnswer:
        """List the devices that the options need; an unreadable one keeps its last document."""
        kinds, binding = self.kinds(), sources.host.binding
        devices: ListedDocuments | None = ListedDocuments()
        if kinds:
            devices = sources.list_documents(
                DEVICES, lambda c: list_node_devices(c, binding, kinds, device_document_problem)
            )
        guests = ListedDocuments()
        if any(spec.one_time_use for spec in self.pci.specs):  # a used device stays reserved
            guests = sources.list_documents(GUESTS, lambda c: list_guests(c, binding)) or guests
        assigned = assigned_addresses(guests.documents.values())
        if devices is None:
            return DevicesAnswer(None, guests.notes("guest"), assigned)
        return DevicesAnswer(
            tuple(map(parse_document, devices.documents.values())),
            {**devices.notes("node device"), **guests.notes("guest")},
            assigned,
            all_read=devices.unread.keys() <= devices.documents.keys(),
        )

    def build_report(self, answer: DevicesAnswer, context: ReportContext) -> HostReport:
        """Return the providers of both kinds of devices; a device has one kind."""
        documents, doubled = one_document_per_address(answer.documents or ())
        bus, divided = pci_bus(documents), mdev_parents(documents)
        not_whole = _divided_reasons(bus, mdev_parent_addresses(divided, self.mdev))
        pci_device_pools, pci_notes = pci_pools(
            context.node, bus, self.pci, answer.assigned, not_whole
        )
        vgpu_device_pools, gpu_notes = vgpu_pools(context.node, divided, self.mdev)
        pci_children, notes = self._providers(
            context, pci_device_pools, self.pci.group_devices, PCI
        )
        mdev_children, mdev_notes = self._providers(
            context, vgpu_device_pools, self.mdev.group_mdev_devices, MDEV
        )
        device_notes = {} if answer.documents is None else {**pci_notes, **gpu_notes}
        unknown = answer.documents is None or not answer.all_read
        sources = frozenset({PCI, MDEV})
        return HostReport(
            children=[*pci_children, *mdev_children],
            traits={} if unknown else self._remote_managed(bus),
            notes={**device_notes, **notes, **mdev_notes, **answer.unread, **doubled},
            warnings=similar_provider_warnings([*pci_children, *mdev_children]),
            silent=sources if answer.documents is None else frozenset(),
            incomplete=sources if unknown else frozenset(),
            unchanged_classes=frozenset({VGPU} if unknown and self.mdev.types else ()),
        )

    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of node devices to list, as suffixes of libvirt's flags."""
        pci = ("PCI_DEV",) if self.pci.specs else ()
        names = ("NET",) if any(spec.devname for spec in self.pci.specs) else ()
        mdev = ("PCI_DEV", "MDEV_TYPES", "MDEV") if self.mdev.types else ()
        return tuple(dict.fromkeys((*pci, *names, *mdev)))

    def _providers(
        self, context: ReportContext, pools: Sequence[Pool], grouped: bool, source: str
    ) -> tuple[list[ReportedProvider], dict[str, str]]:
        children, notes = pool_providers(
            context.node, pools, context.observed, grouped=grouped, by_cell=context.by_cell
        )
        return [
            replace(child, traits=child.traits | self.owner_traits, source=source)
            for child in children
        ], notes

    def _remote_managed(self, bus: PciBus) -> dict[str, bool]:
        """Return the trait; nothing if no devices are reported, since Nova may set it then."""
        name = os_traits.COMPUTE_REMOTE_MANAGED_PORTS
        return {name: has_remote_managed(bus, self.pci)} if self.pci.specs else {}


def list_all_guests(host: Host) -> ListedDocuments:
    """Return all guests, running or not."""
    return host.call_over_side_connection(
        GUESTS, lambda c: list_guests(c, host.binding), ListedDocuments()
    )


def _divided_reasons(bus: PciBus, divided: Mapping[str, str]) -> dict[str, str]:
    """Return why devices that are divided, or have such VFs, can't be assigned, by address."""
    of_pfs = {
        device.physical: f"its VF {address} {why}"
        for address, why in divided.items()
        if (device := bus.devices.get(address)) is not None and device.physical is not None
    }
    return {**of_pfs, **divided}
