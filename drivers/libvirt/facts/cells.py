"""Pure: the NUMA cells of a host, from its capabilities document.

    <cell id='0'>
      <memory unit='KiB'>32731708</memory>
      <pages unit='KiB' size='2048'>512</pages>      how many; a cell's smallest are ordinary ones
      <cpus num='8'> <cpu id='0' siblings='0,4' .../> ...

A cell lacks CPUs that are offline, and can lack all (memory on a device) or memory; older
libvirts tell no units, and of memory at most the pages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from drivers.libvirt.documents import kib, numbers, whole

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
    found: dict[int, Cell] = {}
    seen: frozenset[int] = frozenset()
    for element in capabilities.findall("host/topology/cells/cell"):
        number = whole(element.get("id"))
        if number is None or number in found:
            continue
        ids = (numbers(cpu.get("id")) for cpu in element.findall("cpus/cpu"))
        cpus = frozenset().union(*ids) - seen
        seen |= cpus
        found[number] = _cell(number, cpus, element)
    return tuple(found[number] for number in sorted(found))


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
