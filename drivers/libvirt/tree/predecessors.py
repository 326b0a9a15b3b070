"""Pure: which providers Nova's libvirt driver made, on a host that is this agent's now.

Nova lets Placement number its children, so their UUIDs tell nothing; names do.  They are
those that this driver gives as well:

    <node>_0000:81:00.0        a PCI device; Nova marks it with COMPUTE_MANAGED_PCI_DEVICE
    <node>_pci_0000_84_00_0    a device that is divided
    <node>_amd_sev             memory encryption

A device that has gone, or is grouped with others now, must not stay on offer there.
"""

from __future__ import annotations

import re

import os_traits

from drivers.libvirt.devices.encryption import CONTEXT, TRAITS
from drivers.libvirt.devices.vgpu import VGPU
from reportclient.model import ProviderData

_PCI = re.compile(r".+_[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]")
_DIVIDED = re.compile(r".+_pci_[0-9a-f]{4,8}_[0-9a-f]{2}_[0-9a-f]{2}_[0-7]")
TECHNIQUES = tuple(f"_{technique}" for technique in TRAITS)
_OWNER = "OWNER_"


def made_by_nova(data: ProviderData) -> bool:
    """Whether nobody else can have made this child of the root; the host may have been renamed."""
    if _is_owned_by_another(data.traits):
        return False
    name, classes = data.name, data.inventory.keys()
    if _PCI.fullmatch(name):
        return os_traits.COMPUTE_MANAGED_PCI_DEVICE in data.traits
    if _DIVIDED.fullmatch(name):
        return all(one == VGPU or one.startswith("CUSTOM_") for one in classes)
    return name.endswith(TECHNIQUES) and classes <= {CONTEXT}


def _is_owned_by_another(traits: set[str]) -> bool:
    return any(one.startswith(_OWNER) and one != os_traits.OWNER_NOVA for one in traits)
