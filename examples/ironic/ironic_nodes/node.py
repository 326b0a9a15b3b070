"""What a node of Ironic's is in Placement's words.  Pure."""

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
    """The fields that matter here, by Ironic's names."""

    uuid: str
    resource_class: str | None
    provision_state: str | None
    power_state: str | None
    maintenance: bool
    instance_uuid: str | None
    traits: frozenset[str]

    @property
    def taken(self) -> str | None:
        """Why nobody can have the node now, or ``None``.

        A node with an instance is reserved as well: once the instance is gone, it is
        cleaned before somebody else may have it.
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
    """One unit of a class of its own; nothing as long as the node has no resource class."""
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
