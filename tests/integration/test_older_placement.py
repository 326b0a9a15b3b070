"""An older Placement gets what it can do; what it can't is said clearly."""

from __future__ import annotations

import pytest

from tests.cost.trees import NODE, ROOT, Agent, leaf_uuid, tree_driver
from tests.servers.placement import RealPlacement

OLDEST = "1.30"


@pytest.fixture(params=[OLDEST, "1.36"])
def older(request, tmp_path):
    with RealPlacement(tmp_path / "placement", max_microversion=request.param) as server:
        yield server


def test_a_tree_is_reported_in_the_version_that_the_server_has(older):
    driver = tree_driver(3, aggregate="aaaaaaaa-0000-4000-8000-000000000001")
    agent = Agent(older.url, driver)
    assert agent.period().ok
    requests = older.requests()
    assert [r.status for r in requests if r.status >= 400] == [406], "it is asked once"
    assert {r.microversion for r in requests[1:]} == {older.max_microversion}
    report = agent.period(1000.0)
    assert report.ok
    assert not report.done


def test_a_reshape_works_from_1_30_on(older):
    driver = tree_driver(2)
    agent = Agent(older.url, driver, bulk_chunk=10)
    assert agent.period().ok
    assert [r.status for r in older.requests() if r.path == "/reshaper"] == [204]


def test_moving_a_provider_names_the_version_that_it_needs_and_the_rest_goes_on(older):
    driver = tree_driver(3)
    agent = Agent(older.url, driver)
    assert agent.period().ok
    driver.edit = lambda tree, allocations: tree.move(f"{NODE}_leaf1", f"{NODE}_leaf2")
    driver.inventories[f"{NODE}_leaf2"] = {"VGPU": {"total": 2}}
    report = agent.period(1.0)
    text = " ".join(report.texts())
    assert "1.37" in text
    assert older.max_microversion in text
    view = agent.tracker.view.snapshot.providers
    assert view[leaf_uuid(1)].parent_uuid == ROOT
    assert "VGPU" in view[leaf_uuid(2)].inventory
    assert agent.period(1.0).calls == 0, "it is not tried every period"


def test_a_placement_below_the_minimum_is_refused_with_both_versions(tmp_path):
    with RealPlacement(tmp_path / "placement", max_microversion="1.29") as server:
        report = Agent(server.url, tree_driver(1)).period()
        assert "1.29" in str(report.error)
        assert OLDEST in str(report.error)
        assert len(server.requests()) == 1
