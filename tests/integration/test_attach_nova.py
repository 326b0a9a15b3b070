"""Beside Nova: its own tracker code and this agent on one root of one real Placement."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drivers.api import ComputeDriver, DriverContext
from tests.agents import Agent
from tests.servers.placement import RealPlacement
from tests.servers.reference import NovaBeside, reference_python

ROOT, NODE = "c0ffee00-0000-4000-8000-00000000000a", "compute1"

pytestmark = pytest.mark.needs("nova")


class Cards(ComputeDriver):
    def __init__(self) -> None:
        super().__init__(DriverContext(NODE, Path("/nonexistent")))
        self.cards = {"card0", "card1"}
        self.traits: list[str] = []

    def get_available_nodes(self):
        return [NODE]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        for uuid in provider_tree.get_provider_uuids_in_tree(nodename)[1:]:
            name = provider_tree.data(uuid).name
            if name.startswith("card") and name not in self.cards:
                provider_tree.remove(uuid)
        for name in sorted(self.cards):
            if not provider_tree.exists(name):
                provider_tree.new_child(name, nodename)
            provider_tree.update_inventory(name, {"FPGA": {"total": 1}})
            provider_tree.add_traits(name, "CUSTOM_CARD", *self.traits)
        provider_tree.add_traits(nodename, "CUSTOM_HAS_CARDS")


class Both:
    """Nova and the agent, which take turns; who wrote is seen in Placement's log."""

    def __init__(self, placement: RealPlacement, nova: NovaBeside) -> None:
        self.placement, self.nova, self.now = placement, nova, 0.0
        self.driver = Cards()
        self.nodes = Agent(placement, self.driver, root="", attached=True).nodes

    def agents_turn(self, later: float = 400.0) -> list[str]:
        mark = self.placement.mark()
        self.now += later
        self.reports = self.nodes.period(self.now)
        return self._writes(mark)

    def novas_turn(self, **wish: Any) -> list[str]:
        mark = self.placement.mark()
        self.nova.wish.update(wish)
        self.nova.period()
        return self._writes(mark)

    def settle(self) -> None:
        """A few periods of both, after which neither writes any more."""
        for _ in range(3):
            self.novas_turn()
            self.agents_turn()
        assert [self.novas_turn(), self.agents_turn()] == [[], []]
        assert all(report.ok for report in self.reports), self.reports[0].texts()

    def minutes(self, count: int) -> list[str]:
        """Periods of both, one each a minute; what the agent wrote, and what Nova said."""
        seen = []
        for _ in range(count):
            seen += self.agents_turn(later=60.0)
            assert all(report.ok for report in self.reports), self.reports[0].texts()
            error = self.nova.error_of_period(later=60.0)
            seen += [] if error is None else [error]
        return seen

    def gets_of_nova(self, later: float) -> int:
        mark = self.placement.mark()
        self.nova.period(later)
        return len([r for r in self.placement.since(mark) if r.method == "GET"])

    def names(self) -> set[str]:
        return {*self.placement.uuids(f"?in_tree={ROOT}")}

    def _writes(self, mark: int) -> list[str]:
        asked = self.placement.since(mark)
        return [f"{r.method} {r.path}" for r in asked if r.method != "GET"]


@pytest.fixture(scope="module")
def both(placement_server: RealPlacement, tmp_path_factory) -> Iterator[Both]:
    placement_server.start()
    placement_server.empty()
    python = reference_python()
    assert python is not None
    log = tmp_path_factory.mktemp("nova") / "stderr"
    nova = NovaBeside(python, placement_server.url, log)
    try:
        yield Both(placement_server, nova)
    finally:
        nova.stop()


def test_neither_undoes_the_other(both: Both) -> None:
    """One Nova process for all of it: it takes seconds to start."""
    stranger = both.placement.stranger
    assert both.agents_turn() == []
    assert "waiting for the root provider" in str(both.reports[0].texts())

    both.settle()
    assert both.names() == {NODE, f"{NODE}_pci_0", "card0", "card1"}
    assert stranger.inventory(ROOT)["VCPU"]["total"] == 8
    assert {"COMPUTE_NODE", "CUSTOM_HAS_CARDS"} <= stranger.traits(ROOT)
    assert "CUSTOM_OURS" not in stranger.traits(ROOT)

    # Nova changes its own part: inventory, traits, children; and is disabled.
    both.nova.wish.update(vcpus=16, traits=["HW_CPU_X86_AVX"], children=2, disabled=True)
    both.settle()
    assert stranger.inventory(ROOT)["VCPU"]["total"] == 16
    expected = {"HW_CPU_X86_AVX", "CUSTOM_HAS_CARDS", "COMPUTE_STATUS_DISABLED"}
    assert expected <= stranger.traits(ROOT)
    assert both.names() >= {f"{NODE}_pci_0", f"{NODE}_pci_1", "card0", "card1"}

    # We change ours, while Nova has the old tree in its cache.
    both.driver.cards = {"card1", "card2"}
    assert both.agents_turn()
    both.nova.wish.update(children=1, disabled=False)
    both.settle()
    assert both.names() == {NODE, f"{NODE}_pci_0", "card1", "card2"}
    assert "COMPUTE_STATUS_DISABLED" not in stranger.traits(ROOT)
    cards = [
        item
        for item in both.placement.providers(f"?in_tree={ROOT}")
        if item["name"].startswith("card")
    ]
    assert all(stranger.inventory(item["uuid"])["FPGA"]["total"] == 1 for item in cards)
    assert all(stranger.traits(item["uuid"]) == {"CUSTOM_CARD"} for item in cards)


def test_nova_leaves_pci_devices_that_it_does_not_manage(both: Both) -> None:
    """With ``[pci] report_in_placement`` it removes what says that Nova manages it."""
    both.driver.traits = ["COMPUTE_MANAGED_PCI_DEVICE"]  # as the libvirt driver does
    both.driver.cards = {"card1", "card2", "card3"}
    both.agents_turn()
    cards = both.placement.uuids(f"?in_tree={ROOT}")
    guest = both.placement.stranger.put_allocation({cards["card3"]: {"FPGA": 1}})
    both.nova.wish.update(pci=True)
    both.settle()
    assert both.names() >= {"card1", "card2", "card3", f"{NODE}_0000:84:00.0"}
    assert both.placement.stranger.traits(cards["card3"]) == {"CUSTOM_CARD"}
    both.placement.stranger.delete_allocation(guest)


def test_a_child_that_goes_breaks_none_of_novas_updates(both: Both) -> None:
    """Nova asks for the allocations of every provider in its copy of the tree, each minute;
    the copy is up to six periods old, and one 404 fails all of it.
    """
    both.driver.cards, both.driver.traits = {"card1", "card2"}, []
    both.settle()
    both.minutes(20)  # what went before is deleted
    card = both.placement.uuids(f"?in_tree={ROOT}")["card1"]
    path = f"/resource_providers/{card}"
    for _ in range(2):  # the copy is of another age each time
        assert both.minutes(3) == []
        both.driver.cards = {"card2"}
        assert both.minutes(2) == [f"PUT {path}/inventories", f"PUT {path}"]
        assert "card1" not in both.names()
        assert both.minutes(14) == []
        both.driver.cards = {"card1", "card2"}
        both.minutes(1)
        assert "card1" in both.names(), "it came back before it was deleted"
    both.driver.cards = {"card2"}
    assert both.minutes(30) == [f"PUT {path}/inventories", f"PUT {path}", f"DELETE {path}"]


def test_what_a_child_costs_nova(both: Both) -> None:
    """As docs/attach.rst says: one GET in each period, and three more in each refresh."""
    both.driver.cards = {"card2"}
    both.settle()
    both.gets_of_nova(later=400.0)
    refresh, quiet = both.gets_of_nova(later=400.0), both.gets_of_nova(later=60.0)
    both.driver.cards = {"card2", "card4"}
    both.agents_turn()
    assert both.gets_of_nova(later=400.0) == refresh + 1 + 3
    assert both.gets_of_nova(later=60.0) == quiet + 1
