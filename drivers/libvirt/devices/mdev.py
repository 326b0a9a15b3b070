"""Pure: devices that can be divided (mediated devices), from node-device documents.

    <device>
      <name>pci_0000_84_00_0</name>
      <capability type='pci'> ...
        <capability type='mdev_types'>
          <type id='nvidia-35'> <availableInstances>16</availableInstances> ...

    <device>
      <name>mdev_4b20d080_1b54_4048_85b3_a6a62d165c01</name>
      <parent>pci_0000_84_00_0</parent>
      <capability type='mdev'> <type id='nvidia-35'/> <parent_addr>0000:84:00.0</parent_addr> ...

Not only PCI devices can be: channel devices and crypto cards of a mainframe, too.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from drivers.libvirt.devices.pci_devices import cell_of, pci_address
from drivers.libvirt.documents import text_of, whole


@dataclass(frozen=True, slots=True)
class Divisible:
    """A physical GPU, or a VF of one: what it can be divided into.

    ``free`` and ``made`` count instances by type: those that could be made now, and those
    that there are.  ``address`` is ``None`` for what is not on a PCI bus.
    """

    name: str
    free: Mapping[str, int]
    made: Mapping[str, int]
    address: str | None = None
    cell: int | None = None


def divisible(documents: Iterable[Element]) -> tuple[Divisible, ...]:
    """All devices that know types, by name."""
    listed = list(documents)
    parents: dict[str, Element] = {}
    for one in listed:
        name = text_of(one, "name")
        if name and one.find(".//capability[@type='mdev_types']/type") is not None:
            parents.setdefault(name, one)
    made = _made(listed, {_address(one): name for name, one in parents.items()})
    return tuple(_divisible(name, parents[name], made.get(name, {})) for name in sorted(parents))


def _divisible(name: str, document: Element, made: Mapping[str, int]) -> Divisible:
    free: dict[str, int] = {}
    for one in document.findall(".//capability[@type='mdev_types']/type"):
        free.setdefault(one.get("id") or "", whole(text_of(one, "availableInstances")) or 0)
    pci = document.find("capability[@type='pci']")
    cell = None if pci is None else cell_of(pci)
    return Divisible(name, free, made, _address(document), cell)


def _made(documents: Iterable[Element], names: Mapping[str | None, str]) -> dict[str, Counter[str]]:
    """Instances by type, by the name of what they are a part of."""
    found: dict[str, Counter[str]] = {}
    seen: set[str] = set()
    for one in documents:
        instance = one.find("capability[@type='mdev']")
        kind = None if instance is None else instance.find("type")
        name = text_of(one, "name") or ""
        if instance is None or kind is None or name in seen:
            continue
        seen.add(name)
        told = text_of(instance, "parent_addr")
        parent = names.get(told) if told else None
        found.setdefault(parent or text_of(one, "parent") or "", Counter())[
            kind.get("id") or ""
        ] += 1
    return found


def _address(document: Element) -> str | None:
    pci = document.find("capability[@type='pci']")
    return None if pci is None else pci_address(pci)
