"""Whatever a user of the broker sends, on a real RabbitMQ: nobody else waits for it."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from agent.bus.rpcapi import ComputeAgentAPI
from agent.bus.signing import AgentPermissions, Operator, host_key, signed
from agent.registry.checks import HeartbeatMessage, StatusChange
from agent.registry.client import RegistryClient
from agent.reporting.logs import REASONS
from tests.malformed import BYTES, enveloped, messages
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess, recording_agent

MASTER = "a long random text"
WITHIN = 10.0
"""Seconds for a call: an agent's time-out."""
MALFORMED = 1000


@pytest.fixture
def registry(broker: RabbitMQ, tmp_path: Path) -> Iterator[RegistryProcess]:
    more = f"master_key = {MASTER}"
    with RegistryProcess(tmp_path, transport_url=broker.url, more=more) as process:
        process.wait_for(lambda: "Serving RPC calls" in process.log)
        yield process


def send(broker: RabbitMQ, queue: str, bodies: Iterable[bytes], **more: Any) -> None:
    described = {"content_type": "application/json", "content_encoding": "utf-8", **more}
    with Connection(broker.url.replace("rabbit:", "amqp:")) as connection:
        producer = connection.Producer()
        for body in bodies:
            producer.publish(body, exchange="", routing_key=queue, **described)


def test_malformed_messages_delay_no_heartbeat_and_no_disable(broker, registry, transport) -> None:
    bus = transport(broker.url)
    sign = partial(signed, [host_key(MASTER, "host1")], "host1")
    host = RegistryClient(bus, WITHIN, sign=sign)
    operator = RegistryClient(bus, WITHIN, sign=Operator((MASTER,)).sign)
    api = ComputeAgentAPI(bus, timeout=WITHIN, operator=Operator((MASTER,)))
    agent, server = recording_agent(bus, "host1")
    server.permit = AgentPermissions(host_key(MASTER, "host1"), "host1")
    bodies = list(islice(cycle(messages()), MALFORMED))
    for part in range(4):
        for queue in ("compute-registry", "compute.host1"):
            send(broker, queue, bodies[part::4])
        record = host.heartbeat(HeartbeatMessage("host1", "a", "6.5", []))
        assert record is not None
        changed = operator.set_status(
            StatusChange("host1", disabled=part % 2 == 0, expected_version=record.version)
        )
        api.set_host_enabled("host1", part % 2 == 1, record_version=changed.version)
    assert agent.asked == [False, True] * 2
    dropped = [line for line in registry.log.splitlines() if "Dropped a message" in line]
    reasons = {line.partition("Dropped a message: ")[2] for line in dropped}
    assert len(dropped) == len(reasons) <= REASONS + 1, "each reason once"
    assert registry.log.count("doesn't exist, drop reply") <= 1
    assert registry.log.count("Traceback") <= len(BYTES), "of those that are not parsed"
    assert server.stop(60)


def test_a_malformed_reply_delays_no_other(broker, transport) -> None:
    """An agent that was called knows the queue to which its answer goes."""
    agent, server = recording_agent(transport(broker.url), "host2")
    api = ComputeAgentAPI(transport(broker.url), timeout=WITHIN)
    api.set_host_enabled("host2", True)
    queues = broker.control("list_queues", "name").split()
    bad = [enveloped({"_msg_id": []}), enveloped({"failure": "x"}), b"[1]"] * 20
    for queue in (name for name in queues if name.startswith("reply_")):
        send(broker, queue, bad)
    api.set_host_enabled("host2", False)
    assert agent.asked == [True, False]
    assert server.stop(60)


def test_a_message_that_is_compressed_or_too_large_is_dropped(broker, registry, transport) -> None:
    call = enveloped({"method": "list_services", "args": {"after": " " * 2**24}})
    send(broker, "compute-registry", [call])
    send(broker, "compute-registry", [call], compression="gzip")
    operator = RegistryClient(transport(broker.url), 60, sign=Operator((MASTER,)).sign)
    assert operator.list_services() == []
    assert "Dropped a message: 16777" in registry.log
