"""Reading, planning and writing, against the fake and against a real Placement alike."""

from collections import Counter
from dataclasses import replace

import pytest

from reportclient.apply import apply
from reportclient.errors import (
    Conflict,
    NameTaken,
    NotFound,
    PlacementError,
    UnknownNames,
    Unreachable,
)
from reportclient.model import SHARES_VIA_AGGREGATE, Inventory
from reportclient.plan import Reshape, diff
from reportclient.provider_tree import ProviderTree
from reportclient.reader import LazyAllocations, refresh
from reportclient.snapshot import Snapshot
from reportclient.view import View
from tests.contract.world import (
    AGG1,
    AGG2,
    CHILD,
    GRANDCHILD,
    OTHER,
    ROOT,
    SECOND,
    World,
    host,
    kinds,
)


def full(total: int, **said: object) -> Inventory:
    return Inventory(total, **said).with_defaults(None)


def assert_same(view: View, world: World) -> None:
    """The view is what Placement has, and reading it again finds nothing new."""
    assert view.snapshot == world.truth()
    assert dict(view.generations) == {uuid: world.generation(uuid) for uuid in view.generations}
    again = world.read(view)
    assert again.snapshot is view.snapshot and again.generations == view.generations


# -- writing


CHANGES = {
    "traits": (lambda t: t.add_traits(CHILD, "HW_CPU_X86_AVX"), "PUT traits"),
    "no traits": (lambda t: t.update_traits(CHILD, []), "PUT traits"),
    "aggregates": (lambda t: t.add_aggregates(CHILD, AGG2), "GET aggregates, PUT aggregates"),
    "no aggregates": (lambda t: t.remove_aggregates(ROOT, AGG1), "GET aggregates, PUT aggregates"),
    "inventory": (lambda t: t.update_inventory(ROOT, {"VCPU": {"total": 9}}), "PUT inventories"),
    "no inventory": (lambda t: t.update_inventory(ROOT, {}), "PUT inventories"),
    "a new class": (
        lambda t: t.update_inventory(CHILD, {"CUSTOM_NEW": {"total": 1}}),
        "PUT resource_classes, PUT inventories",
    ),
    "a new custom trait": (lambda t: t.add_traits(CHILD, "CUSTOM_NEW"), "PUT traits, PUT traits"),
    "a rename": (lambda t: t.rename(CHILD, "renamed"), "PUT provider"),
    "a renamed root": (lambda t: t.rename(ROOT, "renamed"), "PUT provider"),
    "a move": (lambda t: t.move(GRANDCHILD, SECOND), "PUT provider"),
    "a move up": (lambda t: t.move(GRANDCHILD, ROOT), "PUT provider"),
    "a leaf gone": (lambda t: t.remove(SECOND), "DELETE provider"),
    "a subtree gone": (lambda t: t.remove(CHILD), "DELETE provider, DELETE provider"),
    "a child": (lambda t: t.new_child("new", SECOND), "POST provider"),
    "a new parent in between": (
        lambda t: (t.new_child("new", ROOT, OTHER), t.move(CHILD, OTHER)),
        "POST provider, PUT provider",
    ),
    "a name handed on": (
        lambda t: (t.rename(CHILD, "renamed"), t.rename(SECOND, "device")),
        "PUT provider, PUT provider",
    ),
    "names swapped": (
        lambda t: (t.rename(CHILD, "x"), t.rename(SECOND, "device"), t.rename(CHILD, "second")),
        "PUT provider, PUT provider, PUT provider",
    ),
    "a name taken over from one that goes": (
        lambda t: (t.remove(SECOND), t.new_child("second", CHILD, OTHER)),
        "PUT provider, POST provider, DELETE provider",
    ),
    "a name taken over from one whose child stays": (
        lambda t: (t.move(GRANDCHILD, ROOT), t.remove(CHILD), t.new_child("device", ROOT, OTHER)),
        "PUT provider, POST provider, PUT provider, DELETE provider",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_each_change_costs_its_calls_and_arrives(what: str, world: World) -> None:
    change, expected = CHANGES[what]
    view = world.settled(host())
    tree = view.edit()
    change(tree)
    outcomes = []
    calls = kinds(world.calls_of(lambda: outcomes.append(world.applied(view, tree))))
    (outcome,) = outcomes
    assert Counter(calls) == Counter(expected.split(", "))
    assert outcome.stopped_by is None and not outcome.failed
    assert world.truth() == as_placement_shows(tree) == outcome.view.snapshot
    assert_same(outcome.view, world)
    assert not world.planned(outcome.view, outcome.view.edit())


# -- names


@pytest.mark.parametrize(
    ("traits", "classes"),
    [({"HW_OF_THE_FUTURE", "COMPUTE_OF_THE_FUTURE"}, set()), (set(), {"FUTURE_THING"})],
    ids=["traits", "a class"],
)
def test_unknown_standard_names_are_left_out_and_the_rest_is_sent(
    world: World, traits: set[str], classes: set[str]
) -> None:
    view = world.read()
    wish = host()
    wish.add_traits(ROOT, *traits)
    inventory = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 1024}}
    wish.update_inventory(ROOT, inventory | {name: {"total": 1} for name in classes})
    outcome = world.applied(view, wish)
    assert isinstance(outcome.stopped_by, UnknownNames)
    names = outcome.view.names
    assert (names.absent_traits, names.absent_classes) == (traits, classes)
    outcome = world.applied(outcome.view, wish)
    assert outcome.stopped_by is None and not outcome.failed
    assert world.truth() == host_as_created()
    assert not world.planned(outcome.view, wish), "it is not asked for again"


def host_as_created() -> Snapshot:
    return as_placement_shows(host())


def as_placement_shows(tree: ProviderTree) -> Snapshot:
    """With Placement's defaults for what the tree leaves unsaid."""
    wish = tree.freeze()
    filled = ProviderTree(wish)
    for uuid, provider in wish.providers.items():
        filled.update_inventory(
            uuid,
            {
                name: record.with_defaults(None).as_dict()
                for name, record in provider.inventory.items()
            },
        )
    return filled.freeze()


def test_a_custom_trait_that_somebody_deleted_is_made_again(world: World) -> None:
    tree = ProviderTree()
    tree.new_root("host", ROOT)
    view = world.settled(tree)
    view = replace(view, names=replace(view.names, traits=frozenset({"CUSTOM_FORGOTTEN"})))
    tree = view.edit()
    tree.add_traits(ROOT, "CUSTOM_FORGOTTEN")
    outcome = world.applied(view, tree)
    assert isinstance(outcome.stopped_by, UnknownNames)
    outcome = world.applied(outcome.view, tree)
    assert outcome.stopped_by is None
    assert world.truth().get(ROOT).traits == {"CUSTOM_FORGOTTEN"}


# -- what is in use


def with_a_guest(world: World, tree: ProviderTree) -> tuple[View, str]:
    """The view once a guest uses the grandchild of this tree, and the guest."""
    view = world.settled(tree)
    guest = world.stranger.put_allocation({GRANDCHILD: {"CUSTOM_LINK": 1}})
    return world.read(view), guest


def test_a_taken_name_fails_with_all_below_and_others_go_on(world: World) -> None:
    world.stranger.create_provider("device", OTHER)
    view = world.read()
    outcome = world.applied(view, host())
    assert set(outcome.failed) == {CHILD, GRANDCHILD}
    assert all(isinstance(err, NameTaken) for err in outcome.failed.values())
    assert set(world.truth().providers) == {ROOT, SECOND}
    assert world.truth().get(ROOT).inventory, "the rest is complete"
    assert world.generation(OTHER) == 0
    assert_same(outcome.view, world)


# -- somebody else writes


def edited_beside_a_stranger(world: World) -> tuple[View, ProviderTree]:
    """A view of a host, a child of which then gets a trait, and a tree to edit."""
    view = world.settled(host())
    world.stranger.add_trait(CHILD, "CUSTOM_FOREIGN")
    return view, view.edit()


@pytest.mark.parametrize("what", ["traits", "aggregates", "inventory"])
def test_a_conflict_stops_the_plan_and_overwrites_nothing_foreign(what: str, world: World) -> None:
    view, tree = edited_beside_a_stranger(world)
    change(tree, what)
    outcome = world.applied(view, tree)
    assert isinstance(outcome.stopped_by, Conflict)
    assert not outcome.view.certain
    assert "CUSTOM_FOREIGN" in world.truth().get(CHILD).traits
    calls = kinds(world.calls_of(lambda: world.read(outcome.view)))
    assert calls == [
        "GET in_tree",
        "GET inventories",
        "GET traits",
        "GET aggregates",
        "GET member_of",
    ]
    view = world.read(outcome.view)
    assert view.certain
    tree = view.edit()
    change(tree, what)
    outcome = world.applied(view, tree)
    assert outcome.stopped_by is None
    assert "CUSTOM_FOREIGN" in world.truth().get(CHILD).traits
    assert_same(outcome.view, world)


def change(tree: ProviderTree, what: str) -> None:
    if what == "traits":
        tree.add_traits(CHILD, "CUSTOM_OURS")
    elif what == "aggregates":
        tree.add_aggregates(CHILD, AGG2)
    else:
        tree.update_inventory(CHILD, {"VGPU": {"total": 1}})


@pytest.mark.parametrize("what", ["rename", "move"])
def test_a_rename_does_not_adopt_a_generation_that_a_stranger_moved(what: str, world) -> None:
    """Its reply shows the generation of now; under that we have read nothing yet."""
    view, tree = edited_beside_a_stranger(world)
    if what == "rename":
        tree.rename(CHILD, "renamed")
    else:
        tree.move(CHILD, SECOND)
    tree.add_traits(CHILD, "CUSTOM_OURS")
    outcome = world.applied(view, tree)
    assert "CUSTOM_FOREIGN" in world.truth().get(CHILD).traits
    assert isinstance(outcome.stopped_by, Conflict)


def test_a_rename_leaves_a_provider_where_a_stranger_has_moved_it(world: World) -> None:
    view = world.settled(host())
    world.stranger.move(CHILD, SECOND)
    tree = view.edit()
    tree.rename(CHILD, "renamed")
    outcome = world.applied(view, tree)
    renamed = world.truth().get(CHILD)
    assert (renamed.name, renamed.parent_uuid) == ("renamed", SECOND)
    assert isinstance(outcome.stopped_by, Conflict) and not outcome.view.certain


def test_a_generation_moved_by_allocations_is_no_conflict_once_read(world: World) -> None:
    view = world.settled(host())
    world.stranger.add_trait(ROOT, "CUSTOM_FOREIGN")
    view = world.read(view)
    guest = world.stranger.put_allocation({ROOT: {"VCPU": 1}})
    again = world.read(view)
    assert again.snapshot is view.snapshot, "nothing that we look at has changed"
    assert again.generations[ROOT] == world.generation(ROOT) == view.generations[ROOT] + 1
    tree = again.edit()
    tree.update_inventory(ROOT, {"VCPU": {"total": 16}, "MEMORY_MB": {"total": 1024}})
    tree.add_traits(ROOT, "HW_CPU_X86_AVX")
    outcome = world.applied(again, tree)
    assert outcome.stopped_by is None and not outcome.failed
    assert "CUSTOM_FOREIGN" in world.truth().get(ROOT).traits
    world.stranger.delete_allocation(guest)
    calls = world.calls_of(lambda: world.read(outcome.view))
    assert len(calls) == 2, "taking an allocation away moves no generation"


def test_a_provider_that_a_stranger_deleted_is_created_again(world: World) -> None:
    view = world.settled(host())
    world.stranger.delete_provider(SECOND)
    tree = view.edit()
    tree.update_inventory(SECOND, {"VGPU": {"total": 1}})
    wish = tree.freeze()
    outcome = world.applied(view, tree)
    assert isinstance(outcome.stopped_by, NotFound) and not outcome.view.certain
    view = world.read(outcome.view)
    assert SECOND not in view.snapshot
    outcome = apply(diff(view.snapshot, wish, names=view.names), view, world.api)
    assert outcome.stopped_by is None
    assert world.truth().get(SECOND).inventory == {"VGPU": full(1)}
    assert_same(outcome.view, world)


def test_a_provider_that_is_gone_already_when_it_is_deleted(world: World) -> None:
    view = world.settled(host())
    world.stranger.delete_provider(SECOND)
    tree = view.edit()
    tree.remove(SECOND)
    outcome = world.applied(view, tree)
    assert isinstance(outcome.stopped_by, NotFound)
    view = world.read(outcome.view)
    assert view.snapshot == tree.freeze()


def test_a_root_that_a_stranger_deleted_is_read_as_nothing_and_made_again(world: World) -> None:
    view = world.settled(host())
    for uuid in (GRANDCHILD, CHILD, SECOND, ROOT):
        world.stranger.delete_provider(uuid)
    view = world.read(view)
    assert len(view.snapshot) == 0 and not view.generations
    assert world.applied(view, host()).stopped_by is None
    assert world.truth() == host_as_created()


# -- lost replies


def next_after(world: World, view: View, tree: ProviderTree) -> View:
    """The next period: read, then write what is missing."""
    wish = tree.freeze()
    view = world.read(view)
    outcome = apply(diff(view.snapshot, wish, names=view.names), view, world.api)
    assert outcome.stopped_by is None and not outcome.failed
    return outcome.view


@pytest.mark.parametrize("came_through", [True, False])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/resource_providers$"),
        ("PUT", "/traits/CUSTOM_GOLD$"),
        ("PUT", "/resource_classes/"),
        ("PUT", f"{ROOT}/traits$"),
        ("PUT", "/aggregates$"),
        ("PUT", "/inventories$"),
    ],
)
def test_a_write_whose_answer_was_lost_is_done_once_in_the_end(
    method: str, path: str, came_through: bool, world: World
) -> None:
    """Whether it came through is read first, but for the names, which may be made twice."""
    world.api.fail_next(method, path, Unreachable("reply lost"), after=came_through)
    tree = host()
    outcome = world.applied(world.read(), tree)
    assert isinstance(outcome.stopped_by, Unreachable)
    assert outcome.view.certain is path.startswith(("/traits/CUSTOM", "/resource_classes/"))
    assert not world.api.faults
    view = next_after(world, outcome.view, tree)
    assert world.truth() == host_as_created()
    assert_same(view, world)


@pytest.mark.parametrize("came_through", [True, False])
@pytest.mark.parametrize("what", ["a rename", "a move", "a leaf gone", "a subtree gone"])
def test_a_lost_rename_move_or_delete_is_read_first(what: str, came_through: bool, world) -> None:
    view = world.settled(host())
    tree = view.edit()
    CHANGES[what][0](tree)
    method = CHANGES[what][1].split()[0]
    world.api.fail_next(method, "/resource_providers/", Unreachable("lost"), after=came_through)
    outcome = world.applied(view, tree)
    assert isinstance(outcome.stopped_by, Unreachable)
    view = next_after(world, outcome.view, tree)
    assert world.truth() == tree.freeze()
    assert_same(view, world)


def test_a_reading_that_breaks_off_adopts_nothing(world: World) -> None:
    view = world.settled(host())
    world.stranger.add_trait(CHILD, "CUSTOM_FOREIGN")
    for path in ("in_tree", "/inventories$", "/traits$", "/aggregates$", "member_of"):
        world.api.fail_next("GET", path, Unreachable("broken off"))
        with pytest.raises(PlacementError, match="broken off"):
            world.read(view)
        assert not world.api.faults
    assert "CUSTOM_FOREIGN" in world.read(view).snapshot.get(CHILD).traits


# -- what is read again


def test_everything_is_read_again_when_asked_for(world: World) -> None:
    view = world.settled(host())
    world.stranger.set_aggregates(SECOND, [AGG2], old_microversion=True)
    assert world.read(view).snapshot.get(SECOND).aggregates == frozenset(), "the blind spot"
    audited = refresh(view, ROOT, world.api, everything=True)
    assert audited.snapshot.get(SECOND).aggregates == {AGG2}


# -- sharing providers and allocations


def shared_storage(world: World, *aggregates: str, traits=(SHARES_VIA_AGGREGATE,)) -> None:
    world.stranger.create_provider("storage root", "00000000-0000-4000-8000-0000000000b0")
    world.stranger.create_child("00000000-0000-4000-8000-0000000000b0", "storage", OTHER)
    world.stranger.set_traits(OTHER, traits)
    world.stranger.set_aggregates(OTHER, aggregates)
    world.stranger.set_inventory(OTHER, {"DISK_GB": {"total": 100}})


def test_a_sharing_provider_is_shown_as_a_lone_root(world: World) -> None:
    shared_storage(world, AGG1)
    world.settled(host())
    view = world.read()
    assert OTHER in view.sharing and view.snapshot.get(OTHER).parent_uuid is None
    assert len(view.snapshot) == 5


def test_providers_that_do_not_share_or_not_with_us_are_not_shown(world: World) -> None:
    shared_storage(world, AGG2)
    world.settled(host())
    assert OTHER not in world.read().snapshot, "an aggregate that we are not in"
    world.stranger.set_aggregates(OTHER, [AGG1])
    assert OTHER in world.read().snapshot
    world.stranger.set_traits(OTHER, [])
    assert OTHER not in world.read().snapshot, "it does not share"


# -- reshapes


def held_by(world: World, guest: str) -> dict[str, dict[str, int]]:
    held = world.stranger.allocation(guest)["allocations"]
    return {uuid: part["resources"] for uuid, part in held.items()}


def test_a_reshape_empties_what_goes_in_the_same_call(world: World) -> None:
    """Else a guest could land there before it is deleted."""
    view, guest = with_a_guest(world, host())
    moved = dict(LazyAllocations(view, world.api))
    tree = view.edit()
    tree.remove(GRANDCHILD)
    tree.update_inventory(SECOND, {"CUSTOM_LINK": {"total": 2}})
    moved[guest]["allocations"] = {SECOND: {"resources": {"CUSTOM_LINK": 1}}}

    plan = diff(view.snapshot, tree.freeze(), moved, names=view.names)
    (reshape,) = [operation for operation in plan if isinstance(operation, Reshape)]
    assert reshape.inventories[GRANDCHILD] == {}
    outcome = apply(plan, view, world.api)

    assert not outcome.failed and outcome.stopped_by is None
    assert held_by(world, guest) == {SECOND: {"CUSTOM_LINK": 1}}
    assert GRANDCHILD not in world.truth()
    assert_same(outcome.view, world)


def test_a_reshape_over_two_roots_keeps_the_generations_of_both(world: World) -> None:
    tree = host()
    tree.new_root("pool", OTHER)
    view = world.settled(tree)
    tree = view.edit()
    tree.update_inventory(ROOT, {"VCPU": {"total": 8}})
    tree.update_inventory(OTHER, {"MEMORY_MB": {"total": 1024}})
    plan = diff(view.snapshot, tree.freeze(), {}, names=view.names)
    outcome = apply(plan, view, world.api)
    generations = {uuid: world.generation(uuid) for uuid in (ROOT, OTHER)}
    assert {uuid: outcome.view.generations.get(uuid) for uuid in generations} == generations
