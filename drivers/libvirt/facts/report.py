"""All facts of a host: asked in one period, and judged into one report."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from drivers.api import DriverContext
from drivers.errors import DriverNotReady
from drivers.libvirt.connection.host import Host
from drivers.libvirt.devices.devices import NodeDevices, all_guests
from drivers.libvirt.devices.encryption import MemoryEncryption
from drivers.libvirt.documents import checked, read
from drivers.libvirt.facts.architecture import Architecture
from drivers.libvirt.facts.cpu_features import CpuFeatures
from drivers.libvirt.facts.cpus_and_memory import CpusAndMemory
from drivers.libvirt.facts.disk import Disk
from drivers.libvirt.facts.fact import Answers, Fact, Sources, Subject
from drivers.libvirt.facts.guest_models import GuestModels
from drivers.libvirt.facts.numa import Observed
from drivers.libvirt.facts.pmem import Pmem
from drivers.libvirt.facts.topology import guest_cells, numa_cells, pages_told
from drivers.libvirt.tree.reported import HOST, HostReport, together

LOG = logging.getLogger(__name__)


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
"""All that is reported; CPUs and memory first: they decide whether there are cells."""


def facts_of(context: DriverContext) -> Mapping[str, Fact]:
    """Return the facts by name.  :raises ValueError: naming the wrong option."""
    facts = [kind.of(context) for kind in FACTS]
    return {fact.name: fact for fact in facts}


@dataclass(frozen=True, slots=True)
class Reading:
    """The host's capabilities, and the answers of its facts."""

    capabilities: Element
    answers: Answers


class Reader:
    """Asks the host; a source that fails is answered from memory."""

    def __init__(self, host: Host, facts: Mapping[str, Fact]) -> None:
        self.facts = facts
        self.sources = Sources(host)
        self._pages_told = False

    def read(self) -> Reading:
        """:raises DriverNotReady: what a report can't do without has never been answered."""
        sources = self.sources
        sources.begin()
        sources.capabilities = sources.read_or(
            "capabilities", self._capabilities, sources.capabilities
        )
        answers = {name: fact.ask(sources) for name, fact in self.facts.items()}
        return Reading(sources.capabilities, answers)

    def guest_cells(self, capabilities: Element) -> dict[str, int]:
        """The NUMA cells of guests that are bound to one, by UUID; asked for a reshape only."""
        try:
            domains = all_guests(self.sources.host).documents.values()
        except DriverNotReady as err:
            LOG.warning("guests are moved without regard to the cells they run on: %s", err)
            return {}
        return guest_cells(domains, numa_cells(capabilities))

    def _capabilities(self) -> Element:
        """Once it told how memory is divided, a document that does not is no answer."""
        document = read(capabilities(self.sources.host))
        told = pages_told(numa_cells(document))
        if self._pages_told and not told:
            raise DriverNotReady("libvirt's capabilities tell no NUMA cells with pages any more")
        self._pages_told = told
        return document


def capabilities(host: Host) -> str:
    """The capabilities document, with hugepages and CPUs as they are now."""
    return host.ask("capabilities", lambda c: checked(str(c.getCapabilities()), "capabilities"))


def host_report(
    node: str,
    reading: Reading,
    facts: Mapping[str, Fact],
    observed: Observed,
    *,
    disk_shared: bool = False,
) -> HostReport:
    """``observed`` is what Placement has of this host's providers, by name; ``disk_shared``:
    a sharing provider has a disk for the host.  No I/O.

    :raises DriverNotReady: the CPU sets name CPUs that this host does not have.
    """
    of = Subject(node, reading.capabilities, observed, disk_shared=disk_shared)
    parts: dict[str, HostReport] = {}
    for name, answer in reading.answers.items():
        parts[name] = facts[name].judge(answer, of)
        if name == HOST:
            of = replace(of, by_cell=bool(parts[name].cells))
    return together(parts, of.current)
