"""When a child that leaves another service's root may be deleted, step by step."""

from typing import Any

import pytest

from agent.nodes.foreign_roots import ForeignRoots
from agent.ownership.answers import Answers
from agent.ownership.ledger import Ledger
from agent.ownership.policy import AttachedPolicy
from agent.period.attach import AttachedRoot, children_outside
from agent.period.rules import Rules
from agent.period.traits import AgentTraits
from reportclient.errors import Unreachable
from reportclient.model import KEPT_NAME_LENGTH, Inventory, Provider, name_when_removed
from reportclient.provider_tree import Claims, own_uuid
from reportclient.snapshot import Snapshot
from tests.ownership.test_attach import AGGREGATE, NODE, THEIRS, Agent, cards, names, own_root
from tests.stranger import FakePlacement

CARD = own_uuid(THEIRS, "card0")
FULL = {"FPGA": Inventory(1)}
BOARD = own_uuid(THEIRS, "board")


OUTSIDE = f"card0_removed_{CARD}"


@pytest.mark.parametrize(
    ("inventory", "aggregates", "parent", "is_leaf", "outside_for", "wait", "after"),
    [
        (FULL, (), THEIRS, True, None, 900.0, THEIRS),
        (FULL, (), THEIRS, False, None, None, THEIRS),
        (FULL, (), None, True, 5000.0, 900.0, None),
        ({}, (AGGREGATE,), THEIRS, True, None, 900.0, THEIRS),
        ({}, (), THEIRS, True, None, 900.0, None),
        ({}, (), THEIRS, False, None, 900.0, THEIRS),
        ({}, (), THEIRS, True, None, None, THEIRS),
        ({}, (), None, True, None, 900.0, None),
        ({}, (), None, True, 899.0, 900.0, None),
        ({}, (), None, True, 900.0, 900.0, "deleted"),
        ({}, (), None, False, 900.0, 900.0, None),
        ({}, (), None, True, 5000.0, None, None),
    ],
)
def test_the_next_step(inventory, aggregates, parent, is_leaf, outside_for, wait, after) -> None:
    """``after``: the child's parent after the step; it is empty then, unless it is deleted."""
    name = OUTSIDE if parent is None else "card0"
    child = Provider(CARD, name, parent, inventory, frozenset(), frozenset(aggregates))
    below = () if is_leaf else (Provider(BOARD, "board", CARD),)
    observed = Snapshot.build([Provider(THEIRS, NODE), child, *below])
    since = {} if outside_for is None else {CARD: 10_000.0 - outside_for}
    leaving = AttachedRoot(since)
    rules = Rules(owner_traits=(), remove_child_after=wait, verify_every=1.0)
    without = observed.with_changes({CARD: None})
    overdue = leaving.overdue(observed, rules, 10_000.0)
    desired = leaving.with_next_steps(observed, without, overdue)
    if after == "deleted":
        assert CARD not in desired
    else:
        wanted = Provider(CARD, "card0" if after else OUTSIDE, after)
        assert desired.providers[CARD] == wanted


def test_the_name_outside_says_what_it_was_and_fits_into_placement() -> None:
    child = Provider(CARD, "c" * 200, THEIRS)
    name = name_when_removed(child)
    assert name.startswith("c" * KEPT_NAME_LENGTH) and name.endswith(CARD) and len(name) <= 200
    there = Provider(CARD, name)
    assert name_when_removed(there) == name
    root = Provider(THEIRS, NODE)
    assert list(children_outside(Snapshot.build([root, there]))) == [there]


@pytest.mark.parametrize("name", ["card0", OUTSIDE])
@pytest.mark.parametrize("parent", [THEIRS, None])
@pytest.mark.parametrize("inventory", [{}, FULL])
@pytest.mark.parametrize("is_leaf", [True, False])
def test_drivers_are_not_shown_children_that_are_outside_or_come_back(
    name, parent, inventory, is_leaf
) -> None:
    child = Provider(CARD, name, parent, inventory)
    below = () if is_leaf else (Provider(BOARD, "board", CARD),)
    hidden = AttachedRoot().hidden(Snapshot.build([Provider(THEIRS, NODE), child, *below]))
    outside, back = parent is None, not inventory and is_leaf
    expected = {CARD, *(each.uuid for each in below)} if outside or back else set()
    assert hidden == (expected if name == OUTSIDE else set())


def test_each_node_gets_its_root_or_the_reason_why_not() -> None:
    placement, names = FakePlacement(), ["first", "second", "third", "fourth", "fifth"]
    placement.stranger.create_provider("theirs", THEIRS)
    placement.stranger.create_child(THEIRS, "third", CARD)
    placement.stranger.create_provider("fourth", BOARD)
    away = Unreachable("away")
    placement.fail_next("GET", "name=first", away)
    roots = ForeignRoots(api=placement)
    uuids = roots.uuids(names, "the id of one node", {"fifth": THEIRS})
    assert uuids == {"fourth": BOARD, "fifth": THEIRS}
    assert list(roots.awaited) == ["first", "second", "third"] and roots.awaited["first"] is away
    assert "waiting for the root provider second" in str(roots.awaited["second"])
    assert "third has a parent" in str(roots.awaited["third"])
    assert roots.uuids(["first"], CARD, {}) == {"first": CARD}
    assert not roots.awaited


def test_a_child_is_deleted_after_two_verifications_and_a_half_at_least() -> None:
    for verify, wait in ((600.0, 1500.0), (300.0, 900.0), (None, None)):
        assert Rules(owner_traits=(), verify_every=verify).child_wait == wait


def test_the_agent_denies_nova_s_mark_on_its_own_providers_only() -> None:
    observed = Snapshot.build([Provider(THEIRS, NODE), Provider(CARD, "card0", THEIRS)])
    ledger = Ledger()
    for uuid, held in ((THEIRS, False), (CARD, True), (BOARD, True)):
        ledger = ledger.adding("driver:one", uuid, Claims(held, traits=frozenset({"CUSTOM_A"})))
    traits = AgentTraits(host=Provider(THEIRS, NODE), capabilities=[], disabled=True, owners=[])
    policy = AttachedPolicy(THEIRS)
    said = AttachedRoot().with_agents_answer(Answers(), traits, observed, ledger, policy)
    assert [list(each.absent) for each in said.in_order] == [[CARD]]


@pytest.fixture
def owned() -> FakePlacement:
    placement = FakePlacement()
    own_root(placement)
    return placement


@pytest.fixture
def agent(owned: FakePlacement) -> Agent:
    """Whose driver has two cards, and then one."""
    agent = Agent(owned, cards(0, 1)).begun()
    agent.driver.body = cards(1)
    return agent


def place(uuid: str) -> str:
    return f"/resource_providers/{uuid}"


def test_a_child_is_emptied_then_taken_out_and_deleted_late(agent: Agent, owned) -> None:
    assert agent.writes(after=60) == [("PUT", f"{place(CARD)}/inventories")]
    assert agent.writes(after=60) == [("PUT", place(CARD))]
    assert "card0" not in names(owned)
    assert owned.stranger.provider(CARD)["parent_provider_uuid"] is None
    for _ in range(15):
        assert agent.writes(after=60) == []
    assert agent.writes(after=60) == [("DELETE", place(CARD))]
    assert agent.writes() == []
    assert names(owned) == {NODE, f"{NODE}_pci", "card1"}


def test_a_child_that_was_taken_out_unheard_is_found_again_and_deleted(agent: Agent, owned) -> None:
    agent.writes(after=60)
    owned.fail_next("PUT", f"{place(CARD)}$", Unreachable("no answer"), after=True)
    agent.period(after=60)
    assert owned.stranger.provider(CARD)["parent_provider_uuid"] is None
    for _ in range(20):
        agent.period(after=60)
    assert CARD not in owned.store.providers


def test_a_child_that_is_renamed_outside_is_deleted_all_the_same(agent: Agent, owned) -> None:
    def by_uuid(tree: Any) -> None:
        cards(1)(tree)
        if tree.exists(CARD):
            tree.remove(CARD)

    agent.driver.body = by_uuid
    for _ in range(2):
        agent.writes(after=60)
    owned.stranger.rename(CARD, "mine")
    for _ in range(25):
        agent.period(after=60)
    assert CARD not in owned.store.providers


def test_a_child_that_is_reported_again_goes_back_to_its_place(agent: Agent, owned) -> None:
    for _ in range(3):
        agent.writes(after=60)
    agent.driver.body = cards(0, 1)
    assert agent.writes(after=60) == [("PUT", place(CARD)), ("PUT", f"{place(CARD)}/inventories")]
    assert names(owned) == {NODE, f"{NODE}_pci", "card0", "card1"}
    assert owned.stranger.inventory(CARD)["FPGA"]["total"] == 1
    agent.driver.body = cards(1)
    for _ in range(16):
        agent.writes(after=60)
    assert owned.stranger.provider(CARD), "it waits anew"


def test_its_name_is_free_for_another_child(agent: Agent, owned) -> None:
    def replaced(tree: Any) -> None:
        cards(1)(tree)
        if not tree.exists("card0"):
            tree.new_child("card0", NODE, BOARD)
        if tree.data("card0").uuid != BOARD:
            tree.remove("card0")
            tree.new_child("card0", NODE, BOARD)
        tree.update_inventory("card0", {"FPGA": {"total": 2}})

    agent.driver.body = replaced
    for _ in range(3):
        agent.writes(after=60)
    assert owned.stranger.provider(BOARD)["name"] == "card0"
    assert owned.stranger.provider(CARD)["name"] == f"card0_removed_{CARD}"
    for _ in range(20):
        agent.writes(after=60)
    assert names(owned) == {NODE, f"{NODE}_pci", "card0", "card1"}


def test_a_child_in_use_is_drained_and_stays_in_the_tree(agent: Agent, owned) -> None:
    guest = owned.stranger.put_allocation({CARD: {"FPGA": 1}})
    for _ in range(20):
        agent.period(after=60)
    assert owned.stranger.inventory(CARD)["FPGA"]["reserved"] == 1
    assert "card0" in names(owned)
    owned.stranger.delete_allocation(guest)
    for _ in range(8):
        agent.period(after=60)
    assert "card0" not in names(owned)


def test_a_restart_begins_the_wait_anew(owned, tmp_path) -> None:
    agent = Agent(owned, cards(0, 1), state=tmp_path).begun()
    agent.driver.body = cards(1)
    for _ in range(10):
        agent.writes(after=60)
    again = Agent(owned, cards(1), state=tmp_path)
    writes = [write for _ in range(15) for write in again.writes(after=60)]
    assert writes == []
    assert again.writes(after=60) == [("DELETE", place(CARD))]


def test_a_child_comes_back_where_the_state_was_lost(agent: Agent, owned) -> None:
    for _ in range(3):
        agent.writes(after=60)
    again = Agent(owned, cards(0, 1))
    for _ in range(2):
        again.period(after=60)
    assert names(owned) == {NODE, f"{NODE}_pci", "card0", "card1"}
    assert again.writes() == []


def test_by_an_option_a_child_stays_in_the_tree_empty(owned) -> None:
    agent = Agent(owned, cards(0, 1), remove_child_after=None).begun()
    agent.driver.body = cards(1)
    assert agent.writes() == [("PUT", f"{place(CARD)}/inventories")]
    assert [agent.writes() for _ in range(5)] == [[]] * 5
    assert "card0" in names(owned) and not owned.stranger.inventory(CARD)


def test_what_is_outside_goes_with_the_root(agent: Agent, owned) -> None:
    for _ in range(2):
        agent.writes(after=60)
    stranger = owned.stranger
    for uuid in (own_uuid(THEIRS, "card1"), own_uuid(AGGREGATE, NODE), THEIRS):
        stranger.delete_provider(uuid)
    for _ in range(2):
        assert "waiting for" in str(agent.period().texts())
    assert not owned.answer("GET", "/resource_providers")["resource_providers"]
