"""Whether it is still the same host that answers."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from xml.etree.ElementTree import Element

from drivers.api import Store
from drivers.errors import DriverNotReady
from drivers.libvirt.documents import text_of

NAME = "host name"
KEPT_HOST = "libvirt-host"
"""In the driver's store: the host that answered here last, so that another is recognised."""


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """``uuid`` is libvirt's for the host; ``None`` where it tells none.

    A UUID alone proves nothing: where the firmware has no good one, libvirtd makes up
    another at each of its starts.
    """

    name: str
    uuid: str | None = None

    @classmethod
    def of(cls, name: str, capabilities: Element) -> "HostIdentity":
        """From the name and the capabilities document."""
        return cls(name, text_of(capabilities, "host/uuid"))

    @classmethod
    def kept(cls, fields: Mapping[str, Any] | None) -> "HostIdentity | None":
        """Return the saved identity of an earlier run, or ``None``."""
        if fields is None or not {"name", "uuid"} <= fields.keys():
            return None
        return cls(str(fields["name"]), str(fields["uuid"]))


class AnotherHost(DriverNotReady):
    """The one that answers now is not the one that answered first."""


@dataclass(slots=True)
class SameHost:
    """The host that answered first, in this run (``now``) or an earlier one."""

    store: Store
    now: HostIdentity | None = None

    @property
    def first(self) -> HostIdentity | None:
        """``None``: none has answered yet."""
        return self.now or HostIdentity.kept(self.store.load(KEPT_HOST))

    def check(self, host: HostIdentity, *, remember: bool) -> dict[str, str]:
        """Return a note on a host with a new name; a command does not ``remember``.

        :raises AnotherHost: it is another one.
        """
        first = self.first or host
        told = None not in (first.uuid, host.uuid)
        if first.name != host.name and told and first.uuid != host.uuid:
            raise AnotherHost(
                f"another host answers: {host.name} (UUID {host.uuid}), it was {first.name}"
                f" (UUID {first.uuid}); see where [libvirt] connection_uri leads; if it is this"
                f" one, remove driver-{KEPT_HOST}.json from state_path and restart compute-agent"
            )
        if remember and host.uuid is not None:  # one without a UUID proves nothing later
            self.store.save(KEPT_HOST, asdict(host))
        self.now = self.now or host
        if self.now.name == host.name:
            return {}
        return {
            NAME: f"the host is called {host.name} now, it was {self.now.name}: it stays so in"
            " Placement until compute-agent is restarted"
        }
