"""The shipped dashboard, and a short run of real agents and a registry that fills its panels."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.switched import root_of
from tests.servers.agent import AgentProcess
from tests.servers.placement import RealPlacement
from tests.servers.ports import free_port
from tests.servers.prometheus import Prometheus
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import RegistryProcess, fetch
from tests.waiting import eventually

DASHBOARD = Path(__file__).resolve().parents[2] / "etc/monitoring/compute-agent.dashboard.json"
HOSTS = ("host1", "host2")
DISABLE = "/v2.1/os-services/disable-log-reason"
TREE = """
nodes:
  {host}:
    inventory: {{VCPU: {vcpus}, MEMORY_MB: 2048}}
    children: {{one: {{inventory: {{CUSTOM_DEVICE: 1}}}}}}
"""
FAILING = "not_ready: the hypervisor is restarting\n"
BROKEN = "nodes: {"


@dataclass(frozen=True)
class Panel:
    """As Grafana has it, with all hosts chosen."""

    title: str
    kind: str
    unit: str
    place: tuple[int, int, int, int]
    """x, y, width and height; 24 is the whole width."""
    steps: tuple[tuple[float, str], ...]
    """From which value on which colour."""
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Target:
    query: str
    legend: str
    unit: str
    """Another one than the panel's has an axis of its own."""


def panels() -> list[Panel]:
    return [_panel(one) for one in json.loads(DASHBOARD.read_text())["panels"]]


def _panel(one: dict[str, Any]) -> Panel:
    defaults = one["fieldConfig"]["defaults"]
    steps = defaults.get("thresholds", {}).get("steps", [])
    return Panel(
        one["title"],
        one["type"],
        defaults["unit"],
        tuple(one["gridPos"][side] for side in "xywh"),
        tuple((float(step["value"] or 0), step["color"]) for step in steps),
        tuple(_target(each, one["fieldConfig"]) for each in one["targets"]),
    )


def _target(one: dict[str, Any], config: dict[str, Any]) -> Target:
    units = {
        each["matcher"]["options"]: prop["value"]
        for each in config["overrides"]
        for prop in each["properties"]
        if prop["id"] == "unit"
    }
    unit = units.get(one["refId"], config["defaults"]["unit"])
    return Target(one["expr"].replace("$host", ".*"), one["legendFormat"], unit)


@dataclass
class Run:
    """``happen`` lets all happen that a panel shows."""

    placement: RealPlacement
    agents: list[AgentProcess]
    rest: str
    prometheus: Prometheus
    began: float

    def happen(self, pause: float = 0.0) -> None:
        well, failing = self.agents
        eventually(lambda: len(self.hosts()) == len(HOSTS))
        time.sleep(pause)
        self.placement.stranger.set_traits(root_of(well), {"HW_CPU_X86_AVX"})
        write(well, vcpus=6)
        body = {"host": HOSTS[0], "binary": "nova-compute", "disabled_reason": "new disks"}
        headers = {"X_OpenStack_Nova_API_Version": "2.1"}
        fetch(f"{self.rest}{DISABLE}", "PUT", json.dumps(body).encode(), **headers)
        computectl(well, "service", "list")
        time.sleep(pause)
        write(failing, text=BROKEN)
        eventually(lambda: self.prometheus.ask("compute_agent_source_failures_total > 0"))
        write(failing, more=FAILING)
        time.sleep(pause)

    def hosts(self) -> list[Any]:
        answer = fetch(f"{self.rest}/v2.1/os-services", X_OpenStack_Nova_API_Version="2.1")
        found: list[Any] = json.loads(answer[2])["services"]
        return found


def computectl(agent: AgentProcess, *words: str) -> None:
    start = "from computectl.app import main; main()"
    command = [sys.executable, "-c", start, "--config-file", str(agent.config), *words]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


def write(agent: AgentProcess, vcpus: int = 4, more: str = "", text: str = "") -> None:
    """Its script."""
    host = HOSTS[int(agent.directory.name)]
    script = agent.directory / "script.yaml"
    script.write_text(text or TREE.format(host=host, vcpus=vcpus) + more)


@contextmanager
def watched_fleet(directory: Path, placement: RealPlacement, broker: RabbitMQ) -> Iterator[Run]:
    """Two agents and a registry, scraped."""
    rest, *ports = free_port(), free_port(), free_port(), free_port()
    registry = RegistryProcess(
        made(directory / "registry"),
        transport_url=broker.url,
        more=f"rest_port = {rest}\nauth_strategy = noauth\n"
        f"[monitoring]\nlisten_port = {ports[-1]}\n",
    )
    agents = [
        AgentProcess(
            made(directory / str(number)),
            placement.url,
            TREE.format(host=host, vcpus=4),
            host=host,
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
    agents[1].compute_driver = "fake,libvirt"
    agents[1].options += "[libvirt]\nconnection_uri = test:///default\n"
    with prometheus, registry, agents[0], agents[1]:
        yield Run(placement, agents, f"http://127.0.0.1:{rest}", prometheus, time.time())


def made(directory: Path) -> Path:
    directory.mkdir()
    return directory
