"""One process for each state directory."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.state.lock import InUse, StateDirectory, lock_directory


def test_a_directory_is_locked_once_and_free_again_after_it(tmp_path: Path) -> None:
    first = lock_directory(tmp_path / "state")
    assert first is not None
    with pytest.raises(InUse, match=rf"{tmp_path}/state is in use .*\(process {os.getpid()}\)"):
        lock_directory(tmp_path / "state")
    os.close(first)
    again = lock_directory(tmp_path / "state")
    assert again is not None
    os.close(again)


def test_a_lock_leaves_no_file(tmp_path: Path) -> None:
    held = lock_directory(tmp_path)
    assert os.listdir(tmp_path) == []
    assert held is not None
    os.close(held)


def test_a_directory_that_can_not_be_made_is_no_matter_of_the_lock(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert lock_directory(tmp_path / "file" / "state") is None


# -- while the agent runs


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    state = StateDirectory.locked(tmp_path / "state")
    yield state
    state.close()


def never() -> None:
    raise AssertionError("it was saved again")


GONE: dict[str, Callable[[Path], object]] = {
    "removed": Path.rmdir,
    "renamed": lambda path: path.rename(path.with_name("elsewhere")),
    "replaced": lambda path: (path.rename(path.with_name("elsewhere")), path.mkdir()),
}


@pytest.mark.parametrize("what", GONE)
def test_a_directory_that_is_gone_is_locked_again_and_filled_once(
    state: StateDirectory, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    state.renew(never)
    assert not state.problem
    GONE[what](state.path)
    caplog.set_level(logging.WARNING)
    state.renew(lambda: (state.path / "compute_id").touch())
    assert (state.path / "compute_id").exists()
    assert "it has this host's identity again" in state.problem
    with pytest.raises(InUse):
        lock_directory(state.path)
    state.renew(never)
    assert caplog.messages == [state.problem]


def test_a_directory_that_is_moved_back_in_time_was_never_gone(state: StateDirectory) -> None:
    moved = state.path.rename(state.path.with_name("elsewhere"))
    moved.rename(state.path)
    state.renew(never)
    assert not state.problem


def test_a_directory_of_another_agent_is_left_alone(state: StateDirectory) -> None:
    state.path.rmdir()
    other = lock_directory(state.path)
    assert other is not None
    state.renew(never)
    assert "another directory has its name, and state_path" in state.problem
    os.close(other)


def test_a_directory_that_can_not_be_made_again_is_made_later(
    state: StateDirectory, tmp_path: Path
) -> None:
    state.path.rmdir()
    state.path.write_text("in its place")
    state.renew(never)
    assert "nothing is saved" in state.problem
    state.path.unlink()
    state.renew(lambda: (state.path / "compute_id").touch())
    assert (state.path / "compute_id").exists()
    shutil.rmtree(tmp_path / "state")
