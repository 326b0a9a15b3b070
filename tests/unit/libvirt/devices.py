"""Node-device documents as libvirt writes them, made of a few words."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from drivers.libvirt.devices.devices import DevicesAnswer
from drivers.libvirt.devices.pci_devices import node_device

NIC, NIC_VF, GPU, DISK = ("8086", "1572"), ("8086", "154c"), ("10de", "1eb8"), ("144d", "a80a")


def node_name(address: str) -> str:
    return "pci_" + address.replace(":", "_").replace(".", "_")


def pci(
    address: str,
    identity: tuple[str, str] = DISK,
    cell: int | None = None,
    physical: str | None = None,
    virtual: Sequence[str] | None = None,
    types: Mapping[str, int] | None = None,
    more: str = "",
    iommu: bool = True,
) -> str:
    """A PCI device; ``virtual``: it is a PF with these VFs; ``types`` of mediated devices, with
    how many can be made; ``iommu``: it has an IOMMU group.
    """
    front, function = address.split(".")
    domain, bus, slot = (int(part, 16) for part in front.split(":"))
    parts = f"<domain>{domain}</domain><bus>{bus}</bus><slot>{slot}</slot>"
    parts += f"<function>{int(function, 16)}</function>"
    parts += f"<product id='0x{identity[1]}'>One</product><vendor id='0x{identity[0]}'>Two</vendor>"
    if physical is not None:
        parts += f"<capability type='phys_function'>{_address(physical)}</capability>"
    if virtual is not None:
        listed = "".join(map(_address, virtual))
        parts += f"<capability type='virt_functions' maxCount='64'>{listed}</capability>"
    if types is not None:
        listed = "".join(
            f"<type id='{name}'><name>GRID</name><deviceAPI>vfio-pci</deviceAPI>"
            f"<availableInstances>{count}</availableInstances></type>"
            for name, count in types.items()
        )
        parts += f"<capability type='mdev_types'>{listed}</capability>"
    if cell is not None:
        parts += f"<numa node='{cell}'/>"
    if iommu:
        parts += f"<iommuGroup number='7'>{_address(address)}</iommuGroup>"
    return (
        f"<device><name>{node_name(address)}</name><parent>computer</parent>"
        f"<capability type='pci'><class>0x020000</class>{parts}{more}</capability></device>"
    )


def net(name: str, address: str) -> str:
    return (
        f"<device><name>net_{name}_52_54_00</name><parent>{node_name(address)}</parent>"
        f"<capability type='net'><interface>{name}</interface></capability></device>"
    )


def mdev(number: int, kind: str, address: str, told: bool = True) -> str:
    """An instance; ``told``: by a libvirt that says the address of what it is a part of."""
    uuid = f"4b20d080-1b54-4048-85b3-{number:012d}"
    where = f"<parent_addr>{address}</parent_addr>" if told else ""
    parent = "computer" if told else node_name(address)
    return (
        f"<device><name>mdev_{uuid.replace('-', '_')}</name><parent>{parent}</parent>"
        f"<capability type='mdev'><type id='{kind}'/><uuid>{uuid}</uuid>{where}"
        "<iommuGroup number='12'/></capability></device>"
    )


def guest(*addresses: str, uuid: str = "0") -> str:
    """A domain that has these PCI devices."""
    listed = "".join(
        f"<hostdev mode='subsystem' type='pci' managed='yes'><source>{_address(one)}</source>"
        "<address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/></hostdev>"
        for one in addresses
    )
    return f"<domain><uuid>{uuid}</uuid><devices>{listed}</devices></domain>"


def sev(guests: int | None = 15, es_guests: int | None = 84, supported: str = "yes") -> str:
    """Domain capabilities of a host with SEV."""
    counts = "" if guests is None else f"<maxGuests>{guests}</maxGuests>"
    counts += "" if es_guests is None else f"<maxESGuests>{es_guests}</maxESGuests>"
    return (
        f"<domainCapabilities><features><sev supported='{supported}'><cbitpos>47</cbitpos>"
        f"<reducedPhysBits>1</reducedPhysBits>{counts}</sev></features></domainCapabilities>"
    )


def devices(*listed: str, **fields: object) -> DevicesAnswer:
    """What was read of a host with these node devices, without those that can't be read."""
    read = []
    for text in listed:
        with suppress(ValueError):
            read.append(node_device(text))
    return DevicesAnswer(tuple(read), **fields)  # type: ignore[arg-type]


def _address(address: str) -> str:
    front, function = address.split(".")
    domain, bus, slot = front.split(":")
    return f"<address domain='0x{domain}' bus='0x{bus}' slot='0x{slot}' function='0x{function}'/>"
