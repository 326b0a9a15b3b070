"""The body of POST /reshaper: the providers and consumers that a reshape touches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reportclient.plan import Reshape, as_dicts


def reshape_payload(reshape: Reshape, generations: Mapping[str, int]) -> dict[str, Any]:
    """Inventories with the generations they were read under, and the allocations."""
    inventories = {
        uuid: {
            "resource_provider_generation": generations[uuid],
            "inventories": as_dicts(inventory),
        }
        for uuid, inventory in reshape.inventories.items()
    }
    return {"inventories": inventories, "allocations": dict(reshape.allocations)}
