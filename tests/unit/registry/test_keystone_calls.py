"""Calls that hang hold up a request for a limited time, and no other request."""

import threading
from collections.abc import Iterator

import pytest

from compute_registry.keystone import KeystoneCalls
from tests.waiting import eventually


@pytest.fixture
def answers() -> Iterator[threading.Event]:
    """Calls that wait for it hang."""
    event = threading.Event()
    yield event
    event.set()


def test_a_hanging_call_is_given_up_and_none_is_started_beside_too_many(
    answers: threading.Event,
) -> None:
    calls, started = KeystoneCalls(2, within=0.01), []

    def hang() -> None:
        started.append(None)
        answers.wait()

    for text in ("did not answer within 0.01 s",) * 2 + ("has not answered 2 earlier calls",) * 2:
        with pytest.raises(TimeoutError, match=f"Keystone {text}: try again in a moment"):
            calls(hang)
    assert len(started) == 2
    answers.set()
    eventually(lambda: _ended(calls))


def _ended(calls: KeystoneCalls) -> bool:
    try:
        return calls(lambda: True)
    except TimeoutError:
        return False


def test_an_error_of_a_call_is_raised_and_gives_its_turn_back() -> None:
    calls = KeystoneCalls(1, within=10)

    def fails() -> None:
        raise KeyError("k")

    for _ in range(3):
        with pytest.raises(KeyError):
            calls(fails)
    assert calls(lambda: 1) == 1


def test_a_thread_that_can_not_be_started_takes_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = KeystoneCalls(1, within=10)

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(threading.Thread, "start", no_thread)
        calls(lambda: 1)
    assert calls(lambda: 1) == 1
