"""One provider by itself: as many calls as somebody with curl would need, whatever is beside it."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Thread

import pytest

from reportclient.client import Client
from reportclient.errors import (
    AlreadyThere,
    Conflict,
    InUse,
    NameTaken,
    NotFound,
    UnknownNames,
    Unreachable,
    Wrong,
)
from reportclient.model import Inventory
from reportclient.one_provider import OneProvider
from reportclient.root import ATTEMPTS
from reportclient.saved_view import FileStore
from reportclient.schedule import Times
from tests.contract.test_report_client import full
from tests.contract.world import AGG1, AGG2, OTHER, ROOT, SECOND, World, kinds

SIBLINGS = 40
UNIT = {"CUSTOM_RESERVATION": {"total": 4}}


@pytest.fixture
def world(any_placement) -> World:
    """A host with many children, and the class and trait that reservations have."""
    world = World.of(any_placement)
    world.stranger.create_provider("host", ROOT)
    world.stranger.create_child(ROOT, "second", SECOND)
    world.stranger.set_inventory(SECOND, UNIT)
    for number in range(SIBLINGS):
        world.stranger.create_child(ROOT, f"child {number}")
    world.stranger.add_trait(ROOT, "CUSTOM_RESERVED")
    return world


@pytest.fixture
def one(world: World) -> OneProvider:
    return Client(world.api, times=Times(pause=lambda seconds: None)).provider(OTHER)


def calls(world: World, action) -> list[str]:
    return kinds(world.calls_of(action))


def test_a_reservation_costs_what_it_costs_by_hand(world: World, one: OneProvider) -> None:
    def reserve() -> None:
        one.create("reservation", ROOT)
        one.set_records(UNIT)

    assert calls(world, reserve) == ["POST provider", "PUT inventories"]
    assert world.truth().get(OTHER).inventory == {"CUSTOM_RESERVATION": full(4)}
    change = {"CUSTOM_RESERVATION": {"total": 8}}
    assert calls(world, lambda: one.set_records(change)) == ["PUT inventories"]
    assert calls(world, lambda: one.set_records(change)) == []
    assert calls(world, lambda: one.add_traits("CUSTOM_RESERVED")) == ["PUT traits"]
    assert calls(world, lambda: one.add_aggregates(AGG1)) == ["PUT aggregates"]
    world.stranger.set_aggregates(OTHER, [AGG1, AGG2], old_microversion=True)
    change = calls(world, lambda: one.remove_aggregates(AGG1))
    assert change == ["GET aggregates", "PUT aggregates"], "their writes move no generation"
    assert world.truth().get(OTHER).aggregates == {AGG2} == one.aggregates
    assert calls(world, one.delete) == ["DELETE provider"]
    assert OTHER not in world.truth()
    one.delete()


def test_what_no_placement_takes_is_refused_before_a_call(world: World, one: OneProvider) -> None:
    one.create("reservation", ROOT)
    one.set_records({"VGPU": {"total": 4, "reserved": 2}})

    def refused() -> None:
        for record in ({"total": 4, "allocation_ratio": -1.0}, {"total": 1, "reserved": 2}):
            with pytest.raises(Wrong, match=f"{OTHER}: inventory of VGPU: "):
                one.set_records({"VGPU": record})
        with pytest.raises(Wrong, match="not a valid name"):
            one.set_records({"a class": {"total": 1}})
        for change in (one.remove_records, one.remove_traits, one.add_traits):
            with pytest.raises(ValueError, match="a list or a set of names is needed"):
                change(["VGPU"])  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="None is not a name"):
                change(None)  # type: ignore[arg-type]

    assert calls(world, refused) == []
    one.set_records({"VGPU": {"total": 1}})
    assert one.inventory["VGPU"].reserved == 1, "what is kept is at most the total"


def test_a_provider_with_children_is_in_use(world: World) -> None:
    with pytest.raises(InUse) as caught:
        Client(world.api).provider(ROOT).delete()
    assert caught.value.next == "wait" and SECOND in world.truth()


def test_of_a_provider_that_is_not_known_only_the_changed_part_is_read(world: World) -> None:
    one = Client(world.api).provider(SECOND.upper())
    assert calls(world, lambda: one.set_records({"VGPU": {"total": 1}})) == [
        "GET inventories",
        "PUT inventories",
    ]
    assert calls(world, lambda: one.add_traits("CUSTOM_RESERVED")) == ["GET traits", "PUT traits"]
    assert calls(world, lambda: one.remove_records("VGPU")) == ["PUT inventories"]
    second = world.truth().get(SECOND)
    assert second.inventory == {"CUSTOM_RESERVATION": full(4)} == one.inventory
    assert second.traits == {"CUSTOM_RESERVED"} == one.traits


def test_after_another_clients_write_it_is_read_and_changed_again(world, one: OneProvider) -> None:
    one.create("reservation", ROOT)
    one.set_records(UNIT)
    one.add_traits("CUSTOM_RESERVED")
    world.stranger.set_inventory(OTHER, {**UNIT, "VGPU": {"total": 1}})
    assert calls(world, lambda: one.set_records({"CUSTOM_RESERVATION": {"total": 8}})) == [
        "PUT inventories",
        "GET inventories",
        "PUT inventories",
    ]
    assert one.inventory == {"CUSTOM_RESERVATION": full(8), "VGPU": full(1)}
    assert world.truth().get(OTHER).inventory == one.inventory
    world.stranger.add_trait(OTHER, "HW_CPU_X86_AVX")
    world.stranger.set_aggregates(OTHER, [AGG1])
    one.remove_traits("CUSTOM_RESERVED")
    one.add_aggregates(AGG2)
    one.remove_aggregates(AGG1)
    assert (one.traits, one.aggregates) == ({"HW_CPU_X86_AVX"}, {AGG2})
    assert world.truth().get(OTHER).aggregates == {AGG2}


def test_a_part_that_was_read_before_another_clients_write_is_read_again(world: World) -> None:
    one = Client(world.api).provider(SECOND)
    assert one.traits == frozenset()
    world.stranger.add_trait(SECOND, "HW_CPU_X86_AVX")
    assert one.aggregates == frozenset()
    one.add_traits("CUSTOM_RESERVED")
    assert world.truth().get(SECOND).traits == {"HW_CPU_X86_AVX", "CUSTOM_RESERVED"}


def test_names_that_placement_does_not_know_are_created_or_refused(world, one: OneProvider) -> None:
    one.create("reservation", ROOT)
    new = {"CUSTOM_NEW_A": {"total": 1}, "CUSTOM_NEW_B": {"total": 1}}
    asked = calls(world, lambda: one.set_records(new))
    assert asked == ["PUT inventories", *2 * ["PUT resource_classes"], "PUT inventories"]
    one.add_traits("CUSTOM_NEW")
    assert world.truth().get(OTHER).traits == {"CUSTOM_NEW"}
    with pytest.raises(UnknownNames):
        one.add_traits("HW_NOT_KNOWN_HERE")
    assert one.traits == {"CUSTOM_NEW"}


def test_it_is_looked_up_by_its_uuid_with_its_usage(world: World, one: OneProvider) -> None:
    assert calls(world, lambda: one.listed() is None or pytest.fail()) == ["GET uuid"]
    one.create("reservation", ROOT)
    one.set_records(UNIT)
    world.stranger.put_allocation({OTHER: {"CUSTOM_RESERVATION": 3}})
    assert one.usages() == {"CUSTOM_RESERVATION": 3}
    assert calls(world, one.usages) == ["GET usages"]
    listed = one.listed()
    assert listed is not None
    assert (listed["name"], listed["root_provider_uuid"]) == ("reservation", ROOT)
    for remove in (one.delete, lambda: one.remove_records("CUSTOM_RESERVATION")):
        with pytest.raises(InUse):
            remove()
    assert world.truth().get(OTHER).inventory == {"CUSTOM_RESERVATION": full(4)}


@pytest.mark.parametrize("method", ["add_traits", "remove_traits"])
@pytest.mark.parametrize("traits", [(), ("CUSTOM_RESERVED",)])
def test_a_change_of_an_unknown_provider_is_refused(
    one: OneProvider, method: str, traits: tuple[str, ...]
) -> None:
    with pytest.raises(NotFound):
        getattr(one, method)(*traits)


def test_what_can_not_be_created_says_why(world: World, one: OneProvider) -> None:
    with pytest.raises(NameTaken):
        one.create("second", ROOT)
    with pytest.raises(Conflict, match="does not exist"):
        one.create("reservation", AGG1)
    world.stranger.create_provider("theirs", OTHER)
    with pytest.raises(AlreadyThere):
        one.create("reservation", ROOT)


def test_threads_that_share_a_provider_or_a_root_lose_no_write(world: World) -> None:
    """Six threads with four records each; as many children of the same root from other ones."""
    client = Client(world.api, times=Times(pause=lambda seconds: None))

    def report(number: int) -> None:
        for each in range(4):
            name = f"CUSTOM_{number}_{each}"
            client.provider(SECOND).set_records({name: {"total": 1}})
            client.edit(ROOT, lambda tree, name=name: tree.new_child(name, ROOT) and None)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(report, range(6)))
    truth, names = world.truth(), {f"CUSTOM_{n}_{each}" for n in range(6) for each in range(4)}
    assert truth.get(SECOND).inventory.keys() == {"CUSTOM_RESERVATION", *names}
    assert names <= {each.name for each in truth.walk()}


def test_what_a_thread_writes_between_a_read_and_its_write_stays(world: World) -> None:
    one, others = Client(world.api).provider(SECOND), list[Thread]()

    class Meanwhile(Inventory):
        def with_defaults(self, current: Inventory | None) -> Inventory:
            if not others:
                others.append(Thread(target=one.set_records, args=[{"VCPU": {"total": 2}}]))
                others[0].start()
                others[0].join(0.3)
            return full(self.total)

    one.set_records({"CUSTOM_RESERVATION": Meanwhile(8)})
    others[0].join(60)
    assert world.truth().get(SECOND).inventory.keys() == {"CUSTOM_RESERVATION", "VCPU"}


def test_clients_of_other_processes_lose_no_write_of_one_provider(world: World) -> None:
    clients = [Client(world.api) for _ in range(6)]

    def report(number: int) -> None:
        missing = {f"CUSTOM_{number}_{each}": {"total": 1} for each in range(4)}
        while missing:
            with suppress(Conflict):  # ten in a row, as on a busy machine: nothing was written
                name, record = next(iter(missing.items()))
                clients[number].provider(SECOND).set_records({name: record})
                del missing[name]

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(report, range(6)))
    assert len(world.truth().get(SECOND).inventory) == 1 + 24


def test_after_a_lost_answer_it_is_read_again(world: World, one: OneProvider) -> None:
    one.create("reservation", ROOT)
    world.api.fail_next("PUT", "/inventories$", Unreachable("away"), after=True)
    with pytest.raises(Unreachable):
        one.set_records(UNIT)
    assert calls(world, lambda: one.set_records(UNIT)) == ["GET inventories"]


def test_a_conflict_that_stays_is_raised(world: World, one: OneProvider) -> None:
    one.create("reservation", ROOT)
    for _ in range(ATTEMPTS):
        world.api.fail_next("PUT", "/inventories$", Conflict("made up"))
    with pytest.raises(Conflict, match="made up"):
        one.set_records(UNIT)
    one.set_records(UNIT)


def test_what_is_forgotten_is_read_again(world: World, tmp_path) -> None:
    client = Client(world.api, store=FileStore(tmp_path))
    client.tree(ROOT), client.provider(SECOND).traits
    assert len(list(tmp_path.iterdir())) == 1
    client.forget(ROOT), client.forget(SECOND)
    assert not list(tmp_path.iterdir())
    assert "GET in_tree" in calls(world, lambda: client.tree(ROOT))
    assert calls(world, lambda: client.provider(SECOND).traits) == ["GET traits"]
