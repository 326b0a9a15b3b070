"""A host whose wish changes while a stranger writes beside it, seen through a proxy.

``Scene`` is settled first, then the driver's wish and the stranger's work change at
once, so that the next period needs every kind of call.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drivers.api import ComputeDriver, DriverContext
from reportclient.http import Transport
from tests.cost.trees import NODE, OWNER, ROOT, VERIFY, Agent
from tests.servers.fault_proxy import FaultProxy
from tests.servers.placement import RealPlacement

AGGREGATE = "aaaaaaaa-0000-4000-8000-000000000001"
ADDED_AGGREGATE = "aaaaaaaa-0000-4000-8000-000000000002"
STRANGERS_AGGREGATE = "bbbbbbbb-0000-4000-8000-000000000001"
STRANGERS_TRAIT = "CUSTOM_OF_A_STRANGER"
STRANGERS_CHILD = "strangers-child"
TIMEOUT = 0.4
"""Seconds until our client gives up on an answer; a real one has 30."""


@dataclass
class Wished:
    """What the driver says of one provider."""

    total: int = 4
    resource_class: str = "CUSTOM_LEAF"
    traits: set[str] = field(default_factory=set)
    aggregates: set[str] = field(default_factory=set)

    @property
    def inventory(self) -> dict[str, dict[str, Any]]:
        return {self.resource_class: {"total": self.total, "max_unit": self.total}}


class Changing(ComputeDriver):
    """Reports ``wish`` by name; takes away what it reported once and does not any more.

    What it finds on the tree and did not put there it leaves alone.
    """

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self.wish: dict[str, Wished] = {}
        self.ever: set[str] = set()
        self.ever_traits: set[str] = set()
        self.ever_aggregates: set[str] = set()

    def get_available_nodes(self):
        return [NODE]

    def say(self, wish: dict[str, Wished]) -> None:
        self.wish = wish
        self.ever |= wish.keys()
        for one in wish.values():
            self.ever_traits |= one.traits
            self.ever_aggregates |= one.aggregates

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        for name in sorted(self.ever - self.wish.keys()):
            if provider_tree.exists(name):
                provider_tree.remove(name)
        for name, wished in self.wish.items():
            if not provider_tree.exists(name):
                provider_tree.new_child(name, nodename)
            provider_tree.update_inventory(name, wished.inventory)
            provider_tree.remove_traits(name, *self.ever_traits - wished.traits)
            provider_tree.add_traits(name, *wished.traits)
            provider_tree.remove_aggregates(name, *self.ever_aggregates - wished.aggregates)
            provider_tree.add_aggregates(name, *wished.aggregates)


def before() -> dict[str, Wished]:
    return {
        NODE: Wished(8, "VCPU", {"HW_CPU_X86_AVX"}, {AGGREGATE}),
        "changed": Wished(4, traits={"CUSTOM_FIRST"}),
        "removed": Wished(4),
    }


def after() -> dict[str, Wished]:
    return {
        NODE: Wished(16, "VCPU", {"HW_CPU_X86_AVX2"}, {AGGREGATE}),
        "changed": Wished(6, traits={"CUSTOM_SECOND"}, aggregates={ADDED_AGGREGATE}),
        "new": Wished(2, "CUSTOM_NEW_LEAF", {"CUSTOM_FIRST"}),
    }


class Impatient(Transport):
    """Gives up after ``TIMEOUT`` what the proxy holds, and waits for all else on a busy machine."""

    def __init__(self, proxy: FaultProxy) -> None:
        super().__init__()
        self._proxy = proxy

    def send(self, request: Any, *args: Any, timeout: Any = None, **more: Any) -> Any:
        held = self._proxy.will_hold(request.method, request.path_url)
        return super().send(request, *args, timeout=TIMEOUT if held else 60.0, **more)


@dataclass
class Scene:
    """One agent, its driver, its proxy, and the stranger's work beside it."""

    placement: RealPlacement
    proxy: FaultProxy
    state: Path
    driver: Changing = field(default_factory=lambda: Changing(DriverContext(NODE, Path("/none"))))
    strangers_child: str = ""
    consumer: str = ""

    def agent(self, state: Path | None = None, **rules: Any) -> Agent:
        made = Agent(self.proxy.url, self.driver, state or self.state, **rules)
        made.api.adapter.session.session.mount("http://", Impatient(self.proxy))
        return made

    def settle(self) -> None:
        """The first wish is in Placement; then all that is to change has changed."""
        self.driver.say(before())
        agent = self.agent()
        assert agent.period().ok
        assert agent.period(2 * VERIFY).ok
        self.disturb()
        self.driver.say(after())
        self.proxy.seen.clear()

    def disturb(self) -> None:
        """A trait, an aggregate, a child and an allocation of somebody else's."""
        stranger = self.placement.stranger
        stranger.add_trait(ROOT, STRANGERS_TRAIT)
        stranger.set_aggregates(ROOT, {STRANGERS_AGGREGATE, *stranger.aggregates(ROOT)})
        self.strangers_child = stranger.create_child(ROOT, STRANGERS_CHILD)
        stranger.set_inventory(self.strangers_child, {"FPGA": {"total": 3}})
        self.consumer = stranger.put_allocation({ROOT: {"VCPU": 2}})

    def expect_the_wish_and_all_of_the_strangers(self) -> None:
        """Placement says what the driver says, and what the stranger said."""
        assert seen_in(self.placement) == self.expected()
        held = self.placement.stranger.allocation(self.consumer)["allocations"]
        assert held[ROOT]["resources"] == {"VCPU": 2}

    def expected(self) -> dict[str, tuple[Any, ...]]:
        found = {}
        for name, wished in self.driver.wish.items():
            traits, aggregates = set(wished.traits), set(wished.aggregates)
            if name == NODE:
                traits |= {OWNER, "COMPUTE_NODE", STRANGERS_TRAIT}
                aggregates |= {STRANGERS_AGGREGATE}
            totals = {wished.resource_class: wished.total}
            found[name] = (None if name == NODE else NODE, totals, traits, aggregates)
        found[STRANGERS_CHILD] = (NODE, {"FPGA": 3}, set(), set())
        return found


def seen_in(placement: RealPlacement) -> dict[str, tuple[Any, ...]]:
    """``{name: (parent's name, {class: total}, traits, aggregates)}`` of the tree."""
    stranger = placement.stranger
    listed = placement.request("GET", f"/resource_providers?in_tree={ROOT}")["resource_providers"]
    names = {item["uuid"]: item["name"] for item in listed}
    return {
        item["name"]: (
            names.get(item["parent_provider_uuid"]),
            {key: row["total"] for key, row in stranger.inventory(item["uuid"]).items()},
            stranger.traits(item["uuid"]),
            stranger.aggregates(item["uuid"]),
        )
        for item in listed
    }
