"""What a plan is, for any two forests."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from reportclient.model import Inventory, Names, Provider
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    Plan,
    SetAggregates,
    SetInventory,
    SetTraits,
    UpdateProvider,
    diff,
    edits_of,
)
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot
from tests.property import strategies as ours

pairs = ours.edited_snapshots()


def replayed(base: Snapshot, plan: Plan) -> Snapshot:
    providers: dict[str, Provider | None] = {**base.providers}
    for operation in plan:
        providers |= edits_of(operation, providers.get)
    return Snapshot.build(provider for provider in providers.values() if provider is not None)


def positions(plan: Plan, *kinds: type) -> list[int]:
    return [number for number, operation in enumerate(plan) if isinstance(operation, kinds)]


@given(pairs)
def test_replaying_the_plan_gives_the_wish(pair: tuple[Snapshot, Snapshot]) -> None:
    before, after = pair
    plan = diff(before, after)
    assert not plan.problems
    result = replayed(before, plan)
    assert result == after
    assert not diff(result, after)


@given(pairs)
def test_a_plan_does_not_depend_on_how_the_wish_was_made(pair: tuple[Snapshot, Snapshot]) -> None:
    before, after = pair
    short, long = diff(before, after), diff(before, ours.rebuilt(after))
    assert said_beside_renames(short) == said_beside_renames(long)
    assert replayed(before, short) == replayed(before, long) == after


def said_beside_renames(plan: Plan) -> list[str]:
    """Which names are given up in between depends on the order of moves."""
    return sorted(
        repr(operation) for operation in plan if not isinstance(operation, UpdateProvider)
    )


@given(pairs)
def test_no_operation_ever_leaves_a_broken_tree(pair: tuple[Snapshot, Snapshot]) -> None:
    """As Placement refuses them: two of one name, a cycle, children left alone."""
    before, after = pair
    names = {uuid: provider.name for uuid, provider in before.providers.items()}
    parents = {uuid: provider.parent_uuid for uuid, provider in before.providers.items()}
    for operation in diff(before, after):
        match operation:
            case CreateProvider(uuid, name, parent) | UpdateProvider(uuid, name, parent):
                assert name not in {n for other, n in names.items() if other != uuid}
                assert parent is None or parent in parents
                names[uuid], parents[uuid] = name, parent
                assert uuid not in ancestors(uuid, parents)
            case DeleteProvider(uuid):
                assert uuid not in parents.values(), "children would be left alone"
                del names[uuid], parents[uuid]
            case _:
                pass


def ancestors(uuid: str, parents: dict[str, str | None]) -> list[str]:
    found: list[str] = []
    above = parents[uuid]
    while above is not None and above not in found:
        found.append(above)
        above = parents[above]
    return found


@given(pairs)
def test_a_provider_is_renamed_in_between_only_where_names_collide(
    pair: tuple[Snapshot, Snapshot],
) -> None:
    before, after = pair
    updates = [op.uuid for op in diff(before, after) if isinstance(op, UpdateProvider)]
    held = {provider.name for provider in before.providers.values()}
    taking = {p.name for u, p in after.providers.items() if before.get(u) != p and p.name in held}
    for uuid in set(updates):
        extra = updates.count(uuid) - (uuid in after and moved_or_renamed(uuid, before, after))
        assert extra == 0 or (extra == 1 and before.providers[uuid].name in taking)


def moved_or_renamed(uuid: str, before: Snapshot, after: Snapshot) -> bool:
    one, two = before.providers[uuid], after.providers[uuid]
    return (one.name, one.parent_uuid) != (two.name, two.parent_uuid)


@given(pairs)
def test_each_thing_is_said_once_and_only_where_it_differs(pair: tuple[Snapshot, Snapshot]) -> None:
    before, after = pair
    plan = diff(before, after)
    said = [
        (type(operation), operation.uuid)
        for operation in plan
        if isinstance(operation, SetTraits | SetAggregates | SetInventory | DeleteProvider)
    ]
    assert len(said) == len(set(said))
    fields = {SetTraits: "traits", SetAggregates: "aggregates", SetInventory: "inventory"}
    for uuid, provider in after.providers.items():
        known = before.get(uuid)
        for kind, field in fields.items():
            empty = frozenset() if field != "inventory" else {}
            was = getattr(known, field) if known else empty
            assert ((kind, uuid) in said) == (was != getattr(provider, field))


@given(pairs)
def test_names_come_before_their_use_and_inventory_comes_last(
    pair: tuple[Snapshot, Snapshot],
) -> None:
    before, after = pair
    plan = diff(before, after)
    traits: set[str] = set()
    classes: set[str] = set()
    for operation in plan:
        match operation:
            case EnsureTrait(name):
                traits.add(name)
            case EnsureClass(name):
                classes.add(name)
            case SetTraits(_, wished):
                assert {name for name in wished if name.startswith("CUSTOM_")} <= traits
            case SetInventory(_, inventory):
                assert {name for name in inventory if name.startswith("CUSTOM_")} <= classes
            case _:
                pass
    last = positions(plan, SetInventory)
    assert not last or last == list(range(last[0], len(plan)))
    placed = positions(plan, CreateProvider, UpdateProvider)
    carried = positions(plan, SetTraits, SetAggregates, SetInventory)
    assert not placed or not carried or max(placed) < min(carried)


@given(pairs)
def test_known_names_are_not_made_again_and_none_is_made_twice(
    pair: tuple[Snapshot, Snapshot],
) -> None:
    before, after = pair
    known = Names(frozenset(ours.TRAITS), frozenset(ours.CLASSES))
    assert not positions(diff(before, after, names=known), EnsureTrait, EnsureClass)
    made = [op for op in diff(before, after) if isinstance(op, EnsureTrait | EnsureClass)]
    assert len(made) == len(set(made))


@given(pairs, st.frozensets(st.sampled_from(ours.TRAITS + ours.CLASSES)))
def test_absent_names_are_left_out_and_everything_else_is_sent(
    pair: tuple[Snapshot, Snapshot], absent: frozenset[str]
) -> None:
    before, after = (
        without(snapshot, absent) if n == 0 else snapshot for n, snapshot in enumerate(pair)
    )
    result = replayed(
        before, diff(before, after, names=Names(absent_traits=absent, absent_classes=absent))
    )
    assert result == without(after, absent)


def without(snapshot: Snapshot, absent: frozenset[str]) -> Snapshot:
    return Snapshot.build(
        replace(
            provider,
            traits=provider.traits - absent,
            inventory={n: r for n, r in provider.inventory.items() if n not in absent},
        )
        for provider in snapshot.walk()
    )


@given(
    ours.snapshots(least=1),
    st.lists(st.tuples(st.integers(0, 6), ours.partial_inventories), max_size=4),
)
def test_what_an_inventory_leaves_unsaid_stays_as_it_is(
    before: Snapshot, wishes: list[tuple[int, dict[str, Inventory]]]
) -> None:
    tree = ProviderTree(before)
    uuids = list(before.providers)
    for number, inventory in wishes:
        tree.update_inventory(uuids[number % len(uuids)], ours.as_dicts(inventory))
    after = tree.freeze()
    plan = diff(before, after)
    result = replayed(before, plan)
    bad = {problem.uuid for problem in plan.problems}
    for uuid, wished in after.providers.items():
        known = before.providers[uuid].inventory
        if uuid in bad:
            assert result.providers[uuid].inventory == known
            continue
        expected = {
            name: record.with_defaults(known.get(name)) for name, record in wished.inventory.items()
        }
        assert result.providers[uuid].inventory == expected
    assert not diff(result, after)


BAD = [
    Inventory(0),
    Inventory(-1),
    Inventory(2, reserved=3),
    Inventory(2, reserved=-1),
    Inventory(2, allocation_ratio=0.0),
    Inventory(2, allocation_ratio=float("nan")),
    Inventory(2, allocation_ratio=float("inf")),
    Inventory(2, max_unit=0),
    Inventory(2, step_size=2**31),
    Inventory(2, min_unit=3, max_unit=2),
]


@given(ours.snapshots(least=2), ours.edits(), st.integers(0, 6), st.sampled_from(BAD))
def test_a_bad_inventory_is_named_and_stops_nobody_else(
    before: Snapshot, steps: list[tuple[object, ...]], number: int, bad: Inventory
) -> None:
    good = ours.edited(before, steps)
    assume(len(good))
    uuid = list(good.providers)[number % len(good)]
    tree = ProviderTree(good)
    tree.update_inventory(uuid, {"VCPU": {"total": 1, "reserved": 0}, "CUSTOM_GPU": ours.full(bad)})
    plan = diff(before, tree.freeze())
    assert [problem.uuid for problem in plan.problems] == [uuid]
    assert "CUSTOM_GPU" in str(plan.problems[0]) and good.providers[uuid].name in str(
        plan.problems[0]
    )
    result = replayed(before, plan)
    known = before.get(uuid)
    assert result.providers[uuid].inventory == (known.inventory if known else {})
    assert others(result, uuid) == others(good, uuid)
    assert result.providers[uuid].traits == good.providers[uuid].traits


@given(
    ours.snapshots(least=1),
    ours.edits(),
    st.sampled_from(["custom_low", "CUSTOM-X", "", "CUSTOM_", "X" * 256]),
)
def test_a_bad_trait_is_named_and_stops_nothing_else(
    before: Snapshot, steps: list[tuple[object, ...]], bad: str
) -> None:
    good = ours.edited(before, steps)
    assume(len(good))
    uuid = next(iter(good.providers))
    tree = ProviderTree(good)
    tree.add_traits(uuid, bad)
    plan = diff(before, tree.freeze())
    assert [problem.uuid for problem in plan.problems] == [uuid]
    assert repr(bad) in str(plan.problems[0])
    assert replayed(before, plan) == good


def others(snapshot: Snapshot, uuid: str) -> dict[str, object]:
    return {key: value for key, value in snapshot.providers.items() if key != uuid}


# -- snapshots


@given(ours.snapshots(), ours.edits(), ours.edits())
def test_changed_since_is_exact_for_an_edit_and_safe_over_two(
    first: Snapshot, one: list[tuple[object, ...]], two: list[tuple[object, ...]]
) -> None:
    second = ours.edited(first, one)
    third = ours.edited(second, two)
    truth = {u for u in {*first.providers, *second.providers} if first.get(u) != second.get(u)}
    assert set(second.changed_since(first)) == truth
    assert (second is first) == (not truth)
    two_steps = {u for u in {*first.providers, *third.providers} if first.get(u) != third.get(u)}
    assert two_steps <= set(third.changed_since(first)) & set(first.changed_since(third))
    assert two_steps <= set(ours.rebuilt(third).changed_since(first))


@given(ours.snapshots(), ours.edits())
def test_indexes_of_an_edited_snapshot_are_complete(
    base: Snapshot, edits: list[tuple[object, ...]]
) -> None:
    snapshot = ours.edited(base, edits)
    assert {p.uuid for p in snapshot.walk()} == set(snapshot.providers)
    for provider in snapshot.walk():
        assert snapshot.named(provider.name) is provider
        assert provider.uuid in snapshot.children(provider.parent_uuid)
        assert snapshot.root_of(provider.uuid) in snapshot.children(None)
    for name in ours.NAMES:
        found = snapshot.named(name)
        assert found is None or found.name == name
    seen: set[str | None] = {None}
    for provider in snapshot.walk():
        assert provider.parent_uuid in seen
        seen.add(provider.uuid)
