"""CPUs and memory of the host: of its root or of its NUMA cells, with hugepages.

Which provider has which inventory is decided in :mod:`drivers.libvirt.facts.numa`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self
from xml.etree.ElementTree import Element

from drivers.api import DriverContext
from drivers.errors import DriverNotReady
from drivers.guest_cpus import DEDICATED_SET, GuestCpus, guest_cpus, split_cores
from drivers.inventory import InventoryPolicy, cpu_list
from drivers.libvirt.connection.host import Host, require_value
from drivers.libvirt.connection.session import ErrorReply
from drivers.libvirt.facts import numa
from drivers.libvirt.facts.architecture import QEMU_TYPES
from drivers.libvirt.facts.fact import ReportContext, Sources
from drivers.libvirt.facts.shares import (
    MEMORY,
    PAGES,
    Capacity,
    MemoryPolicy,
    reserved_pages,
)
from drivers.libvirt.facts.topology import cores, numa_cells, with_cpus
from drivers.libvirt.tree.reported import CELLS, HOST, HostReport
from drivers.opts import inventory_policy

ALL_CELLS = -1
"""VIR_NODE_MEMORY_STATS_ALL_CELLS, which older bindings lack."""


@dataclass(frozen=True, slots=True)
class CpuAndMemoryAnswer:
    """Numbers of the CPUs that are present and online, and the memory (``None``: unknown).

    ``offline_cells``: NUMA cell by offline dedicated CPU; the capabilities don't list these CPUs.
    """

    present: frozenset[int]
    online: frozenset[int]
    memory_kib: int | None
    offline_cells: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CpusAndMemory:
    """CPUs, memory and hugepages; ``file_backed_memory`` in MiB, 0: not used."""

    policy: InventoryPolicy
    memory: MemoryPolicy
    report_numa: str = numa.OFF
    cpu_power_management: bool = False
    file_backed_memory: int = 0
    name: ClassVar[str] = HOST

    @classmethod
    def from_context(cls, context: DriverContext) -> Self:
        """Return the fact with its options.

        :raises ValueError: CPU sets, hugepages or file-backed memory are invalid.
        """
        conf, group = context.conf, context.conf.libvirt
        policy, memory = inventory_policy(conf), _memory_policy(conf)
        power = group.cpu_power_management
        return cls(policy, memory, group.report_numa, power, group.file_backed_memory)

    def query_host(self, sources: Sources) -> CpuAndMemoryAnswer:
        """Return CPUs and memory.

        :raises DriverNotReady: the CPUs are unknown.
        """
        present, online = _present_and_online(sources)
        offline_cells = self._offline_cells(sources, present - online)
        return CpuAndMemoryAnswer(present, online, self._memory(sources), offline_cells)

    def build_report(self, answer: CpuAndMemoryAnswer, context: ReportContext) -> HostReport:
        """Return the report.

        :raises DriverNotReady: the CPU sets name CPUs that this host does not have.
        """
        host = Capacity(
            with_cpus(numa_cells(context.capabilities), answer.offline_cells),
            self._guest_cpus(answer),
            answer.memory_kib,
            self.policy,
            self.memory,
            capabilities_read=context.capabilities.tag == "capabilities",
        )
        report = numa.cpus_and_memory_report(context.node, self.report_numa, host, context.observed)
        return replace(
            report,
            notes={**host.cpus.left_out, **report.notes},
            warnings=_core_warnings(host.cpus, context.capabilities),
            incomplete=frozenset() if host.capabilities_read else frozenset({CELLS}),
        )

    def _memory(self, sources: Sources) -> int | None:
        """Return the memory in KiB: the host's, or file_backed_memory."""
        if self.file_backed_memory:
            return self.file_backed_memory * 1024
        return sources.fetch_or_default("memory", lambda: memory_kib(sources.host), None)

    def _offline_cells(self, sources: Sources, offline: frozenset[int]) -> Mapping[int, int]:
        """Return the cells of offline dedicated CPUs from this machine's kernel, if needed."""
        if self.report_numa == numa.OFF or not self.cpu_power_management:
            return {}
        cell_cpus = (cell.cpus for cell in numa_cells(sources.capabilities))
        dedicated = self.policy.dedicated_cpus or frozenset()
        cpus = dedicated & offline - frozenset().union(*cell_cpus)
        if not cpus:
            return {}
        what = "NUMA cells of CPUs"
        return sources.read_files(
            "cells of offline CPUs",
            what,
            lambda root: numa_cells_by_cpu(root, cpus),
            dict[int, int](),
        )

    def _guest_cpus(self, answer: CpuAndMemoryAnswer) -> GuestCpus:
        try:
            return guest_cpus(
                answer.present,
                answer.online,
                self.policy,
                wakes_dedicated=self.cpu_power_management,
            )
        except ValueError as err:
            raise DriverNotReady(str(err)) from None


def _memory_policy(conf: Any) -> MemoryPolicy:
    """Return the policy; as in Nova, file-backed memory excludes hugepages and overcommit."""
    group = conf.libvirt
    if not group.file_backed_memory:
        return MemoryPolicy(group.report_hugepages, reserved_pages(conf.reserved_huge_pages or ()))
    conflicts = {
        f"virt_type = {group.virt_type}": group.virt_type not in QEMU_TYPES,
        "report_hugepages = pages": group.report_hugepages == PAGES,
        "[DEFAULT] ram_allocation_ratio above 1": (conf.ram_allocation_ratio or 1.0) != 1.0,
    }
    for option, is_set in conflicts.items():
        if is_set:
            raise ValueError(f"[libvirt] file_backed_memory can't be used with {option}")
    return MemoryPolicy(MEMORY)


def _present_and_online(sources: Sources) -> tuple[frozenset[int], frozenset[int]]:
    """Return the CPUs that are present, and those of them that are online."""
    states = sources.fetch_or_default("the CPU map", lambda: cpu_map(sources.host), None)
    if states:
        online = frozenset(number for number, is_online in enumerate(states) if is_online)
        return frozenset(range(len(states))), online
    listed = frozenset().union(*(cell.cpus for cell in numa_cells(sources.capabilities)))
    if not listed:
        count = sources.fetch("the number of CPUs", lambda: cpu_count(sources.host))
        listed = frozenset(range(count))
    return listed, listed


def _core_warnings(cpus: GuestCpus, capabilities: Element) -> list[str]:
    mixed = split_cores(cpus, cores(capabilities))
    warning = (
        f"{DEDICATED_SET}: CPU {cpu_list(mixed)} shares its core with a CPU of cpu_shared_set:"
        " guests with this dedicated CPU share the core with others; put both CPUs into one set"
    )
    return [warning] if mixed else []


def cpu_map(host: Host) -> tuple[bool, ...] | None:
    """Return, by CPU number, whether it is online; ``None``: unknown."""
    return host.call_if_supported("the CPU map", lambda c: _cpu_states(c.getCPUMap()[1]), None)


def cpu_count(host: Host) -> int:
    """Return the number of online CPUs."""
    return host.call_libvirt("node info", lambda c: require_value(int(c.getInfo()[2]), "CPU"))


def memory_kib(host: Host) -> int:
    """Return the host's memory in KiB.

    Memory statistics are preferred: node info and NUMA cells grow for hours on machines that
    initialise memory lazily.  Node info is used for hypervisors without memory statistics.
    """
    try:
        return host.call_libvirt("memory", lambda c: require_value(_total(c), "memory"))
    except ErrorReply as err:
        if not err.unsupported:
            raise
    return (
        host.call_libvirt("node info", lambda c: require_value(int(c.getInfo()[1]), "memory"))
        * 1024
    )


def numa_cells_by_cpu(root: Path, cpus: Iterable[int]) -> dict[int, int]:
    """Return the NUMA cell by CPU, also for offline CPUs, as far as the kernel knows them.

    :raises DriverNotReady: the kernel's files can't be read.
    """
    system = root / "sys/devices/system/cpu"
    try:
        links = [(n, link.name) for n in cpus for link in (system / f"cpu{n}").glob("node*")]
    except OSError as err:
        raise DriverNotReady(f"can't read the NUMA cells of CPUs: {err}") from err
    cells = {number: name.removeprefix("node") for number, name in links}
    return {number: int(cell) for number, cell in cells.items() if cell.isdecimal()}


def _total(connection: Any) -> int:
    return int(connection.getMemoryStats(ALL_CELLS, 0)["total"])


def _cpu_states(cpus: Iterable[Any]) -> tuple[bool, ...]:
    """Return by CPU number whether it is online; empty if the hypervisor does not say."""
    states = tuple(map(bool, cpus))
    if states and not any(states):
        raise ValueError("a CPU map without any CPU that is online")
    return states
