"""The driver method as specified: what it is shown, what it may do, what comes of it."""

from typing import Any

import pytest

from reportclient.provider_tree import ProviderTree
from tests.agents import OWNER, ROOT, Agent, Small
from tests.servers.placement import RealPlacement
from tests.spec.picture import AGG, OF_CN1, SHARES, STRANGERS, build, providers, state, uuid_of


def says_nothing(tree: ProviderTree, nodename: str, allocations: Any = None) -> None:
    """A driver that only looks."""


@pytest.fixture
def picture(placement: RealPlacement) -> RealPlacement:
    build(placement)
    return placement


def agent_of_cn1(placement: RealPlacement, body: Any = says_nothing) -> tuple[Agent, Small]:
    driver = Small(body, nodes=["CN1"])
    return Agent(placement, driver), driver


# -- the tree that is handed over


def test_cn1_is_shown_its_tree_and_two_sharing_providers_as_lone_roots(
    picture: RealPlacement,
) -> None:
    agent, driver = agent_of_cn1(picture)
    assert agent.period().ok
    (shown,) = driver.shown
    by_name = {data.name: data for data in shown.values()}
    assert set(by_name) == OF_CN1 | {"SSP", "BW1"}
    parents = providers()
    for name, data in by_name.items():
        assert data.uuid == uuid_of(name)
        expected = parents[name] if name in OF_CN1 else None
        assert data.parent_uuid == (uuid_of(expected) if expected else None), name
    lone = {name for name, data in by_name.items() if data.parent_uuid is None}
    assert lone == {"CN1", "SSP", "BW1"}


def test_what_it_is_shown_is_what_placement_knows_of_them(picture: RealPlacement) -> None:
    agent, driver = agent_of_cn1(picture)
    agent.period()
    for data in driver.shown[0].values():
        assert data.inventory == picture.stranger.inventory(data.uuid)
        assert data.aggregates == picture.stranger.aggregates(data.uuid)
    shared = {name: driver.shown[0][uuid_of(name)] for name in ("SSP", "BW1")}
    assert all(data.traits == {SHARES} for data in shared.values())
    assert shared["SSP"].aggregates == {AGG[1]} and shared["BW1"].aggregates == {AGG[2]}


def test_has_sharing_provider_answers_for_what_cn1_can_use(picture: RealPlacement) -> None:
    answers = {}

    def asking(tree, nodename, allocations=None):
        for name in ("DISK_GB", "NET_BW_EGR_KILOBIT_PER_SEC", "VCPU"):
            answers[name] = tree.has_sharing_provider(name)

    agent_of_cn1(picture, asking)[0].period()
    assert answers == {"DISK_GB": True, "NET_BW_EGR_KILOBIT_PER_SEC": True, "VCPU": False}


def test_sharing_goes_one_hop_only(picture: RealPlacement) -> None:
    """What shares with a sharing provider, but not with us, is none of ours."""
    stranger = picture.stranger
    stranger.set_aggregates(uuid_of("SSP"), [AGG[1], AGG[3]])
    agent, driver = agent_of_cn1(picture)
    agent.period()
    assert uuid_of("SSP") in driver.shown[0] and uuid_of("BW2") not in driver.shown[0]


def test_a_sharing_provider_comes_and_goes_with_its_aggregate(picture: RealPlacement) -> None:
    agent, driver = agent_of_cn1(picture)
    agent.period()
    picture.stranger.set_aggregates(uuid_of("CN1_PF1"), [AGG[3]])
    picture.stranger.set_aggregates(uuid_of("CN1_PF4"), [])
    agent.period()
    names = {data.name for data in driver.shown[-1].values()}
    assert names == OF_CN1 | {"SSP", "BW2"}


def test_nothing_of_anybody_elses_changes_while_cn1_reports(picture: RealPlacement) -> None:
    before = state(picture, STRANGERS)

    def busy(tree, nodename, allocations=None):
        amount = len(driver.shown)
        for uuid in tree.get_provider_uuids_in_tree(nodename):
            tree.update_inventory(uuid, {"CUSTOM_THING": {"total": amount}})
            tree.add_traits(uuid, f"CUSTOM_T{amount}")
            tree.remove_traits(uuid, f"CUSTOM_T{amount - 1}")
        tree.new_child(f"CN1_NEW{amount}", nodename)
        if tree.exists(f"CN1_NEW{amount - 1}"):
            tree.remove(f"CN1_NEW{amount - 1}")

    agent, driver = agent_of_cn1(picture, busy)
    for _ in range(4):
        assert agent.period().ok
    assert state(picture, STRANGERS) == before
    of_cn2 = Small(says_nothing, nodes=["CN2"])
    agent_of_cn2 = Agent(picture, of_cn2)
    agent_of_cn2.nodes.compute_id = uuid_of("CN2")
    before = state(picture, OF_CN1)
    assert agent_of_cn2.period().ok
    assert state(picture, OF_CN1) == before
    shown = {data.name.partition("_NEW")[0] for data in of_cn2.shown[0].values()}
    assert shown == {name.replace("CN1", "CN2") for name in OF_CN1} | {"SSP", "BW2"}


def test_the_tree_is_fully_owned_by_the_driver(picture: RealPlacement) -> None:
    """It may take it apart; what is not its own to change stays as it is in Placement."""
    before = state(picture, STRANGERS)

    def ruthless(tree, nodename, allocations=None):
        for name in ("SSP", "BW1"):
            tree.remove(name)

    agent, driver = agent_of_cn1(picture, ruthless)
    for _ in range(2):
        report = agent.period()
        assert {problem.provider for problem in report.plan.problems} == {"SSP", "BW1"}
    assert state(picture, STRANGERS) == before
    assert uuid_of("SSP") in driver.shown[-1], "it is shown again"


# -- porting


def test_porting_from_get_inventory(placement: RealPlacement) -> None:
    def update_provider_tree(provider_tree, nodename, allocations=None):
        inv_data = {
            "VCPU": {"total": 8, "max_unit": 8, "allocation_ratio": 16.0, "reserved": 1},
            "MEMORY_MB": {"total": 16384, "max_unit": 16384, "reserved": 512},
            "DISK_GB": {"total": 200, "max_unit": 200, "step_size": 5},
        }
        provider_tree.update_inventory(nodename, inv_data)

    assert Agent(placement, Small(update_provider_tree)).period().ok
    found = placement.stranger.inventory(ROOT)
    defaults = {"reserved": 0, "min_unit": 1, "step_size": 1, "allocation_ratio": 1.0}
    assert found == {
        "VCPU": {**defaults, "total": 8, "max_unit": 8, "allocation_ratio": 16.0, "reserved": 1},
        "MEMORY_MB": {**defaults, "total": 16384, "max_unit": 16384, "reserved": 512},
        "DISK_GB": {**defaults, "total": 200, "max_unit": 200, "step_size": 5},
    }


def test_porting_from_get_traits(placement: RealPlacement) -> None:
    def update_provider_tree(provider_tree, nodename, allocations=None):
        provider_tree.add_traits(nodename, "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "CUSTOM_GOLD")

    assert Agent(placement, Small(update_provider_tree)).period().ok
    assert placement.stranger.traits(ROOT) == {
        "HW_CPU_X86_AVX",
        "HW_CPU_X86_AVX2",
        "CUSTOM_GOLD",
        "COMPUTE_NODE",
        OWNER,
    }


# -- the methods that the specification names


def test_the_methods_that_may_be_useful_are_useful(placement: RealPlacement) -> None:
    shared = "eeeeeeee-0000-4000-8000-000000000001"

    def useful(tree, nodename, allocations=None):
        if not tree.exists("share"):
            tree.new_root("share", shared)
        tree.add_traits("share", SHARES)
        tree.add_aggregates("share", AGG[1])
        tree.update_inventory("share", {"DISK_GB": {"total": 100}})
        for name in ("numa0", "numa1"):
            if not tree.exists(name):
                tree.new_child(name, nodename)
            tree.add_aggregates(name, AGG[1])
        assert tree.data("numa0").parent_uuid == tree.data(nodename).uuid
        if len(driver.shown) > 1 and tree.exists("numa1"):
            tree.remove("numa1")

    driver = Small(useful)
    agent = Agent(placement, driver)
    assert agent.period().ok
    listed = placement.providers()
    assert {item["name"] for item in listed} == {"host1", "share", "numa0", "numa1"}
    assert agent.period().ok
    listed = placement.providers()
    assert {item["name"] for item in listed} == {"host1", "share", "numa0"}
    assert placement.stranger.aggregates(shared) == {AGG[1]}
    assert driver.shown[-1][shared].parent_uuid is None
