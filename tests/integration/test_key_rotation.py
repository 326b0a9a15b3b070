"""The keys of a signed fleet: one command writes them, and they are replaced while calls go on."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.bus.rpcapi import ComputeAgentAPI
from agent.bus.signing import Operator, host_key
from agent.errors import RemoteFault
from agent.registry.checks import StatusChange
from agent.registry.client import RegistryClient
from tests.integration.switched import options
from tests.servers.agent import AgentProcess
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import START, RegistryProcess
from tests.waiting import eventually

HOSTS = ("host1", "host2")
CHANGED = "master_key changed"
OLD, NEW = "older master", "newer master"


@dataclass
class Calls:
    """An operator who disables and enables each host in turn, with the keys of ``operator``."""

    bus: Any
    operator: Operator
    rounds: int = 0
    errors: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def clients(self) -> tuple[RegistryClient, ComputeAgentAPI]:
        return (
            RegistryClient(self.bus, 60, sign=self.operator.sign),
            ComputeAgentAPI(self.bus, operator=self.operator),
        )

    def run(self) -> None:
        while not self.stop.is_set():
            enabled = bool(self.rounds % 2)
            for host in HOSTS:
                registry, agents = self.clients()
                try:
                    version = registry.get_service(host).version
                    record = registry.set_status(
                        StatusChange(host, disabled=not enabled, expected_version=version)
                    )
                    agents.set_host_enabled(host, enabled, record_version=record.version)
                except Exception as err:
                    self.errors.append(f"{host}: {err}")
            self.rounds += 1

    def go_on(self) -> None:
        """Two rounds that began after this call, at least."""
        wanted = self.rounds + 3
        eventually(lambda: self.rounds >= wanted, 120)


@dataclass
class Fleet:
    directory: Path
    registry: RegistryProcess
    agents: dict[str, AgentProcess]

    def write_keys(self) -> None:
        """As docs/security.rst has it."""
        subprocess.run(
            [sys.executable, "-c", START, "--config-file", str(self.registry.config)]
            + ["--host-keys", str(self.directory / "keys")],
            input="\n".join(HOSTS),
            text=True,
            check=True,
        )

    def copy_key(self, host: str) -> None:
        file = self.agents[host].directory / "conf.d" / "host-key.conf"
        file.parent.mkdir(exist_ok=True)
        file.write_text((self.directory / "keys" / f"{host}.conf").read_text())

    def replace_master(self, before: str, after: str) -> None:
        text, reloads = self.registry.config.read_text(), self.registry.log.count(CHANGED)
        assert f"master_key = {before}\n" in text
        self.registry.config.write_text(text.replace(f"= {before}\n", f"= {after}\n"))
        os.kill(self.registry.pid, signal.SIGHUP)
        self.registry.wait_for(lambda: self.registry.log.count(CHANGED) > reloads)

    def logs(self) -> str:
        return self.registry.log + "".join(agent.log for agent in self.agents.values())


@pytest.fixture
def fleet(placement: RealPlacement, tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        broker = stack.enter_context(RabbitMQ())
        registry = stack.enter_context(
            RegistryProcess(
                tmp_path / "registry", transport_url=broker.url, more=f"master_key = {OLD}\n"
            )
        )
        agents = {
            host: AgentProcess(
                tmp_path / host,
                placement.url,
                script=f"nodes: {{{host}: {{inventory: {{VCPU: 4}}}}}}\n",
                options=options(broker.url, "access = rpc\n"),
                host=host,
            )
            for host in HOSTS
        }
        fleet = Fleet(tmp_path, registry, agents)
        fleet.write_keys()
        for host, agent in agents.items():
            agent.directory.mkdir()
            fleet.copy_key(host)
            agent.start("--config-dir", str(agent.directory / "conf.d"))
            stack.callback(agent.kill)
        yield fleet


@pytest.mark.needs("rabbitmq")
def test_master_and_host_keys_are_replaced_and_no_call_is_refused(fleet: Fleet, transport) -> None:
    broker = fleet.registry.config.read_text().partition("transport_url = ")[2].partition("\n")[0]
    calls = Calls(transport(broker), Operator((OLD,)))
    registry, _ = calls.clients()
    eventually(
        lambda: sum(bool(one.rpc_version) for one in registry.list_services()) == len(HOSTS), 120
    )
    thread = threading.Thread(target=calls.run)
    thread.start()
    try:
        calls.go_on()
        fleet.replace_master(OLD, f"{NEW}, {OLD}")
        calls.go_on()
        calls.operator = Operator((NEW, OLD))
        fleet.write_keys()
        for host, agent in fleet.agents.items():
            fleet.copy_key(host)
            agent.send(signal.SIGHUP)
            agent.until_logged("host_key changed", seconds=120)
            calls.go_on()
        fleet.replace_master(f"{NEW}, {OLD}", NEW)
        calls.go_on()
        calls.operator = Operator((NEW,))
        calls.go_on()
    finally:
        calls.stop.set()
        thread.join(120)
    assert calls.errors == []
    assert "Refused a call" not in fleet.logs()
    keys = [OLD, NEW, *(host_key(key, host) for key in (OLD, NEW) for host in HOSTS)]
    assert [key for key in keys if key in fleet.logs()] == []
    calls.operator = Operator((OLD,))
    with pytest.raises(RemoteFault, match="not signed"):
        calls.clients()[1].set_host_enabled("host1", True, record_version=9999)
