"""What ``--dev`` says beside the tree."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.dev import Show
from agent.report import Report
from reportclient.model import Provider
from reportclient.snapshot import Snapshot

UUID = "9d6ba763-8e93-5284-b069-776c52a0868f"


def shown(config_path: Path | None) -> str:
    snapshot = Snapshot.build([Provider(UUID, "host1")])
    tracker = SimpleNamespace(view=SimpleNamespace(snapshot=snapshot))
    out = io.StringIO()
    Show(SimpleNamespace(trackers={UUID: tracker}), config_path, out)([Report("host1")])
    assert UUID in out.getvalue()
    return out.getvalue()


def test_the_computectl_beside_this_python_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert "Ask more: computectl --config-file /x/dev.conf tree\n" in shown(Path("/x/dev.conf"))
    (tmp_path / "computectl").write_text("")
    assert f"Ask more: {tmp_path}/computectl --config-file /x/" in shown(Path("/x/dev.conf"))


def test_nothing_is_to_be_asked_of_a_placement_that_ends() -> None:
    assert "computectl" not in shown(None)
