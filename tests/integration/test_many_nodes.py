"""Many roots of one service against a real Placement: every call counted, as on the fake."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from agent.nodes.nodes import Nodes
from agent.period.traits import tag_of
from drivers.api import ComputeDriver, DriverContext
from tests.agents import ROOT as SERVICE
from tests.agents import VERIFY, Agent
from tests.servers.placement import RealPlacement

COUNT = 60
WAIT = 900.0


class Rack(ComputeDriver):
    thread_safe = True

    def __init__(self, count: int) -> None:
        super().__init__(DriverContext("rack", Path("/nonexistent")))
        self.names = [f"node{number}" for number in range(count)]

    def get_available_nodes(self):
        return self.names

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        provider_tree.update_inventory(nodename, {"CUSTOM_BAREMETAL": {"total": 1}})


def test_roots_made_verified_removed_and_added_at_a_real_placement(
    placement: RealPlacement, tmp_path: Path
) -> None:
    driver, now = Rack(COUNT), 0.0

    def service() -> Nodes:
        agent = Agent(placement, driver, state=tmp_path, audit_every=None, nodes_at_once=4)
        return agent.nodes

    def kinds(nodes: Nodes, after: float) -> Counter[str]:
        nonlocal now
        now += after
        mark = placement.mark()
        reports = nodes.period(now)
        assert all(report.ok for report in reports), [r.texts() for r in reports if not r.ok]
        return Counter(request.method for request in placement.since(mark))

    nodes = service()
    assert kinds(nodes, 0) == {"GET": COUNT, "POST": COUNT, "PUT": 2 * COUNT + 3}
    assert kinds(nodes, 60) == {}
    assert kinds(nodes, 2 * VERIFY) == {"GET": 1}
    gone = driver.names.pop()
    assert kinds(nodes, 60) == {}
    assert kinds(nodes, WAIT) == {"GET": 3, "PUT": 1, "DELETE": 1}
    driver.names.append("another")
    assert kinds(nodes, 1) == {"GET": 1, "POST": 1, "PUT": 2}
    assert kinds(service(), 1) == {"GET": 1}, "a restart with saved views"
    path = f"/resource_providers?required={tag_of(SERVICE)}"
    found = placement.request("GET", path)["resource_providers"]
    names = {item["name"] for item in found}
    assert len(names) == COUNT and gone not in names and "another" in names
