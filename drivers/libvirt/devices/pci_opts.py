"""Options about PCI devices; those that Nova has keep their names and meaning."""

from __future__ import annotations

from oslo_config import cfg

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
