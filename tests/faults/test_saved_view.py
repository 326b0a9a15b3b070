"""A saved view that can't be used: one line in the log, Placement is read, all is right."""

from __future__ import annotations

import logging
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent.ownership.ledger import Ledger
from agent.state.saved_root import SavedRoot, root_path
from tests.cost.trees import ROOT, VERIFY
from tests.faults.scenario import Scene
from tests.full_disk import full_disk


def other_root() -> bytes:
    with TemporaryDirectory() as directory:
        other = "c0ffee00-0000-4000-8000-00000000ffff"
        assert SavedRoot.in_directory(Path(directory), other).save_ledger(Ledger(begun=True))
        return root_path(Path(directory), other).read_bytes()


def flipped(data: bytes) -> bytes:
    position = len(data) // 2
    return data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :]


DAMAGES = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "twice": lambda data: data + data,
    "other root": lambda data: other_root(),
    "a bit flipped": flipped,
}


def warnings(caplog) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture
def done(scene: Scene):
    """Everything has been reported and saved."""
    assert scene.agent().period().ok
    scene.proxy.seen.clear()
    return scene


def saved_in(scene: Scene):
    return root_path(scene.state, ROOT)


def loaded(scene: Scene):
    return SavedRoot.in_directory(scene.state, ROOT, writing=False).load()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_view_is_ignored_and_everything_is_read_again(done, damage, caplog):
    path = saved_in(done)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    agent = done.agent()
    report = agent.period()
    assert report.ok and not report.done, "the same tree: nothing to write"
    assert report.calls == 2 + 3 * len(agent.tracker.view.snapshot)
    assert warnings(caplog) and all(str(path) in line for line in warnings(caplog))
    caplog.clear()
    again = done.agent().period()
    assert again.calls == 2 and warnings(caplog) == []


def test_with_a_directory_in_place_of_the_view_nothing_is_claimed_or_lost(done):
    path = saved_in(done)
    path.unlink()
    path.mkdir()
    agent = done.agent()
    for _ in range(2):
        report = agent.period(2 * VERIFY)
        (text,) = report.texts()
        assert str(path) in text and "nothing new is reported" in text
        assert not report.done
    done.expect_the_wish_and_all_of_the_strangers()
    path.rmdir()
    assert agent.period(2 * VERIFY).ok
    assert loaded(done).generations


def test_half_a_write_leaves_the_old_view(done, caplog):
    path = saved_in(done)
    path.with_suffix(".new").write_bytes(b"half a vie")
    assert done.agent().period().calls == 2
    assert warnings(caplog) == []


def test_on_a_full_disk_nothing_is_claimed_until_there_is_space(scene):
    agent = scene.agent()
    with full_disk():
        report = agent.period()
        written = {type(one).__name__ for one in report.done}
        assert written == {"DeleteProvider", "SetTraits", "SetInventory"}, "kept right"
        assert agent.tracker.view.snapshot.named("new") is None
        assert "No space left" in " ".join(report.texts())
    assert agent.period(1.0).ok
    assert scene.agent().period().calls == 2


def test_a_view_that_a_full_disk_did_not_take_is_kept_once_there_is_space(done):
    agent = done.agent()
    assert agent.period().ok
    with full_disk():
        done.placement.stranger.add_trait(done.strangers_child, "HW_CPU_X86_AVX")
        agent.period(2 * VERIFY)
        assert loaded(done).generations, "verified at the next start"
        assert "No space left" in " ".join(agent.period(1.0).texts())
    assert agent.period(1.0).calls == 0, "quiet, and yet it is kept"
    assert done.agent().period().calls == 2
