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

A device without an address, vendor or product is skipped.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from drivers.libvirt.documents import parse_document, text_of, whole_number

HOST_BRIDGE = "0x0600"
BRIDGES = ("pci-bridge", "cardbus-bridge")
LARGEST_ID = 0xFFFF
"""Largest ID of a vendor or product."""
_ADDRESS_PARTS = ("domain", "bus", "slot", "function")


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

    @property
    def owner(self) -> str:
        """The address in the name of the device's provider: a VF's is its PF's."""
        return self.physical or self.address


@dataclass(frozen=True, slots=True)
class PciBus:
    """All PCI devices by address, and the addresses of network devices by name."""

    devices: Mapping[str, PciDevice]
    networks: Mapping[str, str]


def one_document_per_address(
    documents: Iterable[Element],
) -> tuple[list[Element], dict[str, str]]:
    """Return the node devices without those whose PCI address another one has, and notes on these.

    The one whose name comes first is used.
    """
    names: dict[str, str] = {}
    used, notes = [], {}
    for document in sorted(documents, key=lambda element: text_of(element, "name") or ""):
        pci, name = document.find("capability[@type='pci']"), text_of(document, "name") or ""
        address = None if pci is None else pci_address(pci)
        if address is None or names.setdefault(address, name) == name:
            used.append(document)
        else:
            notes[f"PCI device {address}"] = (
                f"libvirt lists it twice: {name} is left out, {names[address]} is used"
            )
    return used, notes


def pci_bus(documents: Sequence[Element]) -> PciBus:
    """Return the PCI devices of node devices; kinds other than PCI and network are skipped."""
    by_name = {
        text_of(document, "name"): device for document in documents if (device := _device(document))
    }
    networks = {}
    for document in documents:
        name = text_of(document, "capability[@type='net']/interface")
        parent = by_name.get(text_of(document, "parent"))
        if name and parent is not None:
            networks[name] = parent.address
    devices = sorted(by_name.values(), key=lambda device: device.address)
    return PciBus({device.address: device for device in devices}, networks)


def device_document_problem(text: str) -> str | None:
    """Return what a device's document lacks, or ``None``."""
    document = parse_document(text)
    pci, mdev = (document.find(f"capability[@type='{kind}']") for kind in ("pci", "mdev"))
    types = document.findall(".//capability[@type='mdev_types']/type")
    if text_of(document, "name") is None or document.find("capability") is None:
        return "gave a document without a name or a capability"
    has = {
        "the type of a mediated device": mdev is None or _id_of(mdev.find("type")),
        "one name for each mdev type": len(types) == len({*filter(None, map(_id_of, types))}),
        "the number of available instances": all(
            whole_number(text_of(mdev_type, "availableInstances")) is not None
            for mdev_type in types
        ),
    }
    if pci is not None:
        pf, numa = pci.find("capability[@type='phys_function']/address"), pci.find("numa")
        node = None if numa is None else numa.get("node")
        has |= {
            "a PCI address": pci_address(pci),
            "vendor or product": all(_pci_id(pci.find(part)) for part in ("vendor", "product")),
            "the address of its physical function": pf is None or address_of(pf),
            f"a valid NUMA node (it has {node!r})": numa is None
            or node == "-1"  # the kernel's number for none
            or cell_of(pci) is not None,
        }
    lacking = [what for what, there in has.items() if not there]
    return f"gave a document without {lacking[0]}" if lacking else None


def _id_of(element: Element | None) -> str | None:
    return None if element is None else element.get("id")


def assigned_addresses(domains: Iterable[str]) -> frozenset[str]:
    """Return the addresses of PCI devices in the definitions of guests, running or not."""
    paths = ("devices/hostdev[@type='pci']/source/address", "devices/interface/source/address")
    listed = (
        element
        for text in domains
        for path in paths
        for element in parse_document(text).findall(path)
    )
    return frozenset(address for element in listed if (address := address_of(element)))


def address_of(element: Element) -> str | None:
    """Return an <address> with hexadecimal attributes as ``0000:81:02.0``; ``None`` if invalid."""
    return _format_address(*(_hexadecimal(element.get(part)) for part in _ADDRESS_PARTS))


def cell_of(capability: Element) -> int | None:
    """Return the NUMA cell that a PCI device is on."""
    cell = capability.find("numa")
    return None if cell is None else whole_number(cell.get("node"))


def pci_address(capability: Element) -> str | None:
    """Return the address of a PCI capability, whose elements are decimal numbers."""
    return _format_address(*(whole_number(text_of(capability, part)) for part in _ADDRESS_PARTS))


def _device(document: Element) -> PciDevice | None:
    """Return the device; ``None`` for a bridge, or without an address, a vendor or a product."""
    pci = document.find("capability[@type='pci']")
    if pci is None or any(pci.find(f"capability[@type='{kind}']") is not None for kind in BRIDGES):
        return None
    address = pci_address(pci)
    vendor, product = (_pci_id(pci.find(part)) for part in ("vendor", "product"))
    is_host_bridge = (text_of(pci, "class") or "").startswith(HOST_BRIDGE)
    if is_host_bridge or address is None or vendor is None or product is None:
        return None
    pf = pci.find("capability[@type='phys_function']/address")
    physical = None if pf is None else address_of(pf)
    if physical == address:
        physical = None
    has_iommu_group = pci.find("iommuGroup") is not None
    return PciDevice(address, vendor, product, physical, cell_of(pci), has_iommu_group)


def _pci_id(element: Element | None) -> str | None:
    number = None if element is None else _hexadecimal(element.get("id"))
    return None if number is None or number > LARGEST_ID else f"{number:04x}"


def _hexadecimal(text: str | None) -> int | None:
    """Parse ``0x1f``; ``None`` if it is invalid or has more than 8 digits."""
    digits = (text or "").strip().lower().removeprefix("0x")
    if not digits or len(digits) > 8 or not set(digits) <= set("0123456789abcdef"):
        return None
    return int(digits, 16)


def _format_address(
    domain: int | None, bus: int | None, slot: int | None, function: int | None
) -> str | None:
    if domain is None or bus is None or slot is None or function is None:
        return None
    if domain > 0xFFFFFFFF or bus > 0xFF or slot > 0x1F or function > 0x7:
        return None
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
