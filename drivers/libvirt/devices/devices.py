"""PCI and mediated devices, as providers below the root."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar
from xml.etree.ElementTree import Element

import os_traits

from drivers.api import DriverContext
from drivers.libvirt.connection.events import DEVICES, GUESTS
from drivers.libvirt.connection.host import Host
from drivers.libvirt.devices.pci import PciSettings, has_remote_managed, pci_pools
from drivers.libvirt.devices.pci_devices import (
    NodeDevice,
    assigned_addresses,
    node_device,
    one_device_per_address,
    pci_bus,
)
from drivers.libvirt.devices.pools import pool_providers, similar_provider_warnings
from drivers.libvirt.devices.vgpu import (
    MdevSettings,
    mdev_parent_addresses,
    mdev_parents,
    vgpu_pools,
)
from drivers.libvirt.documents import parse_document
from drivers.libvirt.facts.fact import ListedDocuments, ReportContext, Sources, read_documents
from drivers.libvirt.opts import register_mdev_types
from drivers.libvirt.tree.reported import MDEV, PCI, VGPU, HostReport

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DevicesAnswer:
    """Answer of the host about its devices.

    ``unread``: devices that could not be read now, and why; ``assigned``: PCI addresses that guests
    have; ``all_read``: each device was read, now or earlier.
    """

    devices: tuple[NodeDevice, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    assigned: frozenset[str] = frozenset()
    all_read: bool = True


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The PCI devices and mediated devices that the operator's options name."""

    pci: PciSettings = field(default_factory=PciSettings)
    mdev: MdevSettings = field(default_factory=MdevSettings)
    name: ClassVar[str] = PCI

    @classmethod
    def from_context(cls, context: DriverContext) -> Self:
        """Return the fact with its options.

        :raises ValueError: an option is invalid; the message names the value.
        """
        conf = context.conf
        register_mdev_types(conf)
        return cls(PciSettings.from_conf(conf), MdevSettings.from_conf(conf))

    def query_host(self, sources: Sources) -> DevicesAnswer | None:
        """List the devices that the options need; an unreadable one keeps its last document.

        ``None``: the devices could never be listed.
        """
        kinds = set[str]()
        if self.pci.specs:
            kinds.add("PCI_DEV")
        if any(spec.devname for spec in self.pci.specs):
            kinds.add("NET")
        if self.mdev.types:
            kinds |= {"PCI_DEV", "MDEV_TYPES", "MDEV"}
        binding = sources.host.binding
        # A kind that the binding does not know is skipped.
        names = (f"VIR_CONNECT_LIST_NODE_DEVICES_CAP_{kind}" for kind in kinds)
        flags = sum(getattr(binding, name, 0) for name in names)
        devices: ListedDocuments[NodeDevice] | None = ListedDocuments()
        if kinds:
            devices = sources.list_documents(
                DEVICES,
                lambda c: read_documents(c, binding, _active(c, binding, flags), node_device),
            )
        guests: ListedDocuments[frozenset[str]] = ListedDocuments()
        if any(spec.one_time_use for spec in self.pci.specs):  # a used device stays reserved
            guests = (
                sources.list_documents(GUESTS, lambda c: _guests(c, binding, assigned_addresses))
                or guests
            )
        assigned = frozenset[str]().union(*guests.documents.values())
        if devices is None:
            return None
        return DevicesAnswer(
            tuple(devices.documents.values()),
            {**devices.notes("node device"), **guests.notes("guest")},
            assigned,
            all_read=devices.unread.keys() <= devices.documents.keys(),
        )

    def build_report(self, answer: DevicesAnswer | None, context: ReportContext) -> HostReport:
        """Return the providers of both kinds of devices; a device has one kind."""
        sources, on_root = frozenset({PCI, MDEV}), frozenset({VGPU} if self.mdev.types else ())
        if answer is None:
            return HostReport(silent=sources, unchanged_classes=on_root)
        devices, notes = one_device_per_address(answer.devices)
        bus, parents = pci_bus(devices), mdev_parents(devices)
        divided = mdev_parent_addresses(parents, self.mdev)
        of_pfs = {  # a guest with a PF has its VFs, too
            device.physical: f"its VF {address} {why}"
            for address, why in divided.items()
            if (device := bus.devices.get(address)) is not None and device.physical is not None
        }
        pci, pci_notes = pci_pools(
            context.node, bus, self.pci, answer.assigned, {**of_pfs, **divided}
        )
        mdev, mdev_notes = vgpu_pools(context.node, parents, self.mdev)
        children = [
            child
            for devices_of_kind, grouped in (
                (pci, self.pci.group_devices),
                (mdev, self.mdev.group_mdev_devices),
            )
            for child in pool_providers(
                context.node, devices_of_kind, grouped=grouped, by_cell=context.by_cell
            )
        ]
        traits: dict[str, bool] = {}
        if self.pci.specs and answer.all_read:  # without devices here, Nova may set it
            name = os_traits.COMPUTE_REMOTE_MANAGED_PORTS
            traits[name] = has_remote_managed(bus, self.pci)
        return HostReport(
            children=children,
            traits=traits,
            notes={**notes, **pci_notes, **mdev_notes, **answer.unread},
            warnings=similar_provider_warnings(children),
            incomplete=frozenset() if answer.all_read else sources,
            unchanged_classes=frozenset() if answer.all_read else on_root,
        )


def _active(connection: Any, binding: Any, flags: int) -> Any:
    """Return the node devices of these kinds that are there.

    From libvirt 7.3 on a mediated device can be defined without being started.  A libvirt that does
    not know the flag for those that are has no others.
    """
    try:
        return connection.listAllDevices(flags | binding.VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE)
    except binding.libvirtError as err:
        if err.get_error_code() != binding.VIR_ERR_INVALID_ARG:
            raise
        return connection.listAllDevices(flags)


def list_all_guests(host: Host) -> ListedDocuments[Element]:
    """Return the documents of all guests, running or not."""

    def call(connection: Any) -> ListedDocuments[Element]:
        return _guests(connection, host.binding, lambda text: parse_document(text, "domain"))

    return host.call_if_supported(GUESTS, call, ListedDocuments(), aside=True)


def _guests(connection: Any, binding: Any, parse: Callable[[str], T]) -> ListedDocuments[T]:
    return read_documents(connection, binding, connection.listAllDomains(0), parse)
