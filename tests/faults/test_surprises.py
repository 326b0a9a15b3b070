"""Single troubles that need a test of their own."""

import pytest

from tests.cost.trees import NODE, OWNER, ROOT, VERIFY, Agent, leaf_uuid, tree_driver
from tests.faults.scenario import TIMEOUT, Scene
from tests.servers import fault_proxy as proxies

BETWEEN = {
    "a lost POST": ("POST", r"^/resource_providers$", proxies.lost_reply),
    "a fault between POST and PUT traits": ("PUT", r"/traits$", proxies.reset_before),
}
POOL = "c0ffee00-0000-4000-8000-0000000000aa"
POOL_AGGREGATE = "aaaaaaaa-0000-4000-8000-0000000000aa"


@pytest.mark.parametrize("what", BETWEEN)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_root_half_made_gets_its_owner_trait(placement, proxy, tmp_path, what, restarted):
    agent = Agent(proxy.url, tree_driver(1), tmp_path)
    proxy.harm(*BETWEEN[what])
    assert not agent.period().ok
    agent = Agent(proxy.url, tree_driver(1), tmp_path) if restarted else agent
    assert agent.period().ok
    assert {OWNER, "COMPUTE_NODE"} <= placement.stranger.traits(ROOT)


@pytest.mark.parametrize("what", BETWEEN)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_sharing_root_half_made_is_finished_and_stays_ours(
    placement, proxy, tmp_path, what, restarted
):
    driver = tree_driver(1, aggregate=POOL_AGGREGATE)
    agent = Agent(proxy.url, driver, tmp_path)
    assert agent.period().ok
    total = [100]

    def pool(tree, allocations):
        if not tree.exists("pool"):
            tree.new_root("pool", POOL)
        tree.update_inventory("pool", {"DISK_GB": {"total": total[0]}})
        tree.add_traits("pool", "MISC_SHARES_VIA_AGGREGATE")
        tree.add_aggregates("pool", POOL_AGGREGATE)

    driver.edit = pool
    proxy.harm(*BETWEEN[what])
    assert not agent.period().ok
    if restarted:
        agent = Agent(proxy.url, driver, tmp_path)
    assert agent.period().ok
    total[0] = 200
    report = agent.period(2 * VERIFY)
    assert report.ok, report.texts()
    assert placement.stranger.inventory(POOL)["DISK_GB"]["total"] == 200
    assert OWNER in placement.stranger.traits(POOL)


def test_a_slow_answer_is_waited_for_while_it_keeps_coming(scene: Scene):
    """The time-out is for silence: bytes that come slowly are no silence."""
    agent = scene.agent()
    scene.proxy.harm("PUT", rf"/{ROOT}/inventories$", proxies.dripping(TIMEOUT / 100))
    assert agent.period().ok
    scene.expect_the_wish_and_all_of_the_strangers()


def test_many_classes_that_placement_has_forgotten_come_back(fresh: Scene):
    """It names only the first unknown class at a time."""
    wanted = {f"CUSTOM_C{n}": {"total": 1} for n in range(9)}
    driver = tree_driver(2)
    driver.inventories[f"{NODE}_leaf1"] = wanted
    agent = Agent(fresh.proxy.url, driver, fresh.state)
    assert agent.period().ok
    driver.inventories[f"{NODE}_leaf1"] = {"VGPU": {"total": 1}}
    assert agent.period().ok
    for name in wanted:
        fresh.placement.request("DELETE", f"/resource_classes/{name}")
    driver.inventories[f"{NODE}_leaf1"] = wanted
    agent.period()
    assert agent.period().ok
    assert set(fresh.placement.stranger.inventory(leaf_uuid(1))) == set(wanted)
