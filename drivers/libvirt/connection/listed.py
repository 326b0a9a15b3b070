"""Lists of node devices, storage pools and guests, each with its XML document.

Runs in the worker thread that holds the connection (see session.py).  A document that can't be read
does not affect the others.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from drivers.libvirt.connection.session import unusable_answer
from drivers.libvirt.documents import require_document

NOT_FOUND_ERRORS = ("VIR_ERR_NO_NODE_DEVICE", "VIR_ERR_NO_STORAGE_POOL", "VIR_ERR_NO_DOMAIN")

Check = Callable[[str], str | None]
"""Returns why a document can't be used, or ``None`` if it can."""


@dataclass(frozen=True, slots=True)
class ListedDocuments:
    """Documents by the object's name; ``unread``: why there is none, by name."""

    documents: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    def notes(self, kind: str) -> dict[str, str]:
        """Return a note on each document that can't be read; ``kind`` begins its key."""
        return {f"{kind} {name}": f"can't be read: {why}" for name, why in self.unread.items()}


def list_node_devices(
    connection: Any, binding: Any, kinds: Sequence[str], check: Check
) -> ListedDocuments:
    """Return the devices of these kinds (suffixes of libvirt's flags, such as ``PCI_DEV``).

    A kind that the binding does not know is skipped.
    """
    names = (f"VIR_CONNECT_LIST_NODE_DEVICES_CAP_{kind}" for kind in kinds)
    flags = sum(getattr(binding, name, 0) for name in names)
    return _documents(connection, binding, connection.listAllDevices(flags), "device", check)


def list_active_pools(connection: Any, binding: Any, check: Check) -> ListedDocuments:
    """Return all active storage pools."""
    pools = connection.listAllStoragePools(binding.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE)
    return _documents(connection, binding, pools, "pool", check)


def list_guests(connection: Any, binding: Any) -> ListedDocuments:
    """Return all guests, running or not."""
    domains = connection.listAllDomains(0)
    return _documents(connection, binding, domains, "domain", lambda _text: None)


def _documents(
    connection: Any, binding: Any, objects: Iterable[Any], tag: str, check: Check
) -> ListedDocuments:
    """Read the document of each object; skip objects that are gone by then."""
    not_found = {getattr(binding, name) for name in NOT_FOUND_ERRORS}
    listed = ListedDocuments()
    for number, item in enumerate(objects):
        name = _name(item, number)
        try:
            text = require_document(str(item.XMLDesc(0)), tag)
            why = check(text)
        except ValueError as err:
            why = unusable_answer(err)
        except binding.libvirtError as err:
            if not connection.isAlive():
                raise
            if err.get_error_code() in not_found:
                continue
            why = str(err.get_error_message() or err)
        if why is None:
            listed.documents[name] = text
        else:
            listed.unread[name] = why
    return listed


def _name(item: Any, number: int) -> str:
    try:
        return str(item.name())
    except UnicodeDecodeError:
        return f"number {number}"
