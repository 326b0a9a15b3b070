"""A simulated hypervisor, and the driver that reports it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from drivers.api import ComputeDriver, DriverContext, DriverNotReady, ReshapeNeeded
from reportclient.provider_tree import own_uuid

PARTS = ("cell0", "cell1", "card", "disk")
SECOND = ("card", "disk")
"""Parts that the second driver reports, if there is one."""
TRAITS = ("HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "CUSTOM_ONE")
CLASSES = ("VCPU", "CUSTOM_THING")
AGGREGATES = tuple(f"aaaaaaaa-0000-4000-8000-00000000000{n}" for n in range(2))


@dataclass(frozen=True)
class Part:
    """One provider: ``parent`` is the name of another part, empty for the host itself."""

    total: int
    resource_class: str = "VCPU"
    parent: str = ""
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()


@dataclass
class Hypervisor:
    """A node with its parts by name; the host itself has the empty name."""

    host: str
    root: str
    parts: dict[str, Part] = field(default_factory=lambda: {"": Part(8)})
    moves: bool = False
    """Whether the driver asks for a reshape if a class moves to another part."""
    silent: set[int] = field(default_factory=set)
    """Numbers of the drivers that cannot read the hypervisor at the moment."""
    two_drivers: bool = False
    attached: bool = False
    gone: bool = False
    """Whether the drivers do not report this node any more."""
    filed: tuple[str, int] | None = None
    """The part that the provider file adds inventory to, and how much."""
    changed_at: float = 0.0
    answered: dict[int, frozenset[str]] = field(default_factory=dict)
    """The parts in the last successful report of each driver, by its number."""
    watchers: list[Callable[[str | None], None]] = field(default_factory=list)
    wakers: list[Callable[[], None]] = field(default_factory=list)
    lost: str | None = None

    def uuid(self, part: str) -> str:
        return _uuid(self.root, self.name(part)) if part else self.root

    def name(self, part: str) -> str:
        return f"{self.host}_{part}" if part else self.host

    def driver_of(self, part: str) -> int:
        """Return the number of the driver that reports this part."""
        return int(self.two_drivers and part in SECOND)

    def parent(self, part: str) -> str:
        """Return the parent's UUID: a part is below a part of the same driver, or below the root."""
        above = self.parts[part].parent
        return self.uuid(above if self.driver_of(above) == self.driver_of(part) else "")

    def traits(self, part: str) -> frozenset[str]:
        """Return the traits of a part; both drivers set CUSTOM_ONE on the root."""
        shared = self.two_drivers and not part and self.parts.keys() & set(SECOND)
        return self.parts[part].traits | ({"CUSTOM_ONE"} if shared else frozenset())

    @property
    def uuids(self) -> dict[str, str]:
        """All possible parts: names by UUID."""
        return {self.uuid(part): part for part in ("", *PARTS)}


_uuid = cache(own_uuid)


class Driver(ComputeDriver):
    """Reports the parts of its nodes and leaves everything else unchanged."""

    def __init__(self, nodes: Sequence[Hypervisor], number: int = 0) -> None:
        super().__init__(DriverContext(nodes[0].host, Path("/none")))
        self.nodes, self.number = {node.host: node for node in nodes}, number

    @property
    def first(self) -> Hypervisor:
        """The first node; only it has a connection that can be lost."""
        return next(iter(self.nodes.values()))

    def get_available_nodes(self) -> list[str]:
        for node in self.nodes.values():
            if node.gone:  # its tree may be removed from now on, until it is reported again
                node.answered.clear()
        return [host for host, node in self.nodes.items() if not node.gone]

    def watch(self, tell: Callable[[str | None], None]) -> None:
        self.first.watchers.append(tell)
        tell(self.first.lost)

    def update_provider_tree(
        self, provider_tree: Any, nodename: str, allocations: Any = None
    ) -> None:
        node = self.nodes[nodename]
        if self.number in node.silent or self.first.lost:
            raise DriverNotReady("the hypervisor does not answer")
        moved = list(self._moved(node, provider_tree)) if node.moves else []
        if moved and allocations is None:
            raise ReshapeNeeded
        self._edit(node, provider_tree)
        for loser, resource_class, heir in moved:
            for held in (allocations or {}).values():
                _move_allocation(held["allocations"], loser, resource_class, heir)

    def _own(self, node: Hypervisor, parts: Iterable[str]) -> list[str]:
        return [name for name in parts if node.driver_of(name) == self.number]

    def _moved(self, node: Hypervisor, tree: Any) -> Iterator[tuple[str, str, str]]:
        """Yield the moved classes: old provider, resource class, new provider."""
        names = [name for name in self._own(node, ("", *PARTS)) if name or not node.attached]
        for resource_class in CLASSES:
            having = [
                name
                for name in self._own(node, node.parts)
                if node.parts[name].resource_class == resource_class and name in names
            ]
            for name in names:
                uuid = node.uuid(name)
                if having and name not in having and tree.exists(uuid):
                    if resource_class in tree.data(uuid).inventory:
                        yield uuid, resource_class, node.uuid(having[-1])

    def _edit(self, node: Hypervisor, tree: Any) -> None:
        node.answered[self.number] = frozenset(self._own(node, node.parts))
        for name in self._own(node, node.parts):
            part, uuid, called = node.parts[name], node.uuid(name), node.name(name)
            if not tree.exists(uuid):
                tree.new_child(called, node.parent(name))
            if name:
                tree.rename(uuid, called)
                tree.move(uuid, node.parent(name))
            if name or not node.attached:
                record = {"total": part.total, "reserved": 0, "max_unit": 3}
                tree.update_inventory(uuid, {part.resource_class: record})
                tree.remove_aggregates(uuid, *sorted(set(AGGREGATES) - part.aggregates))
                tree.add_aggregates(uuid, *sorted(part.aggregates))
            tree.remove_traits(uuid, *sorted(set(TRAITS) - part.traits))
            tree.add_traits(uuid, *sorted(part.traits))
        if self.number:
            act = tree.add_traits if self._own(node, node.parts) else tree.remove_traits
            act(node.root, "CUSTOM_ONE")
        for name in reversed(self._own(node, PARTS)):
            if name not in node.parts and tree.exists(node.uuid(name)):
                tree.remove(node.uuid(name))


def _move_allocation(held: dict[str, Any], loser: str, resource_class: str, heir: str) -> None:
    amount = held.get(loser, {"resources": {}})["resources"].pop(resource_class, 0)
    if amount:
        resources = held.setdefault(heir, {"resources": {}})["resources"]
        resources[resource_class] = resources.get(resource_class, 0) + amount


class Direct:
    """Replaces ``drivers.deadline.Calls``: calls the driver in the agent's own thread."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step
        self.on_call: Callable[..., object] = lambda *_: None
        self.now: list[tuple[float, str]] = []
        self.left: list[object] = []

    def __call__(self, method: str, function: Callable[[], Any], *, node: str = "") -> Any:
        self._step()
        return function()
