"""Options of the libvirt driver; those that Nova has keep their names and meaning."""

from typing import Any

from oslo_config import cfg, types

from drivers import opts as common

PCI_OPTS = [
    cfg.MultiStrOpt(
        "device_spec",
        default=[],
        deprecated_name="passthrough_whitelist",
        help="PCI devices that guests can have, as JSON objects or lists of them; may be given"
        " more than once, the first entry that matches a device counts. Keys: vendor_id,"
        " product_id, address (with * for parts, or an object of regular expressions for"
        " domain, bus, slot and function) or devname choose devices; resource_class, traits"
        " (with commas between), physical_network, managed, one_time_use, remote_managed,"
        " live_migratable and trusted say what they are.",
    ),
    cfg.BoolOpt(
        "report_in_placement",
        default=False,
        help="Whether the devices of device_spec are reported: a provider for each device or"
        " PF. Switched off again, providers go as soon as no guest uses them.",
    ),
    cfg.BoolOpt(
        "report_physical_networks",
        default=False,
        help="Whether devices with a physical_network, and remote_managed ones, are reported"
        " too, with the trait CUSTOM_PHYSNET_<NAME>. Nova gives them to guests as ports and"
        " does not count them in Placement.",
    ),
    cfg.BoolOpt(
        "group_devices",
        default=False,
        help="Whether devices of one class with the same traits are one provider (one for each"
        " NUMA cell where cells are reported). Eight or more similar providers make searches"
        " for candidates slow. Not for Nova, which looks for a provider of each device."
        " Changing it moves the inventory together with its allocations, at the next start.",
    ),
]

DEVICES_OPTS = [
    cfg.ListOpt(
        "enabled_mdev_types",
        default=[],
        deprecated_name="enabled_vgpu_types",
        help="Types of mediated devices (vGPUs) that guests can have, such as nvidia-35. With"
        " several of them, each has a group [mdev_<type>] with device_addresses (the PCI"
        " addresses of the GPUs that are divided into it, like 0000:84:00.0), and if need be"
        " mdev_class (the resource class: VGPU, or one that starts with CUSTOM_) and"
        " max_instances (on the whole host, at most). A single type without such a group is"
        " for all devices that have it.",
    ),
    cfg.BoolOpt(
        "group_mdev_devices",
        default=False,
        help="Whether all devices of one class are one provider (one for each NUMA cell where"
        " cells are reported). Eight or more similar providers, such as the VFs of a GPU, make"
        " searches for candidates slow. Not for Nova, which looks for a provider of each"
        " device. Changing it moves the inventory together with its allocations, at the next"
        " start.",
    ),
]

MDEV_TYPE_OPTS = [
    cfg.ListOpt("device_addresses", default=[]),
    cfg.StrOpt("mdev_class", default="VGPU"),
    cfg.IntOpt("max_instances", min=1),
]

LIBVIRT_OPTS = [
    cfg.StrOpt(
        "connection_uri",
        default="",
        help="URI of the libvirt to ask. If empty, the usual one of virt_type:"
        " qemu:///system, lxc:///system, parallels:///system or test:///default.",
    ),
    cfg.StrOpt(
        "virt_type",
        default="kvm",
        choices=["kvm", "lxc", "qemu", "parallels", "test"],
        help="What kind of guests this host runs: decides the URI where connection_uri is"
        " empty, and the CPU that guests get where cpu_mode is not set.",
    ),
    cfg.StrOpt(
        "cpu_mode",
        choices=["host-model", "host-passthrough", "custom", "none"],
        help="The CPU that guests get, and so the CPU traits that are reported: the host's"
        " features (host-model, host-passthrough), those of cpu_models (custom) or those of"
        " QEMU's default model (none). If it is not set: host-model for kvm and qemu, except"
        " host-passthrough on aarch64, and none for all else.",
    ),
    cfg.ListOpt(
        "cpu_models",
        default=[],
        deprecated_name="cpu_model",
        help="CPU models that guests can have with cpu_mode = custom, as `virsh cpu-models`"
        " lists them; case does not matter. The features of all of them are reported.",
    ),
    cfg.ListOpt(
        "cpu_model_extra_flags",
        default=[],
        help="CPU features that guests get in addition to their model's (flag or +flag), or"
        " do not get (-flag). Case does not matter.",
    ),
    cfg.StrOpt(
        "report_numa",
        default="off",
        choices=[
            ("off", "CPUs and memory are inventory of the host, as schedulers expect today"),
            ("nested", "each NUMA cell is a provider of its own, with its CPUs and memory"),
        ],
        help="Where CPUs and memory are reported. Changing it moves the inventory together with"
        " its allocations, at the next start.",
    ),
    cfg.StrOpt(
        "report_hugepages",
        default="off",
        choices=[
            ("off", "not at all: guests on hugepages are not scheduled by them"),
            ("pages", "by size, in pages: CUSTOM_HUGEPAGES_2M, CUSTOM_HUGEPAGES_1G, ..."),
            ("memory", "as a part of MEMORY_MB, which is what Nova does"),
        ],
        help="How memory that is set aside as hugepages is reported. Unless it is memory, it is"
        " kept out of MEMORY_MB, since other guests can't have it.",
    ),
    cfg.ListOpt(
        "pmem_namespaces",
        default=[],
        help="Persistent memory namespaces that guests can have, by label: inventory of"
        " CUSTOM_PMEM_NAMESPACE_<LABEL>. LABEL:NAMESPACE[|NAMESPACE][,...], such as"
        ' "128G:ns0|ns1,SMALL:ns2". Those of one label should be alike.',
    ),
    cfg.BoolOpt(
        "cpu_power_management",
        default=False,
        help="Whether the compute service switches dedicated CPUs off while no guest uses them:"
        " PCPU inventory then has those that are offline too.",
    ),
    cfg.IntOpt(
        "num_memory_encrypted_guests",
        min=0,
        help="How many guests with memory encrypted by SEV may run at once, at most. If it is not"
        " set: as many as libvirt says, or any number if it does not say.",
    ),
    cfg.IntOpt(
        "num_intel_tdx_guests",
        min=0,
        help="How many guests with memory encrypted by TDX may run at once, at most. If it is not"
        " set: as many as the kernel has keys for (misc.capacity of its cgroups); where that can't"
        " be read either, none is reported. TDX needs cpu_mode = host-passthrough.",
    ),
    cfg.StrOpt(
        "images_type",
        default="default",
        choices=["raw", "flat", "qcow2", "lvm", "rbd", "zfs", "ploop", "default"],
        help="How guests' disks are kept. DISK_GB is the size of libvirt's storage pool that is"
        " this backend: of instances_path for disks in files (where there is no such pool, of"
        " its file system), of images_volume_group for lvm, images_rbd_pool for rbd and"
        " images_zfs_pool for zfs. While there is none, DISK_GB stays as Placement has it.",
    ),
    cfg.StrOpt(
        "images_volume_group",
        help="The LVM volume group that guests' disks are in, with images_type = lvm.",
    ),
    cfg.StrOpt(
        "images_rbd_pool",
        default="rbd",
        help="The Ceph pool that guests' disks are in, with images_type = rbd.",
    ),
    cfg.StrOpt(
        "images_zfs_pool",
        help="The ZFS pool that guests' disks are in, with images_type = zfs.",
    ),
    cfg.BoolOpt(
        "disk_from_sharing_provider",
        default=False,
        help="Whether a sharing provider with DISK_GB that shares an aggregate with this host"
        " stands for its disk: then the host reports no DISK_GB of its own. What guests have"
        " of the host's own is kept, and no longer given out, until they are gone.",
    ),
    cfg.BoolOpt(
        "swtpm_enabled",
        default=False,
        help="Whether guests can have an emulated TPM: its traits are reported where libvirt"
        " offers one.",
    ),
    cfg.ListOpt(
        "supported_tpm_secret_security",
        item_type=types.String(choices=["user", "host", "deployment"]),
        default=["user", "host", "deployment"],
        help="Who may keep the secrets of guests' emulated TPMs, as Nova's compute service on this"
        " host is configured: its scheduler asks for one of them (user, unless the flavor or"
        " image says otherwise) for each guest with a TPM. Of use with swtpm_enabled only.",
    ),
    cfg.IntOpt(
        "file_backed_memory",
        default=0,
        min=0,
        help="MiB of memory in files that guests get instead of the host's own: the MEMORY_MB of"
        " this host. 0: none. Not with hugepages, nor with ram_allocation_ratio above 1.",
    ),
    cfg.FloatOpt(
        "connection_timeout",
        default=10.0,
        min=0.1,
        help="How long to wait for a connection, in seconds. libvirt itself would wait for ever.",
    ),
    cfg.FloatOpt(
        "call_timeout",
        default=30.0,
        min=0.1,
        help="How long to wait for an answer, in seconds. A call that takes longer is left"
        " behind, and the node is skipped until it has come back.",
    ),
    cfg.IntOpt(
        "keepalive_interval",
        default=5,
        min=0,
        help="After how many silent seconds libvirtd is asked for a sign of life; 0: never.",
    ),
    cfg.IntOpt(
        "keepalive_count",
        default=3,
        min=1,
        help="How many signs of life may be missing before the connection is given up.",
    ),
]

DEFAULT_OPTS = [
    cfg.MultiOpt(
        "reserved_huge_pages",
        item_type=types.Dict(),
        help="Hugepages that the host keeps for itself, by NUMA cell; may be given more than"
        " once. The size is in KiB, or like 2MB: node:0,size:2048,count:64. It is told where"
        " [libvirt] report_hugepages is pages. Of sizes that are not named here, what is"
        " reserved in Placement stays.",
    ),
    cfg.StrOpt(
        "instances_path",
        sample_default="$state_path/instances",
        help="Where guests' disks are; its file system is the DISK_GB of this host.",
    ),
]

WORKAROUNDS_OPTS = [
    cfg.BoolOpt(
        "reserve_disk_resource_for_image_cache",
        default=False,
        help="Reserve DISK_GB for the images that nova-compute keeps below instances_path, where"
        " they are on the same file system as guests' disks.",
    ),
]

IMAGE_CACHE_OPTS = [
    cfg.StrOpt(
        "subdirectory_name",
        default="_base",
        help="Where below instances_path nova-compute keeps images; as in its configuration.",
    ),
]


def register_mdev_types(conf: Any) -> None:
    """The groups of enabled types, and those of types that are switched off: no typing errors."""
    enabled = (f"mdev_{name}" for name in conf.devices.enabled_mdev_types)
    there = (name for name in conf.list_all_sections() if name.startswith("mdev_"))
    for group in sorted({*enabled, *there}):
        conf.register_opts(MDEV_TYPE_OPTS, group=group)


def list_opts() -> list[tuple[str, list[Any]]]:
    """``[(group, [options])]``: the libvirt driver's own."""
    return [
        ("libvirt", LIBVIRT_OPTS),
        ("DEFAULT", DEFAULT_OPTS),
        ("pci", PCI_OPTS),
        ("devices", DEVICES_OPTS),
        ("workarounds", WORKAROUNDS_OPTS),
        ("image_cache", IMAGE_CACHE_OPTS),
    ]


def all_opts() -> list[tuple[str, list[Any]]]:
    """All that the libvirt driver reads: its own and those of every driver with a root."""
    return [*common.list_opts(), ("compute", common.OWNER_OPTS), *list_opts()]
