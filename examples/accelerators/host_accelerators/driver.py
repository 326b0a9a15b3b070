"""AcceleratorsDriver: each accelerator and NVMe disk of the host is a provider.

A device that is unplugged is no longer reported.  If a guest still uses it, the agent keeps
its provider, reserves it completely, and names the guest in a condition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drivers.api import Allocations, ComputeDriver, DriverContext, DriverNotReady, ProviderTree
from host_accelerators import opts
from host_accelerators.offers import PREFIXES, Offer, kept, offers
from host_accelerators.pci import Device, read_devices

ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class AcceleratorsDriver(ComputeDriver):
    """Return this host as the node.  Another driver may report to the same node."""

    api_version = (1, 0)

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self._kept: Mapping[str, str] = {}

    @classmethod
    def list_opts(cls) -> list[tuple[str, list[Any]]]:
        """Return the options; the agent registers them before it creates the driver."""
        return opts.list_opts()

    def get_available_nodes(self) -> Sequence[str]:
        """Return the name of this host."""
        return [self.context.host]

    def degraded(self) -> Mapping[str, str]:
        """Return the disks whose controller is not live; a disk that the host uses is no fault."""
        return {address: why for address, why in self._kept.items() if "controller" in why}

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Allocations | None = None,  # noqa: ARG002  nothing moves
    ) -> None:
        """Report a child provider for each device."""
        settings = self.context.conf[opts.GROUP]
        devices = self._devices(Path(settings.root))
        self._kept = kept(devices)
        prefix = f"{nodename}_device_"
        wanted = {
            prefix + offer.suffix: offer
            for offer in offers(devices, settings.kinds, settings.exclude)
            if offer.inventory
        }
        for name in _ours(provider_tree, nodename, prefix):
            if name not in wanted:
                provider_tree.remove(name)
        for name, offer in wanted.items():
            if not provider_tree.exists(name):
                provider_tree.new_child(name, nodename)
            _report(provider_tree, name, offer)

    def _devices(self, root: Path) -> list[Device]:
        try:
            return read_devices(root)
        except OSError as err:
            raise DriverNotReady(f"the PCI devices can't be read: {err}") from err


def _ours(tree: ProviderTree, nodename: str, prefix: str) -> list[str]:
    """Return the names of this driver's providers: the prefix and a PCI address, and no more."""
    found = (tree.data(uuid).name for uuid in tree.get_provider_uuids_in_tree(nodename))
    return [
        name
        for name in found
        if name.startswith(prefix) and ADDRESS.fullmatch(name.removeprefix(prefix))
    ]


def _report(tree: ProviderTree, name: str, offer: Offer) -> None:
    tree.update_inventory(name, offer.inventory)
    old = {trait for trait in tree.data(name).traits if trait.startswith(PREFIXES)}
    tree.remove_traits(name, *(old - offer.traits))
    tree.add_traits(name, *offer.traits)
