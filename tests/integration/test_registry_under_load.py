"""The REST interface with agents that hang, and with requests that are too long."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent.bus.messaging import Target
from agent.bus.server import RpcServer
from agent.registry.checks import HeartbeatMessage
from tests.registries import registry_at
from tests.servers.ports import free_port
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess, fetch, recording_agent

NOAUTH = "auth_strategy = noauth"


class HungAgent:
    """One that takes calls, shows signs of life, and never answers before it is let go."""

    target = Target(version="5.13")

    def __init__(self) -> None:
        self.go = threading.Event()

    def set_host_enabled(self, _context: dict[str, object], enabled: bool) -> str:
        self.go.wait(200)
        return "enabled" if enabled else "disabled"


@pytest.fixture
def hung(transport: Callable[[str], Any]) -> Iterator[Callable[[str, int], HungAgent]]:
    servers: list[RpcServer] = []
    agent = HungAgent()

    def hang(url: str, count: int) -> HungAgent:
        bus = transport(url)
        for number in range(count):
            target = Target(exchange="nova", topic="compute", server=f"hung{number}")
            servers.append(RpcServer(bus, target, [agent]))
            servers[-1].start()
        assert all(each.serving.wait(60) for each in servers)
        return agent

    yield hang
    agent.go.set()
    with ThreadPoolExecutor(len(servers)) as together:
        list(together.map(lambda each: each.stop(60), servers))


def switched(port: int, uuid: str, status: str) -> tuple[int, dict[str, str], Any]:
    code, headers, text = fetch(
        f"http://127.0.0.1:{port}/v2.1/os-services/{uuid}",
        "PUT",
        json.dumps({"status": status}).encode(),
        Content_Type="application/json",
        OpenStack_API_Version="compute 2.90",
    )
    return code, headers, json.loads(text)


def test_agents_that_hang_hold_up_neither_their_callers_nor_other_hosts(
    tmp_path: Path,
    own_broker: RabbitMQ,
    transport: Callable[[str], Any],
    hung: Callable[[str, int], HungAgent],
) -> None:
    port, count = free_port(), 12
    agent, healthy = recording_agent(transport(own_broker.url), "healthy")
    hung(own_broker.url, count)
    more = f"rest_port = {port}\n{NOAUTH}\nservice_down_time = 3600"
    with RegistryProcess(tmp_path, transport_url=own_broker.url, more=more):
        store = registry_at(tmp_path, 3600.0)
        names = [f"hung{number}" for number in range(count)]
        uuids = {
            name: store.heartbeat(HeartbeatMessage(name, "a", "6.5", [])).uuid
            for name in [*names, "healthy"]
        }
        answers: list[tuple[int, dict[str, str], Any]] = []
        callers = [
            threading.Thread(
                target=lambda name=name: answers.append(switched(port, uuids[name], "disabled"))
            )
            for name in names
        ]
        for each in callers:
            each.start()
        for each in callers:
            each.join(60)
        code, headers, _ = switched(port, uuids["healthy"], "disabled")
        assert (code, headers["x-compute-agent"]) == (200, "called and answered: disabled")
        # All of them have answers while their agents still hang.
        assert [code for code, _, _ in answers] == [200] * count
        assert {body["service"]["status"] for _, _, body in answers} == {"disabled"}
        for _, headers, _ in answers:
            assert "no answer in 3 s" in headers["x-compute-agent"]
            assert "its agent applies the record" in headers["x-compute-agent"]
        _, headers, body = switched(port, uuids["hung0"], "enabled")
        assert "no answer in 3 s" in headers["x-compute-agent"]
        assert body["service"]["status"] == "enabled"
        store.database.dispose()
    assert agent.asked == [False]
    healthy.stop(30)


def test_what_is_too_long_is_refused_before_it_has_come(tmp_path: Path) -> None:
    port = free_port()
    with RegistryProcess(tmp_path, more=f"rest_port = {port}\n{NOAUTH}"):
        for head, status in (
            (f"Content-Length: {2**20}", b"413"),
            (f"X-Long: {'x' * 2**17}", b"431"),
            ("Content-Length: -1", b"400"),
            ("Content-Length: many", b"400"),
        ):
            with socket.create_connection(("127.0.0.1", port), 60) as sock:
                request = f"PUT /v2.1/os-services/x HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n"
                sock.sendall(request.encode())
                assert sock.recv(100).split()[1] == status
