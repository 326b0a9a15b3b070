"""A small driver that keeps every rule, over a backend that tests can break.

Its host has CPUs and graphics cards.  Long ago it reported all VGPUs on the root.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from drivers.api import ComputeDriver, DriverContext, DriverNotReady, ReshapeNeeded
from reportclient.provider_tree import ProviderTree

PER_CARD = 8
CARDS = ("0000:84:00.0", "0000:85:00.0")
OLD_ROOT = "6a2d1c34-58b1-4a6d-9a5c-0f6a4d8f1e02"
GUESTS = ("5cb3a1ba-7e31-4f6b-a6c1-9d4c5f6e7a01", "5cb3a1ba-7e31-4f6b-a6c1-9d4c5f6e7a02")


@dataclass
class Backend:
    """What a library of the hypervisor's would be."""

    nodes: list[str] = field(default_factory=lambda: ["host1"])
    cards: list[str] = field(default_factory=lambda: list(CARDS))
    up: bool = True

    @classmethod
    def with_cards(cls, count: int) -> Backend:
        return cls(cards=[f"{n >> 8:04x}:{n & 0xFF:02x}:00.0" for n in range(count)])

    def read(self) -> list[str]:
        self.check()
        return list(self.cards)

    def check(self) -> None:
        if not self.up:
            raise ConnectionError("the backend is down")

    def lose(self):
        self.up = False
        return self.mend

    def mend(self) -> None:
        self.up = True


class GoodDriver(ComputeDriver):
    def __init__(self, context: DriverContext, backend: Backend) -> None:
        super().__init__(context)
        self.backend = backend
        self.connection: object | None = None

    def init_host(self, host: str) -> None:
        pass

    def cleanup_host(self, host: str) -> None:
        self.connection = None

    def get_available_nodes(self) -> Sequence[str]:
        return list(self.backend.nodes)

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        cards = self.cards(nodename)
        self.report(provider_tree, nodename, cards, allocations)

    def cards(self, nodename: str) -> list[str]:
        if nodename not in self.backend.nodes:
            raise DriverNotReady(f"there is no node {nodename}")
        try:
            return self.backend.read()
        except OSError as err:
            raise DriverNotReady(str(err)) from err

    def report(self, tree: ProviderTree, node: str, cards: list[str], allocations) -> None:
        in_old_shape = "VGPU" in tree.data(node).inventory
        if in_old_shape and allocations is None:
            raise ReshapeNeeded(f"VGPU of {node} moves to its cards")
        tree.update_inventory(node, {"VCPU": {"total": 16, "reserved": 2}})
        tree.add_traits(node, "HW_CPU_X86_AVX2", "CUSTOM_GOOD")
        for address in cards:
            self.report_card(tree, node, f"{node}_{address}")
        self.remove_gone(tree, node, cards)
        if in_old_shape:
            self.move(tree, node, cards, allocations)

    def report_card(self, tree: ProviderTree, node: str, name: str) -> None:
        if not tree.exists(name):
            tree.new_child(name, node)
        tree.update_inventory(name, {"VGPU": {"total": PER_CARD}})
        tree.add_traits(name, "CUSTOM_GOOD_CARD")

    def remove_gone(self, tree: ProviderTree, node: str, cards: list[str]) -> None:
        wanted = {f"{node}_{address}" for address in cards}
        for uuid in tree.get_provider_uuids(node):
            name = tree.data(uuid).name if tree.exists(uuid) else node
            if is_card(name, node) and name not in wanted:
                tree.remove(uuid)

    def move(self, tree: ProviderTree, node: str, cards: list[str], allocations) -> None:
        root = tree.data(node).uuid
        free = {tree.data(f"{node}_{address}").uuid: PER_CARD for address in cards}
        for consumer in allocations.values():
            held = consumer["allocations"]
            amount = held.get(root, {}).get("resources", {}).pop("VGPU", 0)
            if amount:
                card = next(uuid for uuid, left in free.items() if left >= amount)
                free[card] -= amount
                held[card] = {"resources": {"VGPU": amount}}


def is_card(name: str, node: str) -> bool:
    return bool(re.fullmatch(re.escape(node) + r"_[0-9a-f]{4}:[0-9a-f]{2}:00\.0", name))


def old_shape() -> tuple[ProviderTree, dict]:
    """All VGPUs on the root, and guests that hold some."""
    tree = ProviderTree()
    tree.new_root("host1", OLD_ROOT)
    tree.update_inventory(
        "host1", {"VCPU": {"total": 16, "reserved": 2}, "VGPU": {"total": 2 * PER_CARD}}
    )
    allocations = {
        guest: {"allocations": {"host1": {"resources": {"VCPU": 2, "VGPU": 5}}}} for guest in GUESTS
    }
    return tree, allocations
