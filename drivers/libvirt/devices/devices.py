"""PCI and mediated devices, as providers below the root."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar
from xml.etree.ElementTree import Element

import os_traits

from drivers.api import DriverContext
from drivers.libvirt.connection.events import DEVICES, GUESTS
from drivers.libvirt.connection.host import Host
from drivers.libvirt.devices.pci import PciSettings, has_remote_managed, pci_name, pci_pools
from drivers.libvirt.devices.pci_devices import (
    NodeDevice,
    PciBus,
    assigned_addresses,
    node_device,
    pci_bus,
)
from drivers.libvirt.devices.pools import pool_providers, similar_provider_warnings
from drivers.libvirt.devices.vgpu import (
    MdevSettings,
    mdev_name,
    mdev_parent_addresses,
    mdev_parents,
    vgpu_pools,
)
from drivers.libvirt.documents import parse_document
from drivers.libvirt.facts.fact import (
    ListedDocuments,
    Part,
    ReportContext,
    Sources,
    read_documents,
)
from drivers.libvirt.opts import register_mdev_types
from drivers.libvirt.tree.reported import (
    LATE,
    MDEV,
    PCI,
    VGPU,
    HostReport,
    Observed,
    ReportedProvider,
    total_of,
)

T = TypeVar("T")

VFS, IOMMU, TYPES = "VFs", "IOMMU group", "mdev types"
CHANNELS = ("css", "ap")
"""How libvirt's names of mainframe devices begin, which are not listed until they have types."""


@dataclass(frozen=True, slots=True)
class DevicesAnswer:
    """Answer of the host about its devices.

    ``unread``: devices that could not be read now, and why; ``assigned``: PCI addresses that guests
    have; ``all_read``: each device was read, now or earlier; ``late``: what devices lack, but may
    get.
    """

    devices: tuple[NodeDevice, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    assigned: frozenset[str] = frozenset()
    all_read: bool = True
    late: frozenset[Part] = frozenset()


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
        binding, has_mdev = sources.host.binding, bool(self.mdev.types)
        kinds = {
            "PCI_DEV": bool(self.pci.specs) or has_mdev,
            "NET": any(spec.devname for spec in self.pci.specs),
            "MDEV_TYPES": has_mdev,
            "MDEV": has_mdev,
        }
        # A kind that the binding does not know is skipped.
        names = (f"VIR_CONNECT_LIST_NODE_DEVICES_CAP_{kind}" for kind in kinds if kinds[kind])
        flags = sum(getattr(binding, name, 0) for name in names)
        devices: ListedDocuments[NodeDevice] | None = ListedDocuments()
        if flags:
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
            late=sources.late(self._parts(devices.documents.values())),
        )

    def _parts(self, devices: Iterable[NodeDevice]) -> dict[Part, bool]:
        """Return for each PCI device whether it has what may come late, as after a boot."""
        listed = [(device, pci) for device in devices if (pci := device.pci) is not None]
        pfs = {pci.physical for _, pci in listed}
        parts: dict[Part, bool] = {}
        for device, pci in listed:
            owner = IOMMU, pci.owner
            parts[owner] = pci.has_iommu_group and parts.get(owner, True)
            if pci.can_have_vfs:
                parts[VFS, pci.address] = pci.address in pfs
            if self.mdev.types:
                parts[TYPES, pci.address] = bool(device.available)
        if self.mdev.types:
            parts |= {(TYPES, channel): False for channel in CHANNELS}
        return parts

    def build_report(self, answer: DevicesAnswer | None, context: ReportContext) -> HostReport:
        """Return the providers of both kinds of devices; a device has one kind."""
        sources, on_root = frozenset({PCI, MDEV}), frozenset({VGPU} if self.mdev.types else ())
        if answer is None:
            return HostReport(unanswered=sources, unchanged_classes=on_root)
        # Of devices with one address the first by name is used.
        by_name = sorted(answer.devices, key=lambda device: device.name, reverse=True)
        devices = [*{device.address or device.name: device for device in by_name}.values()]
        node, bus, parents = context.node, pci_bus(devices), mdev_parents(devices)
        divided = divided_in_placement(context, bus) | mdev_parent_addresses(parents, self.mdev)
        of_pfs = {  # a guest with a PF has its VFs, too
            device.physical: f"its VF {address} {why}"
            for address, why in divided.items()
            if (device := bus.devices.get(address)) is not None and device.physical is not None
        }
        pci, pci_notes = pci_pools(node, bus, self.pci, answer.assigned, {**of_pfs, **divided})
        mdev, mdev_notes = vgpu_pools(node, parents, self.mdev)
        whole = whole_in_placement(context, bus, pci, mdev)
        mdev = [pool for pool in mdev if pool.name not in whole]
        by_cell = context.by_cell
        children = [
            *pool_providers(node, pci, grouped=self.pci.group_devices, by_cell=by_cell),
            *pool_providers(node, mdev, grouped=self.mdev.group_mdev_devices, by_cell=by_cell),
        ]
        awaited = awaited_providers(context, children, answer.late, bus)
        children = [child for child in children if child.name not in awaited]
        traits: dict[str, bool] = {}
        has_managed = has_remote_managed(bus, self.pci)
        is_partial, late_parts = not answer.all_read, {part for part, _ in answer.late}
        notes = {} if is_partial else self.pci.notes(bus)
        # Without devices here, Nova may set it.
        if self.pci.specs and (has_managed or not (is_partial or VFS in late_parts)):
            traits[os_traits.COMPUTE_REMOTE_MANAGED_PORTS] = has_managed
        return HostReport(
            children=children,
            traits=traits,
            notes={**notes, **pci_notes, **mdev_notes, **whole, **answer.unread, **awaited},
            warnings=similar_provider_warnings(children),
            incomplete=sources if is_partial else frozenset(awaited),
            unchanged_classes=on_root if is_partial or (answer.late and not mdev) else frozenset(),
        )


def divided_in_placement(context: ReportContext, bus: PciBus) -> dict[str, str]:
    """Return, by address, why devices whose mediated devices Placement still has can't be assigned.

    They may be in use, or late; VFs that are not there are those of the PF on their bus.
    """
    pfs = {device.physical for device in bus.devices.values()}
    names = [name for name, records in context.observed.items() if records]
    divided = {}
    for address, device in bus.devices.items():
        mdev = mdev_name(context.node, address)
        lacks_vfs = device.can_have_vfs and address not in pfs
        prefix = mdev[: -len("00_0")] if lacks_vfs else mdev
        if any(name.startswith(prefix) for name in names):
            divided[address] = "Placement still has its vGPUs: it can't be assigned as a whole"
    return divided


def whole_in_placement(
    context: ReportContext,
    bus: PciBus,
    pci: Iterable[ReportedProvider],
    mdev: Iterable[ReportedProvider],
) -> dict[str, str]:
    """Return the new mdev parents that Placement has as whole devices yet, by name, with notes."""
    node, offered = context.node, {name for name, records in context.observed.items() if records}
    leaving, new = offered - {pool.name for pool in pci}, {pool.name for pool in mdev} - offered
    return {
        name: f"is reported once Placement has no inventory of {own}"
        for device in bus.devices.values()
        if (name := mdev_name(node, device.address)) in new
        and (own := pci_name(node, device.owner)) in leaving
    }


def awaited_providers(
    context: ReportContext, children: Sequence[ReportedProvider], late: Iterable[Part], bus: PciBus
) -> dict[str, str]:
    """Return the providers that stay as they are in Placement, with notes, since a part is late.

    While a provider has less than in Placement, such as that of a PF whose VFs are late, none gets
    what the device is without its part.
    """
    node, observed = context.node, context.observed
    reported: Observed = {child.name: child.inventory for child in children}
    replaced = frozenset[str]().union(*(child.replaces for child in children))
    less, more = set[str](), set[str]()
    for name in {*observed, *reported} - replaced:
        now, before = reported.get(name, {}), observed.get(name, {})
        growth = [total_of(now, key) - total_of(before, key) for key in {*now, *before}]
        if min(growth, default=0) < 0:
            less.add(name)
        elif any(growth):
            more.add(name)
    awaited: dict[str, str] = {}
    for part, place in sorted(late):
        device = bus.devices.get(place)
        own, mdev = pci_name(node, device.owner if device else place), mdev_name(node, place)
        if place in CHANNELS:
            own = mdev = f"{node}_{place}_"
        # VFs of a GPU are providers, too.
        with_part = (f"{node}_all_", *((mdev,) if part == TYPES else (own, mdev[: -len("00_0")])))
        stay = [name for name in less if name.startswith(with_part)]
        wait = [name for name in more if name.startswith((*with_part, own))] if stay else []
        for name in (*stay, *wait):
            state = "stays as it is" if name in observed else "is not reported"
            awaited.setdefault(
                name,
                f"{state}: {place} has no {part} yet, and may get it up to {LATE / 60:.0f}"
                " minutes after the boot, or after it last had it",
            )
    return awaited


def _active(connection: Any, binding: Any, flags: int) -> Any:
    """Return the node devices of these kinds that are there.

    A mediated device can be defined without being started.  A driver of libvirt's that does not
    know the flag for those that are, such as ``test``, has no others.
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

    return host.call_if_supported(GUESTS, call, ListedDocuments(), isolated=True)


def _guests(connection: Any, binding: Any, parse: Callable[[str], T]) -> ListedDocuments[T]:
    return read_documents(connection, binding, connection.listAllDomains(0), parse)
