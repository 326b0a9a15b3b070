"""Beside another owner of the root: what is written, what is not, and what is told."""

from collections.abc import Callable
from typing import Any, Self

import pytest

from agent.state.saved_root import SavedRoot
from drivers.api import ReshapeNeeded
from reportclient.provider_tree import own_uuid
from reportclient.view import View
from tests import agents
from tests.agents import Small, both
from tests.contract.world import Listings
from tests.stranger import FakePlacement

THEIRS, NODE = "c0ffee00-0000-4000-8000-00000000000a", "compute1"
AGGREGATE = "aaaaaaaa-0000-4000-8000-00000000000a"
MANAGED = "COMPUTE_MANAGED_PCI_DEVICE"
Body = Callable[[Any], None]


class Devices(Small):
    def __init__(self, body: Body, nodes: list[str]) -> None:
        super().__init__(body, nodes, supports_multiattach=True)

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        assert provider_tree.data(nodename).parent_uuid is None
        super().update_provider_tree(provider_tree, nodename, allocations)


def cards(*numbers: int, traits: tuple[str, ...] = ()) -> Body:
    def body(tree: Any) -> None:
        for number in range(4):
            name = f"card{number}"
            if number in numbers and not tree.exists(name):
                tree.new_child(name, NODE)
            elif number not in numbers and tree.exists(name):
                tree.remove(name)
            if number in numbers:
                tree.update_inventory(name, {"FPGA": {"total": 1}})
        tree.add_traits(NODE, *traits)

    return body


class Agent(agents.Agent):
    """Attached to another service's root."""

    def __init__(self, placement: FakePlacement, body: Body, own: str = "", **options: Any) -> None:
        self.driver = Devices(body, [NODE])
        wanted = {"owner_traits": ("CUSTOM_OURS",), "audit_every": None, "attached": True}
        wanted |= {"root": own, "named": {"cards": self.driver}, **options}
        super().__init__(placement, **wanted)

    def begun(self) -> Self:
        """After a period in which all is well."""
        self.writes()
        return self

    def writes(self, **options: Any) -> list[tuple[str, str]]:
        """Of a period in which all is well."""
        mark = self.placement.mark()
        report = self.period(**options)
        assert report.ok, report.texts()
        return [(r.method, r.path) for r in self.placement.since(mark) if r.is_write]


@pytest.fixture
def owned(placement: FakePlacement) -> FakePlacement:
    """With a root, its inventory and a child, as nova-compute makes them."""
    own_root(placement)
    return placement


def own_root(placement: FakePlacement, name: str = NODE, uuid: str = THEIRS) -> None:
    stranger = placement.stranger
    stranger.create_provider(name, uuid)
    stranger.set_inventory(uuid, {"VCPU": {"total": 8}})
    stranger.add_trait(uuid, "COMPUTE_NODE")
    stranger.set_aggregates(uuid, [AGGREGATE])
    child = stranger.create_child(uuid, f"{name}_pci", own_uuid(AGGREGATE, name))
    stranger.set_inventory(child, {"CUSTOM_PCI": {"total": 2}})


def names(placement: FakePlacement, root: str = THEIRS) -> set[str]:
    listed = placement.answer("GET", f"/resource_providers?in_tree={root}")
    return {item["name"] for item in listed["resource_providers"]}


def root_of(placement: FakePlacement) -> dict[str, Any]:
    stranger = placement.stranger
    return {
        **stranger.provider(THEIRS),
        "inventory": stranger.inventory(THEIRS),
        "traits": stranger.traits(THEIRS),
        "aggregates": stranger.aggregates(THEIRS),
    }


@pytest.mark.parametrize("own", ["", THEIRS])
def test_devices_are_hung_beneath_a_root_found_by_name_or_uuid(owned, own) -> None:
    before = root_of(owned)
    agent = Agent(owned, cards(0, 1), own)
    agent.writes(disabled=True)
    assert names(owned) == {NODE, f"{NODE}_pci", "card0", "card1"}
    assert root_of(owned) == before, "no trait, no status, no generation"
    assert agent.writes(disabled=False) == []
    assert agent.period(after=60).calls == 0
    switched = agent.switch(disabled=True)
    assert (switched.node, switched.calls) == (NODE, 0)
    assert agent.nodes.any_disabled() is None


@pytest.mark.parametrize(("here", "there"), [("h1", "h1.example.org"), ("h1.example.org", "h1")])
def test_a_root_whose_name_is_only_longer_or_shorter_is_named(placement, here, there) -> None:
    """One listing tells, in the first, second, fourth … period."""
    agent = Agent(placement, cards(0), named={"cards": Devices(cards(0), [here])})
    assert "is this host" not in str(agent.period().texts())
    root = placement.stranger.create_provider(there)
    placement.stranger.create_provider("h2.example.org")
    placement.stranger.add_trait(root, "COMPUTE_NODE")
    mark = placement.mark()
    texts = [str(agent.period().texts()) for _ in range(7)]
    step = f"if {there} ({root}) is this host: computectl adopt {there}"
    assert all(step in text for text in texts)
    listed = [each for each in placement.since(mark) if "required=COMPUTE_NODE" in each.path]
    assert len(listed) == 3


def test_a_root_known_by_its_uuid_may_have_another_name_than_the_node(placement) -> None:
    own_root(placement, "compute1.example.org")
    Agent(placement, cards(0), THEIRS).writes()
    assert names(placement) == {"compute1.example.org", "compute1.example.org_pci", "card0"}


def test_a_root_that_is_not_there_is_waited_for_and_never_made(placement, caplog) -> None:
    agent = Agent(placement, cards(0))
    for _ in range(2):
        report = agent.period()
        assert "waiting for the root provider compute1" in str(report.texts())
        assert report.calls == 0 and not placement.writes
    own_root(placement)
    agent.writes()
    assert "card0" in names(placement)


def test_a_root_made_anew_by_its_owner_is_found_again(owned) -> None:
    agent = Agent(owned, cards(0, traits=("CUSTOM_CARDS",))).begun()
    stranger = owned.stranger
    for uuid in (own_uuid(THEIRS, "card0"), own_uuid(AGGREGATE, NODE), THEIRS):
        stranger.delete_provider(uuid)
    for _ in range(2):  # the second one looks again: one listing may be wrong
        report = agent.period()
        text = f"waiting for the root provider {NODE}"
        assert text in str(report.texts()) and report.node == NODE
    own_root(owned, uuid=AGGREGATE)
    agent.writes()
    assert "card0" in names(owned, AGGREGATE)
    assert "CUSTOM_CARDS" in stranger.traits(AGGREGATE)


@pytest.mark.parametrize("orphan", [False, True], ids=["", "a child stays outside"])
@pytest.mark.parametrize("restarted", ["never", "while it is gone", "when it is back"])
def test_a_root_that_comes_back_with_its_uuid_gets_our_traits_again(
    owned, tmp_path, caplog, restarted: str, orphan: bool
) -> None:
    """Nova deletes the whole tree together with a service; the agent may be restarted meanwhile."""
    numbers = (0, 1) if orphan else (0,)
    agent = Agent(owned, cards(*numbers, traits=("CUSTOM_CARDS",)), THEIRS, state=tmp_path).begun()
    stranger = owned.stranger
    if orphan:
        agent.driver.body = cards(0, traits=("CUSTOM_CARDS",))
        agent.writes(), agent.writes()
    for uuid in (own_uuid(THEIRS, "card0"), own_uuid(AGGREGATE, NODE), THEIRS):
        stranger.delete_provider(uuid)
    assert "waiting for" in str(agent.period().texts())
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    if restarted == "while it is gone":
        agent.restart()
        assert "waiting for" in str(agent.period().texts())
    own_root(owned)
    if restarted == "when it is back":
        agent.restart()
    agent.writes()
    assert "CUSTOM_CARDS" in stranger.traits(THEIRS) and "card0" in names(owned)
    assert not agent.writes(), "and its owner has taken none away"


@pytest.mark.parametrize("steps", range(3), ids=["listed", "without inventory", "outside"])
def test_a_listing_without_the_root_gives_up_nothing(owned, steps: int) -> None:
    listings, driver = Listings(owned), Small(cards(0, 1, traits=("CUSTOM_CARDS",)), [NODE])
    agent = agents.Agent(
        listings, driver, root=THEIRS, owner_traits=("CUSTOM_OURS",), attached=True
    )
    agent.periods(600.0)
    driver.body = cards(0)
    for _ in range(steps):
        agent.periods(600.0)

    def all_providers() -> list[dict[str, Any]]:
        return owned.answer("GET", "/resource_providers")["resource_providers"]

    before, ledger = all_providers(), agent.tracker.ledger
    listings.edit = lambda listed: [it for it in listed if it["root_provider_uuid"] != THEIRS]
    assert "waiting for" in str(agent.period(600.0).texts())
    assert (all_providers(), agent.tracker.ledger.claims) == (before, ledger.claims)
    listings.edit = None
    driver.body = both(cards(0), lambda tree: tree.set_own_traits(NODE, []))
    for _ in range(6):
        agent.periods(600.0)
    assert "card1" not in str(all_providers()), "it goes, and the trait that nobody claims"
    assert "CUSTOM_CARDS" not in owned.stranger.traits(THEIRS)


def test_what_a_driver_does_to_what_is_not_ours_is_undone_and_told(owned) -> None:
    def bully(tree: Any) -> None:
        cards(0)(tree)
        tree.update_inventory(NODE, {"VCPU": {"total": 1}, "FPGA": {"total": 9}})
        tree.add_aggregates(NODE, THEIRS)
        tree.remove_traits(NODE, "COMPUTE_NODE")
        tree.remove(f"{NODE}_pci")
        tree.new_root("rack", own_uuid(THEIRS, "rack"))

    before = root_of(owned)
    agent = Agent(owned, bully)
    said = " ".join(agent.period().texts())
    assert "FPGA, VCPU not reported: another service owns this root and its inventory" in said
    assert "aggregates not changed: another service owns this root" in said
    assert "created by another service" in said
    assert "root_provider = attach allows no other root provider" in said
    assert root_of(owned) == before
    assert names(owned) == {NODE, f"{NODE}_pci", "card0"}
    assert not agent.period().done


def test_a_trait_that_the_owner_takes_away_is_given_up_and_told(owned) -> None:
    agent = Agent(owned, cards(0, traits=("CUSTOM_CARDS",))).begun()
    owned.stranger.remove_trait(THEIRS, "CUSTOM_CARDS")
    for _ in range(2):
        report = agent.period()
        assert "CUSTOM_CARDS not set again: the owner of this root removed it" in str(
            report.texts()
        )
        assert not report.done
    agent.driver.body = cards(0)
    agent.driver.body = lambda tree: (cards(0)(tree), tree.remove_traits(NODE, "CUSTOM_CARDS"))
    assert agent.writes() == []
    agent.driver.body = cards(0, traits=("CUSTOM_CARDS",))
    assert agent.writes(), "asked for anew"


def managed_card(tree: Any) -> None:
    cards(0)(tree)
    tree.add_traits("card0", MANAGED, "CUSTOM_CARD")
    tree.add_traits(NODE, MANAGED)


def test_no_provider_keeps_or_gets_the_mark_of_nova(owned) -> None:
    """Nova removes what has its mark and is not of its own making; older agents set it."""
    card = own_uuid(THEIRS, "card0")
    owned.stranger.create_child(THEIRS, "card0", card)
    owned.stranger.set_inventory(card, {"FPGA": {"total": 1}})
    for trait in (MANAGED, "CUSTOM_CARD"):
        owned.stranger.add_trait(card, trait)
    agent = Agent(owned, managed_card).begun()
    assert owned.stranger.traits(card) == {"CUSTOM_CARD"}
    assert MANAGED not in owned.stranger.traits(THEIRS)
    assert agent.writes() == []


def test_inventory_and_allocations_of_the_owner_are_not_moved(owned) -> None:
    guest = owned.stranger.put_allocation({THEIRS: {"VCPU": 1}})

    def moves(tree: Any, allocations: Any) -> None:
        if tree.exists("cell"):
            return
        if allocations is None:
            raise ReshapeNeeded
        cell = tree.new_child("cell", NODE)
        tree.update_inventory(cell, {"VCPU": {"total": 8}})
        tree.update_inventory(NODE, {})
        allocations[guest]["allocations"] = {cell: {"resources": {"VCPU": 1}}}

    agent = Agent(owned, moves)
    agent.driver.update_provider_tree = lambda tree, node, given=None: moves(tree, given)
    report = agent.period()
    text = f"consumer {guest}: its allocations on provider {NODE} were changed, and another service"
    assert text in str(report.texts())
    assert report.fatal, "as any reshape that fails at the start"
    assert THEIRS in owned.stranger.allocation(guest)["allocations"]
    assert names(owned) == {NODE, f"{NODE}_pci"}


def test_a_node_that_vanishes_leaves_the_root_alone(owned) -> None:
    agent = Agent(owned, cards(0)).begun()
    agent.driver.nodes = ["elsewhere"]
    for _ in range(3):
        agent.period(after=10_000)
    assert names(owned) == {NODE, f"{NODE}_pci", "card0"}


def test_a_child_outside_is_deleted_by_an_agent_that_has_only_its_ledger(owned, tmp_path) -> None:
    """It was killed right after it had taken the child out of the tree."""
    agent = Agent(owned, cards(0), THEIRS, state=tmp_path).begun()
    agent.driver.body = cards()
    agent.writes(), agent.writes()
    (outside,) = set(owned.store.providers) - {THEIRS, own_uuid(AGGREGATE, NODE)}
    saved = SavedRoot.in_directory(tmp_path, THEIRS)
    saved.load()
    saved.save(THEIRS, View())
    agent.restart()
    for _ in range(6):
        agent.writes()
    assert outside not in owned.store.providers


def test_nothing_is_written_to_a_placement_before_microversion_1_37() -> None:
    placement = FakePlacement("1.36")
    own_root(placement)
    agent = Agent(placement, cards(0))
    mark = placement.mark()
    report = agent.period()
    assert "needs microversion 1.37" in str(report.texts())
    assert not [request for request in placement.since(mark) if request.is_write]
