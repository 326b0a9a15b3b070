"""The options of the scripted driver."""

from typing import Any

from oslo_config import cfg

GROUP = "fake"

OPTIONS = [
    cfg.StrOpt(
        "script",
        help=(
            "YAML file that describes nodes and their resources. It is read again when it "
            "changes. Without it the driver reports one host with two NUMA nodes, SR-IOV and "
            "shared storage."
        ),
    ),
]


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return ``[(group, [options])]``."""
    return [(GROUP, OPTIONS)]
