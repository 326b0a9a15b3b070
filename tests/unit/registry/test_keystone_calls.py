"""Calls that hang hold up a request for a limited time; one client holds up no other."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from compute_registry.keystone import AT_ONCE, OF_ONE, OF_ONE_WAITING, KeystoneCalls
from tests.waiting import eventually

CROWD, OTHER = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def answers() -> Iterator[threading.Event]:
    """Calls that wait for it hang."""
    event = threading.Event()
    yield event
    event.set()


def crowd(calls: KeystoneCalls, pool: ThreadPoolExecutor, size: int, hang: threading.Event) -> list:
    """As many calls of one client, of which one a turn has begun when this returns."""
    begun = threading.Semaphore(0)

    def call() -> bool:
        begun.release()
        return hang.wait(60)

    made = [pool.submit(calls, call, CROWD) for _ in range(size)]
    for _ in range(min(size, OF_ONE)):
        assert begun.acquire(timeout=60)
    return made


def test_a_hanging_call_is_given_up_and_few_are_started_beside_it(
    answers: threading.Event,
) -> None:
    calls = KeystoneCalls(within=0.5)
    with ThreadPoolExecutor(OF_ONE + 1) as pool:
        waits = crowd(calls, pool, OF_ONE + 1, answers)
        texts = {str(each.exception(60)) for each in waits}
    assert texts == {
        "Keystone did not answer within 0.5 s: try again in a moment",
        "Keystone was busy for 0.25 s: try again in a moment",
    }
    answers.set()
    eventually(lambda: _ended(calls))


def _ended(calls: KeystoneCalls) -> bool:
    try:
        return calls(lambda: True, CROWD)
    except TimeoutError:
        return False


def test_a_crowd_waits_in_turn_and_keeps_nobody_else_out(answers: threading.Event) -> None:
    calls = KeystoneCalls(within=100)
    size = OF_ONE + OF_ONE_WAITING
    with ThreadPoolExecutor(size) as pool:
        waits = crowd(calls, pool, size, answers)
        eventually(lambda: _is_full(calls))
        assert [calls(lambda: 1, OTHER) for _ in range(10)] == [1] * 10
        answers.set()
        assert [each.result(60) for each in waits] == [True] * size


def _is_full(calls: KeystoneCalls) -> bool:
    try:
        calls(lambda: True, CROWD)
    except TimeoutError as err:
        return "too many requests wait for Keystone: try" in str(err)
    return False


def test_an_error_of_a_call_is_raised_and_gives_its_turn_back() -> None:
    calls = KeystoneCalls(within=10)

    def fails() -> None:
        raise KeyError("k")

    for _ in range(AT_ONCE + 1):
        with pytest.raises(KeyError):
            calls(fails, CROWD)
    assert calls(lambda: 1, CROWD) == 1


def test_a_thread_that_can_not_be_started_takes_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = KeystoneCalls(within=10)

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    for _ in range(AT_ONCE + 1):
        with monkeypatch.context() as patched, pytest.raises(RuntimeError):
            patched.setattr(threading.Thread, "start", no_thread)
            calls(lambda: 1, CROWD)
    assert calls(lambda: 1, CROWD) == 1
