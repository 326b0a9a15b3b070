"""The options of the scripted driver."""

from typing import Any

from oslo_config import cfg

GROUP = "fake"

OPTIONS = [
    cfg.StrOpt(
        "script",
        help=(
            "YAML file that says which nodes there are, what they have, how that "
            "changes and what fails. It is read again when it changes. Left out: "
            "one host with two NUMA nodes, SR-IOV and shared storage."
        ),
    ),
]


def list_opts() -> list[tuple[str, list[Any]]]:
    """For the sample configuration, and to register."""
    return [(GROUP, OPTIONS)]
