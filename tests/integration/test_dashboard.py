"""The shipped dashboard on a real Prometheus: every panel has something to show."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.switched import root_of
from tests.servers.agent import AgentProcess
from tests.servers.placement import RealPlacement
from tests.servers.ports import free_port
from tests.servers.prometheus import Prometheus
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess, fetch
from tests.waiting import eventually

pytest.importorskip("libvirt")

DASHBOARD = Path(__file__).resolve().parents[2] / "etc/monitoring/compute-agent.dashboard.json"
HOSTS = ("host1", "host2")
DISABLE = "/v2.1/os-services/disable-log-reason"
TREE = """
nodes:
  {host}:
    inventory: {{VCPU: {vcpus}, MEMORY_MB: 2048}}
    children: {{one: {{inventory: {{CUSTOM_DEVICE: 1}}}}}}
"""
FAILING = "raise DriverNotReady('the hypervisor is restarting')"
BROKEN = "nodes: {"


def queries() -> list[str]:
    """The queries of all panels, with all hosts chosen."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [each["expr"].replace("$host", ".*") for one in panels for each in one["targets"]]


@dataclass
class Run:
    """``happen`` lets all happen that a panel shows."""

    placement: RealPlacement
    agents: list[AgentProcess]
    rest: str
    prometheus: Prometheus

    def happen(self) -> None:
        well, failing = self.agents
        eventually(lambda: len(self.hosts()) == len(HOSTS))
        eventually(lambda: {*HOSTS} <= self.placement.uuids().keys())
        self.placement.stranger.set_traits(root_of(well), {"HW_CPU_X86_AVX"})
        write(well, vcpus=6)
        body = {"host": HOSTS[0], "binary": "nova-compute", "disabled_reason": "new disks"}
        headers = {"X_OpenStack_Nova_API_Version": "2.1"}
        fetch(f"{self.rest}{DISABLE}", "PUT", json.dumps(body).encode(), **headers)
        well.computectl("service", "list").check_returncode()
        write(failing, text=BROKEN)
        eventually(lambda: self.prometheus.ask("compute_agent_source_failures_total > 0"))
        (failing.directory / "deed.py").write_text(FAILING)
        write(failing)

    def hosts(self) -> list[Any]:
        answer = fetch(f"{self.rest}/v2.1/os-services", X_OpenStack_Nova_API_Version="2.1")
        found: list[Any] = json.loads(answer[2])["services"]
        return found


def write(agent: AgentProcess, vcpus: int = 4, text: str = "") -> None:
    """Its script."""
    host = HOSTS[int(agent.directory.name)]
    script = agent.directory / "script.yaml"
    script.write_text(text or TREE.format(host=host, vcpus=vcpus))


@contextmanager
def watched_fleet(directory: Path, placement: RealPlacement, broker: RabbitMQ) -> Iterator[Run]:
    """Two agents and a registry, scraped."""
    rest, *ports = free_port(), free_port(), free_port(), free_port()
    registry = RegistryProcess(
        directory / "registry",
        transport_url=broker.url,
        more=f"rest_port = {rest}\nauth_strategy = noauth\n"
        f"[monitoring]\nlisten_port = {ports[-1]}\n",
    )
    agents = [
        AgentProcess(
            directory / str(number), placement.url, TREE.format(host=host, vcpus=4), host=host
        )
        for number, host in enumerate(HOSTS)
    ]
    jobs = {"compute-agent": ports[:-1], "compute-registry": ports[-1:]}
    prometheus = Prometheus(directory, jobs)
    for agent, port in zip(agents, ports, strict=False):
        agent.options += (
            f"transport_url = {broker.url}\n"
            f"[registry]\naccess = rpc\nreport_interval = 1\n[monitoring]\nlisten_port = {port}\n"
        )
    agents[1].make_sick()
    agents[1].compute_driver = "sick,libvirt"
    agents[1].options += "[libvirt]\nconnection_uri = test:///default\n"
    with prometheus, registry, agents[0], agents[1]:
        yield Run(placement, agents, f"http://127.0.0.1:{rest}", prometheus)


@pytest.mark.faults  # a broker, a registry, two agents, and Prometheus's own pace
@pytest.mark.needs("prometheus")
def test_each_query_is_answered_by_what_agents_and_a_registry_count(
    tmp_path: Path, placement: RealPlacement, own_broker: RabbitMQ
) -> None:
    asked = queries()
    with watched_fleet(tmp_path, placement, own_broker) as run:
        run.happen()
        eventually(lambda: [one for one in asked if not run.prometheus.ask(one)] == [])
