"""Pure: the NUMA cells and CPUs of a host, from its capabilities document; and the cells that
guests are bound to.

    <cell id='0'>
      <memory unit='KiB'>32731708</memory>
      <pages unit='KiB' size='2048'>512</pages>      how many; a cell's smallest are ordinary ones
      <cpus num='8'> <cpu id='0' siblings='0,4' .../> ...

A cell lacks CPUs that are offline, and can lack all (memory on a device) or memory; older
libvirts tell no units, and of memory at most the pages.  A guest's domain document has:

    <numatune><memory mode='strict' nodeset='1'/>    where its memory has to be, or else
    <cputune><vcpupin vcpu='0' cpuset='4-5'/> ...    where its CPUs are pinned, or else
    <vcpu cpuset='4-7'>                              where they may run
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from drivers.libvirt.documents import kib, numbers, read, text_of, whole

LARGEST_BASE_PAGE = 64
"""KiB; no architecture's ordinary pages are larger."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One NUMA cell; ``memory_kib`` 0: not said; ``pages`` are hugepages by size in KiB, empty
    as well where the cell does not tell of any pages (``told``).
    """

    number: int
    cpus: frozenset[int]
    memory_kib: int
    pages: Mapping[int, int]
    told: bool = True

    @property
    def huge_kib(self) -> int:
        """Memory that is set aside as hugepages."""
        return sum(size * count for size, count in self.pages.items())


def numa_cells(capabilities: Element) -> tuple[Cell, ...]:
    """All cells with a number, by number; of two with the same one the first counts."""
    cells: dict[int, Cell] = {}
    seen: frozenset[int] = frozenset()
    for element in capabilities.findall("host/topology/cells/cell"):
        number = whole(element.get("id"))
        if number is None or number in cells:
            continue
        ids = (numbers(cpu.get("id")) for cpu in element.findall("cpus/cpu"))
        cpus = frozenset().union(*ids) - seen
        seen |= cpus
        cells[number] = _cell(number, cpus, element)
    return tuple(cells[number] for number in sorted(cells))


def pages_told(cells: Sequence[Cell]) -> bool:
    """Whether it is known how much of the host's memory is hugepages."""
    return any(cell.told for cell in cells) and all(c.told for c in cells if c.memory_kib)


def with_cpus(cells: Iterable[Cell], cell_of: Mapping[int, int]) -> tuple[Cell, ...]:
    """The cells, each with the CPUs that are its own by ``cell_of`` as well."""
    return tuple(
        replace(cell, cpus=cell.cpus | {cpu for cpu, n in cell_of.items() if n == cell.number})
        for cell in cells
    )


def _cell(number: int, cpus: frozenset[int], element: Element) -> Cell:
    pages: dict[int, int] = {}
    for one in element.findall("pages"):
        pages.setdefault(_size(one), whole(one.text) or 0)
    base = min(filter(None, [*pages, LARGEST_BASE_PAGE]))
    memory = kib(element.find("memory")) or sum(size * count for size, count in pages.items())
    huge = {size: count for size, count in pages.items() if size > base and count}
    return Cell(number, cpus, memory, huge, told=bool(pages))


def _size(pages: Element) -> int:
    return kib(pages, pages.get("size"))


OFF = frozenset({"disable", "forbid"})
"""Policies of a <feature> that say that it is not there."""


@dataclass(frozen=True, slots=True)
class HostCpu:
    """The kind of the host's CPU; ``None`` or empty: unknown.

    ``features`` are those beyond the model's own; ``document`` is the <cpu> element,
    for libvirt to write the model's features out.
    """

    arch: str | None = None
    model: str | None = None
    vendor: str | None = None
    features: frozenset[str] = frozenset()
    document: str = ""


def host_cpu(capabilities: Element) -> HostCpu:
    """The <cpu> element of the host."""
    element = capabilities.find("host/cpu")
    if element is None:
        return HostCpu()
    return HostCpu(
        arch=text_of(element, "arch"),
        model=text_of(element, "model"),
        vendor=text_of(element, "vendor"),
        features=features(element),
        document=ET.tostring(element, encoding="unicode").strip(),
    )


def features(cpu: Element) -> frozenset[str]:
    """Names of the features that a <cpu> element lists and does not switch off."""
    listed = (feature for feature in cpu.iter("feature") if feature.get("policy") not in OFF)
    return frozenset(name for feature in listed if (name := feature.get("name")))


def hyperthreading(capabilities: Element) -> bool | None:
    """Whether any core runs several threads; ``None`` if the cells don't say.

    <cpu><topology> is no help: libvirt does not vouch for it.
    """
    siblings = [numbers(cpu.get("siblings")) for cpu in _cell_cpus(capabilities)]
    if not any(siblings):
        return None
    return any(len(threads) > 1 for threads in siblings)


def cores(capabilities: Element) -> frozenset[frozenset[int]]:
    """The threads of each core, as far as the cells say."""
    return frozenset(numbers(cpu.get("siblings")) for cpu in _cell_cpus(capabilities))


def _cell_cpus(capabilities: Element) -> list[Element]:
    return capabilities.findall("host/topology/cells/cell/cpus/cpu")


STRICT = frozenset({"strict", "restrictive"})


def guest_cells(domains: Iterable[str], cells: Sequence[Cell]) -> dict[str, int]:
    """Numbers of cells by the guest's UUID, of those that are bound to one cell."""
    bound_to: dict[str, int] = {}
    for domain in map(read, domains):
        uuid, bound = text_of(domain, "uuid"), _bound(domain, cells)
        if uuid is not None and len(bound) == 1:
            bound_to[uuid.lower()] = min(bound)
    return bound_to


def _bound(domain: Element, cells: Sequence[Cell]) -> frozenset[int]:
    """Cells that it may use; empty: not said."""
    memory = domain.find("numatune/memory")
    if memory is not None and memory.get("mode", "strict") in STRICT:
        nodes = numbers(memory.get("nodeset"))
        if nodes:
            return nodes & {cell.number for cell in cells}
    pinned = (numbers(pin.get("cpuset")) for pin in domain.findall("cputune/vcpupin"))
    vcpu = domain.find("vcpu")
    anywhere = numbers(None if vcpu is None else vcpu.get("cpuset"))
    cpus = frozenset().union(*pinned) or anywhere
    return frozenset(cell.number for cell in cells if cell.cpus & cpus)
