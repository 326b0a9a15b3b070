"""A real RabbitMQ with a user for each part, as docs/security.rst has it, and signed calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Consumer, Queue
from kombu.exceptions import OperationalError

from agent.bus.errors import MessagingError, RemoteFault
from agent.bus.messaging import Target
from agent.bus.rpcapi import ComputeAgentAPI
from agent.bus.server import RpcServer
from agent.bus.signing import Operator, Signer, host_key
from agent.registry.client import RegistryClient
from agent.registry.errors import RegistryUnavailable
from agent.registry.permission import AgentPermissions
from tests.servers import rabbitmq
from tests.servers.agent import REPOSITORY
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RecordingAgent, RegistryProcess

needs_rabbitmq = pytest.mark.skipif(bool(rabbitmq.missing()), reason=str(rabbitmq.missing()))
MASTER = "a long random text"
DOCUMENTED = re.compile(r"rabbitmqctl (\w+) (.*)")


def documented() -> list[list[str]]:
    """The commands of the page, for host1."""
    page = (REPOSITORY / "docs" / "security.rst").read_text().partition(":name: rabbitmq-users")[2]
    block = page.partition("\n\n")[2].partition("\n\n\n")[0].replace("\\\n", " ")
    commands = [found.groups() for found in map(DOCUMENTED.search, block.splitlines()) if found]
    return [[name, *(word.strip("'") for word in said.split())] for name, said in commands]


@pytest.fixture(scope="module")
def broker() -> Iterator[RabbitMQ]:
    with RabbitMQ() as server:
        for command in documented():
            server.control(*command)
            if "agent-host1" in " ".join(command):
                server.control(*(word.replace("host1", "host2") for word in command))
        yield server


def url(broker: RabbitMQ, user: str) -> str:
    return f"rabbit://{user}:secret@127.0.0.1:{broker.port}/"


@needs_rabbitmq
def test_with_the_documented_users_all_works_and_no_host_switches_or_records_another(
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
        own = Signer(host_key(MASTER, "host1"), "host1")
        other = Signer(host_key(MASTER, "host2"), "host2")
        client = RegistryClient.over(buses["agent-host1"], 60, sign=own.sign)
        assert client.heartbeat("host1", "a", "6.5", []).host == "host1"
        thief = RegistryClient.over(buses["agent-host2"], 60, sign=other.sign)
        for theft in (
            lambda: thief.heartbeat("host1", "b", "6.5", []),
            lambda: thief.set_status("host1", disabled=True),
            lambda: thief.delete("host1"),
        ):
            with pytest.raises(RegistryUnavailable, match="does not allow"):
                theft()
        unsigned = RegistryClient.over(buses["agent-host2"], 60)
        with pytest.raises(RegistryUnavailable, match="not signed"):
            unsigned.set_status("host1", disabled=True)
        operator = RegistryClient.over(buses["operator"], 60, sign=Operator((MASTER,)).sign)
        assert operator.set_status("host1", disabled=True).disabled
    api = ComputeAgentAPI(buses["operator"], sign=Operator((MASTER,)).sign_to)
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


@needs_rabbitmq
def test_an_agent_can_not_read_what_is_for_another_or_for_the_registry(broker: RabbitMQ) -> None:
    for queue in ("compute.host1", "compute-registry"):
        with Connection(url(broker, "agent-host2").replace("rabbit:", "amqp:")) as connection:
            reading = Queue(queue, no_declare=True)
            refused = (OperationalError, *connection.connection_errors, *connection.channel_errors)
            with pytest.raises(refused, match="(?i)refused"):
                with Consumer(connection.channel(), [reading], callbacks=[lambda *_: None]):
                    connection.drain_events(timeout=5)


def test_the_page_has_a_user_for_each_part() -> None:
    users = {command[1] for command in documented() if command[0] == "add_user"}
    assert users == {"registry", "operator", "agent-host1"}
