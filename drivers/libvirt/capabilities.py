"""What a compute node with libvirt can do, by the names of Nova's drivers.

Only what holds on every such host; what hangs on its firmware, hardware or versions
(secure boot, vTPM, virtio-fs, address spaces, ...) is not named here.  No image backend of
Nova's can encrypt the disks of guests yet.
"""

from collections.abc import Mapping
from types import MappingProxyType

CAPABILITIES: Mapping[str, bool] = MappingProxyType(
    {
        "has_imagecache": True,
        "supports_accelerators": True,
        "supports_attach_interface": True,
        "supports_bfv_rescue": True,
        "supports_device_tagging": True,
        "supports_ephemeral_encryption": False,
        "supports_ephemeral_encryption_luks": False,
        "supports_evacuate": True,
        "supports_extend_volume": True,
        "supports_image_type_aki": True,
        "supports_image_type_ami": True,
        "supports_image_type_ari": True,
        "supports_image_type_iso": True,
        "supports_image_type_qcow2": True,
        "supports_image_type_raw": True,
        "supports_migrate_to_same_host": False,
        "supports_multiattach": True,
        "supports_pcpus": True,
        "supports_socket_pci_numa_affinity": True,
        "supports_tagged_attach_interface": True,
        "supports_tagged_attach_volume": True,
        "supports_trusted_certs": True,
    }
)
