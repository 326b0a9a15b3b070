"""Client: what it says is done is done, and nothing outside of its tree changes."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reportclient.client import Client, Result
from reportclient.errors import PlacementError
from reportclient.model import SHARES_VIA_AGGREGATE, Provider
from reportclient.provider_tree import ProviderTree
from reportclient.schedule import Times
from reportclient.snapshot import Snapshot
from tests.profiles import examples
from tests.property import strategies as ours
from tests.property.test_apply_on_fake import in_placement, seeded
from tests.stranger import FakePlacement, Stranger

THEIRS, BELOW = ours.UUIDS[5:]
NO_WAIT = Times(pause=lambda seconds: None)

_any_uuid, _any_name = st.sampled_from(ours.UUIDS), st.sampled_from(ours.NAMES)
strangers_steps = st.lists(
    st.one_of(
        st.tuples(st.just("create"), _any_uuid, _any_name, st.none() | _any_uuid),
        st.tuples(st.just("rename"), _any_uuid, _any_name),
        st.tuples(st.just("move"), _any_uuid, st.none() | _any_uuid),
        st.tuples(st.just("delete"), _any_uuid),
        st.tuples(st.just("traits"), _any_uuid, ours.traits),
        st.tuples(st.just("inventory"), _any_uuid, ours.inventories),
    ),
    max_size=5,
)


@st.composite
def trees(draw: st.DrawFn) -> Snapshot:
    """A tree below ``ROOT``, and another service's tree beside it, which may share with it."""
    tree = draw(ours.snapshots(one_tree=True))
    members = [each for each in tree.walk() if each.uuid not in (THEIRS, BELOW)]
    known = {each.uuid for each in members}
    if any(each.parent_uuid not in {None, *known} for each in members):
        members = members[:1]
    name = draw(st.sampled_from([n for n in ours.NAMES if n not in {m.name for m in members}]))
    shared = {SHARES_VIA_AGGREGATE} if draw(st.booleans()) else set()
    inventory = {"VCPU": draw(ours.records)}
    root = Provider(THEIRS, name, None, inventory, frozenset(shared), draw(ours.aggregates))
    return Snapshot.build([*members, root, Provider(BELOW, "below", THEIRS, inventory)])


def act(stranger: Stranger, step: tuple[Any, ...]) -> None:
    """One write of another client; what Placement refuses is left out."""
    kind, uuid, *values = step
    with suppress(PlacementError):
        if kind == "create" and values[1] is None:
            stranger.create_provider(values[0], uuid)
        elif kind == "create":
            stranger.create_child(values[1], values[0], uuid)
        elif kind == "rename":
            stranger.rename(uuid, values[0])
        elif kind == "move":
            stranger.move(uuid, values[0])
        elif kind == "delete":
            stranger.delete_provider(uuid)
        elif kind == "traits":
            stranger.set_traits(uuid, values[0])
        else:
            stranger.set_inventory(uuid, ours.as_dicts(values[0]))


def members(fake: FakePlacement) -> set[str]:
    rows = fake.store.providers
    return {uuid for uuid, row in rows.items() if fake.store.root(row) == ours.ROOT}


def report(client: Client, steps: list[tuple[Any, ...]], meanwhile: Callable[[], None]) -> Any:
    """Edit the tree, let another client write, then update; return the result and the tree."""
    tree = client.tree(ours.ROOT, name="name0")
    for step in steps:
        ours.perform(tree, step)
    meanwhile()
    return tree, client.update(tree)


def assert_done(tree: ProviderTree, fake: FakePlacement) -> None:
    """Whatever the edit changed is in Placement, whatever else is there."""
    base, desired, now = tree.base, tree.freeze(), in_placement(fake)
    for uuid in desired.changed_since(base):
        old, new, actual = base.get(uuid), desired.get(uuid), now.get(uuid)
        if new is None:
            assert uuid not in members(fake), "it was removed, or moved out of the tree"
            continue
        assert actual is not None, "it was set"
        old = old or Provider(uuid, "")
        if old.name != new.name:
            assert actual.name == new.name
        if old.parent_uuid != new.parent_uuid:
            assert actual.parent_uuid == new.parent_uuid
        for kind in ("traits", "aggregates"):
            before, after, there = (getattr(each, kind) for each in (old, new, actual))
            assert after - before <= there and not (before - after) & there
        for name in old.inventory.keys() | new.inventory.keys():
            if name not in new.inventory:
                assert name not in actual.inventory
            elif old.inventory.get(name) != new.inventory[name]:
                assert actual.inventory[name] == new.inventory[name]


@settings(max_examples=examples(300))
@given(trees(), ours.edits(), strangers_steps, st.none() | st.sets(_any_uuid))
def test_ok_is_what_placement_has_and_nothing_outside_of_the_tree_changes(
    before: Snapshot,
    steps: list[tuple[Any, ...]],
    others: list[tuple[Any, ...]],
    owned: set[str] | None,
) -> None:
    fake = seeded(before)
    owns = None if owned is None else lambda provider: provider.uuid in owned
    client = Client(fake, times=NO_WAIT, owns=owns)
    foreign: dict[str, Provider] = {}

    def meanwhile() -> None:
        inside = members(fake)
        for step in others:
            act(fake.stranger, step)
        if inside != members(fake):  # no generation shows that a provider was moved elsewhere
            client.stale(ours.ROOT)
        mine = members(fake) if owned is None else owned
        foreign.update({u: p for u, p in in_placement(fake).items() if u not in mine})

    for once in (meanwhile, lambda: None):  # what is refused at first may be written at the next
        result: Result | None = None
        with suppress(PlacementError, ValueError):
            tree, result = report(client, steps, once)
        assert {uuid: in_placement(fake).get(uuid) for uuid in foreign} == foreign
        if result is not None and result.ok:
            assert_done(tree, fake)
