"""Settings: the driver's options as one frozen record, read once."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drivers.api import DriverContext
from drivers.inventory import InventoryPolicy
from drivers.libvirt.connection.session import Deadlines
from drivers.libvirt.devices.device_spec import device_specs
from drivers.libvirt.devices.encryption import Limits
from drivers.libvirt.devices.pci import PciSettings
from drivers.libvirt.devices.vgpu import OPTION, MdevSettings, MdevType
from drivers.libvirt.facts import numa
from drivers.libvirt.facts.architecture import QEMU_TYPES
from drivers.libvirt.facts.cpu_features import CpuChoice
from drivers.libvirt.facts.disk import Images
from drivers.libvirt.facts.guest_models import TpmChoice
from drivers.libvirt.facts.pmem import PmemLabels, pmem_labels
from drivers.libvirt.facts.shares import MEMORY, PAGES, MemoryPolicy, reserved_pages
from drivers.libvirt.opts import MDEV_TYPE_OPTS
from drivers.opts import inventory_policy, nova_owner_traits

_USUAL_URIS = {
    "lxc": "lxc:///system",
    "parallels": "parallels:///system",
    "test": "test:///default",
}

_MDEV_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
MDEV_PREFIX = "mdev_"
"""The names of types of mediated devices make groups: ``[mdev_nvidia-35]``."""

_IMAGES_NAMED_BY = {
    "lvm": "images_volume_group",
    "rbd": "images_rbd_pool",
    "zfs": "images_zfs_pool",
}


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """What the operator decided about devices; ``owner_traits``: traits that all of them get."""

    pci: PciSettings = field(default_factory=PciSettings)
    mdev: MdevSettings = field(default_factory=MdevSettings)
    encryption: Limits = field(default_factory=Limits)
    owner_traits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LibvirtSettings:
    """What the operator decided about this driver."""

    uri: str
    cpu: CpuChoice
    images: Images
    instances_path: Path
    policy: InventoryPolicy
    deadlines: Deadlines
    report_numa: str = numa.OFF
    memory: MemoryPolicy = field(default_factory=MemoryPolicy)
    cpu_power_management: bool = False
    pmem: PmemLabels = field(default_factory=dict)
    tpm: TpmChoice = field(default_factory=TpmChoice)
    file_backed_memory: int = 0
    """MiB; 0: guests have the host's own memory."""
    disk_from_sharing_provider: bool = False
    image_cache: Path | None = None
    """Where images are whose room on the disk is reserved."""
    devices: DeviceSettings = field(default_factory=DeviceSettings)


def settings_from(context: DriverContext) -> LibvirtSettings:
    """:raises ValueError: naming the option that is wrong."""
    conf = context.conf
    group = conf.libvirt
    if group.cpu_models and group.cpu_mode != "custom":
        raise ValueError("[libvirt] cpu_models is only for [libvirt] cpu_mode = custom")
    if group.cpu_mode == "custom" and not group.cpu_models:
        raise ValueError("[libvirt] cpu_mode = custom needs [libvirt] cpu_models")
    path = Path(conf.instances_path or context.state_path / "instances")
    if not path.is_absolute():
        raise ValueError(f"[DEFAULT] instances_path has to be absolute, not {str(path)!r}")
    return LibvirtSettings(
        uri=group.connection_uri or _USUAL_URIS.get(group.virt_type, "qemu:///system"),
        cpu=CpuChoice(
            virt_type=group.virt_type,
            mode=group.cpu_mode,
            models=tuple(group.cpu_models),
            extra_flags=tuple(group.cpu_model_extra_flags),
        ),
        images=_images(group),
        instances_path=path,
        policy=inventory_policy(conf),
        deadlines=Deadlines(
            connect=group.connection_timeout,
            call=group.call_timeout,
            keepalive_interval=group.keepalive_interval,
            keepalive_count=group.keepalive_count,
        ),
        report_numa=group.report_numa,
        memory=_memory_policy(conf),
        cpu_power_management=group.cpu_power_management,
        pmem=pmem_labels(group.pmem_namespaces),
        tpm=TpmChoice(group.swtpm_enabled, frozenset(group.supported_tpm_secret_security)),
        file_backed_memory=group.file_backed_memory,
        disk_from_sharing_provider=group.disk_from_sharing_provider,
        image_cache=_image_cache(conf, path),
        devices=_device_settings(conf),
    )


def _image_cache(conf: Any, instances: Path) -> Path | None:
    """Disks elsewhere (LVM, Ceph) share no room with images in files."""
    counts = conf.workarounds.reserve_disk_resource_for_image_cache
    in_files = _images(conf.libvirt).in_files
    return instances / conf.image_cache.subdirectory_name if counts and in_files else None


def _memory_policy(conf: Any) -> MemoryPolicy:
    """Memory in files has nothing to do with hugepages, and can't be overcommitted: as in Nova."""
    group = conf.libvirt
    if not group.file_backed_memory:
        return MemoryPolicy(group.report_hugepages, reserved_pages(conf.reserved_huge_pages or ()))
    wrong = {
        f"virt_type = {group.virt_type}": group.virt_type not in QEMU_TYPES,
        "report_hugepages = pages": group.report_hugepages == PAGES,
        "[DEFAULT] ram_allocation_ratio above 1": (conf.ram_allocation_ratio or 1.0) != 1.0,
    }
    for option, is_so in wrong.items():
        if is_so:
            raise ValueError(f"[libvirt] file_backed_memory can't be used with {option}")
    return MemoryPolicy(MEMORY)


def _device_settings(conf: Any) -> DeviceSettings:
    pci = conf.pci
    # Where they are not reported, the entries are another service's business.
    specs = device_specs(pci.device_spec) if pci.report_in_placement else ()
    return DeviceSettings(
        PciSettings(specs, pci.report_physical_networks, pci.group_devices),
        mdev_settings(conf),
        Limits(
            conf.libvirt.num_memory_encrypted_guests,
            conf.libvirt.num_intel_tdx_guests,
            passes_cpu=conf.libvirt.cpu_mode == "host-passthrough",
        ),
        owner_traits=nova_owner_traits(conf),
    )


def _images(group: Any) -> Images:
    """The backend, and the option that names where it is."""
    option = _IMAGES_NAMED_BY.get(group.images_type)
    if option is None:
        return Images(group.images_type)
    name = str(group[option] or "").strip()
    if not name:
        raise ValueError(f"[libvirt] images_type = {group.images_type} needs [libvirt] {option}")
    return Images(group.images_type, name)


def mdev_settings(conf: Any) -> MdevSettings:
    """Of the whole configuration; registers the groups that the types make.

    :raises ValueError: naming the group and the value that is wrong.
    """
    names = list(dict.fromkeys(conf.devices.enabled_mdev_types))
    _register_types(conf, names)
    types = [_mdev_type(conf, name) for name in names]
    bare = [kind.name for kind in types if not kind.addresses]
    notes: tuple[tuple[str, str], ...] = ()
    if len(types) > 1 and bare:
        words = f"[{MDEV_PREFIX}{bare[0]}] has no device_addresses: only {types[0].name} is used"
        types, notes = types[:1], ((OPTION, words),)
    _refuse_shared_devices(types)
    return MdevSettings(tuple(types), conf.devices.group_mdev_devices, notes)


def _register_types(conf: Any, names: list[str]) -> None:
    """Those of types that are switched off, too: they are no typing errors."""
    found = {one for one in conf.list_all_sections() if one.startswith(MDEV_PREFIX)}
    for group in sorted(found.union(f"{MDEV_PREFIX}{name}" for name in names)):
        conf.register_opts(MDEV_TYPE_OPTS, group=group)


def _mdev_type(conf: Any, name: str) -> MdevType:
    group = f"{MDEV_PREFIX}{name}"
    found = conf[group]
    addresses = [address.strip().lower() for address in found.device_addresses]
    for address in addresses:
        if not _MDEV_ADDRESS.fullmatch(address):
            raise ValueError(f"[{group}] device_addresses: {address!r} is not like 0000:84:00.0")
    if not re.fullmatch(r"VGPU|CUSTOM_[A-Z0-9_]{1,248}", found.mdev_class):
        raise ValueError(
            f"[{group}] mdev_class = {found.mdev_class!r} is neither VGPU nor CUSTOM_..."
            " (capitals, digits and _)"
        )
    return MdevType(name, frozenset(addresses), found.mdev_class, found.max_instances)


def _refuse_shared_devices(types: list[MdevType]) -> None:
    of: dict[str, str] = {}
    for kind in types:
        for address in sorted(kind.addresses):
            if address in of:
                raise ValueError(
                    f"[{MDEV_PREFIX}{kind.name}] device_addresses: {address} is in"
                    f" [{MDEV_PREFIX}{of[address]}] too; a device is divided into one type"
                )
            of[address] = kind.name
