"""What a host has, and the driver that tells of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from drivers.api import ComputeDriver, DriverContext, DriverNotReady, ReshapeNeeded
from reportclient.provider_tree import own_uuid

PARTS = ("cell0", "cell1", "card", "disk")
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
    silent: bool = False
    """Whether it can't say what there is."""
    watchers: list[Callable[[str | None], None]] = field(default_factory=list)
    wakers: list[Callable[[], None]] = field(default_factory=list)
    lost: str | None = None

    def uuid(self, part: str) -> str:
        return _uuid(self.root, self.name(part)) if part else self.root

    def name(self, part: str) -> str:
        return f"{self.host}_{part}" if part else self.host

    @property
    def uuids(self) -> dict[str, str]:
        """Names of all parts that there could be, by UUID."""
        return {self.uuid(part): part for part in ("", *PARTS)}


_uuid = cache(own_uuid)


class Driver(ComputeDriver):
    """Says what the hypervisor has; leaves alone what is not its own."""

    def __init__(self, hypervisor: Hypervisor) -> None:
        super().__init__(DriverContext(hypervisor.host, Path("/none")))
        self.hypervisor = hypervisor

    def get_available_nodes(self) -> list[str]:
        return [self.hypervisor.host]

    def watch(self, tell: Callable[[str | None], None]) -> None:
        self.hypervisor.watchers.append(tell)
        tell(self.hypervisor.lost)

    def update_provider_tree(
        self, provider_tree: Any, nodename: str, allocations: Any = None
    ) -> None:
        if self.hypervisor.silent or self.hypervisor.lost:
            raise DriverNotReady("the hypervisor does not answer")
        moved = list(self._moved(provider_tree)) if self.hypervisor.moves else []
        if moved and allocations is None:
            raise ReshapeNeeded
        self._edit(provider_tree)
        for there, resource_class, heir in moved:
            for held in (allocations or {}).values():
                _give(held["allocations"], there, resource_class, heir)

    def _moved(self, tree: Any) -> Iterator[tuple[str, str, str]]:
        """``(provider that loses it, class, provider that gets it)``."""
        here = self.hypervisor
        for one in CLASSES:
            having = [name for name, part in here.parts.items() if part.resource_class == one]
            for name in ("", *PARTS):
                uuid = here.uuid(name)
                if having and name not in having and tree.exists(uuid):
                    if one in tree.data(uuid).inventory:
                        yield uuid, one, here.uuid(having[-1])

    def _edit(self, tree: Any) -> None:
        here = self.hypervisor
        for name, part in here.parts.items():
            uuid, called = here.uuid(name), here.name(name)
            if not tree.exists(uuid):
                tree.new_child(called, here.uuid(part.parent))
            tree.rename(uuid, called)
            if name:
                tree.move(uuid, here.uuid(part.parent))
            record = {"total": part.total, "reserved": 0, "max_unit": 3}
            tree.update_inventory(uuid, {part.resource_class: record})
            tree.remove_traits(uuid, *sorted(set(TRAITS) - part.traits))
            tree.add_traits(uuid, *sorted(part.traits))
            tree.remove_aggregates(uuid, *sorted(set(AGGREGATES) - part.aggregates))
            tree.add_aggregates(uuid, *sorted(part.aggregates))
        for name in reversed(PARTS):
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
