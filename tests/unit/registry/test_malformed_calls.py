"""A malformed message is dropped at the door; nothing that it contains raises into oslo.messaging."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.bus.incoming import DEEPEST, LARGEST, Malformed, check_call, check_reply
from agent.bus.listener import refuse_malformed
from tests.malformed import CALLS, REFUSED

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300)
JSON = st.recursive(
    SCALARS,
    lambda parts: st.lists(parts) | st.dictionaries(st.text(max_size=20), parts),
    max_leaves=20,
)
FIELDS = (
    *("method", "args", "namespace", "version", "_msg_id", "_reply_q", "_timeout", "_unique_id"),
    *("_context_a", "_context_self", "_context_signed_by", "_context_signatures"),
)
MESSAGES = st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=20), JSON)
NOVA = {
    "method": "set_host_enabled",
    "args": {"enabled": False},
    "version": "5.13",
    "namespace": None,
    "_msg_id": "0d8f",
    "_reply_q": "reply_5a1b",
    "_timeout": 60,
    "_unique_id": "77aa",
    "_context_service_catalog": [{"endpoints": [{"publicURL": "http://a"}]}],
}


@given(MESSAGES)
def test_whatever_a_message_contains_it_is_taken_or_called_malformed(
    message: dict[str, Any],
) -> None:
    for check in (check_call, check_reply):
        try:
            check(message)
        except Malformed as err:
            assert len(str(err)) < 100


@pytest.mark.parametrize("what", CALLS)
def test_a_call_that_no_client_sends_is_malformed(what: str) -> None:
    with pytest.raises(Malformed):
        check_call(CALLS[what])


@pytest.mark.parametrize("message", [NOVA, *REFUSED.values(), {"method": "a"}])
def test_a_call_in_the_right_form_is_taken(message: dict[str, Any]) -> None:
    check_call(message)


def test_a_message_may_have_some_levels() -> None:
    value: list[Any] = []
    for _ in range(DEEPEST - 3):
        value = [value]
    check_call(NOVA | {"args": {"a": value}})
    with pytest.raises(Malformed, match="levels"):
        check_call(NOVA | {"args": {"a": [[[value]]]}})


# -- the door


@dataclass
class Raw:
    """A message as it came."""

    body: bytes = b"{}"
    headers: dict[str, str] | None = None
    delivery_tag: int = 7


@dataclass
class Message(dict[str, Any]):
    """oslo.messaging's, of a parsed message."""

    acknowledged: int = 0

    def acknowledge(self) -> None:
        self.acknowledged += 1
        assert self.acknowledged == 1, "a second time closes the channel"


@dataclass
class Consumer:
    """oslo.messaging's; ``parsed`` and ``received`` are what came through."""

    error: Exception | None = None
    parsed: list[Raw] = field(default_factory=list)
    received: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.callback: Callable[[Message], None] = self._receive
        self._callback: Callable[[Raw], None] = self.parsed.append

    def deliver(self, raw: Raw) -> None:
        self._callback(raw)

    def _receive(self, message: Message) -> None:
        message.acknowledge()
        self.received.append(message)
        if self.error is not None:
            raise self.error


@dataclass
class Listener:
    """oslo.messaging's, with what is used of it."""

    consumer: Consumer
    compression: str | None = None
    acknowledged: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        rabbit = SimpleNamespace(kombu_compression=self.compression)
        self.driver = SimpleNamespace(
            conf=SimpleNamespace(oslo_messaging_rabbit=rabbit),
            missing_destination_retry_timeout=60.0,
        )
        connection = SimpleNamespace(_consumers={self.consumer: "1"})
        conn = SimpleNamespace(connection=connection)
        self._poll_style_listener = SimpleNamespace(driver=self.driver, conn=conn)
        refuse_malformed(self)

    def deliver(self, raw: Raw) -> None:
        raw.channel = SimpleNamespace(basic_ack=self.acknowledged.append)  # type: ignore[attr-defined]
        self.consumer.deliver(raw)


Consumer.__hash__ = object.__hash__  # type: ignore[method-assign]  # a key, as oslo.messaging's


def message(**fields: Any) -> Message:
    made = Message()
    made.update(fields)
    return made


def test_a_malformed_call_is_acknowledged_and_logged_and_nobody_gets_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listener = Listener(Consumer())
    bad, good = message(method=[]), message(method="a")
    for each in (bad, good):
        listener.consumer.callback(each)
    assert listener.consumer.received == [good]
    assert bad.acknowledged == good.acknowledged == 1
    assert caplog.messages == ["Dropped a message: method is no name"]


def test_what_oslo_messaging_raises_about_a_message_ends_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listener = Listener(Consumer(TypeError("got multiple values for argument 'self'")))
    listener.consumer.callback(message(method="a", _context_self=1))
    assert len(caplog.messages) == 1 and "multiple values" in caplog.text


@pytest.mark.parametrize(
    ("raw", "compression", "taken"),
    [
        (Raw(), None, True),
        (Raw(b" " * LARGEST), None, True),
        (Raw(b" " * (LARGEST + 1)), None, False),
        (Raw(headers={"compression": "application/x-gzip"}), None, False),
        (Raw(headers={"compression": "application/x-gzip"}), "gzip", True),
    ],
)
def test_a_message_that_is_too_large_or_may_become_so_is_not_parsed(
    raw: Raw, compression: str | None, taken: bool
) -> None:
    listener = Listener(Consumer(), compression)
    listener.deliver(raw)
    assert listener.consumer.parsed == ([raw] if taken else [])
    assert listener.acknowledged == ([] if taken else [raw.delivery_tag])


def test_an_answer_is_tried_once_since_its_sender_chooses_the_queue() -> None:
    assert Listener(Consumer()).driver.missing_destination_retry_timeout == 0


def test_a_listener_without_rabbitmq_is_left_alone() -> None:
    refuse_malformed(SimpleNamespace())
