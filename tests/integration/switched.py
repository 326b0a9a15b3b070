"""A real agent with a broker and a registry, and callers as the reference has them."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agent.bus import messaging
from agent.registry.record import Records, ServiceRecord
from tests.registries import own_service
from tests.servers.agent import AgentProcess
from tests.servers.placement import RealPlacement
from tests.waiting import eventually as eventually

DISABLED = "COMPUTE_STATUS_DISABLED"
OPTIONS = "update_resources_interval = 600\nperiodic_fuzzy_delay = 0\n"


def options(url: str = "", more: str = "", *, report_interval: int = 1) -> str:
    """Lines for ``AgentProcess.options``; one heartbeat a second, for tests to be quick."""
    bus = f"transport_url = {url}\n" if url else ""
    return f"{OPTIONS}{bus}[registry]\nreport_interval = {report_interval}\n{more}"


def registry_of(agent: AgentProcess) -> Records:
    """The host's own, as computectl has it."""
    return own_service(agent.config)


def record_of(agent: AgentProcess) -> ServiceRecord:
    return registry_of(agent).get_service("testhost")


def is_known(agent: AgentProcess) -> bool:
    """Whether the agent has said that it runs."""
    return [each.host for each in registry_of(agent).list_services()] == ["testhost"]


def status_of(agent: AgentProcess) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((agent.state_path / "status.json").read_text())
    return found


def wrong_with(agent: AgentProcess, kind: str) -> str:
    """The texts of the conditions of the service of this kind."""
    conditions = status_of(agent)["service"]["conditions"]
    return "; ".join(each["text"] for each in conditions if each["kind"] == kind)


def root_of(agent: AgentProcess) -> str:
    return (agent.state_path / "compute_id").read_text().strip()


def has_trait(placement: RealPlacement, root: str) -> bool:
    return DISABLED in placement.stranger.traits(root)


def is_candidate(placement: RealPlacement, root: str) -> bool:
    """Whether the scheduler, which forbids the trait, is offered this host."""
    query = f"/allocation_candidates?resources=VCPU:1&root_required=!{DISABLED}"
    return root in placement.request("GET", query)["provider_summaries"]


def until_served(agent: AgentProcess, starts: int = 1) -> None:
    """Until Placement has its host, the registry knows it, and calls over RPC arrive."""
    agent.until_logged("Serving RPC calls on topic compute", times=starts)
    agent.until_reported()
    agent.until(lambda: is_known(agent))


@dataclass
class Caller:
    """The reference's client side, in plain oslo.messaging: a dict of a context, its serializer's
    shape, ``prepare`` with a monitor and a long time-out."""

    url: str
    exchange: str = "nova"
    version_cap: str | None = None
    transport: Any = None
    context: dict[str, Any] = field(
        default_factory=lambda: {
            "user_id": "admin",
            "project_id": "admin",
            "is_admin": True,
            "request_id": "req-1d0c2f0a-0000-4000-8000-000000000001",
            "roles": ["admin"],
            "service_catalog": [],
            "read_deleted": "no",
        }
    )

    def __post_init__(self) -> None:
        self.transport = messaging.transport(self.url)

    def set_host_enabled(
        self, host: str, enabled: Any, version: str = "6.0", timeout: float = 60, **more: Any
    ) -> Any:
        target = messaging.oslo_messaging.Target(
            topic="compute", exchange=self.exchange, version=version
        )
        client = messaging.oslo_messaging.get_rpc_client(self.transport, target)
        prepared = client.prepare(
            server=host, version=version, call_monitor_timeout=60, timeout=timeout
        )
        context = self.context | {"timestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"}
        return prepared.call(context, "set_host_enabled", enabled=enabled, **more)
