"""Pure: whether it is still the same host that answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from drivers.libvirt.documents import text_of

NAME = "host name"
KEPT_HOST = "libvirt-host"
"""In the driver's store: the host that answered here last, so that another is known."""


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
    def kept(cls, found: Mapping[str, Any] | None) -> "HostIdentity | None":
        """As an earlier run has kept it; ``None`` if it has not."""
        known = found is not None and {"name", "uuid"} <= found.keys()
        return cls(str(found["name"]), str(found["uuid"])) if known and found else None


def another_host(first: HostIdentity, now: HostIdentity) -> str | None:
    """Why the one that answers now is another host; ``None``: nothing says so."""
    if first.name == now.name or None in (first.uuid, now.uuid) or first.uuid == now.uuid:
        return None
    return (
        f"another host answers: {now.name} (UUID {now.uuid}), it was {first.name}"
        f" (UUID {first.uuid}); see where [libvirt] connection_uri leads"
    )


def renamed(first: HostIdentity, now: HostIdentity) -> dict[str, str]:
    """What to tell of a host that has another name than at the start."""
    if first.name == now.name:
        return {}
    return {
        NAME: f"the host is called {now.name} now, it was {first.name}: it stays so in Placement"
        " until compute-agent is restarted"
    }
