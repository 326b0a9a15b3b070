"""Pure: which children of the root are this driver's, and which are Nova's, by UUID and name.

A name is the host's, ``_``, and the key of what the child stands for.  This driver's children have
UUIDs that are made from the keys, Nova's any UUID, so Nova's are recognised by name, trait and
classes.  This driver uses the same names:

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
from reportclient.provider_tree import own_key, own_uuid

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
DRIVER = "libvirt"
"""This driver's name in the UUIDs of its children."""
_CELL = re.compile(r".+_numa\d+")
_PCI = re.compile(r".+_([0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])")
_MDEV_PARENT = re.compile(r".+_(pci_[0-9a-f]{4,8}_[0-9a-f]{2}_[0-9a-f]{2}_[0-7])")
_ENCRYPTION = re.compile(rf".+_({'|'.join(TECHNIQUES)})")
_OWNER = "OWNER_"


def child_uuid(root: str, key: str) -> str:
    """Return the UUID of this driver's child with a key, below the root with the UUID ``root``."""
    return own_uuid(root, key, DRIVER)


def name_now(root: ProviderData, child: ProviderData) -> str | None:
    """Return the name of this driver's or Nova's child with the host's current name.

    ``None``: it is a child of others.
    """
    key = own_key(root.uuid, child.uuid, child.name, [DRIVER]) or nova_key(child)
    return None if key is None else f"{root.name}_{key}"


def sources_of(name: str) -> frozenset[str]:
    """Return the sources that may have reported a provider of this name."""
    if _CELL.fullmatch(name) and GROUP not in name:
        return frozenset({CELLS})
    return frozenset({ENCRYPTION} if _ENCRYPTION.fullmatch(name) else {PCI, MDEV})


def nova_key(child: ProviderData) -> str | None:
    """Return the key of a child of the root that only Nova can have created; ``None`` of others."""
    owners = {trait for trait in child.traits if trait.startswith(_OWNER)}
    classes = child.inventory.keys()
    if owners - {os_traits.OWNER_NOVA}:
        return None
    if match := _PCI.fullmatch(child.name):
        return match[1] if os_traits.COMPUTE_MANAGED_PCI_DEVICE in child.traits else None
    if match := _MDEV_PARENT.fullmatch(child.name):
        is_mdev = all(name == VGPU or name.startswith("CUSTOM_") for name in classes)
        return match[1] if is_mdev else None
    match = _ENCRYPTION.fullmatch(child.name)
    return match[1] if match and classes <= {CONTEXT} else None
