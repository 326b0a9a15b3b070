"""Ironic's nodes as inventories of Placement.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import os_resource_classes as orc

AVAILABLE = frozenset({"available", None})
NO_POWER = frozenset({"error", None})
FIELDS = (
    *("uuid", "name", "resource_class", "instance_uuid", "maintenance"),
    *("power_state", "provision_state", "traits"),
)


@dataclass(frozen=True)
class Node:
    """The required fields of a node, by Ironic's names."""

    uuid: str
    resource_class: str | None
    provision_state: str | None
    power_state: str | None
    maintenance: bool
    instance_uuid: str | None
    traits: frozenset[str]

    @property
    def taken(self) -> str | None:
        """Why the node is unavailable, or ``None``.

        A node with an instance is reserved as well: once the instance is gone, it is
        cleaned before it is available again.
        """
        if self.maintenance:
            return "it is in maintenance"
        if self.instance_uuid is not None:
            return f"it has the instance {self.instance_uuid}"
        if self.provision_state not in AVAILABLE:
            return f"it is {self.provision_state}"
        if self.power_state in NO_POWER:
            return "its power state is not known"
        return None


def inventory(node: Node) -> dict[str, dict[str, Any]]:
    """Return one unit of the node's class; empty while the node has no resource class."""
    if not node.resource_class:
        return {}
    record = {
        "total": 1,
        "reserved": 0 if node.taken is None else 1,
        "min_unit": 1,
        "max_unit": 1,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }
    return {orc.normalize_name(node.resource_class): record}
