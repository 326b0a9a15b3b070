"""Periods in which something is wrong: what is kept, what goes on, and what is told once."""

import pytest

from drivers.api import DriverNotReady, ReshapeNeeded
from drivers.loader import LoadedDriver
from reportclient import errors
from tests import agents
from tests.agents import NODE, ROOT, Small, inventory

CELL = "cccccccc-0000-4000-8000-000000000001"
OTHER = "aaaaaaaa-0000-4000-8000-00000000000b"


def tree_of(count):
    def body(tree):
        tree.update_inventory(NODE, {"VCPU": {"total": 8}})
        for number in range(count):
            name = f"{NODE}_{number}"
            if not tree.exists(name):
                tree.new_child(name, NODE)
            tree.update_inventory(name, {"VGPU": {"total": 4}})
            tree.add_traits(name, "HW_NIC_SRIOV")

    return body


def adds(tree):
    tree.add_traits(NODE, "CUSTOM_GOLD")


class Agent(agents.Agent):
    def __init__(self, placement, *bodies, **rules):
        super().__init__(placement, *map(Small, bodies), **{"audit_every": None, **rules})

    def period(self, after=60.0):
        return super().period(after)

    def seen(self, name):
        (tracker,) = self.nodes.trackers.values()
        return tracker.view.snapshot.named(name)


def changing(fake_placement):
    """An agent that has reported everything, and a list with the VCPUs to report from now on."""
    vcpus = [8]

    def body(tree):
        tree_of(1)(tree)
        tree.update_inventory(NODE, {"VCPU": {"total": vcpus[-1]}})

    agent = Agent(fake_placement, body)
    assert agent.period().ok
    return agent, vcpus


@pytest.mark.parametrize(("done", "calls"), [(True, 1 + 3), (False, 1 + 1)])
def test_after_a_write_without_an_answer_the_tree_is_read(fake_placement, done, calls):
    agent, vcpus = changing(fake_placement)
    vcpus.append(9)
    fake_placement.fail_next("PUT", r"/inventories$", errors.Unreachable("lost"), after=done)
    assert not agent.period(1.0).ok
    report = agent.period(1.0)
    assert report.ok and report.calls == calls
    assert agent.seen(NODE).inventory["VCPU"].total == 9
    assert agent.period(1.0).calls == 0
    assert fake_placement.stranger.inventory(ROOT)["VCPU"]["total"] == 9


def test_what_was_not_carried_out_is_written_again_without_a_read(fake_placement):
    agent, vcpus = changing(fake_placement)
    vcpus.append(9)
    away = errors.Unreachable("503", unsent=True)
    fake_placement.fail_next("PUT", r"/inventories$", away)
    assert not agent.period(1.0).ok
    report = agent.period(1.0)
    assert report.ok and report.calls == 1


def test_while_a_write_gets_no_answer_nothing_is_verified_before_it(fake_placement):
    agent, vcpus = changing(fake_placement)
    vcpus.append(9)
    for _ in range(3):
        fake_placement.fail_next("PUT", r"/inventories$", errors.Unreachable("503", unsent=True))
    assert [agent.period(130.0).calls for _ in range(4)][1:] == [1, 1, 1]
    assert agent.seen(NODE).inventory["VCPU"].total == 9


class Failing:
    """An API that answers each write of one provider's traits with an error."""

    def __init__(self, api, uuid, error):
        self.api, self.path, self.error = api, f"/resource_providers/{uuid}/traits", error

    def request(self, method, path, **more):
        if (method, path) == ("PUT", self.path):
            raise self.error
        return self.api.request(method, path, **more)


@pytest.mark.parametrize(
    "error",
    [errors.ServerFault("500"), errors.Conflict("409"), errors.Unreachable("no answer")],
    ids=lambda error: type(error).__name__,
)
def test_a_provider_that_fails_for_an_hour_delays_no_other(any_placement, error):
    agent, vcpus = changing(any_placement)
    child, breaker = agent.seen(f"{NODE}_0").uuid, agent.nodes.breaker
    there, breaker.api = breaker.api, Failing(breaker.api, child, error)
    any_placement.stranger.set_traits(child, [])
    agent.period(600.0)
    for total in range(9, 14):
        agent.period(600.0)
        vcpus.append(total)
        agent.period()
        agent.period()
        assert any_placement.stranger.inventory(ROOT)["VCPU"]["total"] == total
    breaker.api = there
    agent.period(700.0)
    assert any_placement.stranger.traits(child) == {"HW_NIC_SRIOV"}


def test_retry_after_is_obeyed_for_a_while_and_not_for_a_day(fake_placement):
    agent = Agent(fake_placement, tree_of(1))
    fake_placement.fail_next("GET", r"in_tree", errors.Unreachable("503", retry_after=99_999.0))
    assert not agent.period().ok
    assert agent.period(1).calls == 0
    assert agent.period(400).ok


def test_a_root_whose_name_is_taken_is_one_complaint_with_both_uuids(fake_placement):
    fake_placement.stranger.create_provider(NODE, OTHER)
    agent = Agent(fake_placement, tree_of(5))
    for _ in range(2):
        complaints = agent.period().texts()
        assert len(complaints) == 1, complaints
        assert all(part in complaints[0] for part in (NODE, ROOT, OTHER))
    assert fake_placement.stranger.provider(OTHER)["generation"] == 0


def test_one_child_made_anew_by_somebody_is_read_alone(fake_placement, caplog):
    agent = Agent(fake_placement, tree_of(4))
    assert agent.period().ok
    child = agent.seen(f"{NODE}_1").uuid
    fake_placement.stranger.delete_provider(child)
    fake_placement.stranger.create_child(ROOT, f"{NODE}_1", child)
    report = agent.period(600)
    assert report.ok
    assert report.calls == 1 + 3 + 2, "one listing, one provider read, its traits and inventory"
    assert "older state" not in caplog.text


def test_a_refusal_is_asked_again_though_verification_is_switched_off(fake_placement):
    agent = Agent(fake_placement, tree_of(1), verify_every=None)
    fake_placement.fail_next("PUT", r"/inventories$", errors.Forbidden("403"))
    assert not agent.period().ok
    assert not agent.period(60).ok
    assert agent.period(600).ok


def test_two_hosts_with_one_compute_id_are_told_of_each_other(fake_placement):
    """Disks are copied with all that is on them; then each takes the provider from the other."""
    one, twin = (Agent(fake_placement, inventory(total)) for total in (8, 4))
    twin.drivers[0].nodes = ["host2"]
    assert one.period().ok
    assert twin.period().ok, "it may be the same host under another name"
    (said,) = one.period(600).texts()
    assert f"provider {ROOT} of host1 was renamed to host2 by another service" in said
    assert "of host2 was renamed to host1 by" in str(twin.period(600).texts())
    assert one.period(1).texts(), "for as long as it has not looked again"
    assert one.period(600).texts()
    twin.drivers[0].nodes = ["host1"]
    assert twin.period(600).ok, "gone: one host is left, under one name"
    assert one.period(600).ok


def test_a_provider_that_was_reported_beside_a_reshape_that_failed_stays(fake_placement):
    """A driver lists it again when it is called for the reshape of another, which then fails."""
    answers = [True]

    def disk(tree):
        there = answers.pop(0) if len(answers) > 1 else answers[0]
        if there and not tree.exists("disk"):
            tree.new_child("disk", NODE)
        if there:
            tree.update_inventory("disk", {"CUSTOM_DISK": {"total": 1}})
        elif tree.exists("disk"):
            tree.remove("disk")

    class Reshapes(Small):
        ends = True

        def update_provider_tree(self, provider_tree, nodename, allocations=None):
            if allocations is not None:
                raise DriverNotReady("gone meanwhile")
            if not self.ends:
                raise ReshapeNeeded

    agent = Agent(fake_placement, disk, disk, reshape_when_running=True)
    driver = Reshapes(None)
    agent.nodes.drivers[0] = LoadedDriver.from_driver("driver1", driver)
    assert agent.period().ok
    assert agent.seen("disk")
    driver.ends = False
    answers[:] = [False, True]
    assert not agent.period().ok
    assert agent.seen("disk"), "the last answer counts"


def test_a_thread_that_is_at_its_tree_still_is_its_drivers_error_alone(fake_placement):
    """Python notices it where the tree is read: ``dictionary changed size during iteration``."""

    class Restless(dict):
        def items(self):
            raise RuntimeError("dictionary changed size during iteration")

    def kept_at(tree):
        tree.update_inventory(NODE, {"VCPU": {"total": 8}})
        tree.words = Restless(tree.words)

    agent = Agent(fake_placement, kept_at, adds)
    report = agent.period()
    assert "driver1" in report.driver_errors and report.error is None
    assert "CUSTOM_GOLD" in agent.seen(NODE).traits


def moves_root(tree):
    tree.new_root("rack1", OTHER)
    tree.move(NODE, "rack1")


@pytest.mark.parametrize(
    ("edit", "done"),
    [
        (moves_root, "moved the root provider host1"),
        (lambda tree: tree.rename(NODE, "host2"), "renamed the root provider host1"),
        (lambda tree: tree.remove(NODE), "removed the root provider host1"),
    ],
    ids=["moved", "renamed", "removed"],
)
def test_an_edit_of_the_roots_place_is_the_error_of_its_driver_alone(fake_placement, edit, done):
    agent = Agent(fake_placement, edit, adds)
    for _ in range(2):
        report = agent.period()
        assert done in str(report.driver_errors["driver1"])
        assert "CUSTOM_GOLD" in agent.seen(NODE).traits


@pytest.mark.parametrize("wrong", [None, ["supports_multiattach"], {"supports_multiattach": "yes"}])
def test_wrong_capabilities_are_their_drivers_error_and_change_nothing(fake_placement, wrong):
    agent = Agent(fake_placement, tree_of(0), adds)
    agent.drivers[0].capabilities = {"supports_multiattach": True}
    assert agent.period().ok
    agent.drivers[0].capabilities = wrong
    report = agent.period(600)
    assert report.error is None and "capabilities" in str(report.driver_errors["driver1"])
    assert {"CUSTOM_GOLD", "COMPUTE_VOLUME_MULTI_ATTACH"} <= agent.seen(NODE).traits


def test_types_of_images_that_an_operator_excludes_are_no_traits(fake_placement):
    agent = Agent(fake_placement, tree_of(0), images_excluded=frozenset({"raw", "unknown"}))
    fake_placement.stranger.create_provider(NODE, uuid=ROOT)
    fake_placement.stranger.add_trait(ROOT, "COMPUTE_IMAGE_TYPE_RAW")
    agent.drivers[0].capabilities = dict.fromkeys(
        ("supports_image_type_raw", "supports_image_type_qcow2"), True
    )
    assert agent.period().ok
    traits = agent.seen(NODE).traits
    assert "COMPUTE_IMAGE_TYPE_QCOW2" in traits and "COMPUTE_IMAGE_TYPE_RAW" not in traits
