"""LibvirtDriver: asks the host, lets the pure modules judge, writes the tree.

What is whose.  The inventory of the root has one owner, this driver: it is replaced
whole, so that nothing that the host no longer has stays behind.  Strangers own whole
providers, traits and aggregates, and those are left alone: of traits only those go
that the modules here may set, and that the host is known not to have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from drivers.api import Allocations, ComputeDriver, DriverContext, ProviderTree
from drivers.errors import DriverLoadFailed, DriverNotReady
from drivers.inventory import (
    DISK_GB,
    MEMORY_MB,
    CurrentInventory,
    cpu_amounts,
    over_reserved,
    root_inventory,
)
from drivers.libvirt import cpu, cpu_model, disk, documents, memory, opts
from drivers.libvirt.arch_traits import arch_traits
from drivers.libvirt.capabilities import CAPABILITIES
from drivers.libvirt.cpu_traits import cpu_traits
from drivers.libvirt.host import Host, load_binding
from drivers.libvirt.settings import LibvirtSettings, settings_from

LOG = logging.getLogger(__name__)


class LibvirtDriver(ComputeDriver):
    """One node: the hypervisor of this machine."""

    capabilities = CAPABILITIES

    def __init__(self, context: DriverContext, host: Host | None = None) -> None:
        super().__init__(context)
        self._settings = _settings(context)
        self._host = host or Host(self._settings.uri, load_binding(), self._settings.deadlines)
        self._nodename: str | None = None
        self._wrong: dict[str, str] = {}

    @classmethod
    def list_opts(cls) -> list[tuple[str, list[Any]]]:
        """``[(group, [options])]``: all that the driver reads."""
        return opts.all_opts()

    def init_host(self, host: str) -> None:
        """Nothing is opened here: the first question does, and says what is wrong."""

    def cleanup_host(self, host: str) -> None:  # noqa: ARG002  # there is one host
        """Close the connection."""
        self._host.close()

    def watch(self, tell: Callable[[str | None], None]) -> None:
        """``tell`` hears of libvirt lost and back; asks for it in a thread of its own."""
        self._host.watch(tell)

    def degraded(self) -> Mapping[str, str]:
        """What libvirt could not answer, and what is odd about the configuration."""
        return {**self._host.unanswered(), **self._wrong}

    def get_available_nodes(self) -> Sequence[str]:
        """The hypervisor's host name, once it has been heard: a root can't be renamed here."""
        if self._nodename is None:
            self._nodename = self._host.hostname()
        return [self._nodename]

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Allocations | None = None,  # noqa: ARG002  # nothing moves yet
    ) -> None:
        """Inventory and traits of the root.  All is read before anything is written."""
        self._note_rename()
        capabilities = documents.read(self._host.capabilities())
        amounts = self._amounts(capabilities)
        traits = self._traits(capabilities)
        current = provider_tree.data(nodename).inventory
        inventory = root_inventory(amounts, self._settings.policy, current)
        provider_tree.update_inventory(nodename, {**inventory, **self._kept(current)})
        provider_tree.add_traits(nodename, *(t for t, there in traits.items() if there))
        provider_tree.remove_traits(nodename, *(t for t, there in traits.items() if not there))

    def _amounts(self, capabilities: Element) -> dict[str, int]:
        """Totals by resource class."""
        amounts = self._cpus(capabilities)
        amounts[MEMORY_MB] = memory.memory_mb(self._host.memory_kib())
        if self._settings.images_type in disk.IN_FILES:
            size = self._host.file_system_bytes(self._settings.instances_path)
            amounts[DISK_GB] = disk.disk_gb(size)
        self._wrong = over_reserved(amounts, self._settings.policy)
        return amounts

    def _cpus(self, capabilities: Element) -> dict[str, int]:
        cpu_map = self._host.online_cpus()
        count = 0 if cpu_map else self._host.cpu_count()
        online = cpu.online(cpu_map, capabilities, count)
        try:
            return cpu_amounts(online, self._settings.policy)
        except ValueError as err:
            raise DriverNotReady(str(err)) from None

    def _kept(self, current: CurrentInventory) -> CurrentInventory:
        """Classes that this host has, in an amount that the driver can't tell."""
        if self._settings.images_type in disk.IN_FILES:
            return {}
        self._wrong[DISK_GB] = (
            f"the size of [libvirt] images_type = {self._settings.images_type} can't be told:"
            " DISK_GB stays as Placement has it"
        )
        return {DISK_GB: current[DISK_GB]} if DISK_GB in current else {}

    def _traits(self, capabilities: Element) -> dict[str, bool]:
        """Whether the host has a trait; those that can't be told are not in there."""
        host_cpu = cpu.host_cpu(capabilities)
        features = self._guest_features(host_cpu)
        found = cpu_traits(host_cpu, features, cpu.hyperthreading(capabilities))
        return found | arch_traits(host_cpu, capabilities)

    def _guest_features(self, host_cpu: cpu.HostCpu) -> cpu_model.Features | None:
        choice = self._settings.cpu
        known = self._host.cpu_models(host_cpu.arch) if choice.models and host_cpu.arch else ()
        asked = cpu_model.questions(host_cpu, choice, known)
        answers = [self._host.expanded_cpu(q.document, q.name) for q in asked]
        return cpu_model.guest_features(host_cpu, choice, asked, answers)

    def _note_rename(self) -> None:
        now = self._host.hostname()
        if self._nodename not in (None, now):
            LOG.error(
                "the host is called %s now, it was %s: it stays so until a restart",
                now,
                self._nodename,
            )


def _settings(context: DriverContext) -> LibvirtSettings:
    try:
        return settings_from(context)
    except ValueError as err:
        raise DriverLoadFailed(f"the libvirt driver's configuration: {err}") from err
