"""A client writes nothing outside of its tree, and is ok only where Placement has what was set."""

import pytest

from reportclient.client import Client
from reportclient.errors import Conflict, NameTaken, NotOwned, NotSent, Rejected
from tests.agents import NODE, Agent, Small, child_uuid, devices, inventory
from tests.agents import ROOT as HOST
from tests.contract.test_report_client import full
from tests.contract.world import CHILD, GRANDCHILD, OTHER, ROOT, SECOND, World

STRANGER = "00000000-0000-4000-8000-0000000000b0"


@pytest.mark.parametrize(("name", "parent"), [("card", SECOND), ("theirs", ROOT), ("their", CHILD)])
def test_a_child_created_meanwhile_gets_the_name_and_parent_that_were_set(
    nova: World, client: Client, name: str, parent: str
) -> None:
    tree = client.tree(ROOT)
    tree.new_child("card", ROOT, OTHER)
    tree.update_inventory(OTHER, {"VGPU": {"total": 1}})
    nova.stranger.create_child(parent, name, OTHER)
    nova.stranger.set_inventory(OTHER, {"PCI_DEVICE": {"total": 1}})
    assert client.update(tree).ok
    card = nova.truth().get(OTHER)
    assert (card.name, card.parent_uuid) == ("card", ROOT)
    assert card.inventory == {"VGPU": full(1), "PCI_DEVICE": full(1)}


@pytest.mark.parametrize("name", ["theirs", "card"])
@pytest.mark.parametrize("is_root", [True, False])
def test_a_provider_of_another_tree_is_never_written_to(
    nova: World, client: Client, name: str, is_root: bool
) -> None:
    nova.stranger.create_provider("rack", STRANGER)
    if is_root:
        nova.stranger.create_provider(name, OTHER)
    else:
        nova.stranger.create_child(STRANGER, name, OTHER)
    nova.stranger.set_inventory(OTHER, {"PCI_DEVICE": {"total": 1}})
    before = [nova.stranger.provider(uuid) for uuid in (STRANGER, OTHER)]
    for _ in range(3):
        tree = client.tree(ROOT)
        tree.new_child("card", ROOT, OTHER)
        tree.update_inventory(OTHER, {"VGPU": {"total": 1}})
        tree.add_traits(ROOT, "HW_CPU_X86_AVX")
        result = client.update(tree)
        assert not result.ok and "in another tree" in str(result.failed[OTHER])
        assert [nova.stranger.provider(uuid) for uuid in (STRANGER, OTHER)] == before
    assert "HW_CPU_X86_AVX" in nova.truth().get(ROOT).traits, "all else is sent"
    with pytest.raises(NameTaken, match="in another tree"):
        Client(nova.api, strict=True).edit(ROOT, lambda tree: tree.new_child("card", ROOT, OTHER))


def test_a_root_that_owns_says_is_the_callers_is_written_to(nova: World) -> None:
    nova.stranger.create_provider("storage", OTHER)
    client = Client(nova.api, owns=lambda provider: provider.name == "storage")
    tree = client.tree(ROOT)
    tree.new_root("storage", OTHER)
    tree.add_traits(OTHER, "MISC_SHARES_VIA_AGGREGATE")
    assert client.update(tree).ok
    assert nova.stranger.traits(OTHER) == {"MISC_SHARES_VIA_AGGREGATE"}


def test_what_owns_forbids_is_not_changed_where_it_was_created_meanwhile(nova: World) -> None:
    client = Client(nova.api, owns=lambda provider: provider.name == "mine")
    tree = client.tree(ROOT)
    tree.new_child("mine", ROOT, OTHER)
    nova.stranger.create_child(ROOT, "theirs", OTHER)
    with pytest.raises(NotOwned, match=r"theirs .* is owned by another service$"):
        client.update(tree)
    assert nova.truth().get(OTHER).name == "theirs"


def test_a_parent_deleted_meanwhile_is_a_conflict_until_it_is_back(
    nova: World, client: Client
) -> None:
    tree = client.tree(ROOT)
    tree.new_child("card", SECOND, OTHER)
    nova.stranger.delete_provider(SECOND)
    for _ in range(2):
        with pytest.raises(Conflict, match="missing parent providers"):
            client.update(tree)
    nova.stranger.create_child(ROOT, "second", SECOND)
    client.stale(ROOT)
    assert client.update(tree).ok
    assert nova.truth().get(OTHER).parent_uuid == SECOND


def test_a_move_below_a_provider_that_was_moved_below_it_is_a_conflict(
    nova: World, client: Client
) -> None:
    tree = client.tree(ROOT)
    tree.move(CHILD, SECOND)
    nova.stranger.move(SECOND, CHILD)
    with pytest.raises(Conflict, match="their own ancestors"):
        client.update(tree)
    assert nova.truth().get(CHILD).parent_uuid == ROOT


@pytest.mark.parametrize("traits", [[], ["HW_CPU_X86_AVX"]])
def test_a_removal_that_leaves_a_provider_to_its_strange_child_is_not_ok(
    nova: World, client: Client, traits: list[str]
) -> None:
    tree = client.tree(ROOT)
    tree.remove(SECOND)
    tree.add_traits(GRANDCHILD, *traits)
    nova.stranger.create_child(SECOND, "theirs", OTHER)
    result = client.update(tree)
    strict = Client(nova.api, strict=True)
    with pytest.raises(NotSent, match="unknown to this Placement"):
        strict.edit(ROOT, lambda tree: tree.add_traits(ROOT, "HW_NOT_KNOWN_HERE"))
    assert not result.ok and [problem.uuid for problem in result.problems] == [SECOND]
    assert "not removed: another client" in str(result.problems[0])
    assert SECOND in nova.truth() and nova.truth().get(GRANDCHILD).traits == set(traits)


def test_a_root_is_named_by_its_uuid_in_any_notation(nova: World, client: Client) -> None:
    uuid = "AB000000-0000-4000-8000-00000000000F"
    assert client.update(client.tree(uuid, name="pool")).ok
    nova.stranger.create_child(uuid.lower(), "card")
    client.stale(uuid)
    assert client.tree(uuid.replace("-", "")).exists("card")
    assert client.edit(uuid, lambda tree: tree.add_traits(uuid, "HW_CPU_X86_AVX")).ok
    assert nova.stranger.traits(uuid.lower()) == {"HW_CPU_X86_AVX"}
    assert Client(nova.api).edit(uuid, lambda tree: tree.remove("card")).ok
    assert client.allocations(uuid) == {} and client.delete(uuid).ok
    for call in (client.tree, client.stale, client.delete, client.allocations):
        with pytest.raises(ValueError, match="root: 'compute1' is not a UUID"):
            call("compute1")


def test_a_child_in_the_place_of_a_root_is_told_from_one(nova: World, client: Client) -> None:
    text = rf"provider port \({GRANDCHILD}\) is not a root: it is below {CHILD}"
    with pytest.raises(Rejected, match=text):
        client.tree(GRANDCHILD)


def test_an_agents_child_with_the_uuid_of_a_foreign_root_changes_no_root(any_placement) -> None:
    device = f"{NODE}_dev1"
    agent = Agent(any_placement, Small(inventory()), Small(devices(device)))
    theirs = any_placement.stranger.create_provider("theirs", child_uuid(device))
    any_placement.stranger.set_inventory(theirs, {"PCI_DEVICE": {"total": 1}})
    before = any_placement.stranger.provider(theirs)
    for _ in range(3):
        report = agent.period()
        assert "in another tree" in str(report.texts())
        assert report.error is None, "all else of the node is reported"
    assert any_placement.stranger.provider(theirs) == before
    assert set(any_placement.stranger.inventory(HOST)) == {"VCPU"}
