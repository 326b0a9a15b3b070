"""The same calls on Nova's ProviderTree and on ours; runs in Nova's environment.

    python -m tests.kit.nova_trees

Prints ``{"nova": [answer, …], "ours": [answer, …]}`` as JSON, and the public names of Nova's.
"""

import copy
import json
import sys
from typing import Any

from nova.compute import provider_tree as nova  # type: ignore[import-not-found]

from reportclient.provider_tree import ProviderTree

ROOT, SHARE = "c0ffee00-0000-4000-8000-00000000000a", "c0ffee00-0000-4000-8000-00000000000b"
CELL, GPU = "c0ffee00-0000-4000-8000-00000000000c", "c0ffee00-0000-4000-8000-00000000000d"
AGGREGATE = "c0ffee00-0000-4000-8000-00000000000e"
VGPU = {"VGPU": {"total": 8}}


def built(tree: Any) -> Any:
    tree.new_root("host1", ROOT, generation=3)
    tree.new_root("share", SHARE)
    tree.new_child("cell", "host1", CELL, generation=4)
    tree.new_child("gpu", "cell", GPU)
    return tree


def shown(node: Any) -> Any:
    """Of a live node all, as JSON has it."""
    if node is None:
        return None
    return {
        "told": [node.uuid, node.name, node.generation, node.parent_uuid],
        "inventory": node.inventory,
        "sets": [sorted(node.traits), sorted(node.aggregates)],
        "resources": node.resources,
        "data": [*node.data()[:5], sorted(node.data().traits)],
        "below": node.get_provider_uuids(),
        "children": {uuid: shown(child) for uuid, child in node.children.items()},
    }


def answers(tree: Any) -> list[Any]:
    told: list[Any] = [[shown(root) for root in tree.roots], tree.lock is tree.lock]
    told += [[*tree.roots_by_uuid], [*tree.roots_by_name]]
    root, gpu = tree.roots_by_name["host1"], tree.roots_by_uuid[ROOT].find("gpu")
    told += [shown(root.find(who)) for who in ("host1", CELL, "gpu", GPU, "share", "nowhere")]
    told += [gpu == root.children[CELL].children[GPU], gpu == root, len(tree.roots), gpu in [gpu]]
    told += [gpu.has_inventory(), gpu.has_inventory_changed(VGPU)]
    with tree.lock:  # and a node's own edits show in the tree
        told += [gpu.update_inventory(VGPU, 5), gpu.update_inventory(VGPU, 6), gpu.generation]
    told += [gpu.has_inventory(), tree.has_inventory("gpu"), gpu.have_traits_changed(["HW_NUMA"])]
    told += [gpu.update_traits(["HW_NUMA"]), gpu.has_traits(["HW_NUMA"]), tree.data(GPU).generation]
    told += [gpu.update_aggregates([AGGREGATE]), gpu.in_aggregates([AGGREGATE])]
    told += [gpu.have_aggregates_changed([]), gpu.have_resources_changed({"VGPU": []})]
    told += [gpu.update_resources({"VGPU": [1]}), gpu.have_resources_changed({"VGPU": [1]})]
    copied = copy.deepcopy(gpu.inventory)  # a body changes a copy, and sets it
    copied["VGPU"]["reserved"] = 1
    told += [tree.update_inventory("gpu", copied), shown(gpu), tree.data("gpu").inventory]
    tree.add_traits("host1", "HW_CPU_X86_AVX")  # what the tree does shows in the node
    tree.new_child("cell2", ROOT, AGGREGATE)
    told += [sorted(root.traits), [*root.children], root.get_provider_uuids()]
    tree.remove("cell")
    told += [gpu.name, sorted(gpu.traits), [*root.children], root.find("gpu"), tree.exists(GPU)]
    other = copy.deepcopy(tree)
    other.remove("share")
    return [*told, [node.name for node in other.roots], [node.name for node in tree.roots]]


def public(kind: Any) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


if __name__ == "__main__":
    told = {
        "nova": answers(built(nova.ProviderTree())),
        "ours": answers(built(ProviderTree())),
        "tree": public(nova.ProviderTree()),
        "node": public(built(nova.ProviderTree()).roots_by_name["host1"]),
    }
    sys.stdout.write(json.dumps(told))
