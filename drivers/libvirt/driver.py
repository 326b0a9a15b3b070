"""LibvirtDriver: asks the host, lets the pure modules judge, writes the tree.

What is whose the agent keeps: this driver says what the host has, source by source, and
names those that can't say.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from xml.etree.ElementTree import Element

from drivers.api import Allocations, ComputeDriver, DriverContext, ProviderTree
from drivers.errors import DriverLoadFailed
from drivers.inventory import DISK_GB
from drivers.libvirt import documents, opts
from drivers.libvirt.connection.host import Host, load_binding, uri_of
from drivers.libvirt.connection.host_identity import NAME, AnotherHost, HostIdentity, SameHost
from drivers.libvirt.connection.session import Deadlines, Refused
from drivers.libvirt.facts.numa import Observed
from drivers.libvirt.facts.report import Reader, capabilities, facts_of, host_report
from drivers.libvirt.tree.children import write_report

LOG = logging.getLogger(__name__)

# fmt: off
CAPABILITIES: Mapping[str, bool] = MappingProxyType({
    **dict.fromkeys((
        "has_imagecache", "supports_accelerators", "supports_attach_interface",
        "supports_bfv_rescue", "supports_device_tagging", "supports_evacuate",
        "supports_extend_volume", "supports_image_type_aki", "supports_image_type_ami",
        "supports_image_type_ari", "supports_image_type_iso", "supports_image_type_qcow2",
        "supports_image_type_raw", "supports_multiattach", "supports_pcpus",
        "supports_socket_pci_numa_affinity", "supports_tagged_attach_interface",
        "supports_tagged_attach_volume", "supports_trusted_certs",
    ), True),
    **dict.fromkeys((
        "supports_ephemeral_encryption", "supports_ephemeral_encryption_luks",
        "supports_migrate_to_same_host",
    ), False),
})
# fmt: on
"""What a compute node with libvirt can do, by the names of Nova's drivers.

Only what holds on every such host; what hangs on its firmware, hardware or versions (secure
boot, vTPM, virtio-fs, address spaces, ...) is not named here.  No image backend of Nova's can
encrypt the disks of guests yet.
"""


class LibvirtDriver(ComputeDriver):
    """The libvirt driver: one node, the hypervisor of this machine."""

    def __init__(self, context: DriverContext, host: Host | None = None) -> None:
        super().__init__(context)
        group = context.conf.libvirt
        try:
            facts = facts_of(context)
        except ValueError as err:
            raise DriverLoadFailed(f"the libvirt driver's configuration: {err}") from err
        in_files = bool(group.file_backed_memory)
        self.capabilities = {**CAPABILITIES, "supports_mem_backing_file": in_files}
        self._host = host or Host(uri_of(group), load_binding(), Deadlines.of(group))
        self._nodename: str | None = None
        self._same = SameHost(context.store)
        self._is_agents = False
        self._reader = Reader(self._host, facts)
        self._wrong: dict[str, str] = {}
        self._said: frozenset[str] = frozenset()

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
        self._is_agents = True
        self._host.watch(tell, self._name_of_ours)

    def degraded(self) -> Mapping[str, str]:
        """Return questions that libvirt did not answer, and oddities of the configuration."""
        return {**self._reader.sources.failed(), **self._wrong}

    def took(self) -> Mapping[str, float]:
        """Seconds that each source took when it was asked last."""
        return self._reader.sources.took()

    def get_available_nodes(self) -> Sequence[str]:
        """The hypervisor's host name, once it has been heard: a root can't be renamed here."""
        if self._nodename is None:
            self._nodename = self._name_of_ours()
        return [self._nodename]

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Allocations | None = None,
    ) -> None:
        """The root and all below it.  All is read before anything is written."""
        # Not before the first report: hosts that boot together shall not report together.
        self._host.events.listen(self.context.wake)
        name, others = self._name_now()
        reading = self._reader.read()
        others |= self._check(name, reading.capabilities)
        report = host_report(
            nodename,
            reading,
            self._reader.facts,
            _observed(provider_tree, nodename),
            disk_shared=provider_tree.has_sharing_provider(DISK_GB),
        )
        self._wrong = {**report.notes, **others}
        self._note_warnings(report.warnings)
        moves = allocations is not None and report.cells
        cells = self._reader.guest_cells(reading.capabilities) if moves else {}
        self._wrong |= write_report(provider_tree, nodename, report, allocations, cells)

    def _name_now(self) -> tuple[str, dict[str, str]]:
        """And what is wrong with it: a name that makes no sense is the one that it was."""
        try:
            return self._host.hostname(), {}
        except Refused as err:
            if self._same.now is None:
                raise
            return self._same.now.name, {NAME: str(err)}

    def _check(self, name: str, capabilities: Element) -> dict[str, str]:
        """Return a note on the host that answers.  :raises AnotherHost: it is another one."""
        try:
            return self._same.check(HostIdentity.of(name, capabilities), remember=self._is_agents)
        except AnotherHost as err:
            self._host.lost(str(err))
            raise

    def _name_of_ours(self) -> str:
        """Return the host's current name.

        :raises DriverNotReady: libvirt is not there, or that of another host answers.
        """
        name, first = self._host.hostname(), self._same.first
        if first is not None and first.name != name:
            self._check(name, documents.read(capabilities(self._host)))
        return name

    def _note_warnings(self, words: Sequence[str]) -> None:
        """Once each, for as long as it is so."""
        for one in words:
            if one not in self._said:
                LOG.warning("%s", one)
        self._said = frozenset(words)


def _observed(tree: ProviderTree, nodename: str) -> Observed:
    providers = (tree.data(uuid) for uuid in tree.get_provider_uuids(nodename))
    return {data.name: data.inventory for data in providers}
