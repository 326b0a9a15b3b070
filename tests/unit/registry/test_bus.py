"""Calls end when they have to, and say why; over the bus that lives in this process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from kombu import Connection

from agent.bus import messaging
from agent.bus import server as module
from agent.bus.incoming import WAITED
from agent.bus.messaging import RpcClient, Target
from agent.bus.server import RpcServer
from agent.errors import NoAnswer, RemoteFault, TransportUnavailable
from agent.loop import in_thread
from agent.reporting.logs import REPEATING
from tests.malformed import messages
from tests.waiting import eventually

pytestmark = pytest.mark.slow


class Endpoint:
    target = Target(version="1.2", namespace="n")

    def __init__(self) -> None:
        self.hold = threading.Event()
        self.noted: list[object] = []
        self.outcomes: list[tuple[str, str]] = []

    def double(self, context: dict[str, object], number: int) -> int:
        assert not context.get(WAITED)
        return number * 2

    def note(self, context: dict[str, object], value: object) -> None:
        self.noted.append((value, context.get("user_name")))
        raise ValueError("whatever comes")

    def fail(self, _: dict[str, object]) -> None:
        raise ValueError("no such thing")

    def hang(self, _: dict[str, object]) -> None:
        self.hold.wait(3600)


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
def server(endpoint: Endpoint, transport: Callable[[str], Any]) -> RpcServer:
    return RpcServer(transport("kombu+memory://"), Target(topic="t", server="one"), [endpoint])


@pytest.fixture
def client(endpoint: Endpoint, server: RpcServer) -> Iterator[RpcClient]:
    bus = server.transport
    server.at_once = frozenset({"note"})
    server.on_answered = lambda name, outcome, _: endpoint.outcomes.append((name, outcome))
    server.start()
    assert server.serving.wait(60)
    yield RpcClient(bus, Target(topic="t", version="1.0", namespace="n"), timeout=60.0)
    endpoint.hold.set()
    assert server.stop(60)


def test_a_broker_that_is_away_at_the_start_is_named_once_with_the_step(
    transport: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    monkeypatch.setattr(module, "LATE_AFTER", 0.01)
    away = transport("rabbit://guest:guest@127.0.0.1:1/")
    server = RpcServer(away, Target(topic="t", server="one"), [])
    server.start()
    line = "Can't serve RPC calls on topic t, retrying: waiting for the message broker; check that"
    eventually(lambda: any(each.startswith(line) for each in caplog.messages))
    assert server.stop()


@pytest.mark.parametrize(
    ("method", "text"), [("fail", "fail on t: ValueError: no such thing"), ("nothing", "nothing")]
)
def test_what_failed_there_is_told_here_in_one_line(
    client: RpcClient, method: str, text: str
) -> None:
    with pytest.raises(RemoteFault) as failed:
        client.call(method)
    assert text in str(failed.value)
    assert "\n" not in str(failed.value)


def test_a_refused_call_is_logged_once_with_its_caller(
    client: RpcClient, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(RemoteFault):
        client.call("nothing", context={"user_name": "eve", "request_id": "req-1"})
    (refused,) = [each for each in caplog.records if "Refused a call" in each.getMessage()]
    assert refused.getMessage().startswith("Refused a call of 'nothing' by eve: ")
    assert refused.name in REPEATING


@pytest.fixture
def impatient(client: RpcClient) -> RpcClient:
    """For what nobody answers."""
    return replace(client, timeout=1.0)


def test_nobody_there_is_no_answer(impatient: RpcClient) -> None:
    with pytest.raises(NoAnswer, match="double on another"):
        impatient.call("double", server="another", number=1)


def test_one_that_hangs_is_not_waited_for_and_does_not_block_others(
    client: RpcClient, impatient: RpcClient
) -> None:
    with pytest.raises(NoAnswer):
        impatient.call("hang")
    assert client.call("double", number=1) == 2


def test_the_thread_of_a_call_names_the_server(client: RpcClient, endpoint: Endpoint) -> None:
    call = in_thread(lambda: client.call("hang", server="one"), "its caller")
    eventually(lambda: "call one" in {each.name for each in threading.enumerate()})
    endpoint.hold.set()
    assert call.result(60) is None


def test_stuck_calls_do_not_pile_up_without_end(client: RpcClient) -> None:
    for _ in range(messaging.CALLS_AT_ONCE):
        assert client.slots.acquire(blocking=False)
    with pytest.raises(TransportUnavailable, match="too many calls have no answer"):
        client.call("double", number=1)
    client.slots.release()
    assert client.call("double", number=1) == 2
    assert client.call("double", number=2) == 4, "the place was given back"


@pytest.mark.parametrize("url", ["", "nonsense://x"])
def test_a_url_that_can_not_be_used_is_said(url: str) -> None:
    with pytest.raises(TransportUnavailable, match="transport_url"):
        messaging.transport(url)


def test_a_server_that_was_never_started_stops() -> None:
    transport = messaging.transport("kombu+memory://")
    assert RpcServer(transport, Target(topic="x", server="y"), []).stop()


def send(body: bytes) -> None:
    with Connection("memory://") as connection:
        connection.Producer().publish(
            body,
            exchange="",
            routing_key="t",
            content_type="application/json",
            content_encoding="utf-8",
        )


def test_no_message_stops_a_server(client: RpcClient, caplog: pytest.LogCaptureFixture) -> None:
    for body in messages():
        send(body)
        assert client.call("double", number=2) == 4
    assert "Unexpected exception" not in caplog.text, "oslo.messaging's, before it sleeps"


def test_a_message_has_no_key_that_says_how_it_was_checked(
    client: RpcClient, endpoint: Endpoint
) -> None:
    call = {"method": "double", "args": {"number": 1}, "namespace": "n", "version": "1.0"}
    send(json.dumps(call | {"_refusal": "x", "_checked_method": "y"}).encode())
    eventually(lambda: endpoint.outcomes == [("double", "ok")])
    assert client.call("double", number=2) == 4


def test_a_call_that_fails_at_once_does_not_stop_the_listener(
    client: RpcClient, endpoint: Endpoint
) -> None:
    client.call("note", value=1, answered=False, context={"user_name": "eve"})
    assert client.call("double", number=3) == 6
    assert endpoint.noted == [(1, "eve")]


@pytest.mark.parametrize("method", ["__class__", "target", "outcomes", "nothing"])
def test_a_name_that_is_no_method_makes_no_name_in_the_metrics(
    client: RpcClient, endpoint: Endpoint, method: str
) -> None:
    with pytest.raises(Exception, match=method):
        client.call(method)
    assert endpoint.outcomes[-1] == ("unknown", "refused")


def test_oslo_messaging_has_all_private_names_that_are_used(
    client: RpcClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.call("note", value=1, answered=False)
    assert client.call("double", number=2) == 4
    logged = [*caplog.get_records("setup"), *caplog.records]
    assert [each.getMessage() for each in logged if "oslo.messaging" in each.getMessage()] == []


def test_more_calls_than_can_run_wait_at_the_broker(
    endpoint: Endpoint, transport: Callable[[str], Any]
) -> None:
    bus, asked = transport("kombu+memory://"), list[str]()
    bus.conf.set_override("executor_thread_pool_size", 1)
    server = RpcServer(bus, Target(topic="full", server="one"), [endpoint])
    server.permit = Noting(asked)
    server.start()
    assert server.serving.wait(60)
    bus.conf.clear_override("executor_thread_pool_size")
    client = RpcClient(bus, Target(topic="full", version="1.0", namespace="n"), timeout=60.0)
    for _ in range(6):
        client.call("hang", answered=False)
    eventually(lambda: len(asked) == 3, 60)  # one runs, one has its turn, one waits for it
    time.sleep(0.5)
    assert len(asked) == 3
    endpoint.hold.set()
    eventually(lambda: len(asked) == 6, 60)
    assert server.stop(60)


@dataclass
class Noting:
    """Permits all calls; ``asked`` gets their methods."""

    asked: list[str]

    def __call__(self, method: str, *_: object) -> None:
        self.asked.append(method)

    def signed(self, _: object, answer: object) -> object:
        return answer


def test_a_call_whose_check_fails_is_refused_and_stops_nothing(
    client: RpcClient, server: RpcServer
) -> None:
    def permit(method: str, *_: object) -> None:
        raise KeyError(method)

    server.permit = permit  # type: ignore[assignment]
    with pytest.raises(RemoteFault, match="could not be checked"):
        client.call("double", number=1)
    server.permit = None
    assert client.call("double", number=1) == 2


def test_a_server_without_threads_for_a_while_runs_the_calls_then(
    client: RpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many failures as it has threads, and more."""
    left, start = [None] * 70, threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith("rpc t") and left:
            left.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    for _ in range(80):
        client.call("fail", answered=False)
    assert client.call("double", number=2) == 4
    assert not left
