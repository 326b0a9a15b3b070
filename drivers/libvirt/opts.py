"""Options of the libvirt driver; those that Nova has keep their names and meaning."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from drivers import opts as common

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
        help="CPU features that guests get beside those of their model (flag or +flag), or"
        " do not get (-flag). Case does not matter.",
    ),
    cfg.StrOpt(
        "images_type",
        default="default",
        choices=["raw", "flat", "qcow2", "lvm", "rbd", "ploop", "default"],
        help="How guests' disks are kept. Disks in files make DISK_GB the file system of"
        " instances_path; for lvm and rbd, DISK_GB stays as Placement has it.",
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
    cfg.StrOpt(
        "instances_path",
        sample_default="$state_path/instances",
        help="Where guests' disks are; its file system is the DISK_GB of this host.",
    ),
]


def list_opts() -> list[tuple[str, list[Any]]]:
    """``[(group, [options])]``: the libvirt driver's own."""
    return [("libvirt", LIBVIRT_OPTS), ("DEFAULT", DEFAULT_OPTS)]


def all_opts() -> list[tuple[str, list[Any]]]:
    """All that the libvirt driver reads: its own and those of every driver with a root."""
    return [*common.list_opts(), *list_opts()]
