"""What guests still use is kept, closed to new ones, named, and goes when it is free."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.reporting.condition import Severity
from reportclient.client import Client, Result
from reportclient.errors import InUse, NotFound, ServerFault, Unreachable
from reportclient.provider_tree import ProviderTree
from reportclient.saved_view import FileStore
from tests.contract.world import CHILD, GRANDCHILD, Listings, World, kinds
from tests.contract.world import ROOT as OWN_ROOT
from tests.cost.trees import NODE, ROOT, VERIFY, Agent, leaf_uuid, tree_driver

LEAF = leaf_uuid(1)


def with_leaf_in_use(any_placement, **rules):
    driver = tree_driver(2)
    agent = Agent(any_placement, driver, **rules)
    assert agent.period().ok
    guest = any_placement.stranger.put_allocation({LEAF: {"CUSTOM_LEAF": 1}})
    agent.period(2 * VERIFY)
    return agent, driver, guest


def without_leaf(driver):
    driver.edit = lambda tree, allocations: tree.remove(f"{NODE}_leaf1")


def draining_leaf(any_placement, **rules):
    """The same tree, once the driver has left it out."""
    agent, driver, guest = with_leaf_in_use(any_placement, **rules)
    without_leaf(driver)
    agent.period(1.0)
    return agent, driver, guest


def leaf_inventory(any_placement):
    answer = any_placement.request("GET", f"/resource_providers/{LEAF}/inventories")
    return {name: (row["total"], row["reserved"]) for name, row in answer["inventories"].items()}


def leaf_exists(any_placement):
    found = any_placement.request("GET", f"/resource_providers?uuid={LEAF}")
    return bool(found["resource_providers"])


def test_an_unplugged_device_in_use_is_drained_at_once_and_its_guest_named(any_placement):
    agent, driver, guest = with_leaf_in_use(any_placement)
    without_leaf(driver)
    report = agent.period(1.0)
    assert leaf_inventory(any_placement) == {"CUSTOM_LEAF": (4, 4)}, "no new guest gets any"
    (text,) = report.texts(Severity.INFO)
    assert text.startswith(f"{NODE}_leaf1: draining: it is in use by {guest}")
    assert "DELETE" not in text and " 409 " not in text
    assert report.ok, "all is as it should be"


def test_since_when_it_drains_is_known_after_a_restart_and_a_lost_view(any_placement, tmp_path):
    agent, driver, _ = with_leaf_in_use(any_placement, state=tmp_path)
    without_leaf(driver)
    agent.tracker.root.wall_clock = lambda: 1000.0
    agent.period(1.0)
    agent.restart()
    for stale in (False, True):
        if stale:  # all is read again
            agent.tracker.root.view = replace(agent.tracker.view, generations={ROOT: 10**6})
        report = agent.period()
        (condition,) = report.conditions
        assert condition.since == 1000.0
        assert f"allocation unset --provider {LEAF}" in condition.next_step
    driver.edit = lambda tree, allocations: None
    agent.settle()
    assert agent.tracker.view.drained_since == {}


def test_a_device_allocated_since_the_last_read_is_drained_at_once(any_placement):
    driver = tree_driver(2)
    agent = Agent(any_placement, driver)
    assert agent.period().ok
    guest = any_placement.stranger.put_allocation({LEAF: {"CUSTOM_LEAF": 1}})
    without_leaf(driver)
    report = agent.period(1.0)
    assert leaf_inventory(any_placement) == {"CUSTOM_LEAF": (4, 4)}, "no new guest gets any"
    assert report.error is None, "the conflict was overcome"
    assert guest in " ".join(report.texts())


class Killed(BaseException):
    """The end of the process."""


@pytest.mark.parametrize("lost", [Unreachable("504"), ServerFault("500"), Killed()], ids=repr)
def test_a_device_whose_drain_got_no_answer_is_open_when_it_is_back(
    world: World, tmp_path: Path, lost: BaseException
) -> None:
    driver = tree_driver(2)
    agent = Agent(world.api, driver, state=tmp_path).settle()
    guest = world.stranger.put_allocation({LEAF: {"CUSTOM_LEAF": 1}})
    without_leaf(driver)
    world.api.fail_next("PUT", f"{LEAF}/inventories$", lost, after=True)
    with suppress(Killed):
        agent.period(2 * VERIFY)
    assert leaf_inventory(world.api) == {"CUSTOM_LEAF": (4, 4)}
    agent.restart().period()
    driver.edit = lambda tree, allocations: None
    world.stranger.delete_allocation(guest)
    agent.settle()
    assert leaf_inventory(world.api) == {"CUSTOM_LEAF": (4, 0)}


def of_an_older_state(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item | {"generation": 1} for item in listed]


def without_the_leaf(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in listed if item["uuid"] != LEAF]


def of_nothing(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return []


@pytest.mark.parametrize("edit", [of_an_older_state, without_the_leaf, of_nothing])
def test_what_drains_is_known_after_a_wrong_listing(world: World, edit) -> None:
    listings, driver = Listings(world.api), tree_driver(2)
    agent = Agent(listings, driver).settle()
    guest = world.stranger.put_allocation({LEAF: {"CUSTOM_LEAF": 1}})
    without_leaf(driver)
    for listings.edit in (None, edit, None):
        agent.period(2 * VERIFY)
    assert leaf_inventory(world.api) == {"CUSTOM_LEAF": (4, 4)}
    driver.edit = lambda tree, allocations: None
    world.stranger.delete_allocation(guest)
    agent.settle()
    assert leaf_inventory(world.api) == {"CUSTOM_LEAF": (4, 0)}


def test_draining_costs_no_call_between_verifications_and_delays_nothing(any_placement):
    agent, driver, _ = draining_leaf(any_placement)
    report = agent.period(1.0)
    assert report.calls == 0
    assert report.texts(Severity.INFO), "it is still told"
    driver.inventories[NODE] = {"VCPU": {"total": 16}}
    assert agent.period(1.0).calls == 1


def test_a_freed_device_goes_within_minutes_of_a_look_at_its_consumers(any_placement):
    """Long before the next verification; each look is one call, at doubled gaps."""
    agent, driver, guest = draining_leaf(any_placement, verify_every=1e6)
    gap = agent.rules.period
    looked = [agent.period(gap).calls for _ in range(7)]
    assert looked == [1, 0, 1, 0, 0, 0, 1]
    any_placement.stranger.delete_allocation(guest)
    calls = [agent.period(gap).calls for _ in range(8)]
    assert calls == [0] * 7 + [3], "a look at them, one at its generation, and the removal"
    assert not leaf_exists(any_placement)


def test_what_an_operator_deletes_while_it_drains_delays_no_other_write(any_placement):
    agent, driver, guest = draining_leaf(any_placement, verify_every=1e6)
    any_placement.stranger.delete_allocation(guest)
    any_placement.stranger.delete_provider(LEAF)
    driver.inventories[NODE] = {"VCPU": {"total": 7}}
    assert agent.period(agent.rules.period).ok
    assert any_placement.stranger.inventory(ROOT)["VCPU"]["total"] == 7


def test_a_freed_class_goes_though_other_classes_of_the_device_are_in_use(any_placement):
    agent, driver, guest = with_leaf_in_use(any_placement)
    both = {"CUSTOM_LEAF": {"total": 4}, "VGPU": {"total": 2}}
    driver.inventories[f"{NODE}_leaf1"] = both
    agent.period(1.0)
    any_placement.stranger.put_allocation({LEAF: {"VGPU": 1}})
    driver.inventories[f"{NODE}_leaf1"] = {"VGPU": both["VGPU"]}
    agent.period(1.0)
    agent.period(1.0)
    any_placement.stranger.delete_allocation(guest)
    agent.period(agent.rules.period)
    assert leaf_inventory(any_placement) == {"VGPU": (2, 0)}


def test_a_device_that_its_driver_mentions_no_more_goes_on_draining(any_placement):
    agent, driver, guest = draining_leaf(any_placement)
    driver.edit, driver.size = (lambda tree, allocations: None), 1
    agent.period(1.0)
    assert agent.period(1.0).calls == 0
    assert leaf_inventory(any_placement) == {"CUSTOM_LEAF": (4, 4)}
    any_placement.stranger.delete_allocation(guest)
    assert agent.period(2 * VERIFY).ok
    with pytest.raises(NotFound):
        leaf_inventory(any_placement)


def test_something_else_that_is_wrong_is_told_beside_it(any_placement):
    agent, driver, _ = with_leaf_in_use(any_placement)
    without_leaf(driver)
    driver.inventories[NODE] = {"VCPU": {"total": 16, "reserved": 17}}
    report = agent.period(1.0)
    assert not report.ok and report.texts(Severity.INFO)
    assert all("draining" not in text for text in report.texts(Severity.ERROR))


# -- the library

LINK = "CUSTOM_LINK"


@pytest.fixture
def guest(nova: World) -> str:
    """A consumer of the port, one of two links."""
    return nova.stranger.put_allocation({GRANDCHILD: {LINK: 1}})


def without_port(client: Client) -> Result:
    tree = client.tree(OWN_ROOT)
    tree.remove(GRANDCHILD)
    return client.update(tree)


def with_port(client: Client) -> Result:
    """As the example of the library's page reports a device."""
    tree = client.tree(OWN_ROOT)
    if not tree.exists("port"):
        tree.new_child("port", CHILD, GRANDCHILD)
    tree.update_inventory("port", {LINK: {"total": 2}})
    return client.update(tree)


def unmentioned(client: Client) -> Result:
    return client.update(client.tree(OWN_ROOT))


def links(nova: World) -> tuple[int, int] | None:
    """The total of the port's links, and how many are reserved; ``None`` without a port."""
    port = nova.truth().get(GRANDCHILD)
    record = None if port is None else port.inventory.get(LINK)
    return None if record is None else (record.total, record.reserved)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("conflicts", [False, True])
def test_a_device_that_is_listed_again_is_open_again(
    nova: World, guest: str, tmp_path: Path, restarted: bool, conflicts: bool
) -> None:
    client = Client(nova.api, store=FileStore(tmp_path))
    result = without_port(client)
    assert result.ok and not result.failed and isinstance(result.waiting[GRANDCHILD], InUse)
    assert result.draining == {GRANDCHILD} and links(nova) == (2, 2)
    if restarted:
        client = Client(nova.api, store=FileStore(tmp_path))
    if conflicts:
        tree = client.tree(OWN_ROOT)
        nova.stranger.add_trait(GRANDCHILD, "HW_CPU_X86_AVX")
        tree.update_inventory("port", {LINK: {"total": 2}})
        result = client.update(tree)
    else:
        result = with_port(client)
    assert result.ok and links(nova) == (2, 0)
    assert not result.draining and not with_port(client).done


def test_without_a_store_a_restarted_client_leaves_reserved_as_it_is(
    nova: World, guest: str
) -> None:
    without_port(Client(nova.api))
    client = Client(nova.api)
    assert with_port(client).ok and links(nova) == (2, 2)
    tree = client.tree(OWN_ROOT)
    tree.update_inventory("port", {LINK: {"total": 2, "reserved": 0}})
    assert client.update(tree).ok and links(nova) == (2, 0)


def test_who_edits_sees_a_draining_device_as_it_was(nova: World, guest: str) -> None:
    nova.stranger.set_inventory(GRANDCHILD, {LINK: {"total": 2, "reserved": 1}})
    client = Client(nova.api)
    without_port(client)
    assert links(nova) == (2, 2)
    assert client.tree(OWN_ROOT).records(GRANDCHILD)[LINK].reserved == 1
    assert client.tree(OWN_ROOT).freeze() is not None
    assert unmentioned(client).calls == 1 and links(nova) == (2, 2), "a look at its consumers"
    with_port(client)
    assert links(nova) == (2, 1)


def test_a_removed_device_goes_with_the_first_update_after_its_consumer(
    nova: World, guest: str
) -> None:
    client = Client(nova.api, strict=True)
    assert "in use by" in str(without_port(client).waiting[GRANDCHILD])
    result = unmentioned(client)
    assert result.ok and result.draining == {GRANDCHILD} and result.calls == 1
    assert "still draining" in str(result.waiting[GRANDCHILD])
    nova.stranger.delete_allocation(guest)

    def other_change(tree: ProviderTree) -> None:
        tree.add_traits(OWN_ROOT, "HW_CPU_X86_AVX")

    assert client.edit(OWN_ROOT, other_change).ok
    assert GRANDCHILD not in nova.truth() and unmentioned(client).calls == 0


def test_a_removed_device_that_an_operator_deletes_fails_no_update(nova: World, guest: str) -> None:
    client = Client(nova.api)
    without_port(client)
    nova.stranger.delete_allocation(guest)
    nova.stranger.delete_provider(GRANDCHILD)
    assert client.edit(OWN_ROOT, lambda tree: tree.add_traits(OWN_ROOT, "HW_CPU_X86_AVX")).ok
    assert "HW_CPU_X86_AVX" in nova.truth().get(OWN_ROOT).traits


def test_a_removed_class_goes_with_the_first_update_after_its_consumer(
    nova: World, guest: str, tmp_path: Path
) -> None:
    """Also after a restart, with a store."""
    client = Client(nova.api, store=FileStore(tmp_path))
    for names in ((LINK, "VGPU"), ("VGPU",)):
        tree = client.tree(OWN_ROOT)
        tree.update_inventory(GRANDCHILD, {name: {"total": 2} for name in names})
        result = client.update(tree)
    assert isinstance(result.waiting[GRANDCHILD], InUse)
    assert nova.truth().get(GRANDCHILD).inventory.keys() == {LINK, "VGPU"}
    nova.stranger.put_allocation({GRANDCHILD: {"VGPU": 1}})
    nova.stranger.delete_allocation(guest)
    assert unmentioned(Client(nova.api, store=FileStore(tmp_path))).ok
    assert nova.truth().get(GRANDCHILD).inventory.keys() == {"VGPU"}


def test_a_device_with_a_new_consumer_after_the_read_goes_on_draining(
    nova: World, guest: str
) -> None:
    client = Client(nova.api)
    without_port(client)
    nova.stranger.delete_allocation(guest)
    path = f"/resource_providers/{GRANDCHILD}/allocations"
    answer = nova.stranger.send("GET", path)
    assert not answer["allocations"]
    with_port(client)
    nova.stranger.put_allocation({GRANDCHILD: {LINK: 1}})
    assert without_port(client).draining == {GRANDCHILD} and links(nova) == (2, 2)


def test_a_refused_removal_is_sent_again_when_the_caller_asks_again(
    nova: World, guest: str
) -> None:
    client = Client(nova.api)
    assert without_port(client).waiting
    nova.stranger.delete_allocation(guest)
    client.stale(OWN_ROOT)
    tree = client.tree(OWN_ROOT)
    tree.remove(GRANDCHILD)
    assert "DELETE" in " ".join(kinds(nova.calls_of(lambda: client.update(tree))))
    assert GRANDCHILD not in nova.truth()


def test_another_clients_decision_over_reserved_ends_draining(nova: World, guest: str) -> None:
    client = Client(nova.api)
    without_port(client)
    nova.stranger.set_inventory(GRANDCHILD, {LINK: {"total": 2, "reserved": 1}})
    client.stale(OWN_ROOT)
    tree = client.tree(OWN_ROOT)
    tree.new_child("other", OWN_ROOT)
    tree.update_inventory("port", {LINK: {"total": 2}})
    assert client.update(tree).ok and links(nova) == (2, 1)
