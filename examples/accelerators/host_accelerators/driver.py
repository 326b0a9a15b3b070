"""AcceleratorsDriver: each accelerator and NVMe disk of the host is a provider.

A device that is unplugged is no longer reported.  If a guest still uses it, the agent keeps
its provider, reserves it completely, and names the guest in a condition.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from drivers.api import Device, DeviceDriver
from host_accelerators import opts
from host_accelerators.offers import offers
from host_accelerators.pci import read_devices


class AcceleratorsDriver(DeviceDriver):
    """Return this host as the node.  Another driver may report to the same node."""

    @classmethod
    def list_opts(cls) -> list[tuple[str, list[Any]]]:
        """Return the options; the agent registers them before it creates the driver."""
        return opts.list_opts()

    def devices(self, node: str) -> Iterable[Device]:
        """Return what can be allocated of the host's PCI devices."""
        settings = self.context.conf[opts.GROUP]
        return offers(read_devices(Path(settings.root)), settings.kinds, settings.exclude)
