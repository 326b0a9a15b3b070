"""CPUs and memory of the host: of its root or of its NUMA cells, with hugepages; HYPERTHREADING.

Which provider has which inventory is decided in :mod:`drivers.libvirt.facts.numa`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from drivers.api import DriverContext
from drivers.errors import DriverNotReady
from drivers.inventory import DEDICATED_SET, InventoryPolicy, cpu_list, guest_cpus, split_cores
from drivers.libvirt.connection.host import Host, file_text, require_value
from drivers.libvirt.facts import numa
from drivers.libvirt.facts.architecture import QEMU_TYPES
from drivers.libvirt.facts.fact import ReportContext, Sources
from drivers.libvirt.facts.numa import Capacity, MemoryPolicy, ReservedPages
from drivers.libvirt.facts.topology import cores, hyperthreading
from drivers.libvirt.tree.reported import CELLS, HOST, HostReport, total_of
from drivers.opts import inventory_policy

HYPERTHREADING = "HW_CPU_HYPERTHREADING"
SMT_OFF = frozenset({"off", "forceoff", "notsupported"})
"""States in which the kernel leaves all threads of a core but one offline."""

ALL_CELLS = -1
"""VIR_NODE_MEMORY_STATS_ALL_CELLS, which older bindings lack."""


@dataclass(frozen=True, slots=True)
class CpuAndMemoryAnswer:
    """Numbers of the CPUs that are present and online, and the memory (``None``: unknown).

    ``offline_cells``: NUMA cell by offline dedicated CPU; the capabilities don't list these CPUs.
     ``threads``: whether a core has several; ``late_pages``: classes of
    hugepages that a cell does not have, but may get.
    """

    present: frozenset[int]
    online: frozenset[int]
    memory_kib: int | None
    offline_cells: Mapping[int, int] = field(default_factory=dict)
    threads: bool | None = None
    late_pages: frozenset[str] = frozenset()


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
        """Return the fact with its options; as in Nova, file-backed memory excludes hugepages,
        overcommit, and reserved memory, which is the default.

        :raises ValueError: CPU sets, hugepages or file-backed memory are invalid.
        """
        conf, group = context.conf, context.conf.libvirt
        if group.file_backed_memory:
            conflicts = {
                f"virt_type = {group.virt_type}": group.virt_type not in QEMU_TYPES,
                "report_hugepages = pages": group.report_hugepages == numa.PAGES,
                "[DEFAULT] ram_allocation_ratio above 1": (conf.ram_allocation_ratio or 1) != 1,
                "[DEFAULT] reserved_host_memory_mb above 0": conf.reserved_host_memory_mb > 0,
            }
            for option, is_set in conflicts.items():
                if is_set:
                    raise ValueError(f"[libvirt] file_backed_memory can't be used with {option}")
            memory = MemoryPolicy(numa.MEMORY)
        else:
            reserved = tuple(map(ReservedPages.from_option, conf.reserved_huge_pages or ()))
            memory = MemoryPolicy(group.report_hugepages, reserved)
        power = group.cpu_power_management
        policy = inventory_policy(conf)
        return cls(policy, memory, group.report_numa, power, group.file_backed_memory)

    def query_host(self, sources: Sources) -> CpuAndMemoryAnswer:
        """Return CPUs and memory.

        :raises DriverNotReady: the CPUs are unknown.
        """
        in_cells = frozenset[int]().union(*(cell.cpus for cell in sources.cells or ()))
        states = sources.fetch_or_default("the CPU map", lambda: cpu_map(sources.host), None)
        if states:
            present = frozenset(range(len(states)))
            online = frozenset(number for number in present if states[number])
        elif in_cells:
            present = online = in_cells
        else:
            count = sources.fetch("the number of CPUs", lambda: cpu_count(sources.host))
            present = online = frozenset(range(count))
        memory: int | None = self.file_backed_memory * 1024
        if not memory:
            memory = sources.fetch_or_default("memory", lambda: memory_kib(sources.host), None)
        cells = sources.cells or ()
        dedicated, offline_cells = frozenset[int](), dict[int, int]()
        if self.report_numa == numa.NESTED and self.cpu_power_management:
            dedicated = (self.policy.dedicated_cpus or frozenset()) & present
        if dedicated - online - in_cells:
            offline_cells = sources.read_files(
                "cells of offline CPUs",
                "NUMA cells of CPUs",
                lambda root: numa_cells_by_cpu(root, dedicated),  # all: these answers are kept
                offline_cells,
            )
        threads = hyperthreading(cells)
        if threads is False and present - online:
            is_off = sources.read_files("SMT", "the state of SMT", smt_is_off, False)
            threads = False if is_off else None  # the threads that would show it may be offline
        pages = {
            (numa.hugepage_class(size), f"NUMA cell {cell.number}"): count > 0
            for cell in cells
            for size, count in cell.pages.items()
        }
        late_pages = frozenset(name for name, _ in sources.late(pages))
        return CpuAndMemoryAnswer(present, online, memory, offline_cells, threads, late_pages)

    def build_report(self, answer: CpuAndMemoryAnswer, context: ReportContext) -> HostReport:
        """Return the report.

        :raises DriverNotReady: the CPU sets name CPUs that this host does not have.
        """
        try:
            cpus = guest_cpus(
                answer.present,
                answer.online,
                self.policy,
                wakes_dedicated=self.cpu_power_management,
            )
        except ValueError as err:
            raise DriverNotReady(str(err)) from None
        offline = answer.offline_cells
        cells = [
            replace(cell, cpus=cell.cpus | {cpu for cpu in offline if offline[cpu] == cell.number})
            for cell in context.cells or ()
        ]
        pages, before = Counter[str](), context.observed.values()
        for cell in cells:
            pages.update({numa.hugepage_class(size): cell.pages[size] for size in cell.pages})
        # A size that one cell never had is late in each boot: it is missing if the host has fewer.
        if any(pages[it] < sum(total_of(has, it) for has in before) for it in answer.late_pages):
            cells = [replace(cell, pages={}, pages_reported=False) for cell in cells]
        cells_read = context.cells is not None
        host = Capacity(cells, cpus, answer.memory_kib, self.policy, self.memory, cells_read)
        report = numa.cpus_and_memory_report(context.node, self.report_numa, host, context.observed)
        mixed = split_cores(cpus, cores(cells))
        warning = (
            f"{DEDICATED_SET}: CPU {cpu_list(mixed)} shares its core with a CPU of cpu_shared_set:"
            " guests with this dedicated CPU share the core with others; put both CPUs into one set"
        )
        return replace(
            report,
            traits={} if answer.threads is None else {HYPERTHREADING: answer.threads},
            notes={**cpus.uncounted, **report.notes},
            warnings=[warning] if mixed else [],
            incomplete=frozenset() if cells_read else frozenset({CELLS}),
        )


def cpu_map(host: Host) -> tuple[bool, ...] | None:
    """Return, by CPU number, whether it is online; ``None`` or empty: unknown."""

    def states(connection: Any) -> tuple[bool, ...]:
        cpus = tuple(map(bool, connection.getCPUMap()[1]))
        if cpus and not any(cpus):
            raise ValueError("a CPU map without any CPU that is online")
        return cpus

    return host.call_if_supported("the CPU map", states, None)


def cpu_count(host: Host) -> int:
    """Return the number of online CPUs."""
    return host.call_libvirt("node info", lambda c: require_value(int(c.getInfo()[2]), "CPU"))


def memory_kib(host: Host) -> int:
    """Return the host's memory in KiB.

    Memory statistics are preferred: node info and NUMA cells grow for hours on machines that
    initialise memory lazily.  Node info is used for hypervisors without memory statistics.
    """

    def total(connection: Any) -> int:
        return require_value(int(connection.getMemoryStats(ALL_CELLS, 0)["total"]), "memory")

    kib = host.call_if_supported("memory", total, None)
    if kib is not None:
        return kib
    mib = host.call_libvirt("node info", lambda c: require_value(int(c.getInfo()[1]), "memory"))
    return mib * 1024


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


def smt_is_off(root: Path) -> bool:
    """Return whether the kernel says that each core has one thread, or uses one only."""
    return file_text(root / "sys/devices/system/cpu/smt/control").strip() in SMT_OFF
