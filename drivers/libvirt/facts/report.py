"""Query all facts of a host, and merge their parts into one report."""

import logging
from collections.abc import Mapping
from dataclasses import replace
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
from drivers.libvirt.tree.reported import HOST, HostReport, merge_reports

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


def read_host(sources: Sources, facts: Mapping[str, Fact]) -> dict[str, Any]:
    """Return the results of ``query_host`` by the fact's name; ``sources`` has the rest.

    :raises DriverNotReady: a required source has never answered.
    """
    sources.begin_period()
    sources.capabilities = sources.fetch_or_default(
        "capabilities", lambda: capabilities(sources.host), sources.capabilities
    )
    if sources.capabilities.tag == "capabilities":
        sources.cells = sources.read_part(
            "NUMA cells", "capabilities", lambda: _cells(sources), sources.cells
        )
    return {name: fact.query_host(sources) for name, fact in facts.items()}


def _cells(sources: Sources) -> tuple[Cell, ...]:
    """Return the cells; reject a document that lists no pages if an earlier one did."""
    cells = numa_cells(sources.capabilities)
    if hugepages_known(sources.cells or ()) and not hugepages_known(cells):
        raise ValueError("it no longer lists the pages of NUMA cells")
    return cells


def cells_of_guests(sources: Sources) -> dict[str, int]:
    """Return the NUMA cell of each guest that is bound to one, by the guest's UUID.

    Used for a reshape only.  Empty if guests could not be listed.
    """
    try:
        domains = list_all_guests(sources.host).documents.values()
    except DriverNotReady as err:
        LOG.warning(
            "allocations are moved without regard to the NUMA cells that guests run on: %s", err
        )
        return {}
    return guest_cells(domains, sources.cells or ())


def capabilities(host: Host) -> Element:
    """Return the host capabilities document, with the current CPUs and hugepages."""
    return host.call_libvirt(
        "capabilities", lambda c: parse_document(str(c.getCapabilities()), "capabilities")
    )


def host_report(
    context: ReportContext,
    answers: Mapping[str, Any],
    facts: Mapping[str, Fact],
    owner_traits: frozenset[str] = frozenset(),
) -> HostReport:
    """Return the report of a host, from the answers of its facts by name.  No I/O.

    ``owner_traits`` are set on every provider of a device or of encryption, and never removed.

    :raises DriverNotReady: the CPU sets name CPUs that this host does not have.
    """
    parts: dict[str, HostReport] = {}
    for name, answer in answers.items():
        parts[name] = facts[name].build_report(answer, context)
        if name == HOST:
            context = replace(context, by_cell=bool(parts[name].cells))
    report = merge_reports(parts, context.current)
    children = (replace(each, traits=each.traits | owner_traits) for each in report.children)
    return replace(report, children=tuple(children))
