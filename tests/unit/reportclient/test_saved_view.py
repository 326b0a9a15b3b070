"""A view that a store of the client library keeps as bytes."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest

from reportclient.model import Inventory, Names, Provider
from reportclient.root import Root
from reportclient.saved_view import FileStore, UnusableView, dump_view, load_view
from reportclient.snapshot import Snapshot
from reportclient.view import View
from tests.stranger import FakePlacement

ROOT = "c0ffee00-0000-4000-8000-000000000001"
CHILD = "c0ffee00-0000-4000-8000-000000000002"
VIEW = View(
    Snapshot.build(
        [
            Provider(ROOT, "host", None, {"VCPU": Inventory(8, 1)}, frozenset({"CUSTOM_A"})),
            Provider(CHILD, "gpu", ROOT, {}, frozenset(), frozenset({ROOT})),
        ]
    ),
    {ROOT: 3, CHILD: 1},
    Names(frozenset({"CUSTOM_A"}), frozenset({"VCPU"})),
    frozenset(),
    {ROOT: {"DISK_GB": 2}},
    {ROOT: 1.5},
)


@pytest.mark.parametrize("data", [b"", b"[]", b"[" * 200_000, b"{}\n{}", dump_view(VIEW, CHILD)])
def test_anything_else_is_refused_with_the_root(data: bytes) -> None:
    with pytest.raises(UnusableView, match=ROOT):
        load_view(data, ROOT)


def test_no_flipped_bit_is_believed() -> None:
    data = dump_view(VIEW, ROOT)
    for bit in range(0, len(data) * 8, 41):
        other = bytearray(data)
        other[bit // 8] ^= 1 << bit % 8
        try:
            assert load_view(bytes(other), ROOT) == VIEW.stale()
        except UnusableView:
            continue


def test_a_file_is_written_for_a_new_view_only(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    for view in (VIEW, VIEW.stale(), replace(VIEW, certain=True)):
        store.save(ROOT, view)
    [file] = tmp_path.iterdir()
    before = file.stat().st_ino
    again = FileStore(tmp_path)
    assert again.load(ROOT) == VIEW.stale() and again.load(CHILD) is None
    again.save(ROOT, VIEW)
    assert file.stat().st_ino == before
    again.save(ROOT, replace(VIEW, generations={ROOT: 4, CHILD: 1}))
    assert FileStore(tmp_path).load(ROOT) != VIEW.stale()
    again.forget(ROOT)
    again.forget(ROOT)
    assert list(tmp_path.iterdir()) == []


def test_what_a_disk_does_stops_no_report_and_leaves_no_old_view(tmp_path, caplog) -> None:
    store = FileStore(tmp_path)
    store.save(ROOT, VIEW)
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    assert FileStore(tmp_path).load(ROOT) is None
    assert f"{file} is ignored, Placement is read instead" in caplog.text
    file.with_suffix(".new").mkdir()  # in the way of the next write
    store.save(ROOT, replace(VIEW, generations={}))
    assert f"{file} can't be written, a restart reads Placement instead" in caplog.text
    assert not file.exists()
    file.mkdir()
    assert store.load(ROOT) is None


class Saves:
    """Keeps each view that is saved."""

    def __init__(self) -> None:
        self.views: list[View] = []

    def save(self, root: str, view: View) -> None:
        self.views.append(view)

    def load(self, root: str) -> View | None:
        return self.views[-1]

    def forget(self, root: str) -> None:
        self.views.clear()


def test_a_view_of_a_restored_placement_is_saved_before_any_write() -> None:
    """Own writes may bring its generation to the saved one: after a kill that would look true."""
    placement, saves = FakePlacement(), Saves()
    placement.stranger.create_provider("host1", ROOT)
    backup = copy.deepcopy(placement.store.providers)
    placement.stranger.add_trait(ROOT, "CUSTOM_A")
    root = Root(ROOT, placement, store=saves)
    root.refresh(placement, 0.0)
    assert not saves.views, "an attempt saves it at its end"
    placement.store.providers = backup
    root.view = root.view.stale()
    root.refresh(placement, 1.0)
    [saved] = saves.views
    assert saved.generations == root.view.generations
