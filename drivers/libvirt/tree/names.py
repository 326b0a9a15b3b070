"""Pure: what the names of children tell: this driver's, those from before a rename of the host, and
Nova's.

All names begin with the host's, and children's UUIDs are made from names.  So a renamed host has
new providers, to which the inventory and allocations of the old ones move.

Placement chooses the UUIDs of Nova's children, so these are recognised by name.  This driver uses
the same names:

    <node>_0000:81:00.0        a PCI device; Nova marks it with COMPUTE_MANAGED_PCI_DEVICE
    <node>_pci_0000_84_00_0    a parent of mediated devices
    <node>_amd_sev             memory encryption

Nova's provider is removed once its device is gone, or is in a group, so that it is not offered
twice.
"""

import re

import os_traits

from drivers.libvirt.devices.vgpu import VGPU
from drivers.libvirt.tree.reported import CELLS, ENCRYPTION, MDEV, PCI
from reportclient.model import ProviderData
from reportclient.provider_tree import own_uuid

CONTEXT = "MEM_ENCRYPTION_CONTEXT"
SEV, SEV_ES, SEV_SNP, TDX = "amd_sev", "amd_sev_es", "amd_sev_snp", "intel_tdx"
TECHNIQUES = {
    SEV: os_traits.HW_CPU_X86_AMD_SEV,
    SEV_ES: os_traits.HW_CPU_X86_AMD_SEV_ES,
    SEV_SNP: os_traits.HW_CPU_X86_AMD_SEV_SNP,
    TDX: os_traits.HW_CPU_X86_INTEL_TDX,
}
"""The trait of each technique of memory encryption."""
GROUP = "_all_"
_CELL = re.compile(r".+_numa\d+")
_PCI = re.compile(r".+_[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]")
_MDEV_PARENT = re.compile(r".+_pci_[0-9a-f]{4,8}_[0-9a-f]{2}_[0-9a-f]{2}_[0-7]")
_ENCRYPTION_SUFFIXES = tuple(f"_{technique}" for technique in TECHNIQUES)
_OWNER = "OWNER_"


def child_uuid(root: str, name: str) -> str:
    """Return the UUID of this driver's provider ``name`` below the root with the UUID ``root``."""
    return own_uuid(root, name, "libvirt")


def sources_of(name: str) -> frozenset[str]:
    """Return the sources that may have reported a provider of this name."""
    if _CELL.fullmatch(name) and GROUP not in name:
        return frozenset({CELLS})
    return frozenset({ENCRYPTION} if name.endswith(_ENCRYPTION_SUFFIXES) else {PCI, MDEV})


def is_renamed_from(node: str, name: str, old_name: str) -> bool:
    """Return whether a child was called ``old_name`` while the host ``node`` had another name.

    A group on a cell, ``<node>_all_VGPU_numa0``, has a name that ends like the cell's.
    """
    suffix = name.removeprefix(node)
    if (
        not name.startswith(f"{node}_")
        or not old_name.endswith(suffix)
        or old_name.startswith(f"{node}_")
    ):
        return False
    other_node = old_name.removesuffix(suffix)
    return bool(other_node) and GROUP not in other_node


def created_by_nova(data: ProviderData) -> bool:
    """Return whether only Nova can have created this child of the root."""
    owners = {trait for trait in data.traits if trait.startswith(_OWNER)}
    if owners - {os_traits.OWNER_NOVA}:
        return False
    name, classes = data.name, data.inventory.keys()
    if _PCI.fullmatch(name):
        return os_traits.COMPUTE_MANAGED_PCI_DEVICE in data.traits
    if _MDEV_PARENT.fullmatch(name):
        return all(
            resource_class == VGPU or resource_class.startswith("CUSTOM_")
            for resource_class in classes
        )
    return name.endswith(_ENCRYPTION_SUFFIXES) and classes <= {CONTEXT}
