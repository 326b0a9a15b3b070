"""The saved view of a root: never taken for newer than it is."""

from __future__ import annotations

from pathlib import Path

from agent.state.saved_root import SavedRoot
from reportclient.model import Provider
from reportclient.snapshot import Snapshot
from reportclient.view import View
from tests.full_disk import full_disk

ROOT = "c0ffee00-0000-4000-8000-000000000001"


def view(generation: int) -> View:
    return View(Snapshot.build([Provider(ROOT, "host", None)]), {ROOT: generation})


def loaded(state: Path) -> View:
    return SavedRoot.in_directory(state, ROOT).load()


def test_after_a_full_disk_a_restart_reads_placement_instead_of_the_view_before(
    tmp_path: Path,
) -> None:
    """Else it would write by an older state, as if nothing had been acknowledged since."""
    saved = SavedRoot.in_directory(tmp_path, ROOT)
    saved.load()
    saved.save(ROOT, view(1))
    with full_disk():
        saved.save(ROOT, view(2))
    assert loaded(tmp_path).generations == {}
    saved.save(ROOT, view(2))
    assert loaded(tmp_path).generations == {ROOT: 2}
