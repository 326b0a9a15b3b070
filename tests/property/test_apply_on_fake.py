"""Every plan is one that Placement takes, and afterwards the view is what Placement has."""

from hypothesis import given
from hypothesis import strategies as st

from reportclient.apply import apply
from reportclient.errors import Conflict, PlacementError, Unreachable
from reportclient.model import Inventory, Provider
from reportclient.plan import diff
from reportclient.reader import refresh
from reportclient.snapshot import Snapshot
from reportclient.view import View
from tests.property import strategies as ours
from tests.stranger import FakePlacement

one_tree = ours.edited_snapshots(one_tree=True)


def seeded(snapshot: Snapshot) -> FakePlacement:
    """A Placement that has these providers, made by somebody else."""
    fake = FakePlacement()
    stranger = fake.stranger
    for name in (*ours.TRAITS, *ours.CLASSES):
        if name.startswith("CUSTOM_"):
            kind = "traits" if name in ours.TRAITS else "resource_classes"
            fake.answer("PUT", f"/{kind}/{name}")
    for provider in snapshot.walk():
        if provider.parent_uuid is None:
            stranger.create_provider(provider.name, provider.uuid)
        else:
            stranger.create_child(provider.parent_uuid, provider.name, provider.uuid)
        stranger.set_traits(provider.uuid, provider.traits)
        stranger.set_aggregates(provider.uuid, provider.aggregates)
        stranger.set_inventory(provider.uuid, ours.as_dicts(dict(provider.inventory)))
    return fake


def in_placement(fake: FakePlacement) -> dict[str, Provider]:
    return {
        row.uuid: Provider(
            row.uuid,
            row.name,
            row.parent,
            {name: Inventory.from_dict(record) for name, record in row.inventory.items()},
            frozenset(row.traits),
            frozenset(row.aggregates),
        )
        for row in fake.store.providers.values()
    }


def assert_view_is_placement(view: View, fake: FakePlacement) -> None:
    assert dict(view.snapshot.providers) == in_placement(fake)
    assert dict(view.generations) == {
        uuid: row.generation for uuid, row in fake.store.providers.items()
    }


@given(one_tree)
def test_a_plan_is_taken_and_the_view_is_what_placement_has(
    pair: tuple[Snapshot, Snapshot],
) -> None:
    before, wish = pair
    if ours.ROOT not in wish or wish.providers[ours.ROOT].parent_uuid is not None:
        return
    fake = seeded(before)
    view = refresh(View(), ours.ROOT, fake)
    assert_view_is_placement(view, fake)
    plan = diff(view.snapshot, wish, names=view.names)
    mark = fake.mark()
    outcome = apply(plan, view, fake)
    assert not outcome.failed and outcome.stopped_by is None
    assert outcome.done == plan.operations
    writes = sum(each.is_write for each in fake.since(mark))
    assert writes == len(plan), "one operation, one write"
    assert_view_is_placement(outcome.view, fake)
    assert outcome.view.snapshot == wish
    assert not diff(outcome.view.snapshot, wish, names=outcome.view.names)
    mark = fake.mark()
    again = refresh(outcome.view, ours.ROOT, fake)
    assert again.snapshot is outcome.view.snapshot
    assert again.generations == outcome.view.generations
    if in_one_tree(wish):
        has_aggregates = any(provider.aggregates for provider in wish.providers.values())
        assert fake.calls - mark == 1 + has_aggregates


def in_one_tree(snapshot: Snapshot) -> bool:
    return list(snapshot.children(None)) == [ours.ROOT]


faults = st.lists(
    st.tuples(
        st.sampled_from(["PUT", "POST", "DELETE"]),
        st.sampled_from([Conflict, Unreachable]),
        st.booleans(),
    ),
    max_size=3,
)
foreign = st.lists(
    st.tuples(st.sampled_from(ours.UUIDS), st.sampled_from(["trait", "aggregate", "inventory"])),
    max_size=3,
)


@given(one_tree, faults, foreign)
def test_after_faults_all_is_as_desired_and_nothing_foreign_is_lost(
    pair: tuple[Snapshot, Snapshot],
    planned_faults: list[tuple[str, type[PlacementError], bool]],
    strangers: list[tuple[str, str]],
) -> None:
    before, wish = pair
    if not in_one_tree(wish):
        return
    fake = seeded(before)
    view = refresh(View(), ours.ROOT, fake)
    for method, error, after in planned_faults:
        fake.fail_next(method, "", error("as planned"), after=after and error is Unreachable)
    for uuid, kind in strangers:
        somebody_writes(fake, uuid, kind)
    view = settled(view, wish, fake)
    view = settled(view.stale(), wish, fake)  # the next verification sees the rest
    assert_view_is_placement(view, fake)
    there = in_placement(fake)
    for uuid, provider in wish.providers.items():
        mine = there[uuid]
        assert (mine.name, mine.parent_uuid) == (provider.name, provider.parent_uuid)
        assert mine.inventory == provider.inventory
        assert mine.traits - {FOREIGN_TRAIT} == provider.traits
        assert mine.aggregates - {FOREIGN_AGGREGATE} == provider.aggregates
    for uuid, kind in strangers:
        if uuid in before and uuid in wish:
            assert kind != "trait" or FOREIGN_TRAIT in there[uuid].traits
            assert kind != "aggregate" or FOREIGN_AGGREGATE in there[uuid].aggregates


def settled(view: View, wish: Snapshot, fake: FakePlacement) -> View:
    """Read where in doubt, plan, apply, and again while something stops it; as a tracker."""
    for _ in range(12):
        if not view.certain:
            view = refresh(view, ours.ROOT, fake)
        wished = with_strangers_things(wish, view.snapshot)
        outcome = apply(diff(view.snapshot, wished, names=view.names), view, fake)
        view = outcome.view
        assert not outcome.failed
        if outcome.stopped_by is None:
            return view
    raise AssertionError(f"never settled: {outcome.stopped_by}")


FOREIGN_TRAIT = "CUSTOM_FOREIGN"
FOREIGN_AGGREGATE = "0000a000-0000-4000-8000-00000000ffff"


def somebody_writes(fake: FakePlacement, uuid: str, kind: str) -> None:
    if uuid not in fake.store.providers:
        return
    if kind == "trait":
        fake.stranger.add_trait(uuid, FOREIGN_TRAIT)
    elif kind == "aggregate":
        members = fake.stranger.aggregates(uuid)
        fake.stranger.set_aggregates(uuid, members | {FOREIGN_AGGREGATE})
    else:
        fake.stranger.set_inventory(uuid, {"SRIOV_NET_VF": {"total": 1}})


def with_strangers_things(wish: Snapshot, seen: Snapshot) -> Snapshot:
    """As a driver does that takes away only what is its own."""
    tree = View(snapshot=wish).edit()
    for uuid in wish.providers:
        there = seen.get(uuid)
        if there is not None:
            tree.add_traits(uuid, *(there.traits & {FOREIGN_TRAIT}))
            tree.add_aggregates(uuid, *(there.aggregates & {FOREIGN_AGGREGATE}))
    return tree.freeze()
