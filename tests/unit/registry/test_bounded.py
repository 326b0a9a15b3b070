"""Calls that hang hold up a request for a limited time, and no other request."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from agent.registry.control import Control
from compute_registry.bounded import Bounded, BoundedRegistry
from compute_registry.web import registry_app
from tests.unit.registry.fakes import OneRecord, record
from tests.waiting import eventually


class Hanging(OneRecord):
    """A registry whose lists hang until ``answers`` is set."""

    def __init__(self) -> None:
        super().__init__(record(), [])
        self.answers, self.calls = threading.Event(), 0

    def list_services(self):
        self.calls += 1
        self.answers.wait()
        return super().list_services()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    registry = Hanging()
    yield registry
    registry.answers.set()


def test_a_database_that_hangs_is_a_503_with_a_sentence_and_is_not_called_without_end(
    hanging: Hanging,
) -> None:
    registry = BoundedRegistry(hanging, Bounded("the database", 2, within=0.01))
    client = registry_app(Control(registry, None)).test_client()
    said = []
    for _ in range(4):
        answer = client.get("/v2.1/os-services")
        assert answer.status_code == 503
        said.append(answer.json["serviceUnavailable"]["message"])
    assert said[:2] == ["the database did not answer within 0.01 s: try again in a moment"] * 2
    busy = "the database has not answered 2 earlier calls: try again in a moment"
    assert said[2:] == [busy] * 2 and hanging.calls == 2
    hanging.answers.set()
    eventually(lambda: client.get("/v2.1/os-services").status_code == 200)


def test_an_error_of_a_call_is_raised_and_gives_its_turn_back() -> None:
    calls = Bounded("x", 1)

    def fails() -> None:
        raise KeyError("k")

    for _ in range(3):
        with pytest.raises(KeyError):
            calls(fails)
    assert calls(lambda: 1) == 1


def test_a_thread_that_can_not_be_started_takes_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Bounded("x", 1)

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(threading.Thread, "start", no_thread)
        calls(lambda: 1)
    assert calls(lambda: 1) == 1
