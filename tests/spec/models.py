"""The environments of the specification on provider trees, written as its pictures are.

Each becomes a forest in this project's own ``ProviderTree``, and a real Placement gets it
through this project's own report client.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reportclient.apply import apply
from reportclient.http import PlacementAPI, token_adapter
from reportclient.plan import diff
from reportclient.provider_tree import ProviderTree
from reportclient.view import View
from tests.servers.placement import RealPlacement

SHARES = "MISC_SHARES_VIA_AGGREGATE"
DISABLED = "COMPUTE_STATUS_DISABLED"
OFF = "_off"
"""At the end of the name of whatever belongs to a disabled host."""


@dataclass(frozen=True)
class Node:
    resources: Mapping[str, int] = field(default_factory=dict)
    traits: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    children: Mapping[str, Node] = field(default_factory=dict)


Model = Mapping[str, Node]


def uuid_of(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.example"))


def storage(*aggregates: str) -> Node:
    return Node({"DISK_GB": 1000}, (SHARES,), aggregates)


def numa(cpus: int, *aggregates: str) -> Node:
    return Node({"VCPU": cpus}, aggregates=aggregates)


SHARING: Model = {
    "SS1": storage("aggA"),
    "SS2": storage(),
    "CN1": Node({"VCPU": 8, "MEMORY_MB": 1024, "DISK_GB": 1000}, aggregates=("aggA",)),
    "CN2": Node({"VCPU": 8, "MEMORY_MB": 1024, "DISK_GB": 1000}),
}
_ROOT = {"MEMORY_MB": 1024, "DISK_GB": 1000}
NESTED: Model = {
    "SS1": storage("aggA"),
    "CN1": Node(
        _ROOT, aggregates=("aggA", "aggB"), children={"NUMA1_1": numa(8), "NUMA1_2": numa(8)}
    ),
    "CN2": Node(
        _ROOT, aggregates=("aggA",), children={"NUMA2_1": numa(8, "aggB"), "NUMA2_2": numa(8)}
    ),
}
NICS: Model = {
    "CN1": Node(
        {"VCPU": 8, "MEMORY_MB": 1024, "DISK_GB": 1000},
        children={
            "NIC1_1": Node({"SRIOV_NET_VF": 8}, ("HW_NIC_ACCEL_SSL",)),
            "NIC1_2": Node({"SRIOV_NET_VF": 8}),
        },
    )
}
TWO_STORAGES: Model = {
    "SS1": storage("agg"),
    "SS2": storage("agg"),
    "CN1": Node({"DISK_GB": 1000}, (), ("agg",), {"NUMA1_1": numa(4), "NUMA1_2": numa(4)}),
    "CN2": Node({"DISK_GB": 1000}, (), ("agg",), {"NUMA2_1": numa(4), "NUMA2_2": numa(4)}),
}
_CELL = {"VCPU": 4, "MEMORY_MB": 1024}
ROOT_TRAITS: Model = {
    "NON_NUMA_CN": Node(
        {"VCPU": 8, "MEMORY_MB": 1024, "DISK_GB": 1000},
        (
            "HW_CPU_X86_AVX2",
            "STORAGE_DISK_SSD",
            "COMPUTE_VOLUME_MULTI_ATTACH",
            "CUSTOM_WINDOWS_LICENSE_POOL",
        ),
    ),
    "NUMA_CN": Node(
        {"DISK_GB": 1000},
        ("STORAGE_DISK_SSD", "COMPUTE_VOLUME_MULTI_ATTACH"),
        children={"NUMA1": Node(_CELL), "NUMA2": Node(_CELL, ("HW_CPU_X86_AVX2",))},
    ),
}
FPGA = {"CUSTOM_ACCELERATOR_FPGA": 1}
_NUMA = {"VCPU": 4, "MEMORY_MB": 2048}
FPGAS: Model = {
    "CN": Node(
        children={
            "NUMA0": Node(_NUMA, ("HW_NUMA_ROOT",), (), {"FPGA0_0": Node(FPGA, ("CUSTOM_TYPE1",))}),
            "NUMA1": Node(
                _NUMA,
                ("HW_NUMA_ROOT",),
                (),
                {
                    "FPGA1_0": Node(FPGA, ("CUSTOM_TYPE1",)),
                    "FPGA1_1": Node(FPGA, ("CUSTOM_TYPE2",)),
                },
            ),
        }
    )
}
_PORTS = {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}
PHYSNETS: Model = {
    host: Node(
        {"VCPU": 8},
        (trait,),
        children={
            f"{host}_NIC{n}": Node(_PORTS, (f"CUSTOM_PHYSNET_{net}",)) for n, net in enumerate(nets)
        },
    )
    for host, trait, nets in (
        ("CN1", "HW_CPU_X86_AVX", ("A", "B")),
        ("CN2", "HW_CPU_X86_AVX2", ("B", "C")),
        ("CN3", "HW_CPU_X86_SSE", ("C", "D")),
    )
}


def with_twins(model: Model) -> dict[str, Node]:
    """Each host once more, equal but for its name and that it is disabled."""
    hosts = {name: node for name, node in model.items() if SHARES not in node.traits}
    return {**model, **{name + OFF: _off(node, top=True) for name, node in hosts.items()}}


def _off(node: Node, *, top: bool) -> Node:
    children = {name + OFF: _off(child, top=False) for name, child in node.children.items()}
    traits = (*node.traits, DISABLED) if top else node.traits
    return Node(node.resources, traits, node.aggregates, children)


def build(placement: RealPlacement, model: Model) -> PlacementAPI:
    """In an empty Placement; returns the door to it."""
    placement.start()
    placement.empty()
    tree = ProviderTree()
    for name, node in model.items():
        _plant(tree, name, node, None)
    api = PlacementAPI(token_adapter(placement.url, "admin"))
    outcome = apply(diff(View().snapshot, tree.freeze()), View(), api)
    assert outcome.stopped_by is None and not outcome.failed, outcome
    return api


def names(model: Model) -> dict[str, str]:
    """Names by UUID."""
    found: dict[str, str] = {}
    waiting: list[tuple[str, Node]] = list(model.items())
    while waiting:
        name, node = waiting.pop()
        found[uuid_of(name)] = name
        waiting += node.children.items()
    return found


def _plant(tree: ProviderTree, name: str, node: Node, parent: str | None) -> None:
    if parent is None:
        tree.new_root(name, uuid_of(name))
    else:
        tree.new_child(name, parent, uuid_of(name))
    inventory: dict[str, Any] = {each: {"total": n} for each, n in node.resources.items()}
    tree.update_inventory(name, inventory)
    tree.update_traits(name, node.traits)
    tree.update_aggregates(name, [uuid_of(each) for each in node.aggregates])
    for child, below in node.children.items():
        _plant(tree, child, below, name)
