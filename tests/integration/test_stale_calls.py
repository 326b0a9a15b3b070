"""Nova's own calls that waited for an agent that was away change nothing that holds since."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kombu import Connection

from agent.registry.checks import StatusChange
from tests.integration.switched import (
    has_trait,
    options,
    record_of,
    registry_of,
    root_of,
    until_served,
)
from tests.servers.agent import AgentProcess
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.reference import REPOSITORY, reference_python
from tests.waiting import eventually

pytestmark = pytest.mark.needs("nova")
QUEUE = "compute.testhost"
both_ways = pytest.mark.parametrize(
    "disabled", [True, pytest.param(False, marks=pytest.mark.faults)]
)


@pytest.fixture
def agent(tmp_path: Path, placement: RealPlacement, broker: RabbitMQ) -> Iterator[AgentProcess]:
    broker.empty(QUEUE)
    with AgentProcess(tmp_path, placement.url, options=options(broker.url)) as agent:
        until_served(agent)
        yield agent
        agent.send(signal.SIGCONT)


@pytest.fixture(scope="module")
def nova(broker: RabbitMQ) -> Iterator[Nova]:
    nova = Nova(broker.url)
    yield nova
    nova.process.kill()
    nova.process.communicate(timeout=60)


class Nova:
    """Calls of its rpcapi, many at once, from one process."""

    def __init__(self, url: str) -> None:
        module = "tests.integration.nova_caller"
        self.process = subprocess.Popen(
            [str(reference_python()), "-W", "ignore", "-m", module, url],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.answers: dict[str, str] = {}
        self.made = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def call(self, enabled: bool, sent: datetime | None = None) -> Callable[[], str]:
        """Make one; what is returned waits for its answer."""
        self.made += 1
        number = str(self.made)
        when = f"{sent:%Y-%m-%dT%H:%M:%S.%f}" if sent else ""
        assert self.process.stdin
        print(number, "testhost", enabled, when, file=self.process.stdin, flush=True)
        return lambda: self._answer(number)

    def _answer(self, number: str) -> str:
        eventually(lambda: number in self.answers, within=120)
        return self.answers[number]

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            number, _, answer = line.strip().partition(" ")
            self.answers[number] = answer


def waiting(broker: RabbitMQ) -> int:
    with Connection("127.0.0.1", port=broker.port) as connection:
        return connection.default_channel.queue_declare(QUEUE, passive=True).message_count


def changed_to(agent: AgentProcess, placement: RealPlacement, *, disabled: bool) -> None:
    """The record, and with it the host; it was otherwise before."""
    registry_of(agent).set_status(StatusChange("testhost", disabled=disabled))
    eventually(lambda: has_trait(placement, root_of(agent)) is disabled)


@both_ways
def test_a_call_in_a_dead_agents_queue_does_not_overturn_the_operator(
    agent, placement, broker, nova, disabled
) -> None:
    changed_to(agent, placement, disabled=not disabled)
    agent.kill()
    call = nova.call(enabled=disabled)
    eventually(lambda: waiting(broker))
    wanted = registry_of(agent).set_status(StatusChange("testhost", disabled=disabled))
    agent.start()
    assert call() == ("disabled" if disabled else "enabled")
    eventually(lambda: has_trait(placement, root_of(agent)) is disabled)
    assert "RPC calls waited in the queue while this service did not listen" in agent.log
    assert record_of(agent).version == wanted.version
    assert nova.call(enabled=disabled)() == ("enabled" if disabled else "disabled")
    eventually(lambda: record_of(agent).disabled is not disabled)


@both_ways
def test_a_call_to_an_agent_that_was_cut_off_does_not_overturn_operators(
    agent, placement, broker, nova, disabled
) -> None:
    changed_to(agent, placement, disabled=not disabled)
    agent.send(signal.SIGSTOP)
    close_connections(broker)
    call = nova.call(enabled=disabled)
    eventually(lambda: waiting(broker))
    wanted = registry_of(agent).set_status(StatusChange("testhost", disabled=disabled))
    agent.send(signal.SIGCONT)
    assert call() == ("disabled" if disabled else "enabled")
    eventually(lambda: has_trait(placement, root_of(agent)) is disabled)
    assert record_of(agent).version == wanted.version


@both_ways
def test_a_call_counts_however_far_behind_the_callers_clock_is(
    agent, placement, nova, disabled
) -> None:
    changed_to(agent, placement, disabled=disabled)
    changed_to(agent, placement, disabled=not disabled)
    an_hour_behind = datetime.now(UTC) - timedelta(hours=1)
    wanted = "disabled" if disabled else "enabled"
    assert nova.call(enabled=not disabled, sent=an_hour_behind)() == wanted
    eventually(lambda: record_of(agent).status == wanted)


def close_connections(broker: RabbitMQ) -> None:
    """Nova, which is not stopped, connects again by itself."""
    there = connections(broker)
    broker.control("close_all_connections", "the test cuts them off")
    eventually(lambda: not there & connections(broker))


def connections(broker: RabbitMQ) -> set[str]:
    return set(broker.control("list_connections", "pid", "--no-table-headers").split())
