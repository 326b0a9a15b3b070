"""A Placement whose policy does not let the agent use the reshaper."""

from __future__ import annotations

import pytest

from tests.contract.test_reshape import (
    agent_with,
    consumer,
    holdings,
    rebuild_with,
    vgpu_to_children,
)
from tests.cost.trees import NODE, ROOT, Agent, tree_driver
from tests.servers.placement import RealPlacement


def test_without_the_role_a_reshape_changes_nothing_and_explains_itself(tmp_path):
    with RealPlacement(tmp_path / "placement", reshaper_for_admin=False) as placement:
        _, driver = agent_with(
            placement, tmp_path / "state", {"VCPU": {"total": 16}, "VGPU": {"total": 8}}
        )
        who = consumer(placement, {"VCPU": 1, "VGPU": 1})
        rebuild_with(driver, vgpu_to_children)
        report = Agent(placement, driver, tmp_path / "state").period()
        text = " ".join(report.texts())
        assert "403" in text
        assert "service" in text, "the role that is missing"
        assert holdings(placement, who)[ROOT] == {"VCPU": 1, "VGPU": 1}


@pytest.mark.parametrize("bulk_chunk", [2, 50])
def test_bulk_writes_fall_back_to_single_ones_where_the_role_is_missing(tmp_path, bulk_chunk):
    with RealPlacement(tmp_path / "placement", reshaper_for_admin=False) as placement:
        driver = tree_driver(5)
        agent = Agent(placement, driver, tmp_path / "state", bulk_chunk=bulk_chunk)
        assert agent.period().ok
        first = [r for r in placement.requests() if r.path == "/reshaper"]
        assert [r.status for r in first] == [403]
        for number in range(1, 5):
            driver.inventories[f"{NODE}_leaf{number}"] = {"VGPU": {"total": 2}}
        start = placement.mark()
        assert agent.period(1.0).ok
        assert not [r for r in placement.since(start) if r.path == "/reshaper"], "remembered"
