"""Pure: what the names of children tell, also those from before the host was renamed, and Nova's.

All names begin with the host's, and so does what UUIDs are made of: a host that is renamed
has new providers, which get what the old ones had, allocations with it.

Nova lets Placement number its children, so their UUIDs tell nothing; names do.  They are
those that this driver gives as well:

    <node>_0000:81:00.0        a PCI device; Nova marks it with COMPUTE_MANAGED_PCI_DEVICE
    <node>_pci_0000_84_00_0    a device that is divided
    <node>_amd_sev             memory encryption

A device that has gone, or is grouped with others now, must not stay on offer there.
"""

import re
from collections.abc import Iterable

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
"""Of memory encryption, with the trait that says so."""
GROUP = "_all_"
_CELL = re.compile(r".+_numa\d+")
_PCI = re.compile(r".+_[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]")
_DIVIDED = re.compile(r".+_pci_[0-9a-f]{4,8}_[0-9a-f]{2}_[0-9a-f]{2}_[0-7]")
_ENCRYPTED = tuple(f"_{technique}" for technique in TECHNIQUES)
_OWNER = "OWNER_"


def child_uuid(root: str, name: str) -> str:
    """The UUID of this driver's provider ``name`` below the root with the UUID ``root``."""
    return own_uuid(root, name, "libvirt")


def sources_of(name: str) -> frozenset[str]:
    """Return the sources that may have reported a provider of this name."""
    if _CELL.fullmatch(name) and GROUP not in name:
        return frozenset({CELLS})
    return frozenset({ENCRYPTION} if name.endswith(_ENCRYPTED) else {PCI, MDEV})


def is_same_thing(node: str, name: str, old: str) -> bool:
    """Whether ``name``, a child of ``node``, was ``old`` below a node with another name.

    A group on a cell, ``<node>_all_VGPU_numa0``, ends like the cell and is none.
    """
    what = name.removeprefix(node)
    if not name.startswith(f"{node}_") or not old.endswith(what) or old.startswith(f"{node}_"):
        return False
    other_node = old.removesuffix(what)
    return bool(other_node) and GROUP not in other_node


def earlier(node: str, name: str, providers: Iterable[ProviderData]) -> ProviderData | None:
    """The one of ``providers`` that was the same thing while the host was called otherwise."""
    return next((one for one in providers if is_same_thing(node, name, one.name)), None)


def made_by_nova(data: ProviderData) -> bool:
    """Whether nobody else can have made this child of the root."""
    owners = {trait for trait in data.traits if trait.startswith(_OWNER)}
    if owners - {os_traits.OWNER_NOVA}:
        return False
    name, classes = data.name, data.inventory.keys()
    if _PCI.fullmatch(name):
        return os_traits.COMPUTE_MANAGED_PCI_DEVICE in data.traits
    if _DIVIDED.fullmatch(name):
        return all(one == VGPU or one.startswith("CUSTOM_") for one in classes)
    return name.endswith(_ENCRYPTED) and classes <= {CONTEXT}
