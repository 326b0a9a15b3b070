"""What a guest uses is not given to a second one when a host describes it in another way."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.reporting.condition import Severity
from drivers.api import Device, DeviceDriver, DriverContext
from drivers.libvirt.tree.children import write_report
from drivers.libvirt.tree.reported import CELLS, HostReport, ReportedProvider
from drivers.libvirt.tree.reported import child_uuid as libvirt_child
from reportclient.client import Client
from reportclient.errors import PlacementError
from tests.agents import NODE, ROOT, VERIFY, Agent, Small, child_uuid, door_to
from tests.stranger import FakePlacement

CARD = child_uuid(f"{NODE}_card")
OLD, NEW, BESIDE = "CUSTOM_OLD", "CUSTOM_NEW", "CUSTOM_BESIDE"


class Listing(DeviceDriver):
    def __init__(self, name: str = "", classes: dict[str, int] | None = None) -> None:
        super().__init__(DriverContext(NODE, Path()))
        self.name, self.classes, self.parts = name, classes, []

    def devices(self, node):
        return self.parts or [Device(self.name, dict(self.classes))]


def started(
    any_placement, classes: dict[str, int], name: str = "card", state: Path | None = None
) -> tuple[Agent, Listing]:
    driver = Listing(name, classes)
    agent = Agent(any_placement, driver, state=state).settle()
    return agent, driver


def amounts(any_placement, uuid: str = CARD) -> dict[str, tuple[int, int]]:
    found = any_placement.stranger.inventory(uuid).items()
    return {name: (row["total"], row["reserved"]) for name, row in found}


def test_the_new_class_of_a_card_in_use_comes_when_its_guest_has_gone(any_placement, tmp_path):
    agent, driver = started(any_placement, {OLD: 1}, state=tmp_path)
    guest = any_placement.stranger.put_allocation({CARD: {OLD: 1}})
    driver.classes = {NEW: 1}
    for _ in range(2):
        report = agent.period()
        assert report.ok and amounts(any_placement) == {OLD: (1, 1)}
        with pytest.raises((PlacementError, AssertionError)):
            any_placement.stranger.put_allocation({CARD: {NEW: 1}})
    (text,) = report.texts(Severity.INFO)
    assert f"{OLD} is in use by {guest}" in text and f"{NEW} is reported" in text
    agent.restart().period()
    assert amounts(any_placement) == {OLD: (1, 1)}
    any_placement.stranger.delete_allocation(guest)
    agent.period()
    assert amounts(any_placement) == {NEW: (1, 0)}


def test_the_new_class_of_a_card_that_nobody_uses_comes_in_one_write(any_placement):
    agent, driver = started(any_placement, {OLD: 1})
    driver.classes = {NEW: 1}
    report = agent.period(1.0)
    assert [type(each).__name__ for each in report.done] == ["EnsureClass", "SetInventory"]
    assert amounts(any_placement) == {NEW: (1, 0)}


@pytest.mark.parametrize(
    ("before", "reported", "expected"),
    [
        ({OLD: 1}, [{OLD: 1, BESIDE: 2}], {OLD: (1, 0), BESIDE: (2, 0)}),
        ({OLD: 2, BESIDE: 2}, [{BESIDE: 1}], {OLD: (2, 2), BESIDE: (1, 0)}),
        ({OLD: 2, BESIDE: 2}, [{BESIDE: 4}], {OLD: (2, 2), BESIDE: (2, 0)}),
        ({OLD: 1}, [{}], {OLD: (1, 1)}),
        ({OLD: 1}, [{}, {NEW: 1}], {OLD: (1, 1)}),
        ({OLD: 1}, [{NEW: 1}, {OLD: 1}], {OLD: (1, 0)}),
    ],
    ids=["beside one that stays", "shrinks", "grows", "goes", "replaced later", "comes back"],
)
def test_classes_of_a_card_while_its_old_one_is_in_use(any_placement, before, reported, expected):
    agent, driver = started(any_placement, before)
    any_placement.stranger.put_allocation({CARD: {OLD: 1}})
    for driver.classes in reported:
        agent.period(1.0)
    assert amounts(any_placement) == expected


@pytest.mark.parametrize("saved", [True, False], ids=["view saved", "view lost"])
def test_a_partition_is_offered_once_larger_ones_in_use_leave_room(any_placement, tmp_path, saved):
    """Two of size 3, then one of 3 and four of 1: Placement takes such an inventory as it is."""
    agent, driver = started(any_placement, {OLD: 2}, state=tmp_path if saved else None)
    guests = [any_placement.stranger.put_allocation({CARD: {OLD: 1}}) for _ in range(2)]
    driver.classes = {OLD: 1, NEW: 4}
    report = agent.period()
    assert report.ok and amounts(any_placement) == {OLD: (2, 2)}
    (text,) = report.texts(Severity.INFO)
    assert f"{OLD} is in use by" in text and all(guest in text for guest in guests)
    assert text.endswith(f"{OLD} is reduced when enough of them are gone, and {NEW} is reported")
    assert agent.period(1.0).calls == 0
    agent.restart().period()
    assert amounts(any_placement) == {OLD: (2, 2)}
    any_placement.stranger.delete_allocation(guests[0])
    agent.period()
    assert amounts(any_placement) == {OLD: (1, 0), NEW: (4, 0)}


@pytest.mark.parametrize(
    ("before", "now", "meanwhile"),
    [
        ({"VCPU": 8}, {"PCPU": 8}, {"VCPU": (8, 8)}),
        ({"VCPU": 8, "PCPU": 1}, {"VCPU": 4, "PCPU": 5}, {"VCPU": (8, 8), "PCPU": (1, 0)}),
        (
            {"CUSTOM_HUGEPAGES_2M": 8, "MEMORY_MB": 8},
            {"CUSTOM_HUGEPAGES_2M": 4, "MEMORY_MB": 16},
            {"CUSTOM_HUGEPAGES_2M": (8, 8), "MEMORY_MB": (8, 0)},
        ),
    ],
)
def test_cpus_and_pages_are_in_one_class_and_all_else_comes_at_once(
    any_placement, before, now, meanwhile
):
    agent, driver = started(any_placement, before, NODE)
    guest = any_placement.stranger.put_allocation({ROOT: {next(iter(before)): 6}})
    driver.classes = {**now, "DISK_GB": 9}
    agent.period()
    assert amounts(any_placement, ROOT) == {**meanwhile, "DISK_GB": (9, 0)}
    any_placement.stranger.delete_allocation(guest)
    agent.period(2 * VERIFY)
    found = {name: total for name, (total, _) in amounts(any_placement, ROOT).items()}
    assert found == driver.classes


def test_a_numa_cell_is_no_device(any_placement):
    agent, driver = started(any_placement, {"VCPU": 8})
    any_placement.stranger.put_allocation({CARD: {"VCPU": 1}})
    any_placement.stranger.add_trait(CARD, "HW_NUMA_ROOT")
    driver.classes = {"PCPU": 8, "MEMORY_MB": 1024}
    agent.period()
    assert amounts(any_placement) == {"VCPU": (8, 8), "MEMORY_MB": (1024, 0)}


def test_a_program_that_uses_the_library_offers_it_once_too(any_placement):
    any_placement.stranger.create_provider(NODE, ROOT)
    client = Client(door_to(any_placement))

    def report(resource_class: str):
        tree = client.tree(ROOT)
        if not tree.exists(CARD):
            tree.new_child(f"{NODE}_card", NODE, CARD)
        tree.update_inventory(CARD, {resource_class: {"total": 1}})
        return client.update(tree)

    assert report(OLD).ok
    guest = any_placement.stranger.put_allocation({CARD: {OLD: 1}})
    report(NEW)
    assert amounts(any_placement) == {OLD: (1, 1)}
    any_placement.stranger.delete_allocation(guest)
    report(NEW)
    assert amounts(any_placement) == {NEW: (1, 0)}


def offered(placement, resource_class: str) -> int:
    """The sum of what Placement's candidates have free of a class."""
    found = placement.request("GET", f"/allocation_candidates?resources={resource_class}:1")
    uuids = {uuid for each in found["allocation_requests"] for uuid in each["allocations"]}
    amounts = (found["provider_summaries"][uuid]["resources"] for uuid in uuids)
    return sum(each[resource_class]["capacity"] - each[resource_class]["used"] for each in amounts)


def parts(**totals: int) -> list[Device]:
    """Partitions of one card: of the class CUSTOM_3 those named ``a...``, CUSTOM_1 others."""
    return [
        Device(name, {f"CUSTOM_{3 if name[0] == 'a' else 1}": total}, silicon="card:0")
        for name, total in totals.items()
    ]


def begun(placement, tmp_path, attached: bool, *devices: Device) -> tuple[Agent, Listing]:
    """An agent that has reported these devices; ``attached`` to the root of another service."""
    if attached:
        placement.stranger.create_provider(NODE, ROOT)
    driver = Listing()
    driver.parts = [*devices]
    rules = {"attached": True, "root": ""} if attached else {}
    agent = Agent(placement, driver, state=tmp_path, **rules).settle()
    return agent, driver


ONES = {f"b{n}": 1 for n in range(4)}


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize(
    ("before", "after", "leaves"),
    [({"a0": 1, "a1": 1}, {"a0": 1, **ONES}, "a1"), ({"a": 2, "b": 1}, {"a": 1, "b": 5}, "a")],
    ids=["not listed", "listed with less"],
)
def test_partitions_of_one_silicon_wait_for_the_guests_of_others(
    placement, tmp_path, attached, before, after, leaves
):
    other = Device("other", {"CUSTOM_1": 1}, silicon="card:1")
    agent, driver = begun(placement, tmp_path, attached, *parts(**before), other)
    ones = offered(placement, "CUSTOM_1")
    for name in [name for name in before if name != "b"]:
        for _ in range(before[name]):
            uuid = child_uuid(f"{NODE}_{name}")
            guest = placement.stranger.put_allocation({uuid: {"CUSTOM_3": 1}})
    driver.parts = [*parts(**after), replace(other, inventory={"CUSTOM_1": 2})]
    for _ in range(3):
        report = agent.period()
        assert (offered(placement, "CUSTOM_1"), offered(placement, "CUSTOM_3")) == (ones + 1, 0)
        ill = report.texts(Severity.DEGRADED)
        waits = [text for text in ill if f"waits for {NODE}_{leaves}" in text]
        assert len(waits) == len(after) - 1
        agent.restart()
    agent.period()
    assert agent.period(1.0).calls == 0
    placement.stranger.delete_allocation(guest)
    for _ in range(3):
        report = agent.period()
    assert report.ok and not report.texts(Severity.DEGRADED)
    assert (offered(placement, "CUSTOM_1"), offered(placement, "CUSTOM_3")) == (ones + 5, 0)


# -- cards with a UUID in slots

FIRST, SECOND = "c0ffee00-0000-4000-8000-0000000000c1", "c0ffee00-0000-4000-8000-0000000000c2"


def slot(name: str, uuid: str) -> Device:
    return Device(name, {NEW: 1}, uuid=uuid)


@pytest.fixture(params=[False, True], ids=["own root", "attached"])
def slots(any_placement, tmp_path, request) -> tuple[Agent, Listing]:
    return begun(any_placement, tmp_path, request.param, slot("81", FIRST), Device("other"))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_card_replaced_in_its_slot_is_offered_and_the_old_one_drains(slots, restarts):
    agent, driver = slots
    stranger = agent.placement.stranger
    guest = stranger.put_allocation({FIRST: {NEW: 1}})
    driver.parts = [slot("81", SECOND), Device("other")]
    for _ in range(3):
        report = agent.period()
        assert report.ok and f"in use by {guest}" in " ".join(report.texts(Severity.INFO))
        assert stranger.provider(SECOND)["name"] == f"{NODE}_81"
        assert stranger.provider(FIRST)["name"] == f"{NODE}_81_removed_{FIRST}"
        assert amounts(agent.placement, SECOND) == {NEW: (1, 0)}
        assert amounts(agent.placement, FIRST) == {NEW: (1, 1)}
        if restarts:
            agent.restart()
    stranger.delete_allocation(guest)
    for _ in range(6):
        assert agent.period(1000.0).ok
    assert FIRST not in agent.tracker.view.snapshot and len(agent.tracker.view.snapshot) == 3


def test_two_cards_in_use_that_exchange_their_slots_go_on_as_they_are(slots):
    agent, driver = slots
    driver.parts.append(slot("82", SECOND))
    agent.settled()
    agent.placement.stranger.put_allocation({FIRST: {NEW: 1}})
    driver.parts = [slot("82", FIRST), slot("81", SECOND), Device("other")]
    agent.settled()
    for name, uuid in (("82", FIRST), ("81", SECOND)):
        assert agent.placement.stranger.provider(uuid)["name"] == f"{NODE}_{name}"
        assert amounts(agent.placement, uuid) == {NEW: (1, 0)}


# -- cells


def cells(count: int) -> dict[int, ReportedProvider]:
    """32 CPUs and 64 GiB in so many NUMA cells."""
    totals = {"VCPU": 32 // count, "MEMORY_MB": 65536 // count}
    records = {name: {"total": total, "max_unit": total} for name, total in totals.items()}
    return {
        number: ReportedProvider(f"{NODE}_numa{number}", records, source=CELLS)
        for number in range(count)
    }


@pytest.mark.parametrize("count", [2, 4])
def test_more_numa_cells_offer_what_the_guests_of_fewer_do_not_hold(placement, tmp_path, count):
    driver = Small(
        lambda tree, given: write_report(tree, NODE, HostReport(cells=shape), given) and None
    )
    shape = cells(1)
    agent = Agent(placement, driver, state=tmp_path).settle()
    home = libvirt_child(ROOT, "numa0")
    for size in (16, 8):
        placement.stranger.put_allocation({home: {"VCPU": size, "MEMORY_MB": 2048 * size}})
    shape = cells(count)
    agent.period()
    assert "needs a reshape" in " ".join(agent.period().texts())
    assert (offered(placement, "VCPU"), offered(placement, "MEMORY_MB")) == (8, 16384)
    agent.restart().settled()
    assert (offered(placement, "VCPU"), offered(placement, "MEMORY_MB")) == (8, 16384)
    assert len(agent.tracker.view.snapshot) == 1 + count


# -- any sequence of layouts of a card of seven units, guests and restarts

LAYOUTS = [(threes, ones) for threes in range(3) for ones in range(8 - 3 * threes)]


def laid_out(form: int, threes: int, ones: int) -> list[Device]:
    """Providers of one partition each, of one size each, or one of all."""
    if form == 0:
        return parts(**{f"a{n}": 1 for n in range(threes)}, **{f"b{n}": 1 for n in range(ones)})
    sizes = {name: n for name, n in (("CUSTOM_3", threes), ("CUSTOM_1", ones)) if n}
    if form == 1:
        return parts(**{"a" if name == "CUSTOM_3" else "b": n for name, n in sizes.items()})
    return [Device("c", sizes, silicon="card:0")]


@dataclass
class Watched:
    """Placement in memory; after each request no unit of the card is offered twice."""

    placement: FakePlacement = field(default_factory=FakePlacement)
    guests: list[tuple[str, str, str]] = field(default_factory=list)

    def request(self, method, path, *, json=None, needs=None):
        answer = self.placement.request(method, path, json=json, needs=needs)
        self.free()
        return answer

    def free(self) -> list[tuple[str, str]]:
        """Return a provider and class for each partition that a guest may get."""
        found, used = [], Counter((uuid, name) for uuid, name, _ in self.guests)
        answer = self.placement.answer("GET", f"/resource_providers?in_tree={ROOT}")
        for uuid in (each["uuid"] for each in answer["resource_providers"]):
            for name, row in self.placement.stranger.inventory(uuid).items():
                found += [(uuid, name)] * (row["total"] - row["reserved"] - used[uuid, name])
        assert sum(int(name[-1]) for _, name in [*found, *used.elements()]) <= 7
        return found

    def begin(self, number: int) -> None:
        for uuid, name in self.free()[:number]:
            guest = self.placement.stranger.put_allocation({uuid: {name: 1}})
            self.guests.append((uuid, name, guest))

    def end(self, number: int) -> None:
        for _, _, guest in self.guests[:number]:
            self.placement.stranger.delete_allocation(guest)
        del self.guests[:number]


SOME = st.integers(0, 3)
STEPS = st.tuples(st.integers(0, 2), st.sampled_from(LAYOUTS), SOME, SOME, st.booleans())


@given(steps=st.lists(STEPS, min_size=2, max_size=8))
@example(steps=[(0, (2, 0), 2, 0, False), (0, (1, 4), 0, 0, True), (0, (1, 4), 0, 1, False)])
def test_no_unit_of_a_card_is_offered_twice_whatever_it_is_divided_into(steps):
    door, driver = Watched(), Listing()
    with TemporaryDirectory() as state:
        agent = Agent(door, driver, state=Path(state))
        for form, (threes, ones), more, less, restarts in steps:
            driver.parts = [*laid_out(form, threes, ones), Device("other")]
            agent.period()
            door.begin(more)
            door.end(less)
            if restarts:
                agent.restart()
        door.end(len(door.guests))
        for _ in range(4):
            report = agent.period()
        assert not report.texts(Severity.DEGRADED)
        found = Counter(name for _, name in door.free())
        assert (found["CUSTOM_3"], found["CUSTOM_1"]) == (threes, ones)
