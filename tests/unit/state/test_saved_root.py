"""The saved state of a root: its view and its ledger, both of a moment that there was."""

import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.ownership.ledger import Ledger, Removed
from agent.state.document import Document
from agent.state.saved_root import SavedRoot, is_new, root_path, saved_roots
from reportclient.model import Inventory, Names, Provider
from reportclient.provider_tree import Claims
from reportclient.snapshot import Snapshot
from reportclient.view import View
from tests.full_disk import full_disk

ROOT, OTHER = "c0ffee00-0000-4000-8000-000000000001", "c0ffee00-0000-4000-8000-000000000002"
SHARED = "c0ffee00-0000-4000-8000-000000000003"
HELD = Claims(True, frozenset({"VCPU"}), frozenset({"HW_CPU_X86_AVX"}), frozenset({SHARED}))
LEDGER = Ledger(
    {ROOT: {"driver:a": HELD, "driver:b": Claims(classes=frozenset({"VGPU"}))}},
    frozenset({"VGPU"}),
    True,
    {OTHER: Removed(7, HELD), SHARED: Removed(None, Claims(provider=True))},
    frozenset({"driver:b"}),
)
LOST = "this agent owns what its drivers report from now on"


def view(generation: int = 1) -> View:
    inventory = {"VCPU": Inventory.from_dict({"total": 4, "reserved": 4})}
    host = Provider(ROOT, "host", None, inventory, frozenset({"HW_CPU_X86_AVX"}))
    child = Provider(OTHER, "child", ROOT, {}, frozenset(), frozenset({SHARED}))
    return View(
        Snapshot.build([host, child]),
        {ROOT: generation, OTHER: 3},
        Names(frozenset({"HW_CPU_X86_AVX"}), frozenset({"VCPU"})),
        frozenset({SHARED}),
        {ROOT: {"VCPU": 1}},
    )


def saved_in(state: Path, **more: Any) -> SavedRoot:
    saved = SavedRoot.in_directory(state, ROOT, **more)
    saved.load()
    return saved


@pytest.fixture
def saved(tmp_path: Path) -> SavedRoot:
    saved = saved_in(tmp_path)
    assert saved.save_ledger(LEDGER)
    saved.save(ROOT, view())
    return saved


def test_the_next_process_gets_view_and_ledger_unverified(tmp_path: Path, saved: SavedRoot) -> None:
    again = saved_in(tmp_path)
    assert (again.view, again.ledger) == (replace(view(), certain=False), LEDGER)


def test_a_state_directory_names_its_roots(tmp_path: Path) -> None:
    assert is_new(tmp_path) and is_new(tmp_path / "nowhere")
    (tmp_path / "compute_id").touch()
    assert is_new(tmp_path)
    for root in (OTHER, ROOT):
        SavedRoot.in_directory(tmp_path, root).save(root, view())
    (tmp_path / "root-copy.json").touch()
    assert saved_roots(tmp_path) == [ROOT, OTHER]
    assert not is_new(tmp_path)
    assert saved_roots(tmp_path / "nowhere") == []


def test_nothing_is_written_before_anything_is_known(tmp_path: Path) -> None:
    saved = saved_in(tmp_path)
    assert saved.save_ledger(Ledger())
    saved.save(ROOT, View())
    assert os.listdir(tmp_path) == []


def test_what_the_document_has_already_is_not_written(tmp_path: Path, saved: SavedRoot) -> None:
    inode = saved.document.path.stat().st_ino
    again = saved_in(tmp_path)
    assert again.save_ledger(replace(again.ledger))
    again.save(ROOT, replace(again.view, certain=True))
    assert saved.document.path.stat().st_ino == inode
    again.save(ROOT, view(2))
    assert saved.document.path.stat().st_ino != inode


def test_a_forgotten_root_can_come_back(tmp_path: Path, saved: SavedRoot) -> None:
    saved.forget()
    assert saved_roots(tmp_path) == []
    assert saved.save_ledger(LEDGER)
    assert saved_in(tmp_path).ledger == LEDGER


def test_a_read_only_command_changes_nothing(tmp_path: Path, saved: SavedRoot) -> None:
    reader = saved_in(tmp_path, writing=False)
    assert reader.save_ledger(Ledger(known=True))
    reader.forget()
    assert saved_in(tmp_path).ledger == LEDGER


BROKEN: dict[str, dict[str, Any]] = {
    "another root's": {"root": OTHER},
    "no view": {"view": None},
    "an incomplete provider": {"view": {"providers": [[ROOT]]}},
    "an incomplete ledger": {"ledger": {}},
    "a provider that is no UUID": {"ledger": {"accepted": [], "claims": {"x": {}}, "removed": {}}},
    "names that are a text": {"ledger": {"accepted": "VCPU", "claims": {}, "removed": {}}},
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_damaged_document_is_set_aside_and_made_anew(
    tmp_path: Path, saved: SavedRoot, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, fields = saved.document.path, saved.document.read(dict)
    assert fields is not None
    Document(path).save({**fields, **BROKEN[broken]})
    data = path.read_bytes()
    assert saved_in(tmp_path, writing=False).ledger == Ledger()
    assert path.read_bytes() == data
    again = saved_in(tmp_path)
    assert (again.view, again.ledger, again.document.problem) == (View(), Ledger(), "")
    assert path.with_name(f"{path.name}.damaged").read_bytes() == data
    assert "is damaged" in caplog.text and LOST in caplog.text
    assert again.save_ledger(LEDGER)
    assert saved_in(tmp_path).ledger == LEDGER


def test_a_later_versions_document_is_left_alone(tmp_path: Path, saved: SavedRoot) -> None:
    path = saved.document.path
    Document(path, version=2).save({"root": ROOT})
    data = path.read_bytes()
    again = saved_in(tmp_path)
    assert not again.save_ledger(LEDGER) and not again.reload()
    again.forget()
    assert path.read_bytes() == data
    assert "a later compute-agent wrote it" in again.document.problem
    path.unlink()
    assert again.reload() and again.save_ledger(LEDGER)


def test_a_full_disk_leaves_what_was_saved(tmp_path, saved: SavedRoot, caplog) -> None:
    with full_disk():
        for _ in range(2):
            assert not saved.save_ledger(replace(LEDGER, accepted=frozenset()))
        saved.save(ROOT, view(2))
    assert "No space left on device" in saved.document.problem
    assert len(caplog.records) == 1 and "nothing new is reported in Placement" in caplog.text
    before = saved_in(tmp_path)
    assert (before.view.generations[ROOT], before.ledger) == (1, LEDGER)
    assert saved.save_ledger(saved.ledger) and not saved.document.problem
    assert saved_in(tmp_path).view.generations[ROOT] == 2


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from agent.ownership.ledger import Removed
from tests.unit.state.test_saved_root import HELD, LEDGER, ROOT, saved_in, view
saved = saved_in(Path(sys.argv[1]))
number = saved.view.generations.get(ROOT, 0)
while True:
    number += 1
    saved.save(ROOT, view(number))
    assert saved.save_ledger(replace(LEDGER, removed={ROOT: Removed(number, HELD)}))
    print(number, flush=True)
"""


@pytest.mark.slow
def test_a_killed_writer_has_saved_what_it_reported_as_saved(tmp_path: Path) -> None:
    chance, acknowledged = random.Random(7), 0
    for _ in range(5):
        command = [sys.executable, "-c", WRITER, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(chance.randint(1, 30)):
                acknowledged = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read().split("\n")
            acknowledged = int(rest[-2]) if len(rest) > 1 else acknowledged
        again = saved_in(tmp_path)
        generation = again.ledger.removed[ROOT].generation
        assert generation is not None
        assert generation >= acknowledged
        assert again.view.generations[ROOT] - generation in (0, 1)
        name = root_path(tmp_path, ROOT).name
        assert sorted(os.listdir(tmp_path)) in ([name], [f".{name}", name])
