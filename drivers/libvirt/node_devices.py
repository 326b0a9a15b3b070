"""Node devices over a connection: for the worker thread that holds it (see session.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """Documents by the device's name; and why there is none, by name."""

    documents: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)


def listed_devices(connection: Any, binding: Any, kinds: Sequence[str]) -> NodeDevices:
    """Devices of these kinds (names of libvirt's flags, like ``PCI_DEV``).

    Those that vanish meanwhile are not there.  Kinds that an older binding does not know are
    none that its libvirt has.
    """
    names = (f"VIR_CONNECT_LIST_NODE_DEVICES_CAP_{kind}" for kind in kinds)
    flags = sum(getattr(binding, name, 0) for name in names)
    found = NodeDevices()
    for device in connection.listAllDevices(flags):
        name = str(device.name())
        try:
            found.documents[name] = str(device.XMLDesc(0))
        except binding.libvirtError as err:
            if not connection.isAlive():
                raise
            if err.get_error_code() != binding.VIR_ERR_NO_NODE_DEVICE:
                found.unread[name] = str(err.get_error_message() or err)
    return found
