"""From one look at the host to all that is reported of it; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from drivers.errors import DriverNotReady
from drivers.guest_cpus import DEDICATED_SET, GuestCpus, guest_cpus, split_cores
from drivers.inventory import (
    DISK_GB,
    InventoryPolicy,
    cpu_list,
    over_reserved,
    root_inventory,
)
from drivers.libvirt.devices.devices import below_root, warnings
from drivers.libvirt.facts import cpu, disk, guest_types, pmem
from drivers.libvirt.facts.arch_traits import arch_traits
from drivers.libvirt.facts.cells import numa_cells, with_cpus
from drivers.libvirt.facts.cpu_traits import cpu_traits
from drivers.libvirt.facts.numa import Known, Processors, processing
from drivers.libvirt.facts.reading import Reading
from drivers.libvirt.settings import LibvirtSettings
from drivers.libvirt.tree.reported import CELLS, HostReport


def host_report(
    node: str,
    reading: Reading,
    settings: LibvirtSettings,
    known: Known,
    *,
    disk_elsewhere: bool = False,
) -> HostReport:
    """``known`` is what Placement has of this host's providers, by name; ``disk_elsewhere``:
    a sharing provider stands for the host's disk.

    :raises DriverNotReady: the CPU sets name CPUs that this host does not have.
    """
    host = Processors(
        with_cpus(numa_cells(reading.capabilities), reading.asleep),
        _guest_cpus(reading, settings),
        reading.memory_kib,
        settings.policy,
        settings.memory,
        told=reading.capabilities.tag == "capabilities",
    )
    found = processing(node, settings.report_numa, host, known)
    current = known.get(node, {})
    below = below_root(node, reading.devices, settings.devices, bool(found.cells), known)
    kept = {name: current[name] for name in below.kept if name in current}
    room = {} if disk_elsewhere else _disk(reading, settings, current)
    own = {**room, **_pmem(reading, settings, current)}
    return HostReport(
        {**kept, **found.root, **own},
        found.cells,
        below.children,
        traits=_traits(reading) | _medium(reading, elsewhere=disk_elsewhere) | dict(below.traits),
        notes={
            **guest_types.not_run(reading.capabilities, settings.cpu.virt_type),
            **host.cpus.left_out,
            **reading.notes,
            **found.notes,
            **({} if disk_elsewhere else _disk_notes(reading, settings)),
            **_pmem_notes(reading, settings),
            **below.notes,
        },
        warnings=warnings(below),
        silent=below.silent | (frozenset() if found.complete else {CELLS}),
        unsure=below.unsure | (frozenset() if host.told else {CELLS}),
    )


def mixed_cores(reading: Reading, settings: LibvirtSettings) -> str | None:
    """A warning, if some core runs a dedicated CPU beside a shared one."""
    mixed = split_cores(_guest_cpus(reading, settings), cpu.cores(reading.capabilities))
    if not mixed:
        return None
    return (
        f"{DEDICATED_SET}: CPU {cpu_list(mixed)} shares its core with a CPU of cpu_shared_set:"
        " guests that want it for themselves will notice the others"
    )


def _guest_cpus(reading: Reading, settings: LibvirtSettings) -> GuestCpus:
    try:
        return guest_cpus(
            reading.present_cpus,
            reading.online_cpus,
            settings.policy,
            wakes_dedicated=settings.cpu_power_management,
        )
    except ValueError as err:
        raise DriverNotReady(str(err)) from None


def _disk(
    reading: Reading, settings: LibvirtSettings, current: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Mapping[str, Any]]:
    """An amount that can't be told stays as Placement has it."""
    if reading.disk_bytes is None:
        return {DISK_GB: current[DISK_GB]} if DISK_GB in current else {}
    return root_inventory(_disk_gb(reading), _policy(reading, settings), current)


def _policy(reading: Reading, settings: LibvirtSettings) -> InventoryPolicy:
    """With what cached images take, in whole GiB, as reserved."""
    cached = -(-reading.cached_bytes // 1024**3)
    own = settings.policy.reserved(DISK_GB)
    if not cached:
        return settings.policy
    return replace(settings.policy, reserved_disk_mb=(own + cached) * 1024)


def _pmem(
    reading: Reading, settings: LibvirtSettings, current: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Mapping[str, Any]]:
    if reading.pmem_namespaces is None:
        return {name: current[name] for name in settings.pmem if name in current}
    return pmem.pmem_inventory(settings.pmem, reading.pmem_namespaces)


def _disk_gb(reading: Reading) -> dict[str, int]:
    return {DISK_GB: disk.disk_gb(reading.disk_bytes or 0)}


def _traits(reading: Reading) -> dict[str, bool]:
    """Whether the host has a trait; those that can't be told are not in there."""
    host_cpu = cpu.host_cpu(reading.capabilities)
    threads = cpu.hyperthreading(reading.capabilities)
    found = cpu_traits(host_cpu, reading.features, threads)
    return found | arch_traits(host_cpu, reading.capabilities) | dict(reading.models)


def _medium(reading: Reading, *, elsewhere: bool) -> dict[str, bool]:
    """A trait of the host's own disk says nothing of one that others share."""
    return {disk.SSD: False, disk.HDD: False} if elsewhere else dict(reading.medium)


def _disk_notes(reading: Reading, settings: LibvirtSettings) -> dict[str, str]:
    if reading.disk_bytes is None and not settings.images.in_files:
        return {DISK_GB: disk.unknown_size(settings.images)}
    return over_reserved(_disk_gb(reading), _policy(reading, settings))


def _pmem_notes(reading: Reading, settings: LibvirtSettings) -> dict[str, str]:
    if reading.pmem_namespaces is None:
        return {}
    return pmem.missing_namespaces(settings.pmem, reading.pmem_namespaces)
