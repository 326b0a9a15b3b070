"""A driver that lists devices: what it lists is there, what it does not list is gone."""

from collections.abc import Callable
from pathlib import Path
from typing import Self
from uuid import uuid4

import pytest

from agent.reporting.condition import Severity
from agent.reporting.reports import Report
from drivers.api import Device, DeviceDriver, DriverContext, DriverNotReady, ReshapeNeeded
from drivers.errors import DriverFault
from reportclient.errors import Conflict
from tests.agents import OWNER, ROOT, Agent, Small
from tests.stranger import FakePlacement

CLASS = "CUSTOM_LOCAL_DISK"
AGGREGATE = "7d0f5f52-3f0e-4d5b-8a38-1f6d4c1e9a77"


class Listing(DeviceDriver):
    """Lists what a test puts there; what is callable is called."""

    def __init__(self, *listed: Device) -> None:
        super().__init__(DriverContext("host1", Path()))
        self.listed: object = list(listed)

    def devices(self, node):
        return self.listed() if callable(self.listed) else self.listed


def ill(report: Report) -> list[str]:
    return report.texts(Severity.DEGRADED)


def disk(name: str, **more) -> Device:
    return Device(name, {CLASS: 1}, **more)


@pytest.fixture
def driver() -> Listing:
    return Listing(disk("sda"), disk("sdb"))


class Lister(Agent):
    def lists(self, *listed: Device) -> Self:
        """From now on its driver lists these."""
        self.named["disks"].listed = [*listed]
        return self


@pytest.fixture
def agent(placement: FakePlacement, driver: Listing, tmp_path: Path) -> Lister:
    agent = Lister(placement, named={"disks": driver}, state=tmp_path)
    agent.settled()
    return agent


def tree(agent: Agent) -> dict[str, str | None]:
    """The parents of all providers by name."""
    snapshot = agent.tracker.view.snapshot
    providers = [snapshot.providers[uuid] for uuid in snapshot.providers]
    names = {each.uuid: each.name for each in providers}
    return {each.name: names.get(each.parent_uuid or "") for each in providers}


def data(agent: Agent, name: str):
    return agent.tracker.view.edit().data(name)


def test_listed_devices_are_children_of_the_node_and_others_are_removed(agent, driver):
    assert tree(agent) == {"host1": None, "host1_sda": "host1", "host1_sdb": "host1"}
    assert data(agent, "host1_sda").inventory[CLASS]["total"] == 1
    agent.lists(disk("sdb"), disk("sdc")).settled()
    assert tree(agent) == {"host1": None, "host1_sdb": "host1", "host1_sdc": "host1"}


def test_the_node_itself_may_be_listed_and_what_was_on_it_goes_too(agent, driver):
    agent.lists(Device("host1", {"VCPU": 8}, ["CUSTOM_A"], [AGGREGATE]), disk("sda")).settled()
    assert data(agent, "host1").inventory["VCPU"]["total"] == 8
    assert "CUSTOM_A" in data(agent, "host1").traits
    agent.lists(disk("sda")).settled()
    root = data(agent, "host1")
    assert (root.inventory, root.aggregates) == ({}, set())
    assert "CUSTOM_A" not in root.traits


def test_traits_and_aggregates_are_those_that_are_listed_and_others_stay(agent, driver):
    agent.lists(disk("sda", traits=["CUSTOM_A"], aggregates=[AGGREGATE])).settled()
    agent.placement.stranger.add_trait(data(agent, "host1_sda").uuid, "CUSTOM_FOREIGN")
    agent.lists(disk("sda", traits=["CUSTOM_B"])).settled()
    now = data(agent, "host1_sda")
    assert (now.traits, now.aggregates) == ({"CUSTOM_B", "CUSTOM_FOREIGN"}, set())


def test_devices_have_parents_in_any_order_and_move(agent, driver):
    agent.lists(disk("sda", parent="hba0"), disk("hba0"), disk("hba1")).settled()
    assert tree(agent)["host1_sda"] == "host1_hba0"
    agent.lists(disk("hba1"), disk("sda", parent="hba1")).settled()
    assert tree(agent) == {"host1": None, "host1_hba1": "host1", "host1_sda": "host1_hba1"}


def test_an_unhealthy_device_is_reserved_whole_and_told_until_it_is_well(agent, driver):
    driver.listed = [Device("sda", {CLASS: {"total": 4}}, healthy=False, reason="SMART: failing")]
    report = agent.period()
    assert data(agent, "host1_sda").inventory[CLASS]["reserved"] == 4
    assert ill(report) == ["host1_sda: SMART: failing: reserved completely"]
    assert report.ok, "Placement has all that the driver reported"
    assert not ill(agent.lists(Device("sda", {CLASS: {"total": 4}})).settled())
    assert data(agent, "host1_sda").inventory[CLASS]["reserved"] == 0


CARD = "c0ffee00-0000-4000-8000-0000000000c1"


def card(address: str, uuid: str = CARD, **more) -> Device:
    return Device(address, {CLASS: 1}, uuid=uuid, **more)


def test_a_device_with_a_uuid_keeps_its_guests_at_another_address(agent, driver):
    agent.lists(disk("hba"), card("81", parent="hba")).settled()
    agent.placement.stranger.put_allocation({CARD: {CLASS: 1}})
    agent.lists(disk("hba"), card("82")).restart().settled()
    assert tree(agent) == {"host1": None, "host1_hba": "host1", "host1_82": "host1"}
    assert data(agent, "host1_82").uuid == CARD
    assert data(agent, "host1_82").inventory[CLASS]["reserved"] == 0


def pool(total: int = 100) -> Device:
    return Device("nfs1", {"DISK_GB": total}, aggregates=[AGGREGATE], sharing=True)


def test_a_sharing_device_is_one_provider_of_all_hosts_that_list_it(placement, tmp_path):
    second = "c0ffee00-0000-4000-8000-0000000000b2"
    drivers = Listing(pool(), disk("sda")), Listing(pool(), Device("host2", {"VCPU": 1}))
    drivers[1].get_available_nodes = lambda: ["host2"]
    one = Agent(placement, named={"disks": drivers[0]}, state=tmp_path / "1")
    two = Agent(placement, named={"disks": drivers[1]}, state=tmp_path / "2", root=second)
    for agent in (one, two):
        agent.settled()
        assert tree(agent)["nfs1"] is None
        assert data(agent, "nfs1").traits >= {"MISC_SHARES_VIA_AGGREGATE"}
        assert data(agent, "nfs1").inventory["DISK_GB"]["total"] == 100
    shared = data(one, "nfs1").uuid
    assert data(two, "nfs1").uuid == shared and data(two, "host2").aggregates == {AGGREGATE}
    drivers[0].listed = [disk("sda")]
    one.settled()
    assert data(one, "host1").aggregates == set()
    assert placement.stranger.inventory(shared)["DISK_GB"]["reserved"] == 0, "host2 has it still"
    drivers[1].listed = []
    two.period()
    assert data(two, "nfs1").inventory, "it may only be starting"
    two.settled()
    assert "nfs1" not in tree(two)


@pytest.mark.parametrize("by_driver", [True, False])
def test_a_node_that_shares_its_own_inventory_is_reported_like_any_other(agent, driver, by_driver):
    shares = ["MISC_SHARES_VIA_AGGREGATE"]
    node = Device("host1", {"DISK_GB": 9}, traits=shares * by_driver, aggregates=[AGGREGATE])
    agent.lists(node, disk("sda")).settled()
    if not by_driver:
        agent.placement.stranger.add_trait(ROOT, *shares)
    driver.listed = lambda: {"node": [node], "disks": [disk("sda"), disk("sdc")]}
    agent.settled()
    assert set(tree(agent)) == {"host1", "host1_sda", "host1_sdc"}
    assert set(data(agent, "host1").inventory) == {"DISK_GB"}


class Rack(Listing):
    """Two nodes with a disk each; that of the second is ill."""

    def get_available_nodes(self):
        return ["node1", "node2"]

    def devices(self, node):
        return [disk("sda", healthy=node == "node1", reason="SMART")]


def test_only_the_node_of_an_unhealthy_device_is_degraded(placement, tmp_path):
    agent = Agent(placement, named={"rack": Rack()}, state=tmp_path)
    agent.nodes.period(0.0)
    well, other = agent.nodes.period(60.0)
    assert (well.node, ill(well)) == ("node1", [])
    assert (other.node, [text.partition(":")[0] for text in ill(other)]) == ("node2", ["node2_sda"])


def raising(error: Exception, *first: Device) -> Callable[[], object]:
    def listed():
        yield from first
        raise error

    return listed


@pytest.mark.parametrize(
    "error", [DriverNotReady("the bus is reset"), OSError("the bus is reset"), KeyError("bus")]
)
def test_a_generator_that_raises_midway_has_said_nothing(agent, driver, error):
    before = tree(agent)
    driver.listed = raising(error, disk("sda"), disk("sdz"))
    report = agent.period()
    (told,) = report.driver_errors.values()
    assert not report.done and tree(agent) == before
    assert isinstance(told, DriverFault if isinstance(error, KeyError) else DriverNotReady)
    assert str(error) in str(told)


def test_a_source_that_cant_answer_keeps_its_devices_beside_one_that_can(
    placement, driver, tmp_path
):
    driver.listed = lambda: {"disks": [disk("sda"), disk("sdb")], "gpus": [disk("gpu0")]}
    agent = Agent(placement, named={"disks": driver}, state=tmp_path).settle()
    driver.listed = lambda: {
        "disks": [disk("sdb")],
        "gpus": raising(DriverNotReady("no answer from the GPU's library"))(),
    }
    agent.period()
    report = agent.period()
    assert set(tree(agent)) == {"host1", "host1_sdb", "host1_gpu0"}
    assert ill(report) == ["gpus: no answer from the GPU's library"]
    agent.restart()  # nor is anything removed by a fresh process
    agent.period()
    assert set(tree(agent)) == {"host1", "host1_sdb", "host1_gpu0"}
    driver.listed = lambda: {"disks": [disk("sdb")]}
    agent.settled()
    assert set(tree(agent)) == {"host1", "host1_sdb"}


def test_a_source_is_a_method_that_fails_by_itself(placement, driver, tmp_path):
    def gpus() -> list[Device]:
        raise OSError("no answer from the GPU's library")

    driver.listed = {"disks": lambda: [disk("sdb")], "gpus": lambda: [disk("gpu0")]}
    agent = Agent(placement, named={"disks": driver}, state=tmp_path).settle()
    driver.listed = {"gpus": gpus, "disks": lambda: [disk("sdc")]}
    agent.period()
    report = agent.period()
    assert set(tree(agent)) == {"host1", "host1_sdc", "host1_gpu0"}
    assert ill(report) == ["gpus: no answer from the GPU's library"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": None}, "name has to be a non-empty text, not None"),
        ({"name": b"sda"}, "name has to be a non-empty text, not b'sda'"),
        (
            {"inventory": None},
            "inventory of device sda has to be a dict like {'VGPU': 4}, not None",
        ),
        ({"inventory": [CLASS]}, f"inventory of device sda .*, not \\['{CLASS}'\\]"),
        ({"traits": "CUSTOM_A"}, "traits of provider sda: .*, not the string 'CUSTOM_A'"),
        ({"traits": None}, "traits of provider sda: a list or a set of names is needed, not None"),
        ({"traits": [1]}, "traits of provider sda: 1 is not a name"),
        ({"aggregates": AGGREGATE}, "aggregate of provider sda: .*, not the string"),
        ({"aggregates": ["rack1"]}, "aggregate of provider sda: 'rack1' is not a UUID"),
        ({"uuid": 5}, "sda: 5 is not a UUID"),
        ({"sharing": True}, "sharing device sda needs aggregates"),
        ({"sharing": True, "aggregates": [AGGREGATE], "parent": "sdb"}, "has no parent"),
    ],
)
def test_a_wrong_field_of_a_device_is_named_where_the_device_is_made(fields, words):
    with pytest.raises(ValueError, match=words):
        Device(**{"name": "sda", **fields})


def test_what_a_device_is_made_of_may_be_read_once_and_change_later():
    inventory, names = {CLASS: 1}, ["CUSTOM_A", "CUSTOM_B"]
    device = Device("sda", inventory, iter(names), iter([AGGREGATE]), uuid=CARD.upper())
    inventory[CLASS] = 2
    names.clear()
    assert device == Device("sda", {CLASS: 1}, ("CUSTOM_A", "CUSTOM_B"), (AGGREGATE,), uuid=CARD)
    for kind in (list, tuple, set, frozenset):
        assert Device("sda", {CLASS: 1}, kind(["CUSTOM_A"])).traits == kind(["CUSTOM_A"])


@pytest.mark.parametrize("known", [False, True])
def test_a_device_whose_name_another_provider_has_waits_alone(placement, known: bool):
    """A card is in the slot of another one, after the agent's state was lost."""
    stranger, leftover = placement.stranger, AGGREGATE
    stranger.create_provider("host1", ROOT)
    stranger.create_child(ROOT, "host1_81", leftover)
    driver = Listing(*([card("80")] if known else []))
    agent = Agent(placement, driver)
    agent.periods()
    below, other = Device("port", {CLASS: 1}, parent="81"), card("80", str(uuid4()))
    driver.listed = [card("81"), disk("sda"), *([other] if known else [below])]
    report = agent.period()
    why = (
        f"waits, since provider {leftover} has its name; if that is a leftover: openstack resource"
    )
    said = [f"host1_81: {why} provider delete {leftover}"]
    assert ill(report) == said + ([] if known else ["host1_port: waits for host1_81"])
    names = {"host1", "host1_81", "host1_sda"} | ({"host1_80", CARD} if known else set())
    assert set(tree(agent)) == names and (not known or data(agent, CARD).inventory)
    stranger.delete_provider(leftover)
    agent.settle()
    added = {"host1_80"} if known else {"host1_port"}
    assert set(tree(agent)) == {"host1", "host1_81", "host1_sda", *added}
    assert data(agent, "host1_81").uuid == CARD and not ill(agent.period())


def test_a_driver_whose_constructor_is_its_own_lists_devices(placement):
    class Own(DeviceDriver):
        def __init__(self) -> None:
            self.context = DriverContext("host1", Path())

        def devices(self, node):
            return [disk("sda", healthy=False, reason="broken")]

    assert ill(Agent(placement, Own()).period()) == ["host1_sda: broken: reserved completely"]


@pytest.mark.parametrize("first", ["a", "z"])
def test_a_device_that_goes_to_another_source_stays_with_its_guest(placement, tmp_path, first):
    driver, stranger = Listing(), placement.stranger
    sources = {"a": [disk("sda"), disk("sdb", traits=["CUSTOM_OLD"])], "z": [disk("sdc")]}
    driver.listed = {name: sources[name] for name in sorted(sources, reverse=first == "z")}
    agent = Lister(placement, named={"disks": driver}, state=tmp_path)
    agent.settled()
    guest = stranger.put_allocation({data(agent, "host1_sdb").uuid: {CLASS: 1}})
    stranger.add_trait(data(agent, "host1_sdb").uuid, "CUSTOM_OPERATORS")
    driver.listed = {**driver.listed, "a": [disk("sda")], "z": [disk("sdb"), disk("sdc")]}
    report = agent.period()
    assert [type(each).__name__ for each in report.done] == ["SetTraits"] and not report.texts()
    assert data(agent, "host1_sdb").traits == {"CUSTOM_OPERATORS"}
    stranger.delete_allocation(guest)
    driver.listed = {**driver.listed, "z": [disk("sdc")]}
    agent.period()
    assert waits(agent, "host1_sdb")


def test_what_was_listed_before_sources_had_names_goes_too(agent, driver):
    driver.listed = lambda: {"disks": [disk("sdb")]}
    agent.restart().settled()
    assert set(tree(agent)) == {"host1", "host1_sdb"}


def test_if_no_source_can_answer_the_driver_cant(agent, driver):
    driver.listed = lambda: {name: raising(OSError(name))() for name in ("disks", "gpus")}
    (told,) = agent.period().driver_errors.values()
    assert isinstance(told, DriverNotReady) and str(told) == "disks; gpus"


def waits(agent: Agent, *names: str) -> bool:
    """Whether these devices are there and offer nothing."""
    return tree(agent).keys() >= set(names) and not any(data(agent, n).inventory for n in names)


@pytest.mark.parametrize("listed", [[], [Device("host1", {"VCPU": 8})], {"other": []}])
def test_a_device_that_is_not_listed_is_emptied_and_deleted_later(agent, driver, listed):
    driver.listed = lambda: listed
    agent.period()
    assert waits(agent, "host1_sda", "host1_sdb")
    agent.settled()
    assert set(tree(agent)) == {"host1"}


def test_a_group_without_inventory_waits_for_the_second_period_too(agent, driver):
    group, devices = Device("group"), [disk("sda", parent="group"), disk("sdb")]
    agent.lists(group, *devices).settled()
    agent.lists(disk("sdb")).period()
    driver.listed = [group, *devices]
    assert [type(each).__name__ for each in agent.period().done] == ["SetInventory"]


def test_a_device_in_use_that_is_not_listed_is_drained(agent, driver):
    uuid = data(agent, "host1_sda").uuid
    agent.placement.stranger.put_allocation({uuid: {CLASS: 1}})
    driver.listed = []
    for _ in range(4):
        assert agent.period().texts(Severity.INFO)
    assert agent.placement.stranger.inventory(uuid)[CLASS]["reserved"] == 1
    assert set(tree(agent)) == {"host1", "host1_sda"}


def test_a_list_that_is_empty_in_each_try_of_one_period_removes_nothing(agent, driver):
    driver.listed = []
    agent.placement.fail_next("PUT", f"{ROOT}/traits", Conflict("another client wrote first"))
    agent.placement.stranger.remove_trait(ROOT, OWNER)
    assert agent.period().tries == 2
    assert waits(agent, "host1_sda", "host1_sdb")


def test_a_list_that_is_empty_in_another_drivers_reshape_removes_nothing(
    placement, driver, tmp_path
):
    def reshaping(tree, allocations):
        if tree.exists("host1_old") and allocations is None:
            raise ReshapeNeeded
        if allocations is not None:
            driver.listed = []
            tree.remove("host1_old")
        tree.update_inventory("host1", {"VCPU": {"total": 8}})

    first = Small(lambda tree: tree.new_child("host1_old", "host1"))
    agent = Agent(placement, named={"first": first, "disks": driver}, state=tmp_path)
    agent.period()
    first.body, driver.listed = reshaping, []
    agent.restart().period()
    assert waits(agent, "host1_sda", "host1_sdb") and "host1_old" not in tree(agent)


def test_a_reshape_that_leaves_no_child_moves_all_of_them_in_one_period(placement, tmp_path):
    def listed(tree):
        tree.set_own_children({"host1_cell": "host1"})
        tree.update_inventory("host1_cell", {"VCPU": {"total": 8}})

    def reshaping(tree, allocations):
        if tree.exists("host1_cell") and allocations is None:
            raise ReshapeNeeded
        tree.set_own_children({})
        tree.update_inventory("host1", {"VCPU": {"total": 8}})

    small = Small(listed)
    agent = Agent(placement, small, state=tmp_path)
    agent.period()
    small.body = reshaping
    agent.restart().period()
    assert set(tree(agent)) == {"host1"}


def test_a_list_that_is_empty_for_the_second_time_is_waited_for_again(agent, driver):
    both = driver.listed
    for _ in range(2):
        agent.lists().period()
        assert waits(agent, "host1_sda")
        driver.listed = both
        agent.period()


def test_a_list_that_is_empty_in_two_runs_is_empty(agent, driver):
    agent.lists().period()
    agent.restart().period()
    assert set(tree(agent)) == {"host1"}


def test_what_a_plan_asks_does_not_count_as_a_period(agent, driver):
    driver.listed = []
    for _ in range(2):
        plan = agent.tracker.forecast(agent.now).plan
        assert [type(each).__name__ for each in plan] == ["SetInventory"] * 2
    agent.period()
    assert waits(agent, "host1_sda") and agent.tracker.forecast(agent.now).plan


def test_each_node_is_waited_for_by_itself(placement, tmp_path):
    driver = Listing()
    nodes = {name: [disk("sda")] for name in ("host1", "host2")}
    driver.get_available_nodes = lambda: [*nodes]
    driver.devices = lambda node: nodes[node]
    agent = Agent(placement, named={"disks": driver}, state=tmp_path)
    agent.periods()
    nodes["host1"] = []
    first, second = agent.periods()
    assert first.done and not second.done
    nodes["host2"] = []
    first, second = agent.periods()
    assert [type(each).__name__ for each in second.done] == ["SetInventory"]


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (None, "devices() has to return a list of drivers.api.Device, not None"),
        (["sda"], "devices() lists 'sda': a drivers.api.Device is needed"),
        ([disk("sda"), disk("sda")], "devices() lists 'sda' twice"),
        ([disk("sda", parent="hba0")], "no such parent: host1_hba0"),
        ([disk("a", parent="b"), disk("b", parent="a")], "their own ancestors: host1_a, host1_b"),
        ([Device("sda", {CLASS: "1"})], "inventory of CUSTOM_LOCAL_DISK: a record has to be a"),
        ([Device("host1", uuid=CARD)], "host1 is the node"),
        ([card("81"), card("82", CARD.upper())], "lists host1_81 and host1_82 with one UUID"),
        ({"x": [card("81")], "y": [card("82")]}, "lists host1_81 and host1_82 with one UUID"),
        ({"x": [disk("sda")], "y": [disk("sda")]}, "devices() lists 'sda' twice"),
    ],
)
def test_what_cant_be_listed_is_an_error_that_names_it(agent, driver, listed, words):
    driver.listed = listed
    (told,) = agent.period().driver_errors.values()
    assert words in str(told)


def test_without_a_ledger_nothing_is_removed(placement, tmp_path):
    driver = Listing(disk("sda"), disk("sdb"))
    agent = Agent(placement, named={"disks": driver}).settle()
    driver.listed = [disk("sdb")]
    agent.restart()  # without a state directory
    agent.settled()
    assert set(tree(agent)) == {"host1", "host1_sda", "host1_sdb"}


@pytest.mark.parametrize("attached", [True, False])
def test_nova_computes_part_of_a_node_that_is_not_listed_stays(
    placement, driver, tmp_path, attached
):
    nova = placement.stranger
    nova.create_provider("host1", ROOT)
    nova.set_inventory(ROOT, {"VCPU": {"total": 8}})
    nova.add_trait(ROOT, "COMPUTE_NODE")
    agent = Agent(placement, named={"disks": driver}, state=tmp_path, attached=attached).settle()
    driver.listed = [disk("sdb")]
    agent.settle()
    assert set(nova.inventory(ROOT)) == {"VCPU"}
    assert "host1_sdb" in tree(agent) and "host1_sda" not in tree(agent)
