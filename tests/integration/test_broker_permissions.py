"""A real RabbitMQ with a user for each part, as docs/security.rst has it, and signed calls."""

import json
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from amqp import AccessRefused, Message
from kombu import Connection, Exchange, Queue

from agent.bus import messaging
from agent.bus.messaging import Target
from agent.bus.rpcapi import ComputeAgentAPI
from agent.bus.server import RpcServer
from agent.bus.signing import AgentPermissions, Operator, host_key, signed
from agent.errors import MessagingError, NotPermitted, RemoteFault, SignatureRefused
from agent.registry.checks import HeartbeatMessage, StatusChange
from agent.registry.client import RegistryClient
from compute_registry.broker_users import commands
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RecordingAgent, RegistryProcess, recording_agent
from tests.waiting import eventually

MASTER = "a long random text"
HOSTS = ("host1", "host2")
CALLS = Exchange("nova", type="topic", passive=True)


@pytest.fixture(scope="module")
def broker() -> Iterator[RabbitMQ]:
    with RabbitMQ() as server:
        for line in commands(HOSTS, "nova", "/"):
            words = shlex.split(line)[1:]
            server.control(*words, *(["secret"] if words[0] == "add_user" else []))
        yield server


def url(broker: RabbitMQ, user: str) -> str:
    return f"rabbit://{user}:secret@127.0.0.1:{broker.port}/"


def test_with_the_documented_users_no_host_switches_or_records_another(
    broker: RabbitMQ, tmp_path: Path, transport: Callable[[str], Any]
) -> None:
    buses = {
        user: transport(url(broker, user)) for user in ("agent-host1", "agent-host2", "operator")
    }
    agent = RecordingAgent()
    target = Target(exchange="nova", topic="compute", server="host1")
    server = RpcServer(buses["agent-host1"], target, [agent])
    server.permit = AgentPermissions(host_key(MASTER, "host1"), "host1")
    server.start()
    assert server.serving.wait(60)
    more = f"master_key = {MASTER}"
    with RegistryProcess(tmp_path, transport_url=url(broker, "registry"), more=more) as registry:
        registry.wait_for(lambda: "Serving RPC calls" in registry.log)
        own = partial(signed, [host_key(MASTER, "host1")], "host1")
        other = partial(signed, [host_key(MASTER, "host2")], "host2")
        client = RegistryClient(buses["agent-host1"], 60, sign=own)
        record = client.heartbeat(HeartbeatMessage("host1", "a", "6.5", []))
        version = {"expected_version": record.version}
        thief = RegistryClient(buses["agent-host2"], 60, sign=other)
        for theft in (
            lambda: thief.heartbeat(HeartbeatMessage("host1", "b", "6.5", [])),
            lambda: thief.set_status(StatusChange("host1", disabled=True, **version)),
            lambda: thief.delete("host1", uuid=record.uuid),
        ):
            with pytest.raises(SignatureRefused, match="does not allow"):
                theft()
        unsigned = RegistryClient(buses["agent-host2"], 60)
        with pytest.raises(SignatureRefused, match="not signed"):
            unsigned.set_status(StatusChange("host1", disabled=True))
        operator = RegistryClient(buses["operator"], 60, sign=Operator((MASTER,)).sign)
        assert operator.set_status(StatusChange("host1", disabled=True, **version)).disabled
    api = ComputeAgentAPI(buses["operator"], operator=Operator((MASTER,)))
    assert api.set_host_enabled("host1", False, record_version=2) == "disabled"
    # The broker itself refuses another agent the exchange through which agents are called.
    with pytest.raises(MessagingError):
        ComputeAgentAPI(buses["agent-host2"], timeout=10).set_host_enabled("host1", True)
    # What reaches the queue all the same is not signed.
    with Connection(url(broker, "agent-host2").replace("rabbit:", "amqp:")) as connection:
        envelope = {"oslo.version": "2.0", "oslo.message": unsigned_call()}
        connection.Producer().publish(envelope, exchange="", routing_key="compute.host1")
    with pytest.raises(RemoteFault, match="not signed"):
        ComputeAgentAPI(buses["operator"]).set_host_enabled("host1", True)
    assert agent.asked == [False]
    assert server.stop(30)


def unsigned_call() -> str:
    return (
        '{"method": "set_host_enabled", "args": {"enabled": true}, "version": "5.0", '
        '"_unique_id": "1", "_context_record_version": 99}'
    )


@pytest.fixture(scope="module")
def agents(broker: RabbitMQ) -> Iterator[dict[str, RecordingAgent]]:
    """The agents of both hosts, which listen."""
    buses = [messaging.transport(url(broker, f"agent-{host}")) for host in HOSTS]
    listening = [recording_agent(bus, host) for bus, host in zip(buses, HOSTS, strict=True)]
    for host, (_, server) in zip(HOSTS, listening, strict=True):
        server.permit = AgentPermissions(host_key(MASTER, host), host)
    yield {host: agent for host, (agent, _) in zip(HOSTS, listening, strict=True)}
    for bus, (_, server) in zip(buses, listening, strict=True):
        server.stop(5)
        bus.cleanup()


@pytest.fixture
def connection(broker: RabbitMQ, agents: dict[str, RecordingAgent]) -> Iterator[Connection]:
    """What a program on host2 has."""
    with Connection(url(broker, "agent-host2").replace("rabbit:", "amqp:")) as connection:
        yield connection


@pytest.fixture
def channel(connection: Connection) -> Any:
    return connection.channel()


def bound(channel: Any, key: str) -> None:
    Queue("reply_thief", CALLS, routing_key=key, auto_delete=True)(channel).declare()


def bound_by_an_exchange(channel: Any) -> None:
    channel.exchange_declare("reply_thief", "topic", auto_delete=True, durable=False)
    channel.exchange_bind("reply_thief", "nova", "#")


def published(channel: Any, exchange: str, key: str) -> None:
    channel.basic_publish(Message("{}"), exchange, key)
    channel.queue_declare("reply_thief", auto_delete=True)  # its answer comes after a refusal


ATTEMPTS: dict[str, Callable[[Any], object]] = {
    "consume another agent's queue": lambda channel: channel.basic_consume("compute.host1"),
    "fetch from another agent's queue": lambda channel: channel.basic_get("compute.host1"),
    "consume the registry's queue": lambda channel: channel.basic_consume("compute-registry"),
    "get all calls": lambda channel: bound(channel, "#"),
    "get the calls to all agents": lambda channel: bound(channel, "compute.*"),
    "get the calls to another agent": lambda channel: bound(channel, "compute.host1"),
    "get them in its own queue": lambda channel: channel.queue_bind(
        "compute.host2", "nova", "compute.host1"
    ),
    "get them through an exchange of its own": bound_by_an_exchange,
    "get calls to the registry": lambda channel: channel.queue_bind(
        "compute.host2", "compute-registry", "#"
    ),
    "call another agent": lambda channel: published(channel, "nova", "compute.host1"),
    "call all agents": lambda channel: published(channel, "compute_fanout", ""),
    "delete another agent's queue": lambda channel: channel.queue_delete("compute.host1"),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_the_broker_refuses_an_agent_the_calls_of_others(channel: Any, attempt: str) -> None:
    with pytest.raises(AccessRefused):
        ATTEMPTS[attempt](channel)


def test_an_agents_user_gets_the_calls_to_its_own_host(channel: Any) -> None:
    for key in ("compute", "compute.host2"):
        bound(channel, key)


def test_whoever_gets_a_call_of_another_host_can_not_answer_it(
    broker: RabbitMQ,
    agents: dict[str, RecordingAgent],
    connection: Connection,
    channel: Any,
    transport: Callable[[str], Any],
) -> None:
    """RabbitMQ lets who may declare an exchange replace it by one of another type: the last test."""
    operator = Operator((MASTER,))
    api = ComputeAgentAPI(transport(url(broker, "operator")), timeout=30, operator=operator)
    assert api.set_host_enabled("host1", True, record_version=1) == "enabled"
    with ThreadPoolExecutor(1) as pool:
        channel.exchange_delete("nova")
        channel.exchange_declare("nova", "fanout", durable=False, auto_delete=False)
        channel.queue_declare("reply_other", auto_delete=True)
        channel.queue_bind("reply_other", "nova", "")
        calling = pool.submit(api.set_host_enabled, "host1", False, record_version=2)
        got: list[Message] = []
        eventually(lambda: got.extend(filter(None, [channel.basic_get("reply_other")])) or got)
        sent = json.loads(json.loads(got[0].body)["oslo.message"])
        answer = {"result": "disabled", "failure": None, "ending": True, "_msg_id": sent["_msg_id"]}
        envelope = {"oslo.version": "2.0", "oslo.message": json.dumps(answer)}
        connection.Producer().publish(envelope, exchange="", routing_key=sent["_reply_q"])
        with pytest.raises(NotPermitted, match="not signed with the host_key of host1"):
            calling.result(60)
    assert agents["host1"].asked == [True]
