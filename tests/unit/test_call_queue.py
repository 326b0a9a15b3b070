import threading
import time
from contextlib import closing, nullcontext
from unittest.mock import Mock

import pytest

from drivers.deadline import Blocked, CallQueue, Overdue

FOR_EVER = 3600.0
"""Seconds: longer than any test may take."""


class RecordingSession:
    def __init__(self) -> None:
        self.made_by = threading.current_thread()
        self.closed_by: threading.Thread | None = None

    def close(self) -> None:
        self.closed_by = threading.current_thread()


@pytest.fixture
def sessions() -> list[RecordingSession]:
    return []


@pytest.fixture
def queue(sessions):
    def make() -> closing[RecordingSession]:
        sessions.append(RecordingSession())
        return closing(sessions[-1])

    queue = CallQueue("test-queue", make)
    yield queue
    queue.close(60)


def test_the_session_lives_and_dies_on_one_other_thread(queue, sessions):
    assert queue.call("a", lambda session: session, 60) is sessions[0]
    assert queue.call("b", lambda session: threading.current_thread(), 60) is sessions[0].made_by
    queue.close(60)
    assert len(sessions) == 1
    assert sessions[0].made_by is not threading.current_thread()
    assert sessions[0].made_by.daemon, "a stuck thread keeps no process alive"
    assert sessions[0].closed_by is sessions[0].made_by


@pytest.mark.parametrize("error", [ValueError("as it was"), TimeoutError("not the deadline")])
def test_what_a_job_raises_reaches_the_caller_and_the_next_job_is_done(queue, error):
    with pytest.raises(type(error), match=str(error)):
        queue.call("a", Mock(side_effect=error), 60)
    assert queue.call("b", lambda _: 7, 60) == 7


@pytest.mark.slow
def test_one_stuck_call_is_left_behind_and_later_ones_are_told_at_once(queue, sessions):
    release = threading.Event()
    with pytest.raises(Overdue):
        queue.call("the slow one", lambda _: release.wait(FOR_EVER), 1)
    before = threading.active_count()
    for _ in range(50):  # none of them waits for its deadline
        with pytest.raises(Blocked, match="the slow one"):
            queue.call("another", lambda _: None, FOR_EVER)
    assert threading.active_count() == before
    assert len(sessions) == 1

    release.set()
    sessions[0].made_by.join(60)
    assert queue.call("another", lambda _: 7, 60) == 7
    assert sessions[0].closed_by is sessions[0].made_by
    assert sessions[1].made_by is not sessions[0].made_by


def test_a_stuck_call_gets_no_second_thread_and_others_go_on():
    queue = CallQueue("test-queue", nullcontext, thread_safe=True)
    release = threading.Event()
    with pytest.raises(Overdue):
        queue.call("update(a)", lambda _: release.wait(FOR_EVER), 0.1, at_once=True)
    assert queue.call("update(b)", lambda _: 7, 60, at_once=True) == 7
    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(Blocked, match=r"update\(a\)"):
            queue.call("update(a)", lambda _: None, FOR_EVER, at_once=True)
    assert threading.active_count() == before
    release.set()
    queue.close(60)


def test_callers_take_turns_and_do_not_wait_longer_than_their_deadline(queue):
    running, release = threading.Event(), threading.Event()

    def slow(_session):
        running.set()
        release.wait(FOR_EVER)

    first = threading.Thread(target=queue.call, args=("slow", slow, FOR_EVER), daemon=True)
    first.start()
    assert running.wait(60)
    with pytest.raises(Blocked, match=r"0\.1 s"):
        queue.call("quick", lambda _: None, 0.1)
    release.set()
    first.join(60)
    assert queue.call("quick", lambda _: 7, 60) == 7


def test_a_caller_waits_as_long_as_other_calls_end():
    queue = CallQueue("test-queue", nullcontext)
    job = ("a", lambda _: time.sleep(0.02), 60)
    callers = [threading.Thread(target=queue.call, args=job) for _ in range(40)]
    for caller in callers:
        caller.start()
    assert queue.call("b", lambda _: 7, 0.3) == 7
    for caller in callers:
        caller.join(60)
    queue.close(60)


@pytest.mark.slow
def test_closing_is_bounded_while_a_call_is_stuck_or_running(queue):
    release = threading.Event()
    with pytest.raises(Overdue):
        queue.call("stuck", lambda _: release.wait(FOR_EVER), 1)
    queue.close(0.1)
    release.set()
