"""Query all facts of a host, and merge their parts into one report."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from xml.etree.ElementTree import Element

from drivers.api import DriverContext
from drivers.errors import DriverNotReady
from drivers.libvirt.connection.host import Host
from drivers.libvirt.devices.devices import NodeDevices, list_all_guests
from drivers.libvirt.devices.encryption import MemoryEncryption
from drivers.libvirt.documents import parse_document
from drivers.libvirt.facts.architecture import Architecture
from drivers.libvirt.facts.cpu_features import CpuFeatures
from drivers.libvirt.facts.cpus_and_memory import CpusAndMemory
from drivers.libvirt.facts.disk import Disk
from drivers.libvirt.facts.fact import Fact, ReportContext, Sources
from drivers.libvirt.facts.guest_models import GuestModels
from drivers.libvirt.facts.pmem import Pmem
from drivers.libvirt.facts.topology import Cell, guest_cells, hugepages_known, numa_cells
from drivers.libvirt.tree.reported import HOST, HostReport, Observed, merge_reports

LOG = logging.getLogger("compute_agent.drivers")


FACTS: tuple[type[Fact], ...] = (
    CpusAndMemory,
    Disk,
    Pmem,
    Architecture,
    CpuFeatures,
    GuestModels,
    NodeDevices,
    MemoryEncryption,
)
"""All facts; CpusAndMemory comes first, since it decides whether cells are providers."""


def facts_from_context(context: DriverContext) -> Mapping[str, Fact]:
    """Return the facts by name.

    :raises ValueError: an option is invalid; the message names it.
    """
    facts = [fact_class.from_context(context) for fact_class in FACTS]
    return {fact.name: fact for fact in facts}


@dataclass(frozen=True, slots=True)
class Reading:
    """The host's capabilities, its NUMA cells (``None``: they could never be read), and the results
    of ``query_host`` by the fact's name.
    """

    capabilities: Element
    cells: tuple[Cell, ...] | None
    answers: Mapping[str, Any]


class Reader:
    """Queries the host; the last answer of a source is used if the source fails."""

    def __init__(self, host: Host, facts: Mapping[str, Fact]) -> None:
        self.facts = facts
        self.sources = Sources(host)

    def read_host(self) -> Reading:
        """Return the answers of all facts.

        :raises DriverNotReady: a required source has never answered.
        """
        sources = self.sources
        sources.begin_period()
        sources.capabilities = sources.fetch_or_default(
            "capabilities", lambda: capabilities(sources.host), sources.capabilities
        )
        if sources.capabilities.tag == "capabilities":
            sources.cells = sources.read_part(
                "NUMA cells", "capabilities", self._cells, sources.cells
            )
        answers = {name: fact.query_host(sources) for name, fact in self.facts.items()}
        return Reading(sources.capabilities, sources.cells, answers)

    def guest_cells(self) -> dict[str, int]:
        """Return the NUMA cell of each guest that is bound to one, by the guest's UUID.

        Used for a reshape only.  Empty if guests could not be listed.
        """
        try:
            domains = list_all_guests(self.sources.host).documents.values()
        except DriverNotReady as err:
            LOG.warning(
                "allocations are moved without regard to the NUMA cells that guests run on: %s", err
            )
            return {}
        return guest_cells(domains, self.sources.cells or ())

    def _cells(self) -> tuple[Cell, ...]:
        """Return the cells; reject a document that lists no pages if an earlier one did."""
        cells = numa_cells(self.sources.capabilities)
        if hugepages_known(self.sources.cells or ()) and not hugepages_known(cells):
            raise ValueError("it no longer lists the pages of NUMA cells")
        return cells


def capabilities(host: Host) -> Element:
    """Return the host capabilities document, with the current CPUs and hugepages."""
    return host.call_libvirt(
        "capabilities", lambda c: parse_document(str(c.getCapabilities()), "capabilities")
    )


def host_report(
    node: str,
    reading: Reading,
    facts: Mapping[str, Fact],
    observed: Observed,
    *,
    disk_shared: bool = False,
) -> HostReport:
    """Return the report of a host.  No I/O.

    ``observed`` and ``disk_shared``: see :class:`ReportContext`.

    :raises DriverNotReady: the CPU sets name CPUs that this host does not have.
    """
    context = ReportContext(
        node, reading.capabilities, reading.cells, observed, disk_shared=disk_shared
    )
    parts: dict[str, HostReport] = {}
    for name, answer in reading.answers.items():
        parts[name] = facts[name].build_report(answer, context)
        if name == HOST:
            context = replace(context, by_cell=bool(parts[name].cells))
    return merge_reports(parts, context.current)
