"""What an operator may mend meanwhile is tried again until it works, and each reason logged once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from agent import threads
from agent.retrying import until_it_works
from agent.threads import NoThread, keep_running


@dataclass
class Stopping(threading.Event):
    """Waiting takes no time; after ``pauses`` waits the process stops."""

    pauses: int
    waited: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waited.append(timeout)
        if len(self.waited) == self.pauses:
            self.set()
        return self.is_set()


@dataclass
class Attempts:
    """Raises each of ``errors``, then returns "done"."""

    errors: Iterator[Exception]
    made: int = 0

    def __call__(self) -> str:
        self.made += 1
        for error in self.errors:
            raise error
        return "done"


def test_each_new_reason_is_logged_once_until_it_works() -> None:
    stopping, logged = Stopping(pauses=99), list[str]()
    attempts = Attempts(iter([OSError("a"), OSError("a"), OSError("b"), OSError()]))
    assert until_it_works(attempts, stopping, logged.append, 60.0) == "done"
    assert logged == ["a", "b", "OSError"]
    assert attempts.made == 5


def test_pauses_grow_to_the_longest() -> None:
    stopping = Stopping(pauses=400)
    attempts = Attempts(OSError("a") for _ in range(10_000))
    assert until_it_works(attempts, stopping, lambda _: None, 15.0) is None
    assert max(stopping.waited[:2]) <= 4.0 < max(stopping.waited) <= 15.0


def test_nothing_is_tried_once_the_process_stops() -> None:
    stopping = Stopping(pauses=2)
    attempts = Attempts(OSError("a") for _ in range(10_000))
    assert until_it_works(attempts, stopping, lambda _: None, 60.0) is None
    assert attempts.made == 2
    assert until_it_works(attempts, stopping, lambda _: None, 60.0) is None
    assert attempts.made == 2


def test_another_error_is_raised() -> None:
    attempts = Attempts(iter([OSError("mended later"), ValueError("never mended")]))
    with pytest.raises(ValueError, match="never mended"):
        until_it_works(attempts, Stopping(pauses=99), lambda _: None, 60.0, OSError)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[None]]:
    """As many attempts to start a thread fail as the list has members."""
    failures = list[None]()
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if failures:
            failures.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    monkeypatch.setattr(threads, "TRIED_EVERY", 0.001)
    return failures


@pytest.mark.parametrize("error", [ValueError("a"), SystemExit(1), RuntimeError("can't start")])
def test_the_work_of_a_thread_that_fails_begins_again(
    error: BaseException, full: list[None], caplog: pytest.LogCaptureFixture
) -> None:
    stopping, done, errors = Stopping(pauses=99), threading.Event(), [error, error]

    def work() -> None:
        if errors:
            raise errors.pop()
        done.set()

    full += [None, None]
    keep_running(work, "heartbeat", stopping)
    assert done.wait(60)
    texts = [record.getMessage() for record in caplog.records]
    assert texts == ["Thread heartbeat failed, it begins again within 5 s"]


def test_a_thread_that_can_not_be_started_ends_the_process_with_a_reason(
    full: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "START_WITHIN", 0.01)
    full += [None] * 1000
    with pytest.raises(NoThread, match="thread heartbeat could not be started .* TasksMax"):
        keep_running(sys.exit, "heartbeat", threading.Event())
