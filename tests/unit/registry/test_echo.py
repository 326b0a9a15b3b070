"""Silence counts only while this registry can be heard by itself."""

from types import SimpleNamespace
from typing import Any

import pytest

from agent.bus.signing import Operator
from agent.errors import NotPermitted, TransportUnavailable
from compute_registry.endpoint import RegistryPermissions
from compute_registry.heartbeats import ECHO_WITHIN, Echo


class Bus:
    """Keeps what is sent until it is delivered."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def call(self, method: str, **call: Any) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append({"method": method, **call})


@pytest.fixture
def bus() -> Bus:
    return Bus()


@pytest.fixture
def now() -> SimpleNamespace:
    return SimpleNamespace(seconds=1000.0)


@pytest.fixture
def echo(bus: Bus, now: SimpleNamespace) -> Echo:
    return Echo(bus, "one", lambda: now.seconds)  # type: ignore[arg-type]


def test_a_registry_is_heard_as_long_as_its_messages_come_back(
    echo: Echo, bus: Bus, now: SimpleNamespace
) -> None:
    assert not echo.is_received()
    echo.send()
    assert not echo.is_received(), "sent is not delivered"
    (call,) = bus.sent
    assert (call["method"], call["server"], call["answered"]) == ("echo", "one", False)
    echo.receive(call["number"])
    now.seconds += ECHO_WITHIN
    assert echo.is_received()
    now.seconds += 0.1
    assert not echo.is_received()


def test_a_message_of_somebody_else_is_no_echo(echo: Echo) -> None:
    for number in ("", 0, None, [], "0" * 64):
        echo.receive(number)
    assert not echo.is_received()


@pytest.mark.parametrize("error", [TransportUnavailable("away"), RuntimeError("no new thread")])
def test_an_echo_that_can_not_be_sent_is_no_echo(echo: Echo, bus: Bus, error: Exception) -> None:
    bus.error = error
    echo.send()
    assert not echo.is_received()


def test_an_echo_needs_no_signature_and_all_else_does() -> None:
    permit = RegistryPermissions(Operator(("secret",)))
    permit("echo", {"number": "1"}, {})
    with pytest.raises(NotPermitted):
        permit("list_services", {}, {})
