"""A reshape at start, VGPU from the root to a child, with everything going wrong around it."""

import uuid as uuidlib

import pytest

from drivers.api import ComputeDriver, DriverContext, ReshapeNeeded
from tests.cost.trees import NODE, ROOT, VERIFY
from tests.faults.scenario import STRANGERS_TRAIT, Scene
from tests.faults.test_every_fault_at_every_call import MOST_CALLS, SILENT, SPOKEN
from tests.servers import fault_proxy as proxies
from tests.servers.fault_proxy import REQUEST_ID

GPU = str(uuidlib.uuid5(uuidlib.UUID(ROOT), "gpu"))
CALLS = {
    "GET holders": ("GET", r"/resource_providers/[^/]*/allocations$"),
    "GET consumer": ("GET", r"^/allocations/"),
    "POST child": ("POST", r"^/resource_providers$"),
    "POST reshaper": ("POST", r"^/reshaper$"),
    "GET after": ("GET", r"\?in_tree="),
}


class Moving(ComputeDriver):
    """VGPU belongs on a child; what is on the root moves there, allocations and all."""

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self.handed: list[bool] = []

    def get_available_nodes(self):
        return [NODE]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        inventory = provider_tree.data(nodename).inventory
        self.handed.append(allocations is not None)
        if "VGPU" in inventory and allocations is None:
            raise ReshapeNeeded
        if not provider_tree.exists("gpu"):
            provider_tree.new_child("gpu", nodename)
        provider_tree.update_inventory("gpu", {"VGPU": {"total": 4, "max_unit": 4}})
        provider_tree.update_inventory(nodename, {"VCPU": {"total": 8, "max_unit": 8}})
        for held in (allocations or {}).values():
            parts = held["allocations"]
            if "VGPU" in parts.get(ROOT, {}).get("resources", {}):
                amount = parts[ROOT]["resources"].pop("VGPU")
                parts[GPU] = {"resources": {"VGPU": amount}}


@pytest.fixture
def scene(fresh: Scene) -> Scene:
    """Two guests with a VGPU each on the root, which nova-compute reported, and one without."""
    stranger = fresh.placement.stranger
    stranger.create_provider(NODE, ROOT)
    stranger.add_trait(ROOT, "COMPUTE_NODE")
    stranger.set_inventory(ROOT, {"VCPU": {"total": 8}, "VGPU": {"total": 4}})
    stranger.add_trait(ROOT, STRANGERS_TRAIT)
    for used in ({"VCPU": 1, "VGPU": 1}, {"VCPU": 1, "VGPU": 2}, {"VCPU": 1}):
        stranger.put_allocation({ROOT: used})
    fresh.driver = Moving(DriverContext(NODE, fresh.state))
    return fresh


def expect_moved(scene: Scene, guests: int = 3) -> None:
    stranger = scene.placement.stranger
    assert list(stranger.inventory(ROOT)) == ["VCPU"]
    assert list(stranger.inventory(GPU)) == ["VGPU"]
    assert STRANGERS_TRAIT in stranger.traits(ROOT)
    assert usages(scene, ROOT) == {"VCPU": guests}
    assert usages(scene, GPU) == {"VGPU": 3}


def usages(scene: Scene, uuid: str) -> dict[str, int]:
    return scene.placement.request("GET", f"/resource_providers/{uuid}/usages")["usages"]


def skipping(count: int, fault):
    """The same, but not to the first ``count``."""
    left = [count]

    def later(exchange):
        left[0] -= 1
        (fault if left[0] < 0 else proxies.passed)(exchange)

    return later


def each(faults, *always):
    """These faults always, the others with ``--faults``."""
    rest = (pytest.param(one, marks=pytest.mark.faults) for one in faults if one not in always)
    return pytest.mark.parametrize("fault", [*always, *rest])


@each(SILENT, "reset before", "lost reply", "done, then time-out", "done, but an HTML page")
def test_no_word_about_a_reshape_is_not_a_failure_known(scene, fault):
    expect_moved_after(scene, "POST reshaper", SILENT[fault])


@pytest.mark.parametrize("call", [call for call in CALLS if call != "POST reshaper"])
@each(["reset before", "lost reply", "502 page", "truncated JSON"], "lost reply")
def test_what_surrounds_a_reshape_may_fail_too(scene, call, fault):
    skipped = 1 if call == "GET after" else 0
    expect_moved_after(scene, call, skipping(skipped, SILENT[fault]), times=skipped + 1)


@each(SPOKEN, "500", "409 concurrent_update", "409 inventory.inuse")
def test_a_refused_reshape_is_done_once_it_is_not_refused_any_more(scene, fault):
    expect_moved_after(scene, "POST reshaper", SPOKEN[fault])


def expect_moved_after(scene, call, fault, times=1):
    agent = scene.agent()
    harm = scene.proxy.harm(*CALLS[call], fault, times=times)
    report = agent.period()
    assert harm.times == 0, "the fault was not met"
    assert report.calls <= MOST_CALLS
    scene.proxy.heal()
    agent.period()
    last = agent.period(2 * VERIFY)
    assert last.ok, last.texts()
    expect_moved(scene)
    assert not agent.period(2 * VERIFY).done


def test_a_guest_that_leaves_while_we_reshape_stays_away(scene):
    consumer = scene.placement.stranger.put_allocation({ROOT: {"VCPU": 1, "VGPU": 1}})

    def guest_leaves(exchange):
        scene.placement.stranger.delete_allocation(consumer)
        proxies.passed(exchange)

    scene.proxy.harm(*CALLS["POST reshaper"], guest_leaves)
    agent = scene.agent()
    agent.period()
    assert agent.period().ok
    expect_moved(scene)
    assert scene.placement.stranger.allocation(consumer)["allocations"] == {}


def test_a_stranger_who_writes_right_after_the_reshape_loses_nothing(scene):
    def writes_after(exchange):
        reply = exchange.forward()
        scene.placement.stranger.add_trait(ROOT, "CUSTOM_JUST_NOW")
        exchange.send(reply)

    scene.proxy.harm(*CALLS["POST reshaper"], writes_after)
    agent = scene.agent()
    agent.period()
    assert agent.period(2 * VERIFY).ok
    expect_moved(scene)
    assert "CUSTOM_JUST_NOW" in scene.placement.stranger.traits(ROOT)


def test_a_conflict_without_anything_that_moved_is_no_storm(scene):
    """Placement says that somebody wrote, and nobody did: tried once more, then it waits."""
    scene.proxy.harm(*CALLS["POST reshaper"], SPOKEN["409 concurrent_update"], times=10**6)
    agent = scene.agent()

    first = agent.period()
    assert first.calls <= 24, "two tries"
    assert REQUEST_ID in "\n".join(map(str, first.texts()))
    agent.period()  # the rest of the plan
    assert agent.period().calls == 0

    scene.proxy.heal()
    assert agent.period(2 * VERIFY).ok
    expect_moved(scene)
