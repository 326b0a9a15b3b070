"""Pure: PCI devices of a host, from its node-device documents.

    <device>
      <name>pci_0000_81_02_0</name>
      <capability type='pci'>
        <class>0x020000</class>
        <domain>0</domain> <bus>129</bus> <slot>2</slot> <function>0</function>
        <product id='0x154c'/> <vendor id='0x8086'/>
        <capability type='virt_functions' maxCount='64'> ...          it is a PF
        <capability type='phys_function'> <address .../> </capability>  it is a VF of that one
        <capability type='pci-bridge'/>                               no guest can have it
        <numa node='1'/>

What lacks its address or its makers' numbers is no device that can be offered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from drivers.libvirt.documents import read, text_of, whole

HOST_BRIDGE = "0x0600"
LARGEST_ID = 0xFFFF
"""Of a vendor or a product."""


@dataclass(frozen=True, slots=True)
class PciDevice:
    """``address`` like ``0000:81:02.0``, numbers of maker and product like ``8086``.

    ``physical`` is the address of the PF whose VF it is; ``cell`` a NUMA cell's number.
    """

    address: str
    vendor: str
    product: str
    physical: str | None = None
    cell: int | None = None

    @property
    def owner(self) -> str:
        """The address that its provider is named after."""
        return self.physical or self.address


@dataclass(frozen=True, slots=True)
class PciBus:
    """All PCI devices by address, and the addresses of network devices by their names."""

    devices: Mapping[str, PciDevice]
    networks: Mapping[str, str]


def pci_bus(documents: Iterable[Element]) -> PciBus:
    """Return PCI devices of node devices; kinds other than PCI and network are skipped."""
    listed = list(documents)
    by_name = {text_of(one, "name"): device for one in listed if (device := _device(one))}
    networks = {}
    for one in listed:
        name = text_of(one, "capability[@type='net']/interface")
        parent = by_name.get(text_of(one, "parent"))
        if name and parent is not None:
            networks[name] = parent.address
    devices = sorted(by_name.values(), key=lambda device: device.address)
    return PciBus({device.address: device for device in devices}, networks)


def too_little(text: str) -> str | None:
    """Return what a device's document lacks, or ``None``."""
    document = read(text)
    pci = document.find("capability[@type='pci']")
    if text_of(document, "name") is None or document.find("capability") is None:
        return "gave a document without a name or a capability"
    if pci is None:
        return None
    if pci_address(pci) is None:
        return "gave a document without a PCI address"
    if any(_identity(pci.find(part)) is None for part in ("vendor", "product")):
        return "gave a document without vendor or product"
    types = document.findall(".//capability[@type='mdev_types']/type")
    if any(whole(text_of(one, "availableInstances")) is None for one in types):
        return "gave a document without the number of available instances"
    return None


def assigned_addresses(domains: Iterable[str]) -> frozenset[str]:
    """Addresses of the PCI devices that these guests, running or not, are defined with."""
    places = ("devices/hostdev[@type='pci']/source/address", "devices/interface/source/address")
    listed = (at for text in domains for place in places for at in read(text).findall(place))
    return frozenset(address for at in listed if (address := address_of(at)))


def address_of(element: Element) -> str | None:
    """An <address> with hexadecimal attributes as ``0000:81:02.0``; ``None``: it is none."""
    names = ("domain", "bus", "slot", "function")
    numbers = [_hexadecimal(element.get(name)) for name in names]
    return _written(*numbers)


def cell_of(capability: Element) -> int | None:
    """The NUMA cell that a PCI device is on."""
    cell = capability.find("numa")
    return None if cell is None else whole(cell.get("node"))


def pci_address(capability: Element) -> str | None:
    """The address of a PCI capability, which tells it in decimal numbers."""
    parts = ("domain", "bus", "slot", "function")
    return _written(*(whole(text_of(capability, part)) for part in parts))


def _device(document: Element) -> PciDevice | None:
    pci = document.find("capability[@type='pci']")
    if pci is None or _is_bridge(pci):
        return None
    address = pci_address(pci)
    vendor, product = (_identity(pci.find(part)) for part in ("vendor", "product"))
    if address is None or vendor is None or product is None:
        return None
    above = pci.find("capability[@type='phys_function']/address")
    physical = None if above is None else address_of(above)
    return PciDevice(
        address,
        vendor,
        product,
        physical=None if physical == address else physical,
        cell=cell_of(pci),
    )


def _is_bridge(pci: Element) -> bool:
    """To another bus, or to the host itself: no guest can have it."""
    kind = text_of(pci, "class") or ""
    return kind.startswith(HOST_BRIDGE) or pci.find("capability[@type='pci-bridge']") is not None


def _identity(element: Element | None) -> str | None:
    number = None if element is None else _hexadecimal(element.get("id"))
    return None if number is None or number > LARGEST_ID else f"{number:04x}"


def _hexadecimal(text: str | None) -> int | None:
    """``0x1f``, in the few digits that such numbers have."""
    digits = (text or "").strip().lower().removeprefix("0x")
    if not digits or len(digits) > 8 or not set(digits) <= set("0123456789abcdef"):
        return None
    return int(digits, 16)


def _written(
    domain: int | None = None,
    bus: int | None = None,
    slot: int | None = None,
    function: int | None = None,
) -> str | None:
    if domain is None or bus is None or slot is None or function is None:
        return None
    if domain > 0xFFFFFFFF or bus > 0xFF or slot > 0x1F or function > 0x7:
        return None
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
