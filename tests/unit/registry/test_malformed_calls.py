"""A malformed message is dropped at the door; nothing that it contains raises into oslo.messaging."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from amqp.exceptions import PreconditionFailed
from hypothesis import given
from hypothesis import strategies as st

from agent.bus.incoming import DEEPEST, WAITED, Malformed, check_call, check_reply
from agent.bus.listener import WAKES_EVERY, Arrivals, describe
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


@pytest.mark.parametrize("value", [date(2026, 1, 1), Decimal(1), b"a", (1,)])
def test_a_value_that_json_can_not_write_is_malformed(value: object) -> None:
    for call in (NOVA | {"args": {"a": [{"b": value}]}}, NOVA | {"_context_a": value}):
        with pytest.raises(Malformed, match=f"type {type(value).__name__}"):
            check_call(call)


# -- the door


LARGEST = 1000


@dataclass
class Raw:
    """A message as it came."""

    body: bytes = b"{}"
    headers: dict[str, str] | None = None
    delivery_info: dict[str, Any] = field(default_factory=dict)
    delivery_tag: int = 7


@dataclass
class Message(dict[str, Any]):
    """oslo.messaging's, of a parsed message."""

    acknowledged: int = 0

    def acknowledge(self) -> None:
        self.acknowledged += 1
        assert self.acknowledged == 1, "a second time closes the channel"


@dataclass(eq=False)
class Consumer:
    """oslo.messaging's; ``parsed`` and ``received`` are what came through."""

    error: Exception | None = None
    waiting: int = 0
    queue_name: str = "t.one"
    parsed: list[Raw] = field(default_factory=list)
    received: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.callback: Callable[[Message], None] = self._receive
        self._callback: Callable[[Raw], None] = self.parsed.append

    def deliver(self, raw: Raw, message: Message | None = None) -> None:
        self._callback(raw)
        if message is not None:
            self.callback(message)

    def declare(self, _: object) -> None:
        """Nothing is declared."""

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
    consumed: list[float] = field(default_factory=list)
    error: Exception | None = None

    def __post_init__(self) -> None:
        rabbit = SimpleNamespace(kombu_compression=self.compression)
        driver = SimpleNamespace(conf=SimpleNamespace(oslo_messaging_rabbit=rabbit))
        self.connection = SimpleNamespace(
            _consumers={self.consumer: "1"},
            consume=self._consume,
            channel=SimpleNamespace(queue_declare=self._declare),
        )
        conn = SimpleNamespace(connection=self.connection)
        self._poll_style_listener = SimpleNamespace(driver=driver, conn=conn)
        self.arrivals = Arrivals(self, "t.one", LARGEST)

    def _declare(self, queue: str, *, passive: bool) -> SimpleNamespace:
        assert (queue, passive) == ("t.one", True)
        return SimpleNamespace(message_count=self.consumer.waiting)

    def _consume(self, timeout: float) -> None:
        self.consumed.append(timeout)
        if self.error is not None:
            raise self.error

    def deliver(self, raw: Raw, message: Message | None = None) -> None:
        raw.channel = SimpleNamespace(basic_ack=self.acknowledged.append)  # type: ignore[attr-defined]
        self.consumer.deliver(raw, message)


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


def waited(listener: Listener, raw: Raw | None = None) -> bool:
    """Whether a call that is delivered now counts as one that waited."""
    listener.deliver(raw or Raw(), message(method="a"))
    return listener.consumer.received[-1].get(f"_context_{WAITED}", False)


def test_as_many_deliveries_as_a_declared_queue_had_have_waited() -> None:
    listener = Listener(consumer := Consumer(waiting=2))
    listener.deliver(Raw(b" " * (LARGEST + 1)))  # dropped, and one of the two
    assert [waited(listener) for _ in range(3)] == [True, False, False]
    assert waited(listener, Raw(delivery_info={"redelivered": True}))
    consumer.waiting = 1
    consumer.declare(listener.connection)  # after a reconnection
    assert [waited(listener) for _ in range(2)] == [True, False]


def test_once_nothing_is_delivered_no_later_call_has_waited() -> None:
    """A call in the queue may have expired after it was counted."""
    listener = Listener(Consumer(waiting=5), error=TimeoutError())
    with pytest.raises(TimeoutError):
        listener.connection.consume(timeout=0.001)
    assert not waited(listener)


def test_a_server_waits_for_the_next_message_rather_than_a_millisecond() -> None:
    listener = Listener(Consumer())
    listener.connection.consume(timeout=0.001)
    assert listener.consumed == [WAKES_EVERY]


REPLACED = (
    "Queue.declare: (406) PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue "
    "'compute' in vhost '/': received none but current is the value '1' of type 'signedint'"
)


def test_a_queue_that_another_has_replaced_is_named_with_the_command() -> None:
    listener = Listener(Consumer(), error=PreconditionFailed(REPLACED))
    for error, problem in ((listener.error, True), (TimeoutError(), False)):
        listener.error = error
        with pytest.raises(type(error)):
            listener.connection.consume()
        assert bool(listener.arrivals.problem) is problem
    text = describe(Exception(REPLACED))
    assert text.startswith("queue compute has another x-max-length than this service declares")
    assert text.endswith("rabbitmqctl delete_queue -p / compute")
    exchange = REPLACED.replace("queue 'compute'", "exchange 'nova'")
    assert describe(Exception(exchange)).endswith("delete exchange name=nova")


def test_an_oslo_messaging_with_other_names_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert Arrivals(SimpleNamespace(), "t.one", LARGEST).is_connected()
    (text,) = caplog.messages
    assert "malformed calls are not dropped" in text
    assert "no attribute '_poll_style_listener'" in text
