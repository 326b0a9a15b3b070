"""Inventory moves together with the allocations on it, or not at all."""

from drivers.api import ReshapeFailed, ReshapeNeeded
from tests.cost.trees import NODE, ROOT, VERIFY, Agent, leaf_uuid, tree_driver

GPU = f"{NODE}_gpu"


def consumer(any_placement, resources):
    """A guest with these resources on the root."""
    return any_placement.stranger.put_allocation({ROOT: resources})


def holdings(any_placement, who):
    answer = any_placement.request("GET", f"/allocations/{who}")
    return {rp: part["resources"] for rp, part in answer["allocations"].items()}


def totals(any_placement, who):
    found: dict[str, int] = {}
    for resources in holdings(any_placement, who).values():
        for name, amount in resources.items():
            found[name] = found.get(name, 0) + amount
    return found


def agent_with(any_placement, tmp_path, root_inventory, **rules):
    driver = tree_driver(1)
    driver.inventories[NODE] = root_inventory
    agent = Agent(any_placement, driver, tmp_path, **rules)
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


def gives_up(tree, allocations):
    if allocations is None:
        raise ReshapeNeeded
    allocations.clear()
    tree.update_inventory(NODE, {})
    raise ReshapeFailed("guest 1 is on no GPU that is left")


def rebuild_with(driver, edit):
    """The driver's new version: does only what ``edit`` does."""
    driver.update_provider_tree = lambda tree, node, allocations=None: edit(tree, allocations)


def test_a_driver_that_gives_up_ends_the_start_but_not_a_running_agent(any_placement, tmp_path):
    agent, driver = agent_with(
        any_placement, tmp_path, {"VCPU": {"total": 16}}, reshape_when_running=True
    )
    who = consumer(any_placement, {"VCPU": 1})
    before = any_placement.stranger.provider(ROOT), holdings(any_placement, who)

    rebuild_with(driver, gives_up)
    running = agent.period()
    assert "guest 1" in " ".join(running.texts())
    assert not running.fatal
    starting = Agent(any_placement, driver, tmp_path).period()
    assert isinstance(starting.error, ReshapeFailed) and starting.fatal
    assert (any_placement.stranger.provider(ROOT), holdings(any_placement, who)) == before


def test_a_reshape_goes_on_though_an_operator_deleted_a_provider(any_placement, tmp_path):
    root = {"VCPU": {"total": 16}, "VGPU": {"total": 8}}
    driver = tree_driver(2)
    driver.inventories[NODE] = root
    agent = Agent(any_placement, driver, tmp_path, reshape_when_running=True)
    assert agent.period().ok
    who = consumer(any_placement, {"VGPU": 1})
    agent.period(2 * VERIFY)
    any_placement.stranger.delete_provider(leaf_uuid(1))
    rebuild_with(driver, vgpu_to_children)
    agent.period(1.0)
    assert agent.period(1.0).ok
    assert totals(any_placement, who) == {"VGPU": 1} and ROOT not in holdings(any_placement, who)


def test_a_reshape_that_a_driver_can_not_do_reads_the_allocations_once(any_placement, tmp_path):
    agent, driver = agent_with(
        any_placement, tmp_path, {"VCPU": {"total": 16}}, reshape_when_running=True
    )
    consumer(any_placement, {"VCPU": 1})
    agent.period(2 * VERIFY)

    rebuild_with(driver, gives_up)
    assert agent.period(1.0).calls > 0
    again = agent.period(1.0)
    assert again.calls == 0
    assert "guest 1" in " ".join(again.texts()), "the cause is still told"


def test_a_guest_that_comes_in_between_is_moved_too(any_placement, tmp_path):
    """Placement refuses the stale reshape; all is read and asked again."""
    _, driver = agent_with(any_placement, tmp_path, {"VCPU": {"total": 16}, "VGPU": {"total": 8}})
    guests = [consumer(any_placement, {"VCPU": 1, "VGPU": 1})]

    def races(tree, allocations):
        vgpu_to_children(tree, allocations)
        if allocations is not None and len(guests) == 1:
            guests.append(consumer(any_placement, {"VCPU": 1, "VGPU": 1}))

    rebuild_with(driver, races)
    report = Agent(any_placement, driver, tmp_path).period()
    assert report.ok, report.texts()
    assert [totals(any_placement, who) for who in guests] == [{"VCPU": 1, "VGPU": 1}] * 2
    assert all(holdings(any_placement, who)[ROOT] == {"VCPU": 1} for who in guests)
