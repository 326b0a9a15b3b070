"""A host that is renamed renames its providers: guests keep what they have, and nobody gets it too."""

import os
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from drivers.api import Device, DeviceDriver, DriverContext
from drivers.libvirt.tree.children import write_report
from drivers.libvirt.tree.reported import CELLS, HostReport, ReportedProvider
from reportclient.errors import Unreachable
from reportclient.provider_tree import own_uuid
from tests.agents import NODE, ROOT, Agent, Body
from tests.ownership.world import Host, entry
from tests.stranger import FakePlacement

FULL = f"{NODE}.example.org"
CLASS = "CUSTOM_CARD"
CARD = "c0ffee00-0000-4000-8000-0000000000c1"
OTHER_ROOT = "c0ffee00-0000-4000-8000-000000000002"


class Cards(DeviceDriver):
    """Lists these devices on each of its nodes."""

    def __init__(self, *listed: Device, nodes: tuple[str, ...] = (NODE,)) -> None:
        super().__init__(DriverContext(NODE, Path()))
        self.listed, self.nodes, self.uuids = listed, [*nodes], dict[str, str]()

    def get_available_nodes(self) -> list[str]:
        return self.nodes

    def get_nodenames_by_uuid(self) -> dict[str, str]:
        return self.uuids

    def devices(self, node: str) -> list[Device]:
        return [*self.listed]


def card(name: str = "card", **more: Any) -> Device:
    return Device(name, {CLASS: 4}, **more)


def creates(tree: Any, nodename: str, _: Any) -> None:
    """As Nova's drivers do."""
    name = f"{nodename}_card"
    if not tree.exists(name):
        tree.new_child(name, nodename)
    tree.update_inventory(name, {CLASS: {"total": 4}})


def removes_others_first(tree: Any, nodename: str, _: Any) -> None:
    for uuid in tree.get_own_uuids():
        if tree.data(uuid).name != f"{nodename}_card":
            tree.remove(uuid)
    creates(tree, nodename, _)


def lists(tree: Any, nodename: str, _: Any) -> None:
    tree.set_own_children({f"{nodename}_card": nodename})
    tree.update_inventory(f"{nodename}_card", {CLASS: {"total": 4}})


def names_it_itself(tree: Any, nodename: str, _: Any) -> None:
    if not tree.exists(CARD):
        tree.new_child(f"{nodename}_card", nodename, CARD)
    tree.rename(CARD, f"{nodename}_card")
    tree.update_inventory(CARD, {CLASS: {"total": 4}})


def as_libvirt_does(tree: Any, nodename: str, allocations: Any) -> None:
    device = ReportedProvider(f"{nodename}_card", {CLASS: {"total": 4}}, cell=0)
    cell = ReportedProvider(f"{nodename}_numa0", {"VCPU": {"total": 8}}, source=CELLS)
    write_report(tree, nodename, HostReport({}, {0: cell}, [device]), allocations)


BODIES = [creates, removes_others_first, lists, names_it_itself, as_libvirt_does]


def of(body: Body) -> Callable[..., Host]:
    """A host with a driver of this body, which may be called ``libvirt``."""
    return lambda placement, state: Host(placement, {"libvirt": body}, state)


def held(placement: FakePlacement, guest: str) -> dict[str, dict[str, int]]:
    found = placement.stranger.allocation(guest)["allocations"]
    return {uuid: part["resources"] for uuid, part in found.items()}


def free(placement: FakePlacement, resource_class: str = CLASS) -> int:
    """What Placement would give to new guests, all providers together."""
    store, left = placement.store, 0
    for uuid, row in store.providers.items():
        if record := row.inventory.get(resource_class):
            left += record["total"] - record["reserved"] - store.used(uuid, resource_class)
    return left


def named(placement: FakePlacement, name: str) -> str:
    (row,) = (row for row in placement.store.providers.values() if row.name == name)
    return str(row.uuid)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("loses", ["nothing", "its ledger"])
def test_every_way_to_report_a_child_renames_it(placement, tmp_path: Path, body, loses) -> None:
    host = of(body)(placement, tmp_path).settle()
    uuid = named(placement, f"{NODE}_card")
    guest = placement.stranger.put_allocation({uuid: {CLASS: 3}})
    for name in (FULL, NODE):
        if loses == "its ledger":
            host.lose_all()
            host.restart()
        host.is_called(name).settled()
        assert named(placement, f"{name}_card") == uuid
        assert len(placement.store.providers) == (3 if body is as_libvirt_does else 2)
        assert (held(placement, guest), free(placement)) == ({uuid: {CLASS: 3}}, 1)


# -- the case of letters


@pytest.mark.parametrize("ignores_case", [False, True])
def test_a_device_in_use_whose_name_differs_in_case_is_the_same(ignores_case: bool) -> None:
    """A Placement with a MariaDB takes no two names that differ only in case."""
    placement = FakePlacement(ignores_case=ignores_case)
    driver = Cards(card("GPU0"), nodes=("host1",))
    agent = Agent(placement, driver).settle()
    uuid = named(placement, "host1_GPU0")
    guest = placement.stranger.put_allocation({uuid: {CLASS: 3}})
    for node, name in (("HOST1", "GPU0"), ("HOST1", "gpu0"), ("Host1", "Gpu0")):
        driver.nodes, driver.listed = [node], (card(name),)
        agent.settled()
        assert named(placement, f"{node}_{name}") == uuid
        assert (held(placement, guest), free(placement)) == ({uuid: {CLASS: 3}}, 1)


def test_names_that_differ_in_case_are_exchanged() -> None:
    placement = FakePlacement(ignores_case=True)
    other = CARD.replace("c1", "c2")
    driver = Cards(card("a", uuid=CARD), card("b", uuid=other))
    agent = Agent(placement, driver).settle()
    guests = [placement.stranger.put_allocation({uuid: {CLASS: 3}}) for uuid in (CARD, other)]
    driver.listed = (card("B", uuid=CARD), card("A", uuid=other))
    agent.settled()
    assert (named(placement, f"{NODE}_B"), named(placement, f"{NODE}_A")) == (CARD, other)
    assert [held(placement, guest) for guest in guests] == [{CARD: {CLASS: 3}}, {other: {CLASS: 3}}]


def test_a_node_whose_name_differs_in_case_is_the_same(tmp_path: Path) -> None:
    placement = FakePlacement(ignores_case=True)
    driver = Cards(card(), nodes=("n1", "n2"))
    agent = Agent(placement, driver, state=tmp_path, keeps_names=True).settle()
    before = {row.name: uuid for uuid, row in placement.store.providers.items()}
    driver.nodes = ["n1", "N2"]
    agent.restart().settle()
    after = {row.name: uuid for uuid, row in placement.store.providers.items()}
    assert after == {name.replace("n2", "N2"): uuid for name, uuid in before.items()}


# -- one key, one provider


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        ((card("a"), card("A")), f"{NODE}_A already exists as {NODE}_a"),
        ((card("A"), card("a")), f"{NODE}_a already exists as {NODE}_A"),
        ((card("a", uuid=CARD), card("b", uuid=CARD)), f"{NODE}_a and {NODE}_b with one UUID"),
    ],
)
def test_two_devices_with_one_identity_are_refused_by_name(placement, listed, text) -> None:
    driver = Cards(listed[0])
    agent = Agent(placement, driver).settle()
    before = agent.view
    driver.listed = listed
    for _ in range(2):
        assert text in str(agent.period().texts())
    assert agent.view == before


def test_two_children_with_one_key_are_refused_by_name(placement) -> None:
    def both(tree: Any) -> None:
        for name in ("card", f"{NODE}_card"):
            if not tree.exists(name):
                tree.new_child(name, NODE)

    host = Host(placement, {"a": both})
    for _ in range(2):
        text = str(host.period().texts())
        assert (
            f"{NODE}_card already exists as card" in text
            or f"card already exists as {NODE}" in text
        )
    assert host.names() <= {NODE}


# -- beside other drivers, files, and another service's root


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_what_another_driver_and_a_file_add_stays(placement, tmp_path: Path, order) -> None:
    def adds(tree: Any, nodename: str, _: Any) -> None:
        for name in (f"{NODE}_card", f"{FULL}_card"):
            if tree.exists(name):
                tree.add_traits(name, "CUSTOM_B")

    bodies = {"a": creates, "b": adds}
    bodies = {name: bodies[name] for name in order}
    host = Host(placement, bodies, tmp_path / "state", tmp_path / "files")
    files = [entry(f"name: {name}_card", "CUSTOM_OF_FILE", CUSTOM_ADDED=2) for name in (NODE, FULL)]
    host.write_file(*files).settle()
    uuid = named(placement, f"{NODE}_card")
    guest = placement.stranger.put_allocation({uuid: {"CUSTOM_ADDED": 1}})
    placement.stranger.add_trait(uuid, "CUSTOM_THEIRS")
    host.is_called(FULL).settle()
    assert (host.uuid(f"{FULL}_card"), host.totals(uuid)) == (uuid, {CLASS: 4, "CUSTOM_ADDED": 2})
    assert host.custom(uuid) == {"CUSTOM_B", "CUSTOM_OF_FILE", "CUSTOM_THEIRS"}
    assert held(placement, guest) == {uuid: {"CUSTOM_ADDED": 1}}


def test_children_on_the_root_of_another_service_are_renamed(placement, tmp_path) -> None:
    stranger, driver = placement.stranger, Cards(card())
    stranger.create_provider(NODE, OTHER_ROOT)
    agent = Agent(placement, driver, root="", state=tmp_path, attached=True).settle()
    uuid = own_uuid(OTHER_ROOT, "card")
    guest = stranger.put_allocation({uuid: {CLASS: 3}})
    stranger.rename(OTHER_ROOT, FULL)
    driver.nodes = [FULL]
    agent.restart().settled()
    assert named(placement, f"{FULL}_card") == uuid
    assert (held(placement, guest), free(placement)) == ({uuid: {CLASS: 3}}, 1)


# -- a kill at each call, and an exchange of names


class Killing:
    """The way to Placement of an agent that is killed at a write, before or after it is done.

    What the agent has on disk then is in ``state``.
    """

    def __init__(self, placement: FakePlacement, host: Path, at: int, *, after: bool) -> None:
        self.placement, self.host, self.left, self.after = placement, host, at, after
        self.state = host.with_name(f"{host.name}-{at}")

    def request(self, method: str, path: str, **more: Any) -> Any:
        self.left -= self.left >= 0 and method != "GET"
        if self.left >= 0:
            return self.placement.request(method, path, **more)
        if not self.state.exists():
            if self.after:
                self.placement.request(method, path, **more)
            copytree(self.host, self.state, copy_function=os.link)  # no copies
        raise Unreachable("killed")


def swapped(placement: FakePlacement, state: Path, *listed: Device) -> tuple[Cards, Agent]:
    """Two nodes with devices, whose names are to be exchanged."""
    driver = Cards(*listed, nodes=("n1", "n2"))
    driver.uuids = {ROOT: "n1", OTHER_ROOT: "n2"}
    agent = Agent(placement, driver, state=state, keeps_names=True).settle()
    driver.uuids = {ROOT: "n2", OTHER_ROOT: "n1"}
    return driver, agent


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("listed", [card(), card(traits=["CUSTOM_A"])], ids=["plain", "more"])
def test_a_kill_at_any_write_of_an_exchange_of_names_loses_nothing(
    tmp_path: Path, after: bool, listed: Device
) -> None:
    for number in range(30):
        placement, state = FakePlacement(ignores_case=True), tmp_path / str(number)
        _, agent = swapped(placement, state, listed)
        uuids = own_uuid(ROOT, "card"), own_uuid(OTHER_ROOT, "card")
        guests = [placement.stranger.put_allocation({uuid: {CLASS: 3}}) for uuid in uuids]
        door = Killing(placement, state, number, after=after)
        agent.api = door  # type: ignore[assignment]
        agent.restart().periods()
        ended = not door.state.exists()
        agent.api, agent.state = placement, state if ended else door.state
        agent.restart().settle()
        assert (named(placement, "n2_card"), named(placement, "n1_card")) == uuids
        assert [held(placement, guest) for guest in guests] == [{u: {CLASS: 3}} for u in uuids]
        assert free(placement) == 2
        if ended:
            break
    assert ended and number > 4


def test_devices_with_uuids_of_two_nodes_exchange_their_names_too(tmp_path: Path) -> None:
    class Numbered(Cards):
        def devices(self, node: str) -> list[Device]:
            root = next(uuid for uuid, name in self.uuids.items() if name == node)
            return [card(uuid=own_uuid(root, "a number"))]

    placement = FakePlacement()
    driver = Numbered(nodes=("n1", "n2"))
    driver.uuids = {ROOT: "n1", OTHER_ROOT: "n2"}
    agent = Agent(placement, driver, state=tmp_path, keeps_names=True).settle()
    driver.uuids = {ROOT: "n2", OTHER_ROOT: "n1"}
    agent.periods()
    agent.settle()
    assert named(placement, "n2_card") == own_uuid(ROOT, "a number")
