"""Whatever files, drivers and strangers say: what is taken away is the agent's own, and no more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.provider_config.entries import Entries, Entry
from agent.provider_config.overlay import Applied, Laid, Overlay
from reportclient.diff import diff
from reportclient.model import Inventory, Provider
from reportclient.plan import as_dicts, replay
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot
from reportclient.view import View

ROOT = "00000000-0000-4000-8000-000000000001"
CHILD = "00000000-0000-4000-8000-000000000002"
UUIDS = (ROOT, CHILD)
NAMES = {ROOT: "host", CHILD: "device"}
TRAITS = st.frozensets(st.sampled_from(["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"]))
CLASSES = st.dictionaries(
    st.sampled_from(["CUSTOM_X", "CUSTOM_Y", "CUSTOM_Z"]),
    st.integers(1, 3).map(lambda total: Inventory(total).over(None)),
)
PARTS = st.fixed_dictionaries({uuid: st.tuples(TRAITS, CLASSES) for uuid in UUIDS})


def snapshot(parts) -> Snapshot:
    return Snapshot.build(
        Provider(uuid, NAMES[uuid], None if uuid == ROOT else ROOT, classes, traits)
        for uuid, (traits, classes) in parts.items()
    )


def entries(parts) -> Entries:
    said = {
        uuid: Entry("uuid", uuid, "a.yaml:1", classes, traits, dict.fromkeys(classes, "a.yaml:2"))
        for uuid, (traits, classes) in parts.items()
        if traits or classes
    }
    return Entries(tuple(said.values()))


def settled(before: Snapshot, driver, said, applied) -> tuple[Snapshot, Laid]:
    """One period: a driver that sets its classes and adds its traits; then what a file adds."""
    overlay = Overlay(said, applied)
    under = overlay.under(View(before, dict.fromkeys(UUIDS, 1), certain=True))
    tree = under.edit()
    for uuid, (traits, classes) in driver.items():
        tree.update_inventory(uuid, as_dicts(classes))
        tree.add_traits(uuid, *traits)
    laid = overlay.lay(tree, ROOT, before, frozenset())
    after = ProviderTree(before)
    for operation in diff(before, tree.freeze()):
        replay(operation, after)
    return after.freeze(), laid


def ours(laid: Laid) -> dict[str, Applied]:
    return dict(laid.applied.get(ROOT, {}))


@given(start=PARTS, driver=PARTS, files=st.lists(PARTS, min_size=1, max_size=3))
def test_after_any_files_an_empty_one_leaves_what_there_would_be_without_them(
    start, driver, files
) -> None:
    without, _ = settled(snapshot(start), driver, Entries(), {})
    state, applied = snapshot(start), {}
    for parts in [*files, {}, {}]:
        state, laid = settled(state, driver, entries(parts), applied)
        applied = ours(laid)
    assert state == without
    assert applied == {}


@given(start=PARTS, driver=PARTS, parts=PARTS)
def test_a_second_period_changes_nothing_and_the_file_is_there_but_for_the_drivers_own(
    start, driver, parts
) -> None:
    state, laid = settled(snapshot(start), driver, entries(parts), {})
    again, second = settled(state, driver, entries(parts), ours(laid))
    assert again == state
    assert ours(second) == ours(laid)
    for uuid, (traits, classes) in parts.items():
        own = driver[uuid][1]
        assert traits <= state.providers[uuid].traits
        assert {**classes, **own} == state.providers[uuid].inventory
    assert len(second.problems) == sum(len(parts[u][1].keys() & driver[u][1].keys()) for u in UUIDS)


@given(start=PARTS, driver=PARTS, parts=PARTS)
def test_while_nobody_knows_the_files_what_was_applied_stays(start, driver, parts) -> None:
    state, laid = settled(snapshot(start), driver, entries(parts), {})
    held, second = settled(state, driver, None, ours(laid))
    assert held == state
    assert ours(second) == ours(laid)


@given(start=PARTS, parts=PARTS)
def test_the_drivers_see_a_tree_without_what_a_file_added(start, parts) -> None:
    before = snapshot(start)
    tree = ProviderTree(before)
    laid = Overlay(entries(parts)).lay(tree, ROOT, before, frozenset())
    after = View(tree.freeze(), dict.fromkeys(UUIDS, 1))
    assert Overlay(Entries(), ours(laid)).under(after).snapshot == before
