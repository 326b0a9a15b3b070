"""LibvirtDriver: queries the host, builds a report from the answers, writes it to the tree.

It reports each source's inventory as that source's claims, and names the sources that failed.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from drivers.api import Allocations, ComputeDriver, DriverContext, ProviderTree
from drivers.errors import DriverLoadFailed, DriverNotReady, ReshapeNeeded
from drivers.inventory import DISK_GB
from drivers.libvirt import opts
from drivers.libvirt.connection.events import GUESTS
from drivers.libvirt.connection.host import Host, libvirt_uri, load_binding
from drivers.libvirt.connection.session import Deadlines, ErrorReply
from drivers.libvirt.documents import text_of
from drivers.libvirt.facts.fact import ReportContext, Sources
from drivers.libvirt.facts.report import (
    capabilities,
    cells_of_guests,
    facts_from_context,
    host_report,
    read_host,
)
from drivers.libvirt.tree.children import write_report
from drivers.libvirt.tree.reported import name_now
from drivers.opts import nova_owner_traits

LOG = logging.getLogger("compute_agent.drivers")

# fmt: off
CAPABILITIES: Mapping[str, bool] = MappingProxyType({
    **dict.fromkeys((
        "has_imagecache", "supports_accelerators", "supports_attach_interface",
        "supports_bfv_rescue", "supports_device_tagging", "supports_evacuate",
        "supports_extend_volume", "supports_multiattach", "supports_pcpus",
        "supports_socket_pci_numa_affinity", "supports_tagged_attach_interface",
        "supports_tagged_attach_volume", "supports_trusted_certs",
    ), True),
    **dict.fromkeys((
        "supports_ephemeral_encryption", "supports_ephemeral_encryption_luks",
        "supports_migrate_to_same_host",
    ), False),
})
# fmt: on
"""Nova's capabilities of its libvirt driver, as far as they are the same on every host.

Not listed is what depends on firmware, hardware or versions (secure boot, vTPM, virtio-fs, address
spaces, ...).  No image backend of Nova's can encrypt the disks of guests yet.
"""


IMAGE_TYPES = ("aki", "ami", "ari", "iso", "raw")
"""Types of images that guests can have on every host."""


def capabilities_from_conf(conf: Any) -> dict[str, bool]:
    """Return ``CAPABILITIES`` and those that depend on options."""
    group = conf.libvirt
    image_types = dict.fromkeys(IMAGE_TYPES, True) | {
        "ploop": group.virt_type == "parallels",
        "qcow2": conf.force_raw_images or group.images_type not in {"lvm", "rbd"},
    }
    return {
        **CAPABILITIES,
        "supports_mem_backing_file": bool(group.file_backed_memory),
        **{f"supports_image_type_{name}": has for name, has in image_types.items()},
    }


NAME = "host name"
SAVED_HOST = "libvirt-host"
"""Key in the driver's store: the host that answered last, to recognise a different one."""


class HostIdentity(NamedTuple):
    """A host's name, and libvirt's UUID of it; ``None`` where libvirt reports none.

    The UUID alone does not identify a host: where the firmware has no usable one, libvirtd
    generates another at each start.
    """

    name: str
    uuid: str | None


class AnotherHost(DriverNotReady):
    """libvirt answers for a different host than at first."""


class LibvirtDriver(ComputeDriver):
    """The libvirt driver: one node, the hypervisor of this machine."""

    def __init__(self, context: DriverContext, host: Host | None = None) -> None:
        super().__init__(context)
        group = context.conf.libvirt
        try:
            self._facts = facts_from_context(context)
        except ValueError as err:
            raise DriverLoadFailed(f"the libvirt driver's configuration: {err}") from err
        self.capabilities = capabilities_from_conf(context.conf)
        self._host = host or Host(libvirt_uri(group), load_binding(), Deadlines.from_conf(group))
        self._nodename: str | None = None
        self._answered: HostIdentity | None = None
        self._remembers_host = False
        self._sources = Sources(self._host, self._host.clock)
        self._notes: dict[str, str] = {}
        self._logged_warnings: frozenset[str] = frozenset()

    @classmethod
    def list_opts(cls) -> list[tuple[str, list[Any]]]:
        """Return ``[(group, [options])]``: all options that the driver reads."""
        return opts.all_opts()

    def init_host(self, host: str) -> None:
        """Name the options that are not honoured; the first call connects, and reports errors."""
        ignored = opts.not_honoured(self.context.conf)
        if ignored:
            LOG.warning(
                "Options of Nova that are set, but not honoured here: %s; see docs/configure.rst",
                ", ".join(ignored),
            )

    def cleanup_host(self, host: str) -> None:  # there is one host
        """Close the connection."""
        self._host.close()

    def watch(self, notify: Callable[[str | None], None]) -> None:
        """Call ``notify`` with a reason when libvirt is lost, and with ``None`` when it is back.

        A thread probes libvirt while it is lost.
        """
        self._remembers_host = True  # the daemon calls this method, computectl does not
        self._host.watch(notify, self._checked_hostname)

    def degraded(self, node: str) -> Mapping[str, str]:
        """Return why sources failed, by source, and the notes of the last report, by subject."""
        return {**self._sources.failed(), **self._notes}

    def guests(self, node: str) -> Sequence[str]:
        """Return the UUIDs of all guests: those of Nova's have them from Nova."""

        def call(connection: Any) -> list[str]:
            return [each.UUIDString() for each in connection.listAllDomains(0)]

        return self._host.call_if_supported(GUESTS, call, [], isolated=True)

    def took(self) -> Mapping[str, float]:
        """Return the seconds that the last query of each source took."""
        return self._sources.durations()

    def get_available_nodes(self) -> Sequence[str]:
        """Return the host name that libvirt reported first, so that the root is never renamed."""
        if self._nodename is None:
            self._nodename = self._checked_hostname()
        return [self._nodename]

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Allocations | None = None,
    ) -> None:
        """Write the report of the host to the tree, once everything has been read."""
        # Not before the first report: an event at boot would make all hosts report at once.
        self._host.events.listen(self.context.wake)
        name, name_notes = self._current_name()
        sources = self._sources
        answers = read_host(sources, self._facts)
        name_notes |= self._check_identity(name, sources.capabilities)
        root, *below = map(provider_tree.data, provider_tree.get_provider_uuids(nodename))
        names = {child.uuid: name_now(root, child) or child.name for child in below}
        observed = {names.get(it.uuid, it.name): it.inventory for it in (root, *below)}
        disk_shared = provider_tree.has_sharing_provider(DISK_GB)
        report = host_report(
            ReportContext(
                nodename, sources.capabilities, sources.cells, observed, disk_shared=disk_shared
            ),
            answers,
            self._facts,
            nova_owner_traits(self.context.conf),
        )
        self._notes = {**report.notes, **name_notes}
        for warning in report.warnings:  # each once, and again if it comes back
            if warning not in self._logged_warnings:
                LOG.warning("%s", warning)
        self._logged_warnings = frozenset(report.warnings)
        moves = allocations is not None and report.cells
        cells = cells_of_guests(sources) if moves else {}
        try:
            self._notes |= write_report(provider_tree, nodename, report, allocations, cells)
        except ReshapeNeeded as err:
            self._notes["reshape"] = f"{err}; until the reshape Placement keeps it where it is"
            raise

    def _current_name(self) -> tuple[str, dict[str, str]]:
        """Return the host name; the last name and a note if libvirt returns an unusable one."""
        try:
            return self._host.hostname(), {}
        except ErrorReply as err:
            if self._answered is None:
                raise
            return self._answered.name, {NAME: str(err)}

    def _checked_hostname(self) -> str:
        """Return the host's current name.

        :raises DriverNotReady: libvirt is unreachable, or answers for another host.
        """
        name, first = self._host.hostname(), self._first_host()
        if first is not None and first.name != name:
            self._check_identity(name, capabilities(self._host))
        return name

    def _check_identity(self, name: str, capabilities: Element) -> dict[str, str]:
        """Return a note if the host has a new name; save the host for later runs.

        :raises AnotherHost: both name and UUID differ from those of the first host.
        """
        host = HostIdentity(name, text_of(capabilities, "host/uuid"))
        first = self._first_host() or host
        both_have_uuids = None not in (first.uuid, host.uuid)
        if first.name != host.name and both_have_uuids and first.uuid != host.uuid:
            problem = (
                f"another host answers: {host.name} (UUID {host.uuid}) instead of {first.name}"
                f" (UUID {first.uuid}); check [libvirt] connection_uri; if the host was replaced,"
                f" remove driver-{SAVED_HOST}.json from state_path and restart compute-agent"
            )
            self._host.lost(problem)
            raise AnotherHost(problem)
        if self._remembers_host and host.uuid is not None:  # a name alone can't be told apart later
            self.context.store.save(SAVED_HOST, host._asdict())
        self._answered = self._answered or host
        if self._answered.name == name:
            return {}
        return {
            NAME: f"the host was renamed from {self._answered.name} to {name}: Placement keeps"
            " the old name until compute-agent is restarted"
        }

    def _first_host(self) -> HostIdentity | None:
        """Return the first host that answered in this run, or else in an earlier one."""
        saved = None if self._answered else self.context.store.load(SAVED_HOST)
        if saved is None or not {"name", "uuid"} <= saved.keys():
            return self._answered
        return HostIdentity(str(saved["name"]), str(saved["uuid"]))
