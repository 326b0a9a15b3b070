"""What guests still use is kept, closed to new ones, named, and goes when it is free."""

from __future__ import annotations

import json

from agent.reporting.reports import Severity
from agent.reporting.status import StatusFile
from tests.cost.trees import NODE, ROOT, VERIFY, Agent, leaf_uuid, tree_driver

LEAF = leaf_uuid(1)


def with_leaf_in_use(any_placement):
    driver = tree_driver(2)
    agent = Agent(any_placement, driver)
    assert agent.period().ok
    guest = any_placement.stranger.put_allocation({LEAF: {"CUSTOM_LEAF": 1}})
    agent.period(2 * VERIFY)
    return agent, driver, guest


def without_leaf(driver):
    driver.edit = lambda tree, allocations: tree.remove(f"{NODE}_leaf1")


def leaf_inventory(any_placement):
    answer = any_placement.request("GET", f"/resource_providers/{LEAF}/inventories")
    return {name: (row["total"], row["reserved"]) for name, row in answer["inventories"].items()}


def leaf_exists(any_placement):
    found = any_placement.request("GET", f"/resource_providers?uuid={LEAF}")
    return bool(found["resource_providers"])


def test_an_unplugged_device_in_use_is_drained_at_once_and_its_guest_is_named(any_placement):
    agent, driver, guest = with_leaf_in_use(any_placement)
    without_leaf(driver)
    report = agent.period(1.0)
    assert leaf_inventory(any_placement) == {"CUSTOM_LEAF": (4, 4)}, "no new guest gets any"
    (text,) = report.texts(Severity.INFO)
    assert text.startswith(f"{NODE}_leaf1: draining: in use by {guest}")
    assert "DELETE" not in text and " 409 " not in text
    assert report.ok, "all is as it should be"


def test_a_device_that_a_guest_has_got_since_the_last_look_is_drained_at_once(any_placement):
    driver = tree_driver(2)
    agent = Agent(any_placement, driver)
    assert agent.period().ok
    guest = any_placement.stranger.put_allocation({LEAF: {"CUSTOM_LEAF": 1}})
    without_leaf(driver)
    report = agent.period(1.0)
    assert leaf_inventory(any_placement) == {"CUSTOM_LEAF": (4, 4)}, "no new guest gets any"
    assert report.error is None, "the conflict was overcome"
    assert guest in " ".join(report.texts())


def test_draining_costs_nothing_between_two_verifications(any_placement):
    agent, driver, _ = with_leaf_in_use(any_placement)
    without_leaf(driver)
    agent.period(1.0)
    report = agent.period(1.0)
    assert report.calls == 0
    assert report.texts(Severity.INFO), "it is still told"


def test_other_changes_go_on_meanwhile(any_placement):
    agent, driver, _ = with_leaf_in_use(any_placement)
    without_leaf(driver)
    agent.period(1.0)
    driver.inventories[NODE] = {"VCPU": {"total": 16}}
    assert agent.period(1.0).calls == 1
    assert agent.tracker.view.snapshot.providers[ROOT].inventory["VCPU"].total == 16


def test_it_goes_when_the_guest_has_gone(any_placement):
    agent, driver, guest = with_leaf_in_use(any_placement)
    without_leaf(driver)
    agent.period(1.0)
    any_placement.stranger.delete_allocation(guest)
    report = agent.period(2 * VERIFY)
    assert report.ok, report.texts()
    assert not leaf_exists(any_placement)


def test_a_device_that_comes_back_is_open_again(any_placement):
    agent, driver, _ = with_leaf_in_use(any_placement)
    without_leaf(driver)
    agent.period(1.0)
    driver.edit = lambda tree, allocations: None
    driver.inventories[f"{NODE}_leaf1"] = {"CUSTOM_LEAF": {"total": 4, "reserved": 0}}
    assert agent.period(1.0).ok
    assert leaf_inventory(any_placement) == {"CUSTOM_LEAF": (4, 0)}


def test_a_class_in_use_is_drained_and_the_others_of_the_provider_are_reported(any_placement):
    agent, driver, guest = with_leaf_in_use(any_placement)
    driver.inventories[f"{NODE}_leaf1"] = {"VGPU": {"total": 2}}
    report = agent.period(1.0)
    assert leaf_inventory(any_placement) == {"CUSTOM_LEAF": (4, 4), "VGPU": (2, 0)}
    assert guest in " ".join(report.texts())
    any_placement.stranger.delete_allocation(guest)
    assert agent.period(2 * VERIFY).ok
    assert leaf_inventory(any_placement) == {"VGPU": (2, 0)}


def test_a_parent_stays_with_its_child_in_use(any_placement):
    agent, driver, _ = with_leaf_in_use(any_placement)

    def nested(tree, allocations):
        if not tree.exists("cage"):
            tree.new_child("cage", NODE)
        tree.move(f"{NODE}_leaf1", "cage")

    driver.edit = nested
    assert agent.period(1.0).ok

    def nothing_left(tree, allocations):
        tree.remove("cage")
        if tree.exists(f"{NODE}_leaf1"):
            tree.remove(f"{NODE}_leaf1")

    driver.edit = nothing_left
    report = agent.period(1.0)
    assert report.texts(Severity.INFO)
    assert leaf_exists(any_placement)
    assert agent.period(1.0).calls == 0


def test_what_drains_is_well_for_a_health_check_and_is_listed(any_placement, tmp_path):
    agent, driver, guest = with_leaf_in_use(any_placement)
    without_leaf(driver)
    report = agent.period(1.0)
    StatusFile(tmp_path, "host1", None, lambda: 7.0)([report])
    (node,) = json.loads((tmp_path / "status.json").read_text())["nodes"]
    (condition,) = node["conditions"]
    assert node["ok"] and node["last_ok"] == 7.0 and condition["severity"] == "info"
    assert guest in condition["text"]


def test_something_else_that_is_wrong_is_told_beside_it(any_placement):
    agent, driver, _ = with_leaf_in_use(any_placement)
    without_leaf(driver)
    driver.inventories[NODE] = {"VCPU": {"total": 16, "reserved": 17}}
    report = agent.period(1.0)
    assert not report.ok and report.texts(Severity.INFO)
    assert all("draining" not in text for text in report.texts(Severity.ERROR))
