"""Pure: PCI devices of a host, from its node device documents.

    <device>
      <name>pci_0000_81_02_0</name>
      <capability type='pci'>
        <class>0x020000</class>
        <domain>0</domain> <bus>129</bus> <slot>2</slot> <function>0</function>
        <product id='0x154c'/> <vendor id='0x8086'/>
        <capability type='virt_functions' maxCount='64'> ...            a PF
        <capability type='phys_function'> <address .../> </capability>  a VF of that PF
        <capability type='pci-bridge'/>                                 not for guests
        <numa node='1'/>
        <iommuGroup number='42'> ...         without one, VFIO can't give the device to a guest

A device without an address, vendor or product can't be read.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from xml.etree.ElementTree import Element

from drivers.libvirt.documents import parse_document, text_of, whole_number

HOST_BRIDGE = "0x0600"
BRIDGES = ("pci-bridge", "cardbus-bridge")
LARGEST_ID = 0xFFFF
"""Largest ID of a vendor or product."""
_ADDRESS_PARTS = ("domain", "bus", "slot", "function")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PciDevice:
    """``address`` like ``0000:81:02.0``; ``vendor`` and ``product`` like ``8086``.

    ``physical``: for a VF, the address of its PF; ``cell``: the number of its NUMA cell.
    """

    address: str
    vendor: str
    product: str
    physical: str | None = None
    cell: int | None = None
    has_iommu_group: bool = True
    can_have_vfs: bool = False
    is_bridge: bool = False
    """Whether it is no device for guests, but what they are connected to."""

    @property
    def owner(self) -> str:
        """The address in the name of the device's provider: a VF's is its PF's."""
        return self.physical or self.address


@dataclass(frozen=True, slots=True)
class NodeDevice:
    """A node device of libvirt; what it does not have is ``None`` or empty.

    ``interface``: the name of a network device; ``available`` and ``existing``: the number of
    mediated devices by type that can be created on it, and that exist.  A mediated device has its
    own type as ``mdev_type``, and the PCI address of the device that it is a part of, if libvirt
    reports it, as ``mdev_address``.
    """

    name: str
    parent: str | None = None
    pci: PciDevice | None = None
    interface: str | None = None
    available: Mapping[str, int] = field(default_factory=dict)
    mdev_type: str | None = None
    mdev_address: str | None = None
    existing: Mapping[str, int] = field(default_factory=dict)

    @property
    def address(self) -> str | None:
        """The PCI address; ``None`` for a device that is not on a PCI bus."""
        return None if self.pci is None else self.pci.address


def node_device(text: str) -> NodeDevice:
    """Return the device of a document.

    :raises ValueError: the document lacks what a device of its kind has; the message names it.
    """
    document = parse_document(text, "device")
    name, pci = text_of(document, "name"), document.find("capability[@type='pci']")
    if name is None or document.find("capability") is None:
        raise ValueError("a document without a name or a capability")
    available: dict[str, int] = {}
    for each in document.findall(".//capability[@type='mdev_types']/type"):
        kind = each.get("id")
        if not kind or kind in available:
            raise ValueError("a document without one name for each mdev type")
        count = whole_number(text_of(each, "availableInstances"))
        available[kind] = _required(count, "the number of available instances")
    mdev = document.find("capability[@type='mdev']")
    mdev_type = None if mdev is None else mdev.find("type")
    own_type = None if mdev_type is None else mdev_type.get("id") or None
    return NodeDevice(
        name,
        text_of(document, "parent"),
        None if pci is None else _pci_device(pci),
        text_of(document, "capability[@type='net']/interface"),
        available,
        None if mdev is None else _required(own_type, "the type of a mediated device"),
        text_of(document, "capability[@type='mdev']/parent_addr"),
    )


def _pci_device(pci: Element) -> PciDevice:
    numbers = (whole_number(text_of(pci, part)) for part in _ADDRESS_PARTS)  # decimal
    address = _required(_format_address(*numbers), "a PCI address")
    vendor, product = (
        _required(_pci_id(pci.find(part)), "vendor or product") for part in ("vendor", "product")
    )
    pf, numa = pci.find("capability[@type='phys_function']/address"), pci.find("numa")
    physical = None
    if pf is not None:
        physical = _required(address_of(pf), "the address of its physical function")
    node = "-1" if numa is None else numa.get("node")  # the kernel's number for none
    cell = whole_number(node)
    if cell is None and node != "-1":
        raise ValueError(f"a document without a valid NUMA node (it has {node!r})")
    return PciDevice(
        address,
        vendor,
        product,
        None if physical == address else physical,
        cell,
        has_iommu_group=pci.find("iommuGroup") is not None,
        can_have_vfs=pci.find("capability[@type='virt_functions']") is not None,
        is_bridge=(text_of(pci, "class") or "").startswith(HOST_BRIDGE)
        or any(pci.find(f"capability[@type='{kind}']") is not None for kind in BRIDGES),
    )


def _required(value: T | None, what: str) -> T:
    if value is None:
        raise ValueError(f"a document without {what}")
    return value


@dataclass(frozen=True, slots=True)
class PciBus:
    """All PCI devices by address, and the addresses of network devices by name."""

    devices: Mapping[str, PciDevice]
    networks: Mapping[str, str]


def pci_bus(devices: Sequence[NodeDevice]) -> PciBus:
    """Return the PCI devices of node devices, without bridges, and their network devices."""
    by_name = {it.name: it.pci for it in devices if it.pci is not None and not it.pci.is_bridge}
    networks = {
        it.interface: by_name[it.parent].address
        for it in devices
        if it.interface and it.parent in by_name
    }
    in_order = sorted(by_name.values(), key=lambda device: device.address)
    return PciBus({device.address: device for device in in_order}, networks)


def assigned_addresses(text: str) -> frozenset[str]:
    """Return the addresses of PCI devices in the definition of a guest, running or not.

    :raises ValueError: the text is no document of a guest.
    """
    domain = parse_document(text, "domain")
    paths = ("devices/hostdev[@type='pci']/source/address", "devices/interface/source/address")
    listed = (element for path in paths for element in domain.findall(path))
    return frozenset(address for element in listed if (address := address_of(element)))


def address_of(element: Element) -> str | None:
    """Return an <address> with hexadecimal attributes as ``0000:81:02.0``; ``None`` if invalid."""
    return _format_address(*(_hexadecimal(element.get(part)) for part in _ADDRESS_PARTS))


def _pci_id(element: Element | None) -> str | None:
    number = None if element is None else _hexadecimal(element.get("id"))
    return None if number is None or number > LARGEST_ID else f"{number:04x}"


def _hexadecimal(text: str | None) -> int | None:
    """Parse ``0x1f``; ``None`` if it is invalid or has more than 8 digits."""
    digits = re.fullmatch(r"(?:0x)?([0-9a-f]{1,8})", (text or "").strip().lower())
    return int(digits[1], 16) if digits else None


def _format_address(
    domain: int | None, bus: int | None, slot: int | None, function: int | None
) -> str | None:
    if domain is None or bus is None or slot is None or function is None:
        return None
    if bus > 0xFF or slot > 0x1F or function > 0x7:  # the domain has at most 8 digits
        return None
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
