"""An older Placement, or one without the reshaper, gets what it can do; what it can't is said clearly."""

import pytest

from reportclient.candidates import read_request
from reportclient.candidates.asking import allocation_candidates
from reportclient.errors import PlacementError, TooOld
from reportclient.http import PlacementAPI, token_adapter
from tests.contract.test_reshape import (
    agent_with,
    consumer,
    holdings,
    rebuild_with,
    vgpu_to_children,
)
from tests.cost.trees import NODE, ROOT, Agent, leaf_uuid, tree_driver
from tests.servers.placement import RealPlacement
from tests.spec.models import FPGAS, PHYSNETS, build, names, with_twins

OLDEST = "1.30"
MODEL = with_twins({**PHYSNETS, **FPGAS})
NAMES = names(MODEL)
PORTS = "resources=VCPU:1&resources_PORT=NET_BW_EGR_KILOBIT_PER_SEC:10"
ANY = f"{PORTS}&required_PORT=in:CUSTOM_PHYSNET_A,CUSTOM_PHYSNET_C"


@pytest.fixture(params=[OLDEST, pytest.param("1.36", marks=pytest.mark.faults)])
def older(request, tmp_path):
    with RealPlacement(tmp_path / "placement", max_microversion=request.param) as server:
        yield server


def test_a_tree_is_reported_in_a_version_that_the_server_has(older):
    driver = tree_driver(3, aggregate="aaaaaaaa-0000-4000-8000-000000000001")
    agent = Agent(older.url, driver)
    assert agent.period().ok
    requests = older.requests()
    assert [r.status for r in requests if r.status >= 400] == []
    assert {r.microversion for r in requests} == {OLDEST}
    report = agent.period(1000.0)
    assert report.ok
    assert not report.done


def test_a_reshape_moves_guests_from_1_30_on(older, tmp_path):
    inventory = {"VCPU": {"total": 16}, "VGPU": {"total": 8}}
    _, driver = agent_with(older, tmp_path / "state", inventory)
    who = consumer(older, {"VCPU": 1, "VGPU": 2})
    rebuild_with(driver, vgpu_to_children)
    assert Agent(older, driver, tmp_path / "state").period().ok
    held = holdings(older, who)
    assert held.pop(ROOT) == {"VCPU": 1}
    assert list(held.values()) == [{"VGPU": 2}]


def test_a_move_that_needs_a_later_version_names_it_and_the_rest_goes_on(older):
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


def test_a_placement_below_the_minimum_gets_no_report_and_no_query(tmp_path):
    with RealPlacement(tmp_path / "placement", max_microversion="1.29") as server:
        report = Agent(server.url, tree_driver(1)).period()
        assert "1.29" in str(report.error)
        assert OLDEST in str(report.error)
        assert len(server.requests()) == 1
        old = PlacementAPI(token_adapter(server.url, "admin"))
        with pytest.raises(TooOld, match=r"needs microversion 1\.35; Placement has 1\.29$"):
            allocation_candidates(read_request("resources=VCPU:1"), old)


# -- a policy that does not let the agent use the reshaper


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


def test_bulk_writes_fall_back_to_single_ones_where_the_role_is_missing(tmp_path):
    with RealPlacement(tmp_path / "placement", reshaper_for_admin=False) as placement:
        driver = tree_driver(5)
        agent = Agent(placement, driver, tmp_path / "state", bulk_chunk=2)
        assert agent.period().ok
        first = [r for r in placement.requests() if r.path == "/reshaper"]
        assert [r.status for r in first] == [403]
        for number in range(1, 5):
            driver.inventories[f"{NODE}_leaf{number}"] = {"VGPU": {"total": 2}}
        start = placement.mark()
        assert agent.period(1.0).ok
        assert not [r for r in placement.since(start) if r.path == "/reshaper"], "remembered"


# -- queries


@pytest.fixture(scope="module", params=["1.30", "1.36"])
def filled(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("older")
    with RealPlacement(directory, max_microversion=request.param) as server:
        build(server, MODEL)
        yield server


@pytest.fixture
def api(filled: RealPlacement) -> PlacementAPI:
    return PlacementAPI(token_adapter(filled.url, "admin"))


def test_candidates_need_1_35_and_take_the_newest_that_there_is(api: PlacementAPI, filled) -> None:
    request = read_request("resources1=VCPU:1")
    if filled.max_microversion == "1.30":
        with pytest.raises(TooOld, match=r"needs microversion 1\.35; Placement has 1\.30$"):
            allocation_candidates(request, api)
        return
    mark = filled.mark()
    [one] = allocation_candidates(request, api).allocation_requests[:1]
    assert set(one.mappings) == {"1"}
    assert [each.status for each in filled.since(mark)] == [406, 200]


def test_alternatives_that_it_does_not_have_are_refused_in_its_words(
    api: PlacementAPI, filled
) -> None:
    refused = TooOld if filled.max_microversion == "1.30" else PlacementError
    with pytest.raises(refused, match=r"1\.35|in:CUSTOM_PHYSNET_A"):
        allocation_candidates(read_request(ANY), api)
