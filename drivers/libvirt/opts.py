"""Options of the libvirt driver; options that Nova has keep their names and meaning."""

from typing import Any

from oslo_config import cfg, types

from drivers import opts as common

_GROUP_HELP = (
    "Whether devices of one class with the same traits are one provider (one for each NUMA cell"
    " where cells are reported). Eight or more similar providers, such as the VFs of a GPU, make"
    " searches for candidates slow. Do not use it with Nova, which expects a provider for each"
    " device. Changing it moves the inventory together with its allocations, at the next start."
)

PCI_OPTS = [
    cfg.MultiStrOpt(
        "device_spec",
        default=[],
        deprecated_name="passthrough_whitelist",
        help="PCI devices that guests can have, as JSON objects or lists of them; may be given"
        " more than once, the first entry that matches a device is used. The keys vendor_id,"
        " product_id, address (with * for parts, or an object of regular expressions for"
        " domain, bus, slot and function) and devname select devices; resource_class, traits"
        " (separated by commas), physical_network, managed, one_time_use, remote_managed,"
        " live_migratable and trusted describe them.",
    ),
    cfg.BoolOpt(
        "report_in_placement",
        default=False,
        help="Whether the devices of device_spec are reported, with a provider for each device or"
        " PF. If this is switched off, each provider is removed once no guest uses it.",
    ),
    cfg.BoolOpt(
        "report_physical_networks",
        default=False,
        help="Whether devices with a physical_network, and remote_managed ones, are reported"
        " too, with the trait CUSTOM_PHYSNET_<NAME>. Nova gives them to guests as ports and"
        " does not count them in Placement.",
    ),
    cfg.BoolOpt("group_devices", default=False, help=_GROUP_HELP),
]

DEVICES_OPTS = [
    cfg.ListOpt(
        "enabled_mdev_types",
        default=[],
        deprecated_name="enabled_vgpu_types",
        help="Types of mediated devices (vGPUs) that guests can have, such as nvidia-35. With"
        " several of them, all but one have a group [mdev_<type>] with device_addresses (the PCI"
        " addresses of the GPUs that are divided into it, like 0000:84:00.0), and optionally"
        " mdev_class (the resource class: VGPU, or one that starts with CUSTOM_) and"
        " max_instances (on the whole host, at most). A type without addresses is for all"
        " devices that are in no other type's.",
    ),
    cfg.BoolOpt("group_mdev_devices", default=False, help=_GROUP_HELP),
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
        help="URI of libvirt. If empty, the default of virt_type:"
        " qemu:///system, lxc:///system, parallels:///system or test:///default.",
    ),
    cfg.StrOpt(
        "virt_type",
        default="kvm",
        choices=["kvm", "lxc", "qemu", "parallels", "test"],
        help="Kind of guests that this host runs. It determines the URI if connection_uri is"
        " empty, and the CPU that guests get if cpu_mode is not set.",
    ),
    cfg.StrOpt(
        "cpu_mode",
        choices=["host-model", "host-passthrough", "custom", "none"],
        help="The CPU that guests get, and so the CPU traits that are reported: the host's"
        " features (host-model, host-passthrough), those of cpu_models (custom) or those of"
        " QEMU's default model (none). If it is not set: host-model for kvm and qemu, except"
        " host-passthrough on aarch64, and none for other types.",
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
            ("off", "not reported: guests on hugepages are scheduled without regard to them"),
            ("pages", "by size, in pages: CUSTOM_HUGEPAGES_2M, CUSTOM_HUGEPAGES_1G, ..."),
            ("memory", "as a part of MEMORY_MB, which is what Nova does"),
        ],
        help="How hugepages are reported. Unless this is memory, hugepages are not counted in"
        " MEMORY_MB, since guests without hugepages can't use them.",
    ),
    cfg.ListOpt(
        "pmem_namespaces",
        default=[],
        help="Persistent memory namespaces that guests can have, by label: inventory of"
        " CUSTOM_PMEM_NAMESPACE_<LABEL>. LABEL:NAMESPACE[|NAMESPACE][,...], such as"
        ' "128G:ns0|ns1,SMALL:ns2". Namespaces of one label should be alike.',
    ),
    cfg.BoolOpt(
        "cpu_power_management",
        default=False,
        help="Whether the compute service switches dedicated CPUs off while no guest uses them."
        " If so, dedicated CPUs that are offline count as PCPU too.",
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
        help="How guests' disks are stored. DISK_GB is the size of libvirt's storage pool that is"
        " this backend: of instances_path for disks in files (without such a pool, the size of"
        " its file system), of images_volume_group for lvm, images_rbd_pool for rbd (without such"
        " a pool, the size of the Ceph cluster) and images_zfs_pool for zfs. While the size is"
        " unknown, DISK_GB stays as in Placement.",
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
        "images_rbd_ceph_conf",
        default="",
        help="Configuration file of the Ceph cluster; if empty, the default one of the command"
        " ceph, which is run with images_type = rbd if libvirt has no storage pool.",
    ),
    cfg.StrOpt(
        "rbd_user",
        help="Name of the Ceph user (without client.) that the command ceph is run as. This"
        " agent's user has to be able to read its keyring.",
    ),
    cfg.StrOpt(
        "images_zfs_pool",
        help="The ZFS pool that guests' disks are in, with images_type = zfs.",
    ),
    cfg.BoolOpt(
        "disk_from_sharing_provider",
        default=False,
        help="Whether a sharing provider with DISK_GB in an aggregate of this host replaces the"
        " host's own DISK_GB. The host's own inventory is then drained: it is removed once no"
        " guest uses it.",
    ),
    cfg.BoolOpt(
        "swtpm_enabled",
        default=False,
        help="Whether guests can have an emulated TPM. If so, its traits are reported where"
        " libvirt supports it.",
    ),
    cfg.ListOpt(
        "supported_tpm_secret_security",
        item_type=types.String(choices=["user", "host", "deployment"]),
        default=["user", "host", "deployment"],
        help="Modes of TPM secret security that this host supports, reported as traits. Has to be"
        " the same as in nova-compute's configuration. Nova's scheduler requires one of these"
        " traits for each guest with an emulated TPM: user, unless the flavor or image sets"
        " another mode. Only used with swtpm_enabled.",
    ),
    cfg.IntOpt(
        "file_backed_memory",
        default=0,
        min=0,
        help="Memory of guests in MiB that is backed by files instead of the host's memory;"
        " reported as MEMORY_MB. 0: off. Can't be combined with hugepages or"
        " ram_allocation_ratio above 1.",
    ),
    cfg.FloatOpt(
        "connection_timeout",
        default=10.0,
        min=0.1,
        help="Seconds to wait for a connection. libvirt itself has no limit.",
    ),
    cfg.FloatOpt(
        "call_timeout",
        default=30.0,
        min=0.1,
        help="Seconds to wait for the answer to a call. After that the node is skipped until the"
        " call has returned.",
    ),
    cfg.IntOpt(
        "keepalive_interval",
        default=5,
        min=0,
        help="Seconds without data from libvirtd after which a keepalive message is sent;"
        " 0: never.",
    ),
    cfg.IntOpt(
        "keepalive_count",
        default=3,
        min=1,
        help="Number of unanswered keepalive messages after which the connection is closed.",
    ),
]

DEFAULT_OPTS = [
    cfg.BoolOpt(
        "force_raw_images",
        default=True,
        help="Whether nova-compute converts images to raw ones. If it does not, images of type"
        " qcow2 can't be used with images_type = lvm or rbd, and their trait is removed.",
    ),
    cfg.MultiOpt(
        "reserved_huge_pages",
        item_type=types.Dict(),
        help="Hugepages reserved for the host, by NUMA cell; may be given more than"
        " once. The size is in KiB, or like 2MB: node:0,size:2048,count:64. It is only used"
        " with [libvirt] report_hugepages = pages. Sizes that are not listed keep what is"
        " reserved in Placement.",
    ),
    cfg.StrOpt(
        "instances_path",
        sample_default="$state_path/instances",
        help="Directory of guests' disks. With disks in files, DISK_GB is the size of its file"
        " system, unless libvirt has a storage pool for it; see images_type.",
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
        help="Directory below instances_path with nova-compute's cached images; has to be the same"
        " as in its configuration.",
    ),
]


NOT_HONOURED = {
    ("DEFAULT", "vcpu_pin_set"): "set [compute] cpu_shared_set to these CPUs instead",
    ("libvirt", "hw_machine_type"): "device models are those of pc and q35, on aarch64 of virt",
}
"""Options that change what Nova reports, and nothing here: the next step by group and name."""


def not_honoured(conf: Any) -> list[str]:
    """Return the options of ``NOT_HONOURED`` that are set, each with its next step."""
    for group, name in NOT_HONOURED:
        common.register(conf, [(group, [cfg.StrOpt(name)])])
    return [
        f"[{group}] {name} ({step})"
        for (group, name), step in NOT_HONOURED.items()
        if (conf if group == "DEFAULT" else conf[group])[name]
    ]


def register_mdev_types(conf: Any) -> None:
    """Register the groups of all mdev types: the enabled ones, and others in the configuration.

    The groups of types that are switched off are registered too, so that they don't count as
    misspelt.
    """
    enabled = (f"mdev_{name}" for name in conf.devices.enabled_mdev_types)
    configured = (name for name in conf.list_all_sections() if name.startswith("mdev_"))
    for group in sorted({*enabled, *configured}):
        conf.register_opts(MDEV_TYPE_OPTS, group=group)


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return ``[(group, [options])]``: the libvirt driver's own options."""
    return [
        ("libvirt", LIBVIRT_OPTS),
        ("DEFAULT", DEFAULT_OPTS),
        ("pci", PCI_OPTS),
        ("devices", DEVICES_OPTS),
        ("workarounds", WORKAROUNDS_OPTS),
        ("image_cache", IMAGE_CACHE_OPTS),
    ]


def all_opts() -> list[tuple[str, list[Any]]]:
    """Return all options that the libvirt driver reads, also those that it shares with others."""
    return [*common.list_opts(), ("compute", common.OWNER_OPTS), *list_opts()]
