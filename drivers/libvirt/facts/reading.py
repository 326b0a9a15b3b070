"""Reader: one look at the host, source by source.  What it makes is judged elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from drivers.errors import DriverNotReady
from drivers.libvirt import documents
from drivers.libvirt.connection.events import CONNECTION, POOLS
from drivers.libvirt.connection.host import Host
from drivers.libvirt.connection.listed import LastRead, Listed
from drivers.libvirt.devices.device_reading import DeviceReader
from drivers.libvirt.devices.devices import Devices
from drivers.libvirt.facts import cpu, cpu_model, device_models, disk, numa
from drivers.libvirt.facts.cells import numa_cells, pages_told
from drivers.libvirt.facts.sources import Sources
from drivers.libvirt.settings import LibvirtSettings
from drivers.libvirt.tree.guest_cells import guest_cells

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the host is; ``None`` stands for what can't be told, now or at all.

    ``models`` and ``medium`` are traits, and whether the host has each.  ``asleep`` are
    dedicated CPUs that are offline until a guest gets them, with their NUMA cells, which the
    capabilities do not tell.  ``notes`` say what else could not be read.
    """

    capabilities: Element
    present_cpus: frozenset[int]
    online_cpus: frozenset[int]
    memory_kib: int | None
    disk_bytes: int | None = None
    cached_bytes: int = 0
    features: cpu_model.Features | None = None
    pmem_namespaces: frozenset[str] | None = None
    models: Mapping[str, bool] = field(default_factory=dict)
    medium: Mapping[str, bool] = field(default_factory=dict)
    devices: Devices = field(default_factory=Devices)
    asleep: Mapping[int, int] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


class Reader:
    """Asks the host; a source that fails is answered from memory."""

    def __init__(self, host: Host, settings: LibvirtSettings) -> None:
        self._host = host
        self._settings = settings
        self.sources = Sources(count=host.events.count)
        self._devices = DeviceReader(host, settings, self.sources)
        self._pools = LastRead()
        self._pages_told = False

    def read(self) -> Reading:
        """:raises DriverNotReady: what a report can't do without has never been answered."""
        read_or = self.sources.read_or
        capabilities = read_or("capabilities", self._capabilities, Element("nothing"))
        present, online = self._cpus(capabilities)
        memory = self._memory()
        pools = self._storage_pools()
        pool = self._pool(pools)
        return Reading(
            capabilities,
            present,
            online,
            memory,
            self._disk(pool),
            self._cached(),
            read_or("CPU features", lambda: self._features(capabilities), None),
            read_or("persistent memory", self._namespaces, None),
            self._models(capabilities),
            self._medium(pool),
            self._devices.read(capabilities),
            self._asleep(capabilities, present - online),
            pools.notes("storage pool"),
        )

    def guest_cells(self, capabilities: Element) -> dict[str, int]:
        """The NUMA cells of guests that are bound to one, by UUID; asked for a reshape only."""
        try:
            domains = self._host.guests().documents.values()
        except DriverNotReady as err:
            LOG.warning("guests are moved without regard to the cells they run on: %s", err)
            return {}
        return guest_cells(domains, numa_cells(capabilities))

    def _capabilities(self) -> Element:
        """Once it told how memory is divided, a document that does not is no answer."""
        document = documents.read(self._host.capabilities())
        told = pages_told(numa_cells(document))
        if self._pages_told and not told:
            raise DriverNotReady("libvirt's capabilities tell no NUMA cells with pages any more")
        self._pages_told = told
        return document

    def _cpus(self, capabilities: Element) -> tuple[frozenset[int], frozenset[int]]:
        """CPUs that are there, and those that are online."""
        cpu_map = self.sources.read_or("the CPU map", self._host.cpu_map, None)
        if cpu_map:
            online = frozenset(number for number, on in enumerate(cpu_map) if on)
            return frozenset(range(len(cpu_map))), online
        told = frozenset().union(*(cell.cpus for cell in numa_cells(capabilities)))
        if not told:
            told = frozenset(range(self.sources.read("the number of CPUs", self._host.cpu_count)))
        return told, told

    def _asleep(self, capabilities: Element, offline: frozenset[int]) -> Mapping[int, int]:
        """Only where it matters, by the kernel of the agent's own machine."""
        settings = self._settings
        if settings.report_numa == numa.OFF or not settings.cpu_power_management:
            return {}
        inside = (cell.cpus for cell in numa_cells(capabilities))
        cpus = (settings.policy.dedicated_cpus or frozenset()) & offline - frozenset().union(
            *inside
        )
        if not cpus:
            return {}
        return self.sources.read_or(
            "cells of offline CPUs", lambda: self._host.cells_of_cpus(cpus), {}
        )

    def _storage_pools(self) -> Listed:
        found = self.sources.read_or(POOLS, self._host.storage_pools, Listed(), until=POOLS)
        if found.unread:
            self.sources.ask_again(POOLS)
        return self._pools.filled(found)

    def _pool(self, pools: Listed) -> disk.StoragePool | None:
        """The one of libvirt's storage pools that guests' disks are in."""
        found = map(documents.read, pools.documents.values())
        return disk.storage_pool(found, self._settings.images, self._settings.instances_path)

    def _disk(self, pool: disk.StoragePool | None) -> int | None:
        """Bytes.  Files need no pool: the file system says it as well."""
        if pool is not None:
            return pool.size
        if not self._settings.images.in_files:
            return None
        path = self._settings.instances_path
        return self.sources.read_or("disk", lambda: self._host.file_system_bytes(path), None)

    def _cached(self) -> int:
        """Bytes of images whose room is reserved."""
        cache, instances = self._settings.image_cache, self._settings.instances_path
        if cache is None:
            return 0
        size = lambda: self._host.cached_bytes(cache, instances)  # noqa: E731
        return self.sources.read_or("image cache", size, 0)

    def _medium(self, pool: disk.StoragePool | None) -> Mapping[str, bool]:
        """Disks of this machine: those of a pool far away are not among its devices."""

        def spins() -> tuple[bool | None, ...]:
            if self._settings.images.in_files:
                return (self._host.file_system_spins(self._settings.instances_path),)
            return self._host.devices_spin(pool.devices if pool is not None else ())

        return disk.medium_traits(self.sources.read_or("kind of disk", spins, ()))

    def _models(self, capabilities: Element) -> Mapping[str, bool]:
        """What guests can be given; a document that libvirt refuses is told by the host."""
        asked = device_models.questions(capabilities, self._settings.cpu.virt_type)
        ask = self._host.domain_capabilities

        def answers() -> list[str | None]:
            return [ask(one.arch, one.virt_type, one.machine) for one in asked]

        name = "domain capabilities"
        found = self.sources.read_or(name, answers, [], until=CONNECTION)
        if None in found:
            self.sources.ask_again(name)
        versions = self._versions() if asked else None
        return device_models.model_traits(asked, found, tpm=self._settings.tpm, versions=versions)

    def _versions(self) -> device_models.Versions | None:
        """What hangs on them is left alone where this hypervisor tells none."""
        told = self.sources.read_or("versions", self._host.versions, None, until=CONNECTION)
        return None if told is None else device_models.Versions(*told)

    def _memory(self) -> int | None:
        """In KiB: the host's, or what the operator has in files; ``None``: it never said."""
        if self._settings.file_backed_memory:
            return self._settings.file_backed_memory * 1024
        return self.sources.read_or("memory", self._host.memory_kib, None)

    def _namespaces(self) -> frozenset[str]:
        if not self._settings.pmem:
            return frozenset()
        return self._host.pmem_namespaces()

    def _features(self, capabilities: Element) -> cpu_model.Features | None:
        """What guests can count on; libvirt's own gaps are told by the host."""
        choice, host_cpu = self._settings.cpu, cpu.host_cpu(capabilities)
        known = self._host.cpu_models(host_cpu.arch) if choice.models and host_cpu.arch else ()
        asked = cpu_model.questions(host_cpu, choice, known)
        answers = [self._expanded(question) for question in asked]
        return cpu_model.guest_features(host_cpu, choice, asked, answers)

    def _expanded(self, question: cpu_model.Question) -> str | None:
        return self._host.expanded_cpu(question.document, question.name)
