"""Pure: the NUMA cell that a guest is bound to, from its domain document.

<numatune><memory mode='strict' nodeset='1'/>      where its memory has to be, or else
<cputune><vcpupin vcpu='0' cpuset='4-5'/> ...      where its CPUs are pinned, or else
<vcpu cpuset='4-7'>                                 where they may run
"""

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

from drivers.libvirt.documents import numbers, read, text_of
from drivers.libvirt.facts.cells import Cell

STRICT = frozenset({"strict", "restrictive"})


def guest_cells(domains: Iterable[str], cells: Sequence[Cell]) -> dict[str, int]:
    """Numbers of cells by the guest's UUID, of those that are bound to one cell."""
    found: dict[str, int] = {}
    for domain in map(read, domains):
        uuid, bound = text_of(domain, "uuid"), _bound(domain, cells)
        if uuid is not None and len(bound) == 1:
            found[uuid.lower()] = min(bound)
    return found


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
