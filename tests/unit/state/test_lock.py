"""One process for each state directory."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from agent.state import files
from agent.state.lock import InUse, StateDirectory, lock_file


def test_a_directory_is_locked_once_and_free_again_after_it(tmp_path: Path) -> None:
    first = StateDirectory.locked(tmp_path / "state")
    assert os.listdir(tmp_path / "state") == []
    with pytest.raises(InUse, match=rf"{tmp_path}/state is in use .*\(process {os.getpid()}\)"):
        StateDirectory.locked(tmp_path / "state")
    first.close()
    StateDirectory.locked(tmp_path / "state").close()


def test_a_directory_that_can_not_be_made_is_no_matter_of_the_lock(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    state = StateDirectory.locked(tmp_path / "file" / "state")
    state.check()
    assert not state.problem
    state.close()


# -- one file


def test_a_file_is_locked_also_once_its_holder_has_replaced_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("1")
    with lock_file(path, 0.0):
        with pytest.raises(OSError, match="is locked by another process"):
            lock_file(path, 0.0).__enter__()
        waiting = Thread(target=_replaced, args=[path])
        waiting.start()
        files.replace(path, b"2")
    waiting.join()
    assert path.read_text() == "23"


def _replaced(path: Path) -> None:
    with lock_file(path, 60.0):
        files.replace(path, path.read_bytes() + b"3")


# -- while the agent runs


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    state = StateDirectory.locked(tmp_path / "state")
    yield state
    state.close()


GONE: dict[str, Callable[[Path], object]] = {
    "removed": Path.rmdir,
    "renamed": lambda path: path.rename(path.with_name("elsewhere")),
    "replaced": lambda path: (path.rename(path.with_name("elsewhere")), path.mkdir()),
}


@pytest.mark.parametrize("what", GONE)
def test_a_directory_that_is_gone_is_a_problem_logged_once(
    state: StateDirectory, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    state.check()
    assert not state.problem
    GONE[what](state.path)
    for _ in range(2):
        state.check()
    assert f"{state.path} was removed, renamed or replaced" in state.problem
    assert caplog.messages == [state.problem]


def test_a_directory_that_is_back_is_no_problem(
    state: StateDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    moved = state.path.rename(state.path.with_name("elsewhere"))
    state.check()
    before = state.problem
    moved.rename(state.path)
    for _ in range(2):
        state.check()
    assert not state.problem
    assert caplog.messages == [before, f"resolved: {before}"]
