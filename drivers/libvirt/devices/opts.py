"""Options about PCI and mediated devices; those that Nova has keep their names and meaning.

The names of types of mediated devices make groups: ``[mdev_nvidia-35]`` for the type ``nvidia-35``.
"""

import re
from typing import Any

from oslo_config import cfg

from drivers.libvirt.devices.vgpu import OPTION, MdevSettings, MdevType

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
PREFIX = "mdev_"

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

TYPE_OPTS = [
    cfg.ListOpt("device_addresses", default=[]),
    cfg.StrOpt("mdev_class", default="VGPU"),
    cfg.IntOpt("max_instances", min=1),
]


def mdev_settings(conf: Any) -> MdevSettings:
    """Of the whole configuration; registers the groups that the types make.

    :raises ValueError: naming the group and the value that is wrong.
    """
    names = list(dict.fromkeys(conf.devices.enabled_mdev_types))
    _register(conf, names)
    types = [_mdev_type(conf, name) for name in names]
    bare = [kind.name for kind in types if not kind.addresses]
    notes: tuple[tuple[str, str], ...] = ()
    if len(types) > 1 and bare:
        words = f"[{PREFIX}{bare[0]}] has no device_addresses: only {types[0].name} is used"
        types, notes = types[:1], ((OPTION, words),)
    _refuse_shared(types)
    return MdevSettings(tuple(types), conf.devices.group_mdev_devices, notes)


def _register(conf: Any, names: list[str]) -> None:
    """Those of types that are switched off, too: they are no typing errors."""
    found = {one for one in conf.list_all_sections() if one.startswith(PREFIX)}
    for group in sorted(found.union(f"{PREFIX}{name}" for name in names)):
        conf.register_opts(TYPE_OPTS, group=group)


def _mdev_type(conf: Any, name: str) -> MdevType:
    group = f"{PREFIX}{name}"
    found = conf[group]
    addresses = [address.strip().lower() for address in found.device_addresses]
    for address in addresses:
        if not ADDRESS.fullmatch(address):
            raise ValueError(f"[{group}] device_addresses: {address!r} is not like 0000:84:00.0")
    if not re.fullmatch(r"VGPU|CUSTOM_[A-Z0-9_]{1,248}", found.mdev_class):
        raise ValueError(
            f"[{group}] mdev_class = {found.mdev_class!r} is neither VGPU nor CUSTOM_..."
            " (capitals, digits and _)"
        )
    return MdevType(name, frozenset(addresses), found.mdev_class, found.max_instances)


def _refuse_shared(types: list[MdevType]) -> None:
    of: dict[str, str] = {}
    for kind in types:
        for address in sorted(kind.addresses):
            if address in of:
                raise ValueError(
                    f"[{PREFIX}{kind.name}] device_addresses: {address} is in"
                    f" [{PREFIX}{of[address]}] too; a device is divided into one type"
                )
            of[address] = kind.name
