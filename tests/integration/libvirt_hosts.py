"""The libvirt driver on hosts that are made of documents, reporting to a real Placement."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from computectl.drawing.text_tree import draw_tree
from computectl.shared.screen import Screen
from drivers.api import ComputeDriver
from drivers.libvirt.driver import LibvirtDriver
from tests.agents import NODE, ROOT, Agent
from tests.hosts import FakeHost
from tests.servers.placement import RealPlacement

DISK = 500 * 1024**3


class DocumentedHost(FakeHost):
    """One hypervisor; each ``start`` is an agent that starts anew on it."""

    def __init__(self, placement: RealPlacement, directory: Path, text: str, mib: int) -> None:
        super().__init__(directory, disk=DISK)
        self.placement = placement
        self.binding.answers["getHostname"] = NODE
        self.binding.answers["getCapabilities"] = text
        self.binding.answers["getMemoryStats"] = {"total": mib * 1024}
        self.cpus(8)

    def cpus(self, count: int) -> None:
        self.binding.answers["getCPUMap"] = (count, [True] * count, count)

    def start(self, text: str = "", beside: Sequence[ComputeDriver] = (), **rules: Any) -> Agent:
        """``beside`` are further drivers, asked after this one."""
        state = self.directory / "agent"
        return Agent(self.placement, self.driver(text), *beside, state=state, **rules)

    def driver(self, text: str = "", **otherwise: Any) -> LibvirtDriver:
        return super().driver(text, **{"state_path": self.directory, **otherwise})

    def reported(self, text: str = "") -> Agent:
        """Started, and quiet afterwards."""
        agent = self.start(text)
        report = agent.period()
        assert report.ok, report.texts()
        assert agent.period().done == ()
        return agent


def drawn(agent: Agent, without: tuple[str, ...] = ("COMPUTE_", "CUSTOM_OWNER")) -> str:
    """The tree, without traits that begin so: they say what any compute node with libvirt can do."""
    tree = agent.nodes.trackers[ROOT].view.edit()
    for uuid in tree.get_provider_uuids(ROOT):
        general = [t for t in tree.data(uuid).traits if t.startswith(without)]
        tree.remove_traits(uuid, *general)
    return draw_tree(tree.freeze(), ROOT, screen=Screen(width=88))


def providers(placement: RealPlacement) -> dict[str, dict[str, Any]]:
    """All of this host by name, with ``inventory`` totals and ``parent`` name."""
    found = placement.providers(f"?in_tree={ROOT}")
    names = {one["uuid"]: one["name"] for one in found}
    return {
        one["name"]: {
            "uuid": one["uuid"],
            "parent": names.get(one["parent_provider_uuid"]),
            "inventory": {
                name: record["total"]
                for name, record in placement.stranger.inventory(one["uuid"]).items()
            },
        }
        for one in found
    }


def holds(placement: RealPlacement, consumer: str) -> Mapping[str, Mapping[str, int]]:
    """What a consumer has, by the provider's name."""
    names = {one["uuid"]: name for name, one in providers(placement).items()}
    parts = placement.stranger.allocation(consumer)["allocations"]
    return {names[uuid]: part["resources"] for uuid, part in parts.items()}


def guest(host: DocumentedHost, **held: Mapping[str, int]) -> str:
    """A consumer; ``held`` by provider name: amounts by class."""
    known = providers(host.placement)
    return host.placement.stranger.put_allocation(
        {known[name]["uuid"]: parts for name, parts in held.items()}
    )


def totals(placement: RealPlacement, consumer: str) -> Counter[str]:
    """Return the amounts of a consumer by class, over all providers."""
    found = Counter[str]()
    for resources in holds(placement, consumer).values():
        found.update(resources)
    return found
