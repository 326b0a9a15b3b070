"""Pure: the NUMA cells and CPUs of a host, from its capabilities; the NUMA cells of its guests.

    <cell id='0'>
      <memory unit='KiB'>32731708</memory>
      <pages unit='KiB' size='2048'>512</pages>      a count; the smallest size is ordinary pages
      <cpus num='8'> <cpu id='0' siblings='0,4' .../> ...

A cell does not list offline CPUs, and can have no CPUs (memory on a device) or no memory.  Old
versions of libvirt have no units, and report memory as pages or not at all.  A guest's domain
document has, in this order of precedence:

    <numatune><memory mode='strict' nodeset='1'/>    the nodes of its memory
    <cputune><vcpupin vcpu='0' cpuset='4-5'/> ...    the CPUs to which its vCPUs are pinned
    <vcpu cpuset='4-7'>                              the CPUs that its vCPUs may use
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from drivers.inventory import cpu_set
from drivers.libvirt.documents import (
    amount_bytes,
    parse_cpus,
    text_of,
    whole_number,
)

LARGEST_BASE_PAGE = 64
"""KiB; no architecture has larger ordinary pages."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A NUMA cell; ``memory_kib`` 0: unknown; ``pages``: number of hugepages by size in KiB.

    ``pages_reported`` is false if the document lists no pages of the cell; then ``pages`` is empty.
    ``cores`` has the threads of each core, as far as they are listed.
    """

    number: int
    cpus: frozenset[int]
    memory_kib: int
    pages: Mapping[int, int]
    pages_reported: bool = True
    cores: frozenset[frozenset[int]] = field(default_factory=frozenset)

    @property
    def huge_kib(self) -> int:
        """Memory in hugepages, in KiB."""
        return sum(size * count for size, count in self.pages.items())


def numa_cells(capabilities: Element) -> tuple[Cell, ...]:
    """Return the cells, sorted by number.

    :raises ValueError: the document contradicts itself, or a number in it is none; the message
        names the cell and the element.
    """
    listed = _listed(capabilities.find("host/topology/cells"), "cell")
    cells = sorted(map(_cell, listed), key=lambda cell: cell.number)
    for first, second in pairwise(cells):
        if first.number == second.number:
            raise ValueError(f"NUMA cell {first.number} is listed twice")
    cell_by_cpu: dict[int, int] = {}
    for cell in cells:
        for cpu in sorted(cell.cpus):
            other = cell_by_cpu.setdefault(cpu, cell.number)
            if other != cell.number:
                raise ValueError(f"CPU {cpu} is in NUMA cells {other} and {cell.number}")
    return tuple(cells)


def _listed(parent: Element | None, tag: str) -> list[Element]:
    """Return the children.  :raises ValueError: their number is not the one that ``parent`` has."""
    if parent is None:
        return []
    children, number = parent.findall(tag), parent.get("num")
    if number is not None and whole_number(number) != len(children):
        raise ValueError(f"<{parent.tag} num={number!r}> lists {len(children)}")
    return children


def _cell(element: Element) -> Cell:
    number = whole_number(element.get("id"))
    if number is None:
        raise ValueError(f"a NUMA cell has the id {element.get('id')!r}")
    try:
        listed = _listed(element.find("cpus"), "cpu")
        cpus = [cpu_set(cpu.get("id") or "", "the id of a <cpu>") for cpu in listed]
        threads = [cpu_set(text, "siblings") for cpu in listed if (text := cpu.get("siblings"))]
        pages = _pages(element)
        memory = amount_bytes(element.find("memory")) // 1024
    except ValueError as err:
        raise ValueError(f"NUMA cell {number}: {err}") from None
    ordinary = min([*pages, LARGEST_BASE_PAGE])
    huge = {size: count for size, count in pages.items() if size > ordinary}
    by_pages = sum(size * count for size, count in pages.items())
    cell = Cell(
        number,
        frozenset[int]().union(*cpus),
        memory or by_pages,
        huge,
        pages_reported=bool(pages),
        cores=frozenset(threads),
    )
    if len(cell.cpus) != len(cpus):
        raise ValueError(f"NUMA cell {number}: a CPU is listed twice")
    if cell.huge_kib > cell.memory_kib:
        sizes = f"{cell.huge_kib} KiB of hugepages in {cell.memory_kib} KiB of memory"
        raise ValueError(f"NUMA cell {number}: {sizes}")
    return cell


def _pages(cell: Element) -> dict[int, int]:
    """Return the number of pages by size in KiB.

    :raises ValueError: a size or a number can't be read, or a size is listed twice.
    """
    pages: dict[int, int] = {}
    for page in cell.findall("pages"):
        size, count = amount_bytes(page, page.get("size") or "") // 1024, whole_number(page.text)
        if count is None:
            raise ValueError(f"the number of <pages> of {size} KiB is {page.text!r}")
        if not size or pages.setdefault(size, count) != count:
            raise ValueError(f"<pages> of {size} KiB" + (" are listed twice" if size else ""))
    return pages


def hugepages_known(cells: Sequence[Cell]) -> bool:
    """Return whether it is known how much of the host's memory is hugepages."""
    return any(cell.pages_reported for cell in cells) and all(
        cell.pages_reported for cell in cells if cell.memory_kib
    )


ABSENT = frozenset({"disable", "forbid"})
"""Policies of a <feature> that is absent."""


@dataclass(frozen=True, slots=True)
class HostCpu:
    """The host's CPU; ``None`` or empty: unknown.

    ``features`` are those that the model does not include; ``document`` is the <cpu> element, which
    libvirt can expand to all features.
    """

    arch: str | None = None
    model: str | None = None
    vendor: str | None = None
    features: frozenset[str] = frozenset()
    document: str = ""


def host_cpu(capabilities: Element) -> HostCpu:
    """Return the host's CPU."""
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
    """Return the names of the features that a <cpu> element lists as present."""
    listed = (feature for feature in cpu.iter("feature") if feature.get("policy") not in ABSENT)
    return frozenset(name for feature in listed if (name := feature.get("name")))


def hyperthreading(cells: Iterable[Cell]) -> bool | None:
    """Return whether any core has several threads; ``None`` if the cells don't list siblings.

    <cpu><topology> is not used: libvirt does not guarantee it.
    """
    listed = cores(cells)
    return any(len(threads) > 1 for threads in listed) if listed else None


def cores(cells: Iterable[Cell]) -> frozenset[frozenset[int]]:
    """Return the threads of each core that the cells list."""
    return frozenset[frozenset[int]]().union(*(cell.cores for cell in cells))


STRICT = frozenset({"strict", "restrictive"})


def guest_cells(domains: Iterable[Element], cells: Sequence[Cell]) -> dict[str, int]:
    """Return the cell's number for each guest that is bound to one cell, by the guest's UUID."""
    bound_to: dict[str, int] = {}
    for domain in domains:
        uuid, bound = text_of(domain, "uuid"), _bound_cells(domain, cells)
        if uuid is not None and len(bound) == 1:
            bound_to[uuid.lower()] = min(bound)
    return bound_to


def _bound_cells(domain: Element, cells: Sequence[Cell]) -> frozenset[int]:
    """Return the numbers of the cells that a guest is restricted to; empty: any."""
    memory = domain.find("numatune/memory")
    if memory is not None and memory.get("mode", "strict") in STRICT:
        nodes = parse_cpus(memory.get("nodeset"))
        if nodes:
            return nodes & {cell.number for cell in cells}
    pinned = (parse_cpus(pin.get("cpuset")) for pin in domain.findall("cputune/vcpupin"))
    vcpu = domain.find("vcpu")
    allowed = parse_cpus(None if vcpu is None else vcpu.get("cpuset"))
    cpus = frozenset().union(*pinned) or allowed
    return frozenset(cell.number for cell in cells if cell.cpus & cpus)
