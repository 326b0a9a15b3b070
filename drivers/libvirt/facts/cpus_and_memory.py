"""CPUs and memory of the host, of its root or of its NUMA cells; hugepages among it.

What is asked, and by which numbers; what is whose decides :mod:`drivers.libvirt.facts.numa`.
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
from drivers.libvirt.connection.host import Host, some
from drivers.libvirt.connection.session import Refused
from drivers.libvirt.facts import numa
from drivers.libvirt.facts.architecture import QEMU_TYPES
from drivers.libvirt.facts.fact import Sources, Subject
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
"""VIR_NODE_MEMORY_STATS_ALL_CELLS, which older bindings do not name."""


@dataclass(frozen=True, slots=True)
class Counted:
    """CPUs that are there and those that are online; ``memory_kib`` ``None``: never told.

    ``asleep`` are dedicated CPUs that are offline until a guest gets them, with their NUMA
    cells, which the capabilities do not tell.
    """

    present: frozenset[int]
    online: frozenset[int]
    memory_kib: int | None
    asleep: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CpusAndMemory:
    """``file_backed_memory`` in MiB; 0: guests have the host's own memory."""

    policy: InventoryPolicy
    memory: MemoryPolicy
    report_numa: str = numa.OFF
    cpu_power_management: bool = False
    file_backed_memory: int = 0
    name: ClassVar[str] = HOST

    @classmethod
    def of(cls, context: DriverContext) -> Self:
        """:raises ValueError: CPU sets, hugepages or memory in files that can't be."""
        conf, group = context.conf, context.conf.libvirt
        policy, memory = inventory_policy(conf), _memory_policy(conf)
        power = group.cpu_power_management
        return cls(policy, memory, group.report_numa, power, group.file_backed_memory)

    def ask(self, sources: Sources) -> Counted:
        """:raises DriverNotReady: it is not known what CPUs there are."""
        present, online = _cpus(sources)
        asleep = self._asleep(sources, present - online)
        return Counted(present, online, self._memory(sources), asleep)

    def judge(self, answer: Counted, of: Subject) -> HostReport:
        """:raises DriverNotReady: the CPU sets name CPUs that this host does not have."""
        host = Capacity(
            with_cpus(numa_cells(of.capabilities), answer.asleep),
            self._guest_cpus(answer),
            answer.memory_kib,
            self.policy,
            self.memory,
            told=of.capabilities.tag == "capabilities",
        )
        report = numa.processing(of.node, self.report_numa, host, of.observed)
        return replace(
            report,
            notes={**host.cpus.left_out, **report.notes},
            warnings=_mixed_cores(host.cpus, of.capabilities),
            unsure=frozenset() if host.told else frozenset({CELLS}),
        )

    def _memory(self, sources: Sources) -> int | None:
        """In KiB: the host's, or what the operator has in files."""
        if self.file_backed_memory:
            return self.file_backed_memory * 1024
        return sources.read_or("memory", lambda: memory_kib(sources.host), None)

    def _asleep(self, sources: Sources, offline: frozenset[int]) -> Mapping[int, int]:
        """Only where it matters, by the kernel of the agent's own machine."""
        if self.report_numa == numa.OFF or not self.cpu_power_management:
            return {}
        inside = (cell.cpus for cell in numa_cells(sources.capabilities))
        dedicated = self.policy.dedicated_cpus or frozenset()
        cpus = dedicated & offline - frozenset().union(*inside)
        if not cpus:
            return {}
        what = "NUMA cells of CPUs"
        return sources.on_files(
            "cells of offline CPUs", what, lambda root: cells_of(root, cpus), dict[int, int]()
        )

    def _guest_cpus(self, answer: Counted) -> GuestCpus:
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
    """Memory in files has nothing to do with hugepages, and can't be overcommitted: as in Nova."""
    group = conf.libvirt
    if not group.file_backed_memory:
        return MemoryPolicy(group.report_hugepages, reserved_pages(conf.reserved_huge_pages or ()))
    wrong = {
        f"virt_type = {group.virt_type}": group.virt_type not in QEMU_TYPES,
        "report_hugepages = pages": group.report_hugepages == PAGES,
        "[DEFAULT] ram_allocation_ratio above 1": (conf.ram_allocation_ratio or 1.0) != 1.0,
    }
    for option, is_so in wrong.items():
        if is_so:
            raise ValueError(f"[libvirt] file_backed_memory can't be used with {option}")
    return MemoryPolicy(MEMORY)


def _cpus(sources: Sources) -> tuple[frozenset[int], frozenset[int]]:
    """Those that are there, and of these those that are online."""
    by_number = sources.read_or("the CPU map", lambda: cpu_map(sources.host), None)
    if by_number:
        online = frozenset(number for number, on in enumerate(by_number) if on)
        return frozenset(range(len(by_number))), online
    told = frozenset().union(*(cell.cpus for cell in numa_cells(sources.capabilities)))
    if not told:
        count = sources.read("the number of CPUs", lambda: cpu_count(sources.host))
        told = frozenset(range(count))
    return told, told


def _mixed_cores(cpus: GuestCpus, capabilities: Element) -> list[str]:
    mixed = split_cores(cpus, cores(capabilities))
    words = (
        f"{DEDICATED_SET}: CPU {cpu_list(mixed)} shares its core with a CPU of cpu_shared_set:"
        " guests that want it for themselves will notice the others"
    )
    return [words] if mixed else []


def cpu_map(host: Host) -> tuple[bool, ...] | None:
    """Return, by CPU number, whether it is online; ``None``: unknown."""
    return host.ask_if_able("the CPU map", lambda c: _some_on(c.getCPUMap()[1]), None)


def cpu_count(host: Host) -> int:
    """Online CPUs, by number only."""
    return host.ask("node info", lambda c: some(int(c.getInfo()[2]), "CPU"))


def memory_kib(host: Host) -> int:
    """Memory of the host in KiB.

    Node info and the NUMA cells are no use here: on machines that initialise memory lazily
    they grow for hours.  Only drivers without memory statistics are asked for them.
    """
    try:
        return host.ask("memory", lambda c: some(_total(c), "memory"))
    except Refused as err:
        if not err.unsupported:
            raise
    return host.ask("node info", lambda c: some(int(c.getInfo()[1]), "memory")) * 1024


def cells_of(root: Path, cpus: Iterable[int]) -> dict[int, int]:
    """NUMA cells by CPU, as far as the kernel says; it does of offline ones, too.

    :raises DriverNotReady: they are there and can't be read.
    """
    system = root / "sys/devices/system/cpu"
    try:
        links = [(n, link.name) for n in cpus for link in (system / f"cpu{n}").glob("node*")]
    except OSError as err:
        raise DriverNotReady(f"no NUMA cells of CPUs: {err}") from err
    cells = {number: name.removeprefix("node") for number, name in links}
    return {number: int(cell) for number, cell in cells.items() if cell.isdecimal()}


def _total(connection: Any) -> int:
    return int(connection.getMemoryStats(ALL_CELLS, 0)["total"])


def _some_on(cpus: Iterable[Any]) -> tuple[bool, ...]:
    """An empty map is one that this hypervisor does not keep."""
    states = tuple(map(bool, cpus))
    if states and not any(states):
        raise ValueError("a CPU map without any CPU that is online")
    return states
