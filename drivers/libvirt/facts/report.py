"""All facts of a host: asked in one look, and judged into one report."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from drivers.errors import DriverNotReady
from drivers.libvirt.connection.host import Host
from drivers.libvirt.devices.devices import NodeDevices, all_guests
from drivers.libvirt.devices.encryption import MemoryEncryption
from drivers.libvirt.documents import checked, read
from drivers.libvirt.facts.architecture import Architecture
from drivers.libvirt.facts.cpu_features import CpuFeatures
from drivers.libvirt.facts.cpus_and_memory import CpusAndMemory
from drivers.libvirt.facts.disk import Disk
from drivers.libvirt.facts.fact import Answers, Fact, Look, Sources, Subject
from drivers.libvirt.facts.guest_models import GuestModels
from drivers.libvirt.facts.numa import Observed
from drivers.libvirt.facts.pmem import Pmem
from drivers.libvirt.facts.topology import guest_cells, numa_cells, pages_told
from drivers.libvirt.settings import LibvirtSettings
from drivers.libvirt.tree.reported import HOST, HostReport, together

LOG = logging.getLogger(__name__)


def facts_of(settings: LibvirtSettings) -> Mapping[str, Fact]:
    """All that is reported, by name; CPUs and memory first: they decide whether there are cells."""
    virt_type, devices = settings.cpu.virt_type, settings.devices
    facts: tuple[Fact, ...] = (
        CpusAndMemory(
            settings.policy,
            settings.memory,
            settings.report_numa,
            settings.cpu_power_management,
            settings.file_backed_memory,
        ),
        Disk(settings.images, settings.instances_path, settings.policy, settings.image_cache),
        Pmem(settings.pmem),
        Architecture(virt_type),
        CpuFeatures(settings.cpu),
        GuestModels(virt_type, settings.tpm),
        NodeDevices(devices.pci, devices.mdev, devices.owner_traits),
        MemoryEncryption(virt_type, devices.encryption, devices.owner_traits),
    )
    return {fact.name: fact for fact in facts}


@dataclass(frozen=True, slots=True)
class Reading:
    """What the host said: its capabilities, and the answers of facts."""

    capabilities: Element
    answers: Answers


class Reader:
    """Asks the host; a source that fails is answered from memory."""

    def __init__(self, host: Host, settings: LibvirtSettings) -> None:
        self._host = host
        self.facts = facts_of(settings)
        self.sources = Sources(count=host.events.count)
        self._pages_told = False

    def read(self) -> Reading:
        """:raises DriverNotReady: what a report can't do without has never been answered."""
        document = self.sources.read_or("capabilities", self._capabilities, Element("nothing"))
        look = Look(self._host, self.sources, document)
        return Reading(document, {name: fact.ask(look) for name, fact in self.facts.items()})

    def guest_cells(self, capabilities: Element) -> dict[str, int]:
        """The NUMA cells of guests that are bound to one, by UUID; asked for a reshape only."""
        try:
            domains = all_guests(self._host).documents.values()
        except DriverNotReady as err:
            LOG.warning("guests are moved without regard to the cells they run on: %s", err)
            return {}
        return guest_cells(domains, numa_cells(capabilities))

    def _capabilities(self) -> Element:
        """Once it told how memory is divided, a document that does not is no answer."""
        document = read(capabilities(self._host))
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
    disk_elsewhere: bool = False,
) -> HostReport:
    """``observed`` is what Placement has of this host's providers, by name; ``disk_elsewhere``:
    a sharing provider stands for the host's disk.  No I/O.

    :raises DriverNotReady: the CPU sets name CPUs that this host does not have.
    """
    of = Subject(node, reading.capabilities, observed, disk_elsewhere=disk_elsewhere)
    parts: dict[str, HostReport] = {}
    for name, answer in reading.answers.items():
        parts[name] = facts[name].judge(answer, of)
        if name == HOST:
            of = replace(of, by_cell=bool(parts[name].cells))
    return together(parts, of.current)
