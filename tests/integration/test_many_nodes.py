"""Many roots of one service against a real Placement: every call counted, as on the fake."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from agent.nodes.nodes import Nodes
from agent.period.rules import Rules
from agent.period.service_tag import tag_of
from drivers.api import ComputeDriver, DriverContext
from drivers.loader import LoadedDriver
from reportclient.http import PlacementAPI, token_adapter
from tests.servers.placement import RealPlacement

SERVICE = "c0ffee00-0000-4000-8000-000000000001"
COUNT = 60
VERIFY, WAIT = 300.0, 900.0


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
        api = PlacementAPI(token_adapter(placement.url, "admin"))
        rules = Rules(
            owner_traits=("CUSTOM_OURS",), verify_every=VERIFY, audit_every=None, nodes_at_once=4
        )
        return Nodes(SERVICE, [LoadedDriver.of("rack", driver)], api, rules, state_path=tmp_path)

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
