"""Where there are no provider files nothing is copied, compared or written for them."""

from __future__ import annotations

from pathlib import Path

from agent.provider_config.additions import Additions
from agent.provider_config.overlay import Laid, Overlay
from reportclient.snapshot import EMPTY
from reportclient.view import View


def test_without_files_the_view_is_the_same_and_the_answer_is_not_touched(tmp_path: Path) -> None:
    view = View()
    overlay = Additions.of(tmp_path / "none", tmp_path).over(view, "root")
    assert overlay.under(view) is view
    tree = view.edit()
    assert overlay.lay(tree, "root", EMPTY, frozenset()) == Laid()
    assert tree.freeze() is view.snapshot
    assert Overlay() == overlay
    assert list(tmp_path.iterdir()) == []
