"""Inventory moves together with the allocations on it, or not at all."""

from __future__ import annotations

import pytest

from drivers.api import DriverNotReady, ReshapeFailed, ReshapeNeeded
from tests.cost.trees import NODE, ROOT, VERIFY, Agent, tree_driver
from tests.servers.placement import RealPlacement

GPU = f"{NODE}_gpu"


def consumer(placement, resources):
    """A guest with these resources on the root."""
    return placement.stranger.put_allocation({ROOT: resources})


def holdings(placement, who):
    answer = placement.request("GET", f"/allocations/{who}")
    return {rp: part["resources"] for rp, part in answer["allocations"].items()}


def totals(placement, who):
    found: dict[str, int] = {}
    for resources in holdings(placement, who).values():
        for name, amount in resources.items():
            found[name] = found.get(name, 0) + amount
    return found


@pytest.fixture(autouse=True)
def state(placement, tmp_path):
    """Where each agent of a test keeps its ledger."""
    placement.state = tmp_path


def agent_with(placement, root_inventory, **rules):
    driver = tree_driver(1)
    driver.inventories[NODE] = root_inventory
    agent = Agent(placement.url, driver, placement.state, **rules)
    report = agent.period()
    assert report.ok, report.texts()
    return agent, driver


def vgpu_to_children(tree, allocations):
    """VGPU was on the root; each of two GPUs has a provider of its own now."""
    if not tree.exists(f"{GPU}0") or "VGPU" in tree.data(NODE).inventory:
        if allocations is None:
            raise ReshapeNeeded
        root = tree.data(NODE)
        for number in range(2):
            if not tree.exists(f"{GPU}{number}"):
                tree.new_child(f"{GPU}{number}", NODE)
            tree.update_inventory(f"{GPU}{number}", {"VGPU": {"total": 4, "max_unit": 4}})
        tree.update_inventory(NODE, {"VCPU": {"total": 16}})
        for number, held in enumerate(allocations.values()):
            mine = held["allocations"][root.uuid]["resources"]
            if "VGPU" in mine:
                gpu = tree.data(f"{GPU}{number % 2}").uuid
                held["allocations"][gpu] = {"resources": {"VGPU": mine.pop("VGPU")}}


def rebuild_with(driver, edit):
    """The driver's new version: does only what ``edit`` does."""
    driver.update_provider_tree = lambda tree, node, allocations=None: edit(tree, allocations)


def test_vgpu_moves_from_the_root_to_its_children_with_the_guests_that_use_it(placement):
    _, driver = agent_with(placement, {"VCPU": {"total": 16}, "VGPU": {"total": 8}})
    guests = [consumer(placement, {"VCPU": 1, "VGPU": 1}) for _ in range(3)]
    before = [totals(placement, who) for who in guests]
    rebuild_with(driver, vgpu_to_children)
    again = Agent(placement.url, driver, placement.state)
    report = again.period()
    assert report.ok, report.texts()
    assert [totals(placement, who) for who in guests] == before
    assert all(holdings(placement, who)[ROOT] == {"VCPU": 1} for who in guests)
    assert again.period(2 * VERIFY).done == ()


def test_a_resource_class_is_renamed_under_its_guests(placement):
    _, driver = agent_with(placement, {"CUSTOM_OLD": {"total": 8}})
    who = consumer(placement, {"CUSTOM_OLD": 3})

    def renamed(tree, allocations):
        if "CUSTOM_OLD" in tree.data(NODE).inventory:
            if allocations is None:
                raise ReshapeNeeded
            for held in allocations.values():
                mine = held["allocations"][ROOT]["resources"]
                mine["CUSTOM_NEW"] = mine.pop("CUSTOM_OLD")
        tree.update_inventory(NODE, {"CUSTOM_NEW": {"total": 8}})

    rebuild_with(driver, renamed)
    assert Agent(placement.url, driver, placement.state).period().ok
    assert holdings(placement, who) == {ROOT: {"CUSTOM_NEW": 3}}


def test_pinned_guests_move_from_vcpu_to_pcpu(placement):
    _, driver = agent_with(placement, {"VCPU": {"total": 16, "max_unit": 16}})
    pinned, shared = consumer(placement, {"VCPU": 4}), consumer(placement, {"VCPU": 2})

    def dedicated(tree, allocations):
        if "PCPU" not in tree.data(NODE).inventory:
            if allocations is None:
                raise ReshapeNeeded
            mine = allocations[pinned]["allocations"][ROOT]["resources"]
            mine["PCPU"] = mine.pop("VCPU")
        tree.update_inventory(NODE, {"VCPU": {"total": 8}, "PCPU": {"total": 8}})

    rebuild_with(driver, dedicated)
    assert Agent(placement.url, driver, placement.state).period().ok
    assert holdings(placement, pinned) == {ROOT: {"PCPU": 4}}
    assert holdings(placement, shared) == {ROOT: {"VCPU": 2}}


def test_a_driver_that_loses_allocations_is_stopped_before_anything_is_sent(placement):
    _, driver = agent_with(placement, {"VCPU": {"total": 16}, "VGPU": {"total": 8}})
    who = consumer(placement, {"VCPU": 1, "VGPU": 2})

    def loses(tree, allocations):
        vgpu_to_children(tree, allocations)
        for held in (allocations or {}).values():
            held["allocations"] = {ROOT: {"resources": {"VCPU": 1}}}

    rebuild_with(driver, loses)
    start = placement.mark()
    report = Agent(placement.url, driver, placement.state).period()
    assert isinstance(report.error, ReshapeFailed)
    assert who in str(report.error)
    assert "VGPU 2" in str(report.error)
    assert report.fatal, "at start somebody has to look"
    assert not [request for request in placement.since(start) if request.is_write]
    assert totals(placement, who) == {"VCPU": 1, "VGPU": 2}


def test_a_driver_that_edits_allocations_elsewhere_is_stopped(placement):
    driver = tree_driver(3)
    driver.inventories[NODE] = {"VCPU": {"total": 16}, "VGPU": {"total": 8}}
    assert Agent(placement.url, driver, placement.state).period().ok
    who = consumer(placement, {"VCPU": 1})
    leaf = placement.request("GET", f"/resource_providers?name={NODE}_leaf1")
    leaf_uuid = leaf["resource_providers"][0]["uuid"]

    def misplaces(tree, allocations):
        if allocations is None:
            raise ReshapeNeeded
        tree.update_inventory(NODE, {"VCPU": {"total": 12}})
        allocations[who]["allocations"][leaf_uuid] = {"resources": {"CUSTOM_LEAF": 1}}

    rebuild_with(driver, misplaces)
    report = Agent(placement.url, driver, placement.state).period()
    assert leaf_uuid in str(report.error)
    assert who in str(report.error)


def test_a_driver_that_gives_up_ends_the_start_but_not_a_running_agent(placement):
    agent, driver = agent_with(placement, {"VCPU": {"total": 16}}, reshape_when_running=True)

    def gives_up(tree, allocations):
        if allocations is None:
            raise ReshapeNeeded
        raise ReshapeFailed("guest 1 is on no GPU that is left")

    rebuild_with(driver, gives_up)
    running = agent.period()
    assert "guest 1" in " ".join(running.texts())
    assert not running.fatal
    assert Agent(placement.url, driver, placement.state).period().fatal


def test_amounts_of_different_classes_are_not_exchanged(placement):
    """They add up in sum, and are wrong."""
    inventory = {"VCPU": {"total": 600}, "MEMORY_MB": {"total": 600}}
    _, driver = agent_with(placement, inventory)
    who = consumer(placement, {"VCPU": 2, "MEMORY_MB": 512})

    def exchanged(tree, allocations):
        if allocations is None:
            raise ReshapeNeeded
        tree.update_inventory(NODE, {"VCPU": {"total": 700}, "MEMORY_MB": {"total": 600}})
        mine = allocations[who]["allocations"][ROOT]["resources"]
        mine["VCPU"], mine["MEMORY_MB"] = mine["MEMORY_MB"], mine["VCPU"]

    rebuild_with(driver, exchanged)
    report = Agent(placement.url, driver, placement.state).period()
    assert who in str(report.error)
    assert holdings(placement, who)[ROOT] == {"VCPU": 2, "MEMORY_MB": 512}


def test_a_driver_that_was_not_ready_at_start_may_still_reshape(placement):
    _, driver = agent_with(placement, {"VCPU": {"total": 16}, "VGPU": {"total": 8}})
    who = consumer(placement, {"VCPU": 1, "VGPU": 1})
    ready = []

    def late(tree, allocations):
        if not ready:
            raise DriverNotReady("the hypervisor is still starting")
        vgpu_to_children(tree, allocations)

    rebuild_with(driver, late)
    agent = Agent(placement.url, driver, placement.state)
    assert not agent.period().ok
    ready.append(True)
    report = agent.period()
    assert report.ok, report.texts()
    assert holdings(placement, who)[ROOT] == {"VCPU": 1}


def test_a_reshape_that_a_driver_can_not_do_reads_the_allocations_once(placement):
    agent, driver = agent_with(placement, {"VCPU": {"total": 16}}, reshape_when_running=True)
    consumer(placement, {"VCPU": 1})
    agent.period(2 * VERIFY)

    def gives_up(tree, allocations):
        if allocations is None:
            raise ReshapeNeeded
        raise ReshapeFailed("guest 1 is on no GPU that is left")

    rebuild_with(driver, gives_up)
    assert agent.period(1.0).calls > 0
    again = agent.period(1.0)
    assert again.calls == 0
    assert "guest 1" in " ".join(again.texts()), "the cause is still told"


def test_while_running_a_reshape_waits_and_says_so(placement):
    agent, driver = agent_with(placement, {"VCPU": {"total": 16}, "VGPU": {"total": 8}})
    who = consumer(placement, {"VCPU": 1, "VGPU": 1})
    rebuild_with(driver, vgpu_to_children)
    start = placement.mark()
    report = agent.period(1.0)
    assert report.reshape_pending == ("tree",)
    assert not report.ok
    assert not any("allocations" in request.path for request in placement.since(start))
    assert holdings(placement, who)[ROOT] == {"VCPU": 1, "VGPU": 1}


def test_while_running_a_reshape_is_done_where_the_operator_allows_it(placement):
    agent, driver = agent_with(
        placement, {"VCPU": {"total": 16}, "VGPU": {"total": 8}}, reshape_when_running=True
    )
    who = consumer(placement, {"VCPU": 1, "VGPU": 1})
    rebuild_with(driver, vgpu_to_children)
    report = agent.period(1.0)
    assert report.ok, report.texts()
    assert holdings(placement, who)[ROOT] == {"VCPU": 1}


def test_a_guest_that_comes_in_between_is_moved_too(placement):
    """Placement refuses the stale reshape; all is read and asked again."""
    _, driver = agent_with(placement, {"VCPU": {"total": 16}, "VGPU": {"total": 8}})
    guests = [consumer(placement, {"VCPU": 1, "VGPU": 1})]

    def races(tree, allocations):
        vgpu_to_children(tree, allocations)
        if allocations is not None and len(guests) == 1:
            guests.append(consumer(placement, {"VCPU": 1, "VGPU": 1}))

    rebuild_with(driver, races)
    report = Agent(placement.url, driver, placement.state).period()
    assert report.ok, report.texts()
    assert [totals(placement, who) for who in guests] == [{"VCPU": 1, "VGPU": 1}] * 2
    assert all(holdings(placement, who)[ROOT] == {"VCPU": 1} for who in guests)


def test_without_the_role_a_reshape_changes_nothing_and_explains_itself(tmp_path):
    with RealPlacement(tmp_path / "placement", reshaper_for_admin=False) as placement:
        placement.state = tmp_path / "state"
        _, driver = agent_with(placement, {"VCPU": {"total": 16}, "VGPU": {"total": 8}})
        who = consumer(placement, {"VCPU": 1, "VGPU": 1})
        rebuild_with(driver, vgpu_to_children)
        report = Agent(placement.url, driver, placement.state).period()
        text = " ".join(report.texts())
        assert "403" in text
        assert "service" in text, "the role that is missing"
        assert holdings(placement, who)[ROOT] == {"VCPU": 1, "VGPU": 1}


@pytest.mark.parametrize("bulk_chunk", [2, 50])
def test_bulk_writes_fall_back_to_single_ones_where_the_role_is_missing(tmp_path, bulk_chunk):
    with RealPlacement(tmp_path / "placement", reshaper_for_admin=False) as placement:
        placement.state = tmp_path / "state"
        driver = tree_driver(5)
        agent = Agent(placement.url, driver, placement.state, bulk_chunk=bulk_chunk)
        assert agent.period().ok
        first = [r for r in placement.requests() if r.path == "/reshaper"]
        assert [r.status for r in first] == [403]
        for number in range(1, 5):
            driver.inventories[f"{NODE}_leaf{number}"] = {"VGPU": {"total": 2}}
        start = placement.mark()
        assert agent.period(1.0).ok
        assert not [r for r in placement.since(start) if r.path == "/reshaper"], "remembered"


def test_a_reshape_that_takes_away_what_is_in_use_is_refused_and_says_so(placement):
    old = {"VCPU": {"total": 16}, "VGPU": {"total": 8}, "CUSTOM_OLD": {"total": 1}}
    _, driver = agent_with(placement, old)
    who = consumer(placement, {"VGPU": 1, "CUSTOM_OLD": 1})
    rebuild_with(driver, vgpu_to_children)
    report = Agent(placement.url, driver, placement.state).period()
    assert "nothing was moved" in str(report.texts()), report.texts()
    assert holdings(placement, who)[ROOT] == {"VGPU": 1, "CUSTOM_OLD": 1}
