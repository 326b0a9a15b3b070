"""Node devices, storage pools and guests: lists of things that have a document each.

For the worker thread that holds the connection (see session.py).  One thing whose document
can't be had costs nobody else his.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from drivers.libvirt.connection.session import nonsense
from drivers.libvirt.documents import checked

GONE = ("VIR_ERR_NO_NODE_DEVICE", "VIR_ERR_NO_STORAGE_POOL", "VIR_ERR_NO_DOMAIN")

Check = Callable[[str], str | None]
"""Why a document tells too little to be used; ``None``: it does not."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Documents by the thing's name; and why there is none, by name."""

    documents: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    def notes(self, kind: str) -> dict[str, str]:
        """Return a note on each document that can't be read."""
        return {f"{kind} {name}": f"can't be read: {why}" for name, why in self.unread.items()}


def node_devices(connection: Any, binding: Any, kinds: Sequence[str], check: Check) -> Listed:
    """Devices of these kinds (names of libvirt's flags, like ``PCI_DEV``).

    Kinds that an older binding does not know are none that its libvirt has.
    """
    names = (f"VIR_CONNECT_LIST_NODE_DEVICES_CAP_{kind}" for kind in kinds)
    flags = sum(getattr(binding, name, 0) for name in names)
    return _documents(connection, binding, connection.listAllDevices(flags), "device", check)


def active_pools(connection: Any, binding: Any, check: Check) -> Listed:
    """All active storage pools."""
    pools = connection.listAllStoragePools(binding.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE)
    return _documents(connection, binding, pools, "pool", check)


def guests(connection: Any, binding: Any) -> Listed:
    """All guests, running or not."""
    domains = connection.listAllDomains(0)
    return _documents(connection, binding, domains, "domain", lambda _text: None)


def _documents(
    connection: Any, binding: Any, things: Iterable[Any], tag: str, check: Check
) -> Listed:
    """Those that vanish meanwhile are not there."""
    gone = {getattr(binding, name) for name in GONE}
    listed = Listed()
    for number, thing in enumerate(things):
        name = _name(thing, number)
        try:
            text = checked(str(thing.XMLDesc(0)), tag)
            why = check(text)
        except ValueError as err:
            why = nonsense(err)
        except binding.libvirtError as err:
            if not connection.isAlive():
                raise
            if err.get_error_code() in gone:
                continue
            why = str(err.get_error_message() or err)
        if why is None:
            listed.documents[name] = text
        else:
            listed.unread[name] = why
    return listed


def _name(thing: Any, number: int) -> str:
    try:
        return str(thing.name())
    except UnicodeDecodeError:
        return f"number {number}"
