"""Options shared by all drivers that report CPUs, memory and disk; named as in Nova."""

import re
from collections.abc import Iterable
from typing import Any

from oslo_config import cfg, types

from drivers.errors import DriverError
from drivers.inventory import DISK_GB, MEMORY_MB, VCPU, InventoryPolicy, Ratio, cpu_set
from reportclient.model import MAX_RATIO

_RATIO_HELP = (
    "How much of {what} may be allocated for each {unit} that the host has. If it is not set"
    " (or 0), the ratio in Placement is kept, and initial_{name}_allocation_ratio applies to a"
    " new host. Removing the option later keeps the last ratio: set another ratio instead."
)
_INITIAL_HELP = (
    "The allocation ratio of {what} if {name}_allocation_ratio is not set and Placement has"
    " none yet."
)
_RATIOS = (
    ("cpu", VCPU, "CPU", 4.0),
    ("ram", MEMORY_MB, "MiB", 1.0),
    ("disk", DISK_GB, "GiB", 1.0),
)
_CPU_SET_HELP = (
    ' A list of CPU numbers and ranges; a caret excludes CPUs from a range: "4-12,^8,15".'
)

OWNER_NOVA = "OWNER_NOVA"
_LOCATION = re.compile(r"(option [\w-]+) from LocationInfo\(.*?detail='[^']*'\)")
"""How oslo.config's errors name the place where a value was read."""


DEFAULT_OPTS = [
    cfg.IntOpt(
        "reserved_host_cpus",
        default=0,
        min=0,
        help="Number of CPUs reserved for the host. Can't be used with [compute] cpu_shared_set or"
        " cpu_dedicated_set: with these, CPUs in neither set are reserved for the host.",
    ),
    cfg.IntOpt(
        "reserved_host_memory_mb",
        default=512,
        min=0,
        help="Memory reserved for the host, in MiB.",
    ),
    cfg.IntOpt(
        "reserved_host_disk_mb",
        default=0,
        min=0,
        help="Disk space reserved for the host, in MiB; rounded up to whole GiB.",
    ),
    *(
        opt
        for name, what, unit, initial in _RATIOS
        for opt in (
            cfg.FloatOpt(
                f"{name}_allocation_ratio",
                min=0.0,
                help=_RATIO_HELP.format(name=name, what=what, unit=unit),
            ),
            cfg.FloatOpt(
                f"initial_{name}_allocation_ratio",
                default=initial,
                min=0.0,
                help=_INITIAL_HELP.format(name=name, what=what),
            ),
        )
    ),
]

COMPUTE_OPTS = [
    cfg.StrOpt(
        "cpu_shared_set",
        help="Host CPUs that are shared between guests: the VCPU inventory." + _CPU_SET_HELP,
    ),
    cfg.StrOpt(
        "cpu_dedicated_set",
        help="Host CPUs for pinned guest CPUs: the PCPU inventory. Without"
        " cpu_shared_set there is then no VCPU inventory." + _CPU_SET_HELP,
    ),
]

OWNER_OPTS = [
    cfg.ListOpt(
        "owner_trait",
        item_type=types.String(regex=r"^(CUSTOM_[A-Z0-9_]+|OWNER_[A-Z0-9_]+)$"),
        default=["CUSTOM_OWNER_COMPUTE_AGENT"],
        help="Traits set on the root providers and on each sharing provider that this agent"
        " creates. A sharing provider with none of the custom traits among them is owned by"
        " another service and is never written (if only OWNER_* traits are named, those"
        " decide). Add OWNER_NOVA where Nova schedules to these hosts: from release 34 (2026.2)"
        " on its scheduler requires that trait of roots and of PCI devices. The libvirt driver"
        " then sets it on providers of PCI devices, vGPUs and memory encryption, too.",
    ),
]
"""Options of the agent that drivers read as well, to mark some of their providers."""

CALL_OPTS = [
    cfg.IntOpt(
        "driver_timeout",
        default=60,
        mutable=True,
        min=1,
        help="Seconds in which each call of a driver has to return. A call that takes longer is"
        " reported as a condition, and the driver is not called again until that call has"
        " returned. Raise it if a backend with many nodes or devices needs longer.",
    ),
]
"""Options of the agent for its calls of drivers; registered before a driver is imported."""


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return ``[(group, [options])]``."""
    return [("DEFAULT", DEFAULT_OPTS), ("compute", COMPUTE_OPTS)]


def register(conf: Any, listed: Any) -> None:
    """Register ``[(group, [options])]`` on a configuration.

    :raises DriverError: ``listed`` is something else, an option is defined otherwise already, or a
        required one has no value.
    """
    for pair in listed if isinstance(listed, Iterable) else [listed]:
        match pair:
            case (group, [*options]) if all(isinstance(each, cfg.Opt) for each in options):
                for option in options:
                    _register(conf, getattr(group, "name", group or "DEFAULT"), option)
            case _:
                text = "list_opts() has to return [(group, [oslo.config options])]"
                raise DriverError(f"{text}: {pair!r} is no such pair")


def _register(conf: Any, group: str, option: cfg.Opt) -> None:
    in_group = None if group == "DEFAULT" else group
    try:
        conf.register_opt(option, group=in_group)
    except cfg.DuplicateOptError as err:
        raise DriverError(
            f"list_opts(): [{group}] {option.name} is defined otherwise by the agent or by another"
            " driver: rename the option, or use a group of this driver's own"
        ) from err
    # oslo.config looks for these only while it parses the files, also at a reload.
    if option.required and (conf[in_group] if in_group else conf)[option.dest] is None:
        raise DriverError(str(cfg.RequiredOptError(option.name, group)))


def nova_owner_traits(conf: Any) -> frozenset[str]:
    """Return OWNER_NOVA if ``[compute] owner_trait`` contains it, else nothing."""
    return frozenset(conf.compute.owner_trait) & {OWNER_NOVA}


def inventory_policy(conf: Any) -> InventoryPolicy:
    """Return the inventory policy of the options.

    :raises ValueError: an option is wrong, or options contradict each other; the message names
        them.
    """
    return InventoryPolicy(
        reserved_cpus=conf.reserved_host_cpus,
        reserved_memory_mb=conf.reserved_host_memory_mb,
        reserved_disk_mb=conf.reserved_host_disk_mb,
        ratios={resource_class: _ratio(conf, name) for name, resource_class, _, _ in _RATIOS},
        shared_cpus=_cpus(conf, "cpu_shared_set"),
        dedicated_cpus=_cpus(conf, "cpu_dedicated_set"),
    )


def _ratio(conf: Any, name: str) -> Ratio:
    ratio, initial = conf[f"{name}_allocation_ratio"], conf[f"initial_{name}_allocation_ratio"]
    if not 0 < initial <= MAX_RATIO:
        raise ValueError(f"[DEFAULT] initial_{name}_allocation_ratio has to be above 0 and finite")
    if not 0 <= (ratio or 0) <= MAX_RATIO:  # oslo.config takes nan and inf, whatever the bounds
        raise ValueError(f"[DEFAULT] {name}_allocation_ratio has to be a finite number")
    return Ratio(ratio, initial)


def _cpus(conf: Any, name: str) -> frozenset[int] | None:
    text = conf.compute[name]
    return cpu_set(text, f"[compute] {name}") if text else None


def where_read(text: str) -> str:
    """Return an error of oslo.config without its ``LocationInfo``: the agent adds file and line."""
    return _LOCATION.sub(r"\1", text)
