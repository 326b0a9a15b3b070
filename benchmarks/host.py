"""The host that both clients report, through the provider tree of either.

Only the standard library is used, since it is imported in the reference's virtual
environment as well.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

NODE = "host1"
ROOT = "c0ffee00-0000-4000-8000-000000000001"
GPUS = 8
FOREIGN_TRAIT = "HW_CPU_X86_AVX"
LEAF_CLASS = "CUSTOM_LEAF"
LEAF_TRAIT = "HW_NIC_SRIOV"
GPU_TRAIT = "HW_GPU_API_VULKAN"


def record(total: int) -> dict[str, Any]:
    """Return an inventory record with all fields, as Nova's drivers write it."""
    return {
        "total": total,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": total,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }


@dataclass(slots=True)
class Host:
    """A root with VCPU, MEMORY_MB and VGPU, and children with a custom class and a trait.

    ``providers`` is the number of providers, root included; ``changed`` is the total of the
    provider that scenarios change; ``split`` says that the GPUs have moved to children of the root.
    """

    providers: int
    changed: int = 1000
    split: bool = False

    @property
    def leaf(self) -> tuple[str, str, str]:
        """UUID, name and resource class of the provider whose inventory scenarios change."""
        if self.providers == 1:
            return ROOT, NODE, "VCPU"
        return uuid_of(f"{NODE}_leaf1"), f"{NODE}_leaf1", LEAF_CLASS

    def describe(self, tree: Any, allocations: Any, reshape_needed: type[Exception]) -> None:
        """Report the host; called by ``update_provider_tree`` of both clients.

        :raises reshape_needed: the GPUs have to move, and ``allocations`` is ``None``.
        """
        if self.split and allocations is None and not tree.exists(f"{NODE}_gpu0"):
            raise reshape_needed
        tree.update_inventory(NODE, self._root())
        for number in range(1, self.providers):
            name = f"{NODE}_leaf{number}"
            total = self.changed if number == 1 else 1000
            _child(tree, name, {LEAF_CLASS: record(total)}, LEAF_TRAIT)
        if self.split:
            for number in range(GPUS):
                _child(tree, f"{NODE}_gpu{number}", {"VGPU": record(32)}, GPU_TRAIT)
            _spread_gpus(allocations or {})

    def _root(self) -> dict[str, Any]:
        vcpus = self.changed if self.providers == 1 else 1000
        inventory = {"VCPU": record(vcpus), "MEMORY_MB": record(1 << 20)}
        if not self.split:
            inventory["VGPU"] = record(32 * GPUS)
        return inventory


def uuid_of(name: str) -> str:
    """Return the UUID of a child, which is the same for both clients."""
    return str(uuid.uuid5(uuid.UUID(ROOT), name))


def _child(tree: Any, name: str, inventory: dict[str, Any], trait: str) -> None:
    if not tree.exists(name):
        tree.new_child(name, NODE, uuid=uuid_of(name))
    tree.update_inventory(name, inventory)
    tree.add_traits(name, trait)


def _spread_gpus(allocations: dict[str, Any]) -> None:
    for number, consumer in enumerate(sorted(allocations)):
        held = allocations[consumer]["allocations"]
        gpus = held.get(ROOT, {}).get("resources", {}).pop("VGPU", None)
        if gpus is not None:
            held[uuid_of(f"{NODE}_gpu{number % GPUS}")] = {"resources": {"VGPU": gpus}}
