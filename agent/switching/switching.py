"""Puts together what disables and enables this host: RPC, registry, hypervisor, status."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from agent.bus.signing import AgentPermissions
from agent.loop import Loop
from agent.nodes.nodes import Nodes
from agent.opts import RegistrySettings, Settings
from agent.registry.record import Registry
from agent.reporting.condition import BROKER, HYPERVISOR, REGISTRY, Condition
from agent.reporting.status import NO_RPC, SERVING, WAITING, ServiceFacts
from agent.reporting.systemd import Systemd
from agent.service import Service
from agent.switching.heartbeat import FollowingHeartbeat, Heartbeat, agent_address
from agent.switching.host_status import VERSION_6, HostStatus, status_document
from agent.switching.hypervisor import Hypervisor
from drivers.loaded import LoadedDriver

if TYPE_CHECKING:
    from agent.bus.server import RpcServer

LOG = logging.getLogger("compute_agent.registry")

ATTACHED = "Attach mode: nova-compute answers RPC calls to this host, this agent does not"
NO_BUS = "transport_url is not set: no RPC"
"""Why an agent has no RPC server."""
STATUS_WITHIN = 5.0
"""Seconds that the first period waits for the registry; then the saved status holds."""

FACTS_EVERY = 1.0
"""Seconds between two looks at the service's facts, and at what a command has saved."""


@dataclass(slots=True)
class Switching:
    """The parts that switch this host; started before the first period, stopped after the last."""

    status: HostStatus
    hypervisor: Hypervisor
    heartbeat: Heartbeat
    service: Service
    connect: Callable[[RegistrySettings], Registry]
    watched: Sequence[LoadedDriver]
    """The drivers whose lost hypervisors disable this host."""
    no_server: str
    """Why ``server`` is ``None``, if it is."""
    server: RpcServer | None = None
    on_facts: Callable[[], object] = lambda: None
    """Called in the loop's thread when the facts have changed between periods."""
    _facts: ServiceFacts | None = None
    _answers: bool = False
    """Whether the RPC server was started."""
    _refused: bool = False
    """Whether another agent had this host's name at the last look."""

    def read_once(self) -> None:
        """Load the saved status and read the record, for a run of a single period."""
        self.status.load_status()
        if not self.status.alone:
            self.heartbeat.read_once()

    def start(self) -> None:
        """Get the record before the first period, if the registry answers; answer calls.

        While another agent seems to have this host's name, calls are that agent's to answer.
        """
        self.status.load_status()
        if not self.status.alone:
            self.heartbeat.start()
            if not self.heartbeat.answered.wait(STATUS_WITHIN):
                LOG.warning("Starting without an answer of the registry: the last status holds")
        if self.server is None:
            LOG.info("%s", self.no_server)
        self.hypervisor.watch(self.watched)
        self._answer_calls()
        self.status.loop.post(self.watch)

    def watch(self) -> None:
        """Note what changed between periods: a command saved a status, the broker was lost.

        This shows the watchdog that the loop goes on.
        """
        self.status.loop.later(FACTS_EVERY, self.watch)
        self.service.systemd.feed()
        if self.status.alone:
            self.status.follow_saved()
        if self._refused and not self.heartbeat.name_conflict:
            # First write what was refused: then the heartbeat that says that calls are answered has
            # no condition of before.
            self.status.loop.refresh()
        else:
            self._answer_calls()
        self._refused = bool(self.heartbeat.name_conflict)
        facts = self.facts()
        if facts != self._facts:
            self._facts = facts
            self.on_facts()

    def _answer_calls(self) -> None:
        """Start the RPC server, unless it is started, or another agent has this host's name."""
        if self.server is None or self._answers or self.heartbeat.name_conflict:
            return
        self.server.start()  # where no thread can be started, again at the next look
        self._answers = True

    def follow(self, settings: Settings) -> None:
        """Apply the options that may change while the agent runs."""
        if self.server is not None:
            self.server.permit = _permit(settings)
        if not self.status.alone:
            self.heartbeat.down_after = settings.registry.down_after
            connect = cache(partial(self.connect, settings.registry))
            self.heartbeat.follow(connect, settings.registry.report_interval)

    def stop(self) -> None:
        """Stop in bounded time."""
        self.heartbeat.stop()
        if self.server is not None and not self.server.stop():
            LOG.info("Stopping while calls over RPC are still running")

    def facts(self) -> ServiceFacts:
        """For ``status.json``."""
        problem = self.server.problem() if self.server is not None and self._answers else None
        rpc = NO_RPC if problem is None else WAITING if problem else SERVING
        return ServiceFacts(
            disabled=self.status.disabled,
            reason=self.status.current.reason,
            rpc=rpc,
            attached=self.heartbeat.attached,
            roots=tuple(self.service.nodes.roots()),
            placement=self.service.endpoint.used,
            conditions=tuple(self._conditions(problem)),
        )

    def _conditions(self, rpc_problem: str | None) -> Iterator[Condition]:
        if lost := "; ".join(self.hypervisor.lost.values()):
            step = "this host is enabled again once the connection is back"
            yield Condition(lost, step, HYPERVISOR, kind=HYPERVISOR)
        if conflict := self.heartbeat.name_conflict:
            step = "set another [DEFAULT] host for one of the two agents"
            yield Condition(conflict, step, REGISTRY, kind=REGISTRY)
        elif self.status.registry_lost:
            step = "this host keeps its last status until the registry serves it again"
            yield Condition(self.status.registry_lost, step, REGISTRY, kind=REGISTRY)
        if rpc_problem:
            step = "RPC calls do not reach this host; heartbeats bring its service record"
            yield Condition(rpc_problem, step, BROKER, kind=BROKER)


def _permit(settings: Settings) -> AgentPermissions | None:
    key = settings.registry.host_key
    return AgentPermissions(key, settings.host) if key else None


def switching(
    settings: Settings, nodes: Nodes, systemd: Systemd, loop: Loop, transport: Any
) -> Switching:
    """Return the service and the parts that switch it, connected, nothing opened yet.

    ``transport``: ``None`` for no RPC.
    """
    status = HostStatus(
        status_document(settings.state_path),
        loop,
        lambda disabled, retry: nodes.switch(time.monotonic(), disabled=disabled, retry=retry),
        alone=settings.registry.access == "direct",
    )
    service = Service(settings.host, nodes, systemd, lambda: loop.stopping, status)
    # In attach mode the status of this host is that of nova-compute, which answers calls to it.
    attached = settings.rules.attached
    kind = Heartbeat if attached else FollowingHeartbeat

    def connect(registry: RegistrySettings) -> Registry:
        from agent.registry.client import open_registry  # noqa: PLC0415  oslo.messaging

        return open_registry(registry, transport, host=settings.host)

    server: RpcServer | None = None
    heartbeat = kind(
        cache(partial(connect, settings.registry)),
        settings.host,
        agent_address(settings.state_path),
        nodes.roots,
        status,
        # Without a version in its record this host is not called.
        lambda: VERSION_6 if server is not None and server.serving.is_set() else None,
        every=settings.registry.report_interval,
        down_after=settings.registry.down_after,
    )
    if not status.alone:
        nodes.denied_of = heartbeat.denied_of
    if transport is not None and not attached:
        from agent.switching.rpc import rpc_server  # noqa: PLC0415  oslo.messaging

        server = rpc_server(transport, settings.host, settings.exchange, status)
        server.permit = _permit(settings)
        server.on_serving = heartbeat.wake.set  # the registry learns at once that it can be called
    hypervisor = Hypervisor(status, loop, lost_nodes=nodes.lost)
    status.spread = lambda: settings.spread(heartbeat.hosts)
    # Without a registry nobody waits for one.
    status.on_decided = status.registered.set if status.alone else heartbeat.wake.set
    status.on_period = hypervisor.enable_if_due
    watched, no_server = ((), ATTACHED) if attached else (nodes.drivers, NO_BUS)
    return Switching(status, hypervisor, heartbeat, service, connect, watched, no_server, server)
