"""Checks that libvirt still answers for the same host."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from xml.etree.ElementTree import Element

from drivers.api import Store
from drivers.errors import DriverNotReady
from drivers.libvirt.documents import text_of

NAME = "host name"
SAVED_HOST = "libvirt-host"
"""Key in the driver's store: the host that answered last, to recognise a different one."""


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """A host's name, and libvirt's UUID of it; ``None`` where libvirt reports none.

    The UUID alone does not identify a host: where the firmware has no usable one, libvirtd
    generates another at each start.
    """

    name: str
    uuid: str | None = None

    @classmethod
    def from_capabilities(cls, name: str, capabilities: Element) -> "HostIdentity":
        """Return the identity with the UUID of the capabilities document."""
        return cls(name, text_of(capabilities, "host/uuid"))

    @classmethod
    def from_saved(cls, fields: Mapping[str, Any] | None) -> "HostIdentity | None":
        """Return the saved identity of an earlier run, or ``None`` if there is none."""
        if fields is None or not {"name", "uuid"} <= fields.keys():
            return None
        return cls(str(fields["name"]), str(fields["uuid"]))


class AnotherHost(DriverNotReady):
    """libvirt answers for a different host than at first."""


@dataclass(slots=True)
class HostIdentityCheck:
    """Compares a host with the first that answered, in this run (``current``) or an earlier one."""

    store: Store
    current: HostIdentity | None = None

    @property
    def first(self) -> HostIdentity | None:
        """The first host that answered; ``None`` before that."""
        return self.current or HostIdentity.from_saved(self.store.load(SAVED_HOST))

    def check(self, host: HostIdentity, *, remember: bool) -> dict[str, str]:
        """Return a note if the host has a new name; ``remember`` saves the host for later runs.

        Commands pass ``remember=False``.

        :raises AnotherHost: both name and UUID differ.
        """
        first = self.first or host
        both_have_uuids = None not in (first.uuid, host.uuid)
        if first.name != host.name and both_have_uuids and first.uuid != host.uuid:
            raise AnotherHost(
                f"another host answers: {host.name} (UUID {host.uuid}) instead of {first.name}"
                f" (UUID {first.uuid}); check [libvirt] connection_uri; if the host was replaced,"
                f" remove driver-{SAVED_HOST}.json from state_path and restart compute-agent"
            )
        if remember and host.uuid is not None:  # a name alone can't be told apart later
            self.store.save(SAVED_HOST, asdict(host))
        self.current = self.current or host
        if self.current.name == host.name:
            return {}
        return {
            NAME: f"the host was renamed from {self.current.name} to {host.name}: Placement keeps"
            " the old name until compute-agent is restarted"
        }
