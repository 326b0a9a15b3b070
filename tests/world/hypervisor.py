"""What a host has, and the driver that tells of it."""

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
"""Parts of which a second driver tells, where there is one."""
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
    """``parts`` by name; the host itself has the empty name."""

    host: str
    root: str
    parts: dict[str, Part] = field(default_factory=lambda: {"": Part(8)})
    moves: bool = False
    """Whether a class that goes to another part takes its allocations along."""
    silent: set[int] = field(default_factory=set)
    """Drivers to which it can't say what there is, by their numbers."""
    two_drivers: bool = False
    attached: bool = False
    gone: bool = False
    """Whether the drivers do not name this node."""
    filed: tuple[str, int] | None = None
    """The part that an operator's file adds to, and how much."""
    changed_at: float = 0.0
    answered: dict[int, frozenset[str]] = field(default_factory=dict)
    """What each driver said last."""
    watchers: list[Callable[[str | None], None]] = field(default_factory=list)
    wakers: list[Callable[[], None]] = field(default_factory=list)
    lost: str | None = None

    def uuid(self, part: str) -> str:
        return _uuid(self.root, self.name(part)) if part else self.root

    def name(self, part: str) -> str:
        return f"{self.host}_{part}" if part else self.host

    def driver_of(self, part: str) -> int:
        """The number of the driver that tells of this part."""
        return int(self.two_drivers and part in SECOND)

    def parent(self, part: str) -> str:
        """The UUID of what it is below: each driver hangs its parts below its own, or the root."""
        above = self.parts[part].parent
        return self.uuid(above if self.driver_of(above) == self.driver_of(part) else "")

    def traits(self, part: str) -> frozenset[str]:
        """With that which both drivers may put on the root."""
        shared = self.two_drivers and not part and self.parts.keys() & set(SECOND)
        return self.parts[part].traits | ({"CUSTOM_ONE"} if shared else frozenset())

    @property
    def uuids(self) -> dict[str, str]:
        """Names of all parts that there could be, by UUID."""
        return {self.uuid(part): part for part in ("", *PARTS)}


_uuid = cache(own_uuid)


class Driver(ComputeDriver):
    """Says what the hypervisor has; leaves alone what is not its own."""

    def __init__(self, nodes: Sequence[Hypervisor], number: int = 0) -> None:
        super().__init__(DriverContext(nodes[0].host, Path("/none")))
        self.nodes, self.number = {here.host: here for here in nodes}, number

    @property
    def first(self) -> Hypervisor:
        """It has the connection."""
        return next(iter(self.nodes.values()))

    def get_available_nodes(self) -> list[str]:
        return [host for host, here in self.nodes.items() if not here.gone]

    def watch(self, tell: Callable[[str | None], None]) -> None:
        self.first.watchers.append(tell)
        tell(self.first.lost)

    def update_provider_tree(
        self, provider_tree: Any, nodename: str, allocations: Any = None
    ) -> None:
        here = self.nodes[nodename]
        if self.number in here.silent or self.first.lost:
            raise DriverNotReady("the hypervisor does not answer")
        moved = list(self._moved(here, provider_tree)) if here.moves else []
        if moved and allocations is None:
            raise ReshapeNeeded
        self._edit(here, provider_tree)
        for there, resource_class, heir in moved:
            for held in (allocations or {}).values():
                _give(held["allocations"], there, resource_class, heir)

    def _own(self, here: Hypervisor, parts: Iterable[str]) -> list[str]:
        return [name for name in parts if here.driver_of(name) == self.number]

    def _moved(self, here: Hypervisor, tree: Any) -> Iterator[tuple[str, str, str]]:
        """``(provider that loses it, class, provider that gets it)``."""
        names = [name for name in self._own(here, ("", *PARTS)) if name or not here.attached]
        for one in CLASSES:
            having = [
                name
                for name in self._own(here, here.parts)
                if here.parts[name].resource_class == one and name in names
            ]
            for name in names:
                uuid = here.uuid(name)
                if having and name not in having and tree.exists(uuid):
                    if one in tree.data(uuid).inventory:
                        yield uuid, one, here.uuid(having[-1])

    def _edit(self, here: Hypervisor, tree: Any) -> None:
        here.answered[self.number] = frozenset(self._own(here, here.parts))
        for name in self._own(here, here.parts):
            part, uuid, called = here.parts[name], here.uuid(name), here.name(name)
            if not tree.exists(uuid):
                tree.new_child(called, here.parent(name))
            if name:
                tree.rename(uuid, called)
                tree.move(uuid, here.parent(name))
            if name or not here.attached:
                record = {"total": part.total, "reserved": 0, "max_unit": 3}
                tree.update_inventory(uuid, {part.resource_class: record})
                tree.remove_aggregates(uuid, *sorted(set(AGGREGATES) - part.aggregates))
                tree.add_aggregates(uuid, *sorted(part.aggregates))
            tree.remove_traits(uuid, *sorted(set(TRAITS) - part.traits))
            tree.add_traits(uuid, *sorted(part.traits))
        if self.number:
            act = tree.add_traits if self._own(here, here.parts) else tree.remove_traits
            act(here.root, "CUSTOM_ONE")
        for name in reversed(self._own(here, PARTS)):
            if name not in here.parts and tree.exists(here.uuid(name)):
                tree.remove(here.uuid(name))


def _give(held: dict[str, Any], there: str, resource_class: str, heir: str) -> None:
    amount = held.get(there, {"resources": {}})["resources"].pop(resource_class, 0)
    if amount:
        resources = held.setdefault(heir, {"resources": {}})["resources"]
        resources[resource_class] = resources.get(resource_class, 0) + amount


class Direct:
    """In place of ``drivers.deadline.Calls``: the driver is asked in the agent's own thread."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step
        self.told: Callable[..., object] = lambda *_: None
        self.now: list[tuple[float, str]] = []

    def __call__(self, method: str, question: Callable[[], Any], *, about: str = "") -> Any:
        self._step()
        return question()
