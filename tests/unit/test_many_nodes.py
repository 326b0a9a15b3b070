"""One service with many nodes: what each situation costs, and that no node holds the others."""

import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from uuid import NAMESPACE_URL, uuid5

import pytest

from agent.period.traits import service_of, tag_of, tags_of_others
from agent.provider_config.files import ProviderFiles
from agent.reporting.condition import Severity
from agent.state.saved_root import SavedRoot, saved_roots
from drivers.api import ComputeDriver, DriverContext
from reportclient import errors
from reportclient.view import View
from tests.agents import Agent, Placement, door_to
from tests.contract.world import Listings
from tests.full_disk import full_disk
from tests.ownership.world import Door
from tests.stranger import FakePlacement
from tests.waiting import eventually

ONE = "c0ffee00-0000-4000-8000-000000000001"
RACK_UUID = "c0ffee00-0000-4000-8000-00000000000b"
TWO = "c0ffee00-0000-4000-8000-000000000002"
VERIFY, WAIT, CLASS = 300.0, 900.0, "CUSTOM_BAREMETAL"
RACK_B7 = """\
meta: {schema_version: '1.0'}
providers:
- {identification: {uuid: $COMPUTE_NODE}, traits: {additional: [CUSTOM_RACK_B7]}}
"""

PATIENT = 60.0
"""Seconds that nothing takes, on whatever machine: who waits so long waits for ever."""


def uuid_of(name: str) -> str:
    return str(uuid5(NAMESPACE_URL, name))


class Rack(ComputeDriver):
    """Bare-metal nodes; ``hangs`` are those about which it says nothing until it is let."""

    thread_safe = True

    def __init__(self, *names: str) -> None:
        super().__init__(DriverContext("rack", Path("/nonexistent")))
        self.names = list(names)
        self.total, self.resource_class = 1, CLASS
        self.hangs: set[str] = set()
        self.children: set[str] = set()
        self.let = threading.Event()
        self.asked: Counter[str] = Counter()

    def get_available_nodes(self):
        return self.names

    def get_nodenames_by_uuid(self):
        return {uuid_of(name): name for name in self.names}

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        self.asked[nodename] += 1
        if nodename in self.hangs:
            self.let.wait(PATIENT)
        provider_tree.update_inventory(nodename, {self.resource_class: {"total": self.total}})
        if nodename in self.children and not provider_tree.exists(f"{nodename}_nic"):
            provider_tree.new_child(f"{nodename}_nic", nodename)


class OneByOne:
    """The fake takes one request at a time."""

    def __init__(self, placement: Placement) -> None:
        self.api, self.lock = door_to(placement), threading.Lock()

    def request(self, method: str, path: str, **options: Any) -> Any:
        with self.lock:
            return self.api.request(method, path, **options)


class Service(Agent):
    def __init__(self, placement: Placement, driver: Rack, own: str = ONE, **options: Any) -> None:
        options = {"audit_every": None, **options}
        super().__init__(OneByOne(placement), named={"rack": driver}, root=own, **options)
        self.placement, self.driver = placement, driver

    def begun(self) -> Self:
        """After its first period, in which all is well."""
        self.calls()
        return self

    def has_nodes(self, *names: str) -> Self:
        self.driver.names = [*names]
        return self

    def period(self, after: float = 60.0) -> list[Any]:
        return self.periods(after)

    def calls(self, after: float = 60.0) -> Counter[str]:
        """What a period asks, by kind; all is well in it."""
        mark = self.placement.mark()
        reports = self.period(after)
        assert all(report.ok for report in reports), [r.texts() for r in reports if not r.ok]
        asked = self.placement.since(mark)
        assert sum(report.calls for report in reports) <= len(asked)
        return Counter(_kind(request) for request in asked)

    def removal(self) -> None:
        """The two periods in which what has vanished goes."""
        self.calls(WAIT), self.calls()


def _kind(request: Any) -> str:
    path, _, query = request.path.partition("?")
    words = path.strip("/").split("/")
    what = query.partition("=")[0] if query else words[2] if len(words) == 3 else words[0]
    return f"{request.method} {what}"


def there(placement: Any, name: str) -> bool:
    found = placement.stranger.send("GET", f"/resource_providers?uuid={uuid_of(name)}")
    return bool(found["resource_providers"])


# -- what it costs


@pytest.mark.parametrize("roots", [50, pytest.param(1000, marks=pytest.mark.faults)])
def test_many_roots_in_one_agent_with_every_call_counted(any_placement, tmp_path, roots) -> None:
    placement = any_placement
    names = [f"node{number}" for number in range(roots)]
    driver = Rack(*names)
    service = Service(placement, driver, state=tmp_path)
    assert service.calls() == {
        "GET in_tree": roots,
        "POST resource_providers": roots,
        "PUT traits": roots + 2,  # the owner trait and the service's mark are made once
        "PUT resource_classes": 1,
        "PUT inventories": roots,
    }
    assert service.calls() == {}, "quiet"
    assert service.calls(2 * VERIFY) == {"GET required": 1}, "one GET verifies them all"
    assert service.calls() == {}

    restarted = Service(placement, driver, state=tmp_path)
    assert restarted.calls() == {"GET required": 1}, "a restart too"

    driver.names = names[1:]
    assert service.calls() == {}, "a node that vanished is waited for"
    assert service.calls(WAIT) == {"GET required": 1, "GET in_tree": 1, "PUT inventories": 1}
    assert service.calls() == {"GET in_tree": 1, "DELETE resource_providers": 1}
    assert not there(placement, "node0")

    driver.names = [*names[1:], "another"]
    assert service.calls(1.0) == {
        "GET in_tree": 1,
        "POST resource_providers": 1,
        "PUT traits": 1,
        "PUT inventories": 1,
    }
    driver.total = 2
    assert service.calls(1.0) == {"PUT inventories": roots}


def test_roots_with_children_are_verified_singly_and_changed_ones_read(placement) -> None:
    driver = Rack(*(f"node{number}" for number in range(20)))
    driver.children = {"node3"}
    service = Service(placement, driver).begun()
    assert service.calls(2 * VERIFY) == {"GET required": 1, "GET in_tree": 1}
    placement.stranger.add_trait(uuid_of("node5"), "HW_CPU_X86_AVX")
    parts = {"GET inventories": 1, "GET traits": 1, "GET aggregates": 1}
    assert service.calls(2 * VERIFY) == {"GET required": 1, "GET in_tree": 2, **parts}


def test_a_root_that_another_service_moved_below_a_provider_is_named(placement) -> None:
    """Moving a provider changes no generation."""
    service = Service(placement, Rack(*(f"node{number}" for number in range(20)))).begun()
    moved = placement.stranger.provider(uuid_of("node5"))
    placement.stranger.create_provider("rack", RACK_UUID)
    placement.stranger.move(uuid_of("node5"), RACK_UUID)
    assert placement.stranger.provider(uuid_of("node5"))["generation"] == moved["generation"]
    reports = service.period(2 * VERIFY)
    wrong = {report.node: report.texts() for report in reports if not report.ok}
    assert list(wrong) == ["node5"] and RACK_UUID in str(wrong)


def test_a_roll_call_that_fails_leaves_each_root_to_verify_itself(placement) -> None:
    service = Service(placement, Rack(*(f"node{number}" for number in range(12)))).begun()
    placement.fail_next("GET", "required=", errors.ServerFault("500"))
    assert service.calls(2 * VERIFY) == {"GET required": 1, "GET in_tree": 12}


# -- one that hangs, and a Placement that is away


def test_nodes_that_hang_fail_at_the_drivers_deadline_alone(placement) -> None:
    driver = Rack(*(f"node{number}" for number in range(12)))
    service = Service(placement, driver, nodes_at_once=4).begun()
    driver.hangs = {f"node{number}" for number in range(6)}  # more than may work at once
    driver.total = 2
    service.nodes.drivers[0].calls.within = 0.2
    for _ in range(2):
        reports = service.period()
        wrong = {report.node: report.texts() for report in reports if not report.ok}
        assert wrong.keys() == driver.hangs
        assert "update_provider_tree(node0)" in wrong["node0"][0]
    assert driver.asked["node0"] == 2, "what hangs is not called again"
    assert placement.stranger.inventory(uuid_of("node11"))["CUSTOM_BAREMETAL"]["total"] == 2
    service.nodes.drivers[0].calls.within, driver.hangs = PATIENT, set()
    driver.let.set()
    eventually(lambda: not service.nodes.drivers[0].calls.now)
    assert all(report.ok for report in service.period())


# -- what nothing provides for


class Fails:
    """A Placement whose answers about "node1" raise what no code expects."""

    def __init__(self, placement: Placement) -> None:
        self.api, self.error = OneByOne(placement), None

    error: BaseException | None

    def request(self, method: str, path: str, **options: Any) -> Any:
        if self.error is not None and uuid_of("node1") in path:
            raise self.error
        return self.api.request(method, path, **options)


@pytest.mark.parametrize(
    "error", [TypeError("an int"), SystemExit(3)], ids=lambda e: type(e).__name__
)
def test_an_unexpected_error_in_one_period_is_that_nodes_report(placement, error, caplog) -> None:
    driver = Rack("node0", "node1", "node2")
    service = Service(placement, driver).begun()
    service.nodes.breaker.api = fails = Fails(placement)
    fails.error, driver.total = error, 2
    for _ in range(2):
        reports = {report.node: report for report in service.period(2 * VERIFY)}
        assert [name for name, report in reports.items() if not report.ok] == ["node1"]
        (condition,) = reports["node1"].conditions
        text = condition.sentence
        assert f"unexpected error: {type(error).__name__}: {error}" in text and "report it" in text
    assert len([each for each in caplog.records if each.exc_info]) == 1, "one traceback"
    assert placement.stranger.inventory(uuid_of("node2"))["CUSTOM_BAREMETAL"]["total"] == 2
    fails.error = None
    assert all(report.ok for report in service.period(1.0)), "it is read again at once"
    assert placement.stranger.inventory(uuid_of("node1"))["CUSTOM_BAREMETAL"]["total"] == 2


def test_an_unexpected_error_while_saving_fails_its_node(placement, tmp_path, monkeypatch) -> None:
    """After the attempt: what Placement has acknowledged is in memory only."""
    service = Service(placement, Rack("node0", "node1"), state=tmp_path).begun()
    saved = service.nodes.trackers[uuid_of("node1")].root.store
    with monkeypatch.context() as broken:
        broken.setattr(type(saved), "save", lambda *_: {}["generation"])
        service.driver.total = 2
        assert not any(report.ok for report in service.period())
    assert service.calls() == {"GET in_tree": 2}


def test_a_placement_that_is_away_is_not_waited_for_by_every_node(placement) -> None:
    service = Service(placement, Rack(*(f"node{number}" for number in range(40))), nodes_at_once=1)
    service.calls()
    for _ in range(100):
        placement.fail_next("GET", ".", errors.Unreachable("no answer"))
    mark = placement.mark()
    reports = service.period(2 * VERIFY)
    assert not any(report.ok for report in reports)
    assert len(placement.since(mark)) <= 2
    placement.failures.clear()
    assert service.calls(2 * VERIFY) == {"GET required": 1}


# -- nodes that vanish


def vanished(placement: FakePlacement, **rules: Any) -> Service:
    """A service with two nodes, of which the second has just vanished."""
    service = Service(placement, Rack("stays", "goes"), **rules).begun()
    service.has_nodes("stays").calls()
    return service


def test_a_node_that_comes_back_in_time_is_as_it_was(placement) -> None:
    service = vanished(placement)
    service.driver.names = ["stays", "goes"]
    assert service.calls() == {"GET in_tree": 1}
    service.calls(2 * WAIT)
    assert there(placement, "goes")


def test_a_vanished_node_goes_although_one_listing_is_without_it(placement) -> None:
    service = vanished(placement)
    service.nodes.breaker.api = listings = Listings(placement, lambda listed: [])
    service.calls(WAIT)
    listings.edit = None
    assert there(placement, "goes") and service.nodes.vanished
    for _ in range(3):
        service.calls(WAIT)
    assert not there(placement, "goes") and not service.nodes.vanished


def test_a_vanished_node_with_guests_is_kept_and_named_until_they_are_gone(placement) -> None:
    guest = placement.stranger.put_allocation
    service = Service(placement, Rack("stays", "goes")).begun()
    consumer = guest({uuid_of("goes"): {"CUSTOM_BAREMETAL": 1}})
    service.calls(2 * VERIFY)
    service.has_nodes("stays").calls()
    service.calls(WAIT), service.calls()
    assert placement.stranger.inventory(uuid_of("goes"))["CUSTOM_BAREMETAL"]["reserved"] == 1
    mark = placement.mark()
    (_, kept) = service.period()
    assert kept.ok and consumer in str(kept.texts(Severity.INFO))
    assert placement.since(mark) == [], "told, and not asked every period"
    placement.stranger.delete_allocation(consumer)
    service.removal()
    assert not there(placement, "goes")


def test_a_vanished_node_with_something_of_a_stranger_below_is_kept(placement) -> None:
    service = vanished(placement)
    child = placement.stranger.create_child(uuid_of("goes"), "agents_bandwidth")
    for _ in range(3):
        service.calls(WAIT)
    (_, kept) = service.period()
    assert kept.ok and "agents_bandwidth" in str(kept.texts(Severity.WARNING))
    assert placement.stranger.inventory(uuid_of("goes")) == {}
    placement.stranger.delete_provider(child)
    service.calls(WAIT)
    assert not there(placement, "goes")


def test_a_vanished_node_with_a_trait_of_others_is_emptied_and_kept(placement, tmp_path) -> None:
    """Others' trait stays through a restart and the node's return; it goes once nobody set more."""
    service = Service(placement, Rack("stays", "goes"), state=tmp_path).begun()
    uuid, stranger = uuid_of("goes"), placement.stranger
    stranger.add_trait(uuid, "HW_CPU_X86_AVX"), stranger.set_aggregates(uuid, [RACK_UUID])
    service.has_nodes("stays").calls()
    for _ in range(2):
        for _ in range(3):
            service.calls(WAIT)
        assert stranger.traits(uuid) == {"HW_CPU_X86_AVX", tag_of(ONE)}
        assert stranger.inventory(uuid) == {} and stranger.aggregates(uuid) == {RACK_UUID}
        (_, kept) = service.period()
        (text,) = kept.texts(Severity.WARNING)
        sake = f"another service set trait HW_CPU_X86_AVX and aggregate {RACK_UUID}"
        assert text.endswith(f"{sake}; to remove it: openstack resource provider delete {uuid}")
        service = Service(placement, service.driver, state=tmp_path).begun()
    service.has_nodes("stays", "goes").calls()
    assert stranger.inventory(uuid) and "HW_CPU_X86_AVX" in stranger.traits(uuid)
    service.has_nodes("stays").calls()
    stranger.remove_trait(uuid, "HW_CPU_X86_AVX"), stranger.set_aggregates(uuid, [])
    service.removal()
    assert not there(placement, "goes")


@pytest.mark.parametrize("door", ["PUT", "DELETE"])
@pytest.mark.parametrize("begins", [False, True])
def test_a_removal_that_is_cut_goes_on_where_it_was(placement, tmp_path, door, begins) -> None:
    """A kill before or after a call, and a guest that begins in that moment."""
    service, guests = vanished(placement, state=tmp_path), list[str]()

    def cut() -> None:
        if begins and placement.stranger.inventory(uuid_of("goes")):
            guests.append(placement.stranger.put_allocation({uuid_of("goes"): {CLASS: 1}}))
        if not begins:
            raise KeyboardInterrupt

    service.nodes.breaker.api = Door(placement, [(door, "", cut)])
    with suppress(KeyboardInterrupt):
        service.removal()
    for _ in range(2):
        service = Service(placement, service.driver, state=tmp_path).begun()
        service.removal()
        if guests:
            assert placement.stranger.inventory(uuid_of("goes"))[CLASS]["reserved"] == 1
            placement.stranger.delete_allocation(guests.pop())
    assert not there(placement, "goes")


def test_children_of_a_vanished_node_go_with_it(placement) -> None:
    service = Service(placement, Rack("stays", "goes"))
    service.driver.children = {"goes"}
    service.calls()
    service.has_nodes("stays").calls()
    service.removal()
    assert not there(placement, "goes")


@pytest.mark.parametrize("rules", [{"remove_after": None}, {"verify_every": None}])
def test_nothing_is_removed_where_that_is_switched_off_or_not_safe(placement, rules) -> None:
    service = vanished(placement, **rules)
    service.calls(100 * WAIT)
    assert there(placement, "goes")


def test_no_node_vanishes_while_the_driver_names_none(placement) -> None:
    service = Service(placement, Rack("stays", "goes")).begun()
    service.driver.names = []
    assert "reported no node" in str(service.period()[0].texts())
    service.period(2 * WAIT)
    assert there(placement, "stays") and there(placement, "goes")
    service.has_nodes("stays").calls()
    service.removal()
    assert there(placement, "stays")
    assert not there(placement, "goes")


def test_a_node_that_vanished_while_the_agent_was_down_goes_too(placement, tmp_path) -> None:
    driver = Rack("stays", "goes")
    Service(placement, driver, state=tmp_path).calls()
    driver.names = ["stays"]
    service = Service(placement, driver, state=tmp_path).begun()
    assert there(placement, "goes")
    service.removal()
    assert not there(placement, "goes")
    assert saved_roots(tmp_path) == [uuid_of("stays")]


def test_a_node_that_comes_back_after_restart_and_switch_is_not_removed(
    placement, tmp_path
) -> None:
    """The switch came before the driver had named its nodes: on the roots of earlier runs."""
    driver = Rack("stays", "goes")
    Service(placement, driver, state=tmp_path).calls()
    driver.names = ["stays"]
    service = Service(placement, driver, state=tmp_path)
    service.nodes.switch(service.now, disabled=True)
    service.calls()
    driver.names = ["stays", "goes"]
    service.calls()
    service.calls(2 * WAIT)
    assert there(placement, "goes")


def test_a_node_that_vanishes_after_a_full_disk_is_removed(placement, tmp_path) -> None:
    """The agent ends before the node may go, and knows by then what was its own."""
    driver = Rack("stays", "goes")
    service = Service(placement, driver, state=tmp_path).begun()
    driver.children = {"goes"}
    with full_disk():
        service.period(60.0)
    driver.names = ["stays"]
    service.calls()
    service = Service(placement, driver, state=tmp_path).begun()
    service.removal()
    assert not there(placement, "goes")


def test_a_node_that_never_had_a_provider_is_forgotten_without_a_word(
    placement, tmp_path, caplog
) -> None:
    """As the former compute_id after ``computectl adopt``."""
    driver = Rack("stays", "goes")
    Service(placement, driver, state=tmp_path).begun()
    placement.stranger.send("DELETE", f"/resource_providers/{uuid_of('goes')}")
    saved = SavedRoot.in_directory(tmp_path, uuid_of("goes"))
    saved.load()
    saved.save(uuid_of("goes"), View())
    driver.names = ["stays"]
    with caplog.at_level("INFO"):
        Service(placement, driver, state=tmp_path).calls()
    assert "will be removed" not in caplog.text
    assert saved_roots(tmp_path) == [uuid_of("stays")]


def test_additions_to_a_removed_node_are_not_ours_when_it_comes_back(placement, tmp_path) -> None:
    """Whoever had it meanwhile may have set the same; ours is only what is added again."""
    files, state = tmp_path / "files", tmp_path / "state"
    files.mkdir()
    state.mkdir()
    (files / "a.yaml").write_text(RACK_B7)
    service = Service(placement, Rack("stays", "goes"), state=state)
    additions = service.nodes.provider_files = ProviderFiles.from_location(files, state)
    additions.load_files()
    service.calls()
    assert "CUSTOM_RACK_B7" in placement.stranger.traits(uuid_of("goes"))
    service.has_nodes("stays").calls()
    service.removal()
    assert not there(placement, "goes")
    (files / "a.yaml").unlink()
    additions.read()
    placement.stranger.create_provider("goes", uuid_of("goes"))
    placement.stranger.add_trait(uuid_of("goes"), "CUSTOM_RACK_B7")
    service.has_nodes("stays", "goes").calls(2 * VERIFY)
    assert "CUSTOM_RACK_B7" in placement.stranger.traits(uuid_of("goes"))
    assert "CUSTOM_RACK_B7" not in placement.stranger.traits(uuid_of("stays"))


def test_what_an_earlier_life_left_behind_is_found_by_its_mark(placement) -> None:
    names = [f"node{number}" for number in range(12)]
    Service(placement, Rack(*names, "forgotten")).calls()
    service = Service(placement, Rack(*names)).begun()
    service.calls(2 * VERIFY)
    service.period(WAIT)
    service.period(WAIT)
    assert not there(placement, "forgotten") and there(placement, "node0")


# -- nodes that move between services


def test_a_node_that_moves_between_services_keeps_its_provider(placement) -> None:
    for first, second in [("old", "new"), ("new", "old")]:
        placement = FakePlacement()
        old = Service(placement, Rack("a", "moves"), ONE)
        new = Service(placement, Rack("b", "c"), TWO)
        old.calls(), new.calls()
        created = len([r for r in placement.writes if r.method == "POST"])
        for who in (first, second):  # the rings of the two change one after the other
            if who == "old":
                old.driver.names = ["a"]
            else:
                new.driver.names = ["b", "c", "moves"]
            old.calls(), new.calls()
        for _ in range(5):
            old.calls(VERIFY), new.calls(VERIFY)
        assert not [r for r in placement.writes if r.method == "DELETE"]
        assert len([r for r in placement.writes if r.method == "POST"]) == created
        traits = placement.stranger.traits(uuid_of("moves"))
        assert tag_of(TWO) in traits and tag_of(ONE) not in traits
        assert not old.nodes.vanished
        quiet = placement.mark()
        old.calls(), new.calls()
        assert not [request for request in placement.since(quiet) if request.is_write]


def test_a_node_that_moves_to_another_service_has_only_the_classes_of_that(placement) -> None:
    old = Service(placement, Rack("a", "moves"), ONE).begun()
    new = Service(placement, Rack("b", "c"), TWO).begun()
    classes = lambda: set(placement.stranger.inventory(uuid_of("moves")))
    for here, there, name in [(new, old, "CUSTOM_NEW"), (old, new, "CUSTOM_LAST")]:
        here.has_nodes(*here.driver.names, "moves"), there.has_nodes(there.driver.names[0])
        here.driver.resource_class = name
        here.calls(), there.calls(), there.calls(2 * VERIFY + WAIT)
        assert classes() == {name}
    more = {"CUSTOM_LAST": {"total": 1}, "CUSTOM_OPERATORS": {"total": 1}}
    placement.stranger.set_inventory(uuid_of("moves"), more)
    old.restart().calls()  # without a state directory
    assert classes() == more.keys()


def test_a_switch_before_nodes_are_named_leaves_those_of_other_services(
    any_placement, tmp_path
) -> None:
    Service(any_placement, Rack("stays", "moves"), state=tmp_path).calls()
    Service(any_placement, Rack("moves"), TWO).calls()
    service = Service(any_placement, Rack(), state=tmp_path)
    reports = service.nodes.switch(service.now, disabled=True)
    assert not any(report.error for report in reports)
    traits = [any_placement.stranger.traits(uuid_of(name)) for name in ("stays", "moves")]
    assert ["COMPUTE_STATUS_DISABLED" in each for each in traits] == [True, False]
    assert tag_of(TWO) in traits[1]


def taken_over_before(method: str, placement: FakePlacement) -> tuple[Service, Service]:
    """A service that removes a node, and another one that takes it over right before a request."""
    service = vanished(placement)
    other = Service(placement, Rack("goes"), TWO)
    service.nodes.breaker.api = door = Door(placement)
    door.before.append((method, "", other.calls))
    service.period(WAIT), service.period()
    return service, other


def test_a_node_taken_over_at_the_last_moment_is_not_removed(placement) -> None:
    """The other service puts its mark there after we looked, before our first write."""
    service, _ = taken_over_before("PUT", placement)
    assert tag_of(TWO) in placement.stranger.traits(uuid_of("goes"))
    service.nodes.breaker.api = placement
    service.calls(WAIT)
    assert not service.nodes.vanished
    assert there(placement, "goes")


def test_a_node_removed_while_it_is_taken_over_is_made_again(placement) -> None:
    """The other service reads between our look and our delete."""
    _, other = taken_over_before("DELETE", placement)
    assert not there(placement, "goes")
    assert all(report.ok for report in other.period(2 * VERIFY))
    assert tag_of(TWO) in placement.stranger.traits(uuid_of("goes"))


def test_two_services_that_both_name_a_node_are_told_of_each_other(placement) -> None:
    one, two = Service(placement, Rack("a", "b"), ONE), Service(placement, Rack("b", "c"), TWO)
    one.calls(), two.calls()
    said = str([report.texts() for report in one.period(2 * VERIFY)])
    assert f"reported by the service with compute_id {TWO} too" in said
    two.driver.names = ["c"]
    two.period()
    one.period(2 * VERIFY)
    two.period(WAIT), one.period(2 * VERIFY)
    assert there(placement, "b")
    assert all(report.ok for report in one.period(2 * VERIFY))


@pytest.mark.parametrize("order", ["mine first", "theirs first"])
def test_marks_of_services(order: str) -> None:
    mine, theirs = tag_of(ONE), tag_of(TWO)
    traits = [mine, theirs, "COMPUTE_NODE", "CUSTOM_COMPUTE_AGENT_RACK"]
    assert tags_of_others(traits if order == "mine first" else traits[::-1], mine) == {theirs}
    assert service_of(theirs) == TWO
