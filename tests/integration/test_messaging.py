"""Messaging never gates reporting: whatever a real RabbitMQ does, Placement is told in time."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kombu import Connection

from agent.bus import messaging
from agent.registry.checks import StatusChange
from agent.switching.rpc import VERSION_6
from tests.integration.switched import (
    Caller,
    has_trait,
    is_known,
    options,
    record_of,
    registry_of,
    root_of,
    status_of,
    wrong_with,
)
from tests.servers.agent import AgentProcess
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import eventually


@pytest.fixture
def broker(broker: RabbitMQ) -> Iterator[RabbitMQ]:
    """Up at the start and at the end of each test, whatever it does to it."""
    if broker.process is None:
        broker.start()
    yield broker
    if broker.process is not None:
        os.killpg(broker.process.pid, signal.SIGCONT)


@pytest.fixture
def agent(tmp_path: Path, placement: RealPlacement, broker: RabbitMQ) -> Iterator[AgentProcess]:
    agent = AgentProcess(tmp_path, placement.url, options=options(broker.url))
    yield agent
    agent.kill()


def reported(agent: AgentProcess) -> None:
    """Start it, and wait until Placement has everything and the registry knows it."""
    agent.start()
    agent.until_reported()
    agent.until(lambda: is_known(agent))
    assert status_of(agent)["nodes"][0]["ok"]


def called(broker: RabbitMQ, enabled: bool, timeout: float = 60.0) -> str:
    caller = Caller(broker.url)
    try:
        return caller.set_host_enabled("testhost", enabled, timeout=timeout)
    finally:
        caller.transport.cleanup()


def answered(broker: RabbitMQ, enabled: bool) -> bool:
    try:
        return called(broker, enabled, timeout=10) == ("enabled" if enabled else "disabled")
    except messaging.oslo_messaging.MessagingTimeout:
        return False


def test_a_broker_that_is_down_at_the_start(agent, broker, placement) -> None:
    broker.kill9()
    reported(agent)
    assert wrong_with(agent, "broker") == "waiting for the message broker"
    assert registry_of(agent).get_service("testhost").rpc_version is None, "nobody shall call it"
    broker.start()
    agent.until_logged("Serving RPC calls")
    assert called(broker, False) == "disabled"
    assert has_trait(placement, root_of(agent))
    eventually(lambda: registry_of(agent).get_service("testhost").rpc_version == "6.5")


def test_a_lost_broker_is_in_the_status_and_few_lines_until_it_is_back(
    agent, broker, placement
) -> None:
    """The next period is ten minutes away."""

    reported(agent)
    eventually(lambda: status_of(agent)["service"]["rpc"] == "serving")
    assert agent.computectl("status").returncode == 0
    broker.kill9()
    eventually(lambda: wrong_with(agent, "broker") == "waiting for the message broker")
    said = agent.computectl("status")
    assert said.returncode == 1 and "not well" in said.stdout
    assert "RPC calls do not reach this host" in said.stdout
    root = root_of(agent)
    # The record is followed without it.
    registry_of(agent).set_status(StatusChange("testhost", disabled=True))
    eventually(lambda: has_trait(placement, root))
    time.sleep(6)
    assert agent.log.count("unreachable") <= 2
    broker.start()
    # A call that comes before the agent is back is lost with its queue: the caller asks again.
    eventually(lambda: answered(broker, True))
    assert not has_trait(placement, root)
    eventually(lambda: status_of(agent)["service"]["rpc"] == "serving", within=120)
    assert agent.computectl("status").returncode == 0


def test_a_broker_that_hangs_at_the_start(agent, broker) -> None:
    os.killpg(broker.process.pid, signal.SIGSTOP)
    reported(agent)
    os.killpg(broker.process.pid, signal.SIGCONT)
    agent.until_logged("Serving RPC calls")
    assert called(broker, False) == "disabled"


def test_one_that_has_just_started_can_be_called_before_its_next_heartbeat(agent, broker) -> None:
    agent.options = options(broker.url, report_interval=50)
    reported(agent)
    agent.until_logged("Serving RPC calls")
    agent.kill()
    agent.start()  # its status is known now: there is nothing else to tell the registry
    agent.until_logged("Serving RPC calls", times=2)
    eventually(lambda: record_of(agent).rpc_version == VERSION_6)


@pytest.mark.parametrize(
    "lost",
    [pytest.param(False, id="away", marks=pytest.mark.faults), pytest.param(True, id="lost")],
)
def test_a_stop_does_not_wait_for_a_broker(agent, broker, lost) -> None:
    if not lost:
        broker.kill9()
    reported(agent)
    if lost:
        agent.until_logged("Serving RPC calls")
        broker.kill9()
        time.sleep(1)
    assert agent.stop() == 0


def test_no_message_bus_is_said_once(agent) -> None:
    agent.options = options()
    reported(agent)
    agent.until_logged("transport_url is not set")
    assert status_of(agent)["service"]["rpc"] == "none"
    agent.send(signal.SIGHUP)
    time.sleep(1)
    assert agent.log.count("transport_url") == 1


def test_credentials_that_become_right_at_the_broker(agent, broker, placement) -> None:
    agent.options = options(broker.url.replace("guest:guest", "compute:secret"))
    reported(agent)
    agent.until_logged("Can't serve RPC calls on topic compute, retrying")
    assert "Traceback" not in agent.log
    registry_of(agent).set_status(StatusChange("testhost", disabled=True))
    eventually(lambda: has_trait(placement, root_of(agent)))
    broker.control("add_user", "compute", "secret")
    broker.control("set_permissions", "compute", ".*", ".*", ".*")
    agent.until_logged("Serving RPC calls")
    assert called(broker, False) == "disabled"


def test_what_another_fills_its_queue_with_takes_an_agent_no_memory(agent, broker) -> None:
    reported(agent)
    usual = peak_of(agent)
    agent.kill()
    nested = b"[" + b"[]," * 2_500_000 + b"[]]"
    call = {"content_type": "application/json", "content_encoding": "utf-8"}
    with Connection(broker.url.replace("rabbit:", "amqp:")) as connection:
        queue = connection.SimpleQueue("compute.testhost", queue_opts={"durable": False})
        for _ in range(30):
            queue.producer.publish(nested, exchange="", routing_key=queue.queue.name, **call)
    agent.start()
    agent.until_logged("30 RPC calls waited in the queue")
    assert called(broker, False) == "disabled"
    assert peak_of(agent) < usual + 60 * 2**10
    assert agent.log.count("Dropped a message") == 1


def peak_of(agent: AgentProcess) -> int:
    """Return the most memory that the process had, in KiB."""
    assert agent.process is not None
    status = Path(f"/proc/{agent.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def test_a_replaced_shared_queue_is_named_until_it_is_deleted(agent, broker) -> None:
    broker.control("delete_queue", "compute")
    with Connection(broker.url.replace("rabbit:", "amqp:")) as connection:
        arguments = {"x-max-length": 1}
        connection.default_channel.queue_declare("compute", durable=False, arguments=arguments)
    reported(agent)
    eventually(lambda: "queue compute has another" in wrong_with(agent, "broker"))
    command = "rabbitmqctl delete_queue -p / compute"
    assert command in wrong_with(agent, "broker") and command in agent.log
    broker.control(*command.split()[1:])
    agent.until_logged("Serving RPC calls", seconds=120)
    eventually(lambda: status_of(agent)["service"]["rpc"] == "serving")


def test_a_broker_that_hangs_while_it_runs_stops_no_report_and_no_switch(
    agent, broker, placement
) -> None:
    reported(agent)
    agent.until_logged("Serving RPC calls")
    group = broker.process.pid
    os.killpg(group, signal.SIGSTOP)
    try:
        root = root_of(agent)
        before = status_of(agent)["updated"]
        agent.send(signal.SIGHUP)
        agent.until(lambda: status_of(agent)["updated"] > before)
        registry_of(agent).set_status(StatusChange("testhost", disabled=True))
        eventually(lambda: has_trait(placement, root))
    finally:
        os.killpg(group, signal.SIGCONT)
    eventually(lambda: answered(broker, True))
    assert not has_trait(placement, root)
