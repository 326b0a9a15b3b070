"""The options of this driver."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from host_accelerators.pci import KINDS

GROUP = "accelerators"
OPTIONS = [
    cfg.StrOpt(
        "root",
        default="/",
        help="Folder with the host's /sys and /proc. Tests use another one than /.",
    ),
    cfg.ListOpt(
        "kinds",
        default=sorted(KINDS),
        item_type=cfg.types.String(choices=sorted(KINDS)),
        help="The kinds of device to report.",
    ),
    cfg.ListOpt(
        "exclude",
        default=[],
        item_type=cfg.types.String(regex=r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"),
        help="PCI addresses of devices to leave out, such as 0000:84:00.0.",
    ),
]


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return ``[(group, [options])]``."""
    return [(GROUP, OPTIONS)]
