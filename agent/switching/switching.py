"""Puts together what disables and enables this host: RPC, registry, hypervisor, status."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.config import Settings
from agent.loop import Loop
from agent.registry.access import agent_address, open_registry
from agent.registry.api import Registry
from agent.registry.errors import HostTaken
from agent.registry.opts import RegistrySettings
from agent.registry.permission import AgentPermissions
from agent.reporting.status_schema import NO_RPC, SERVING, ServiceFacts
from agent.service import Service
from agent.switching.heartbeat import LATEST_BEAT, Heartbeat
from agent.switching.host_status import LONGEST_RETRY, VERSION_6, HostStatus, Write
from agent.switching.hypervisor import Hypervisor
from agent.switching.notices import FactsChanged
from agent.switching.service_file import ServiceFile
from drivers.api import Watched
from drivers.loaded import LoadedDriver
from reportclient.plain_text import error_text

if TYPE_CHECKING:
    from agent.bus.server import RpcServer

LOG = logging.getLogger(__name__)

STATUS_WITHIN = 5.0
"""Seconds that the first period waits for the registry; then the saved status holds."""

FACTS_EVERY = 5.0
"""Seconds between two looks at the service's facts."""
CLOCKS = 5.0
"""Seconds by which the clocks of callers and of this host may differ."""


@dataclass(slots=True)
class Switching:
    """The parts that switch this host; started before the first period, stopped after the last."""

    status: HostStatus
    hypervisor: Hypervisor
    heartbeat: Heartbeat
    service: Service
    server: RpcServer | None = None
    """``None`` without a message bus."""
    connect: Callable[[RegistrySettings], Registry] | None = None
    _facts: ServiceFacts | None = None

    def read_once(self) -> None:
        """Load the saved status and read the record, for a run of a single period."""
        self.status.load()
        self.heartbeat.read_once()

    def watch_drivers(self) -> None:
        """Let drivers report the loss of their hypervisor, which disables this host."""
        for loaded in self.service.nodes.drivers:
            if loaded.can(Watched):
                begin = partial(_watch, loaded, self.hypervisor.listener(loaded.name))
                if loaded.opening.failed is None:
                    begin()
                else:
                    loaded.opening.then = begin

    def start(self) -> None:
        """Get the record before the first period, if the registry answers; answer calls.

        :raises HostTaken: another agent, that is up, has this host's name.
        """
        self.status.load()
        self.heartbeat.start()
        if not self.heartbeat.answered.wait(STATUS_WITHIN):
            LOG.warning("Starting without an answer of the registry, with the last known status")
        if self.heartbeat.name_conflict:
            raise HostTaken(self.heartbeat.name_conflict)
        if self.service.nodes.rules.attached:
            LOG.info(
                "Attach mode: nova-compute answers RPC calls to this host, this agent does not"
            )
        elif self.server is None:
            LOG.info(
                "transport_url is not set: no RPC; heartbeats read the status in the service record"
            )
        else:
            self.server.start()
        if not self.service.nodes.rules.attached:
            self.watch_drivers()
        self.status.loop.post(self.watch_facts)

    def watch_facts(self) -> None:
        """Publish changed facts between periods: the broker was lost, or is back."""
        facts = self.facts()
        if facts != self._facts:
            self._facts = facts
            self.status.publish(FactsChanged())
        self.status.loop.later(FACTS_EVERY, self.watch_facts)

    def follow(self, settings: Settings) -> None:
        """Apply the options that may change while the agent runs."""
        self.status.longest_retry = settings.interval or LONGEST_RETRY
        self.status.slack = _slack(settings.registry)
        if self.connect is not None:
            every = settings.registry.report_interval
            self.heartbeat.follow(partial(self.connect, settings.registry), every)

    def stop(self) -> None:
        """Stop in bounded time."""
        self.heartbeat.stop()
        if self.server is not None and not self.server.stop():
            LOG.info("Stopping while calls over RPC are still running")

    def facts(self) -> ServiceFacts:
        """For ``status.json``."""
        return ServiceFacts(
            disabled=self.status.disabled,
            reason=self.status.current.reason,
            registry=self.heartbeat.name_conflict or self.status.registry_lost,
            rpc=self._rpc(),
            attached=self.service.nodes.rules.attached,
            hypervisor="; ".join(self.hypervisor.lost.values()) or None,
        )

    def _rpc(self) -> str:
        if self.server is None:
            return NO_RPC
        return SERVING if self.server.is_connected() else "waiting for the message broker"


def _watch(loaded: LoadedDriver, tell: Callable[[str | None], None]) -> None:
    """Start the driver's ``watch``; a driver that fails in it is used all the same."""
    try:
        loaded.watch(tell)
    except (Exception, SystemExit) as err:
        LOG.warning(
            "Driver %s can't watch its hypervisor, whose loss will not disable this host: %s",
            loaded.name,
            error_text(err),
        )
        LOG.debug("Driver %s", loaded.name, exc_info=err)


def host_status(settings: Settings, loop: Loop, write: Write) -> HostStatus:
    """Return the status of the host; ``write`` sets the trait on its roots."""
    return HostStatus(
        ServiceFile.in_directory(settings.state_path),
        loop,
        write,
        settings.interval or LONGEST_RETRY,
        slack=_slack(settings.registry),
    )


def _slack(settings: RegistrySettings) -> float:
    return LATEST_BEAT * settings.report_interval + CLOCKS


def switching(
    settings: Settings, status: HostStatus, service: Service, transport: Any
) -> Switching:
    """Return the parts, connected to each other, nothing opened yet.

    ``transport``: ``None`` for no RPC.
    """
    server = None
    # In attach mode nova-compute, which owns the root, answers calls to this host.
    if transport is not None and not settings.rules.attached:
        server = _rpc_server(settings, status, transport)

    def connect(registry: RegistrySettings) -> Registry:
        return open_registry(registry, transport, host=settings.host)

    heartbeat = Heartbeat(
        partial(connect, settings.registry),
        settings.host,
        agent_address(settings.state_path),
        service.nodes.roots,
        status,
        # Without a version in its record this host is not called.
        lambda: VERSION_6 if server is not None and server.serving.is_set() else None,
        every=settings.registry.report_interval,
        attached=settings.rules.attached,
    )
    hypervisor = Hypervisor(status, status.loop)
    status.subscribe(heartbeat.on_notice)
    status.subscribe(hypervisor.on_notice)
    return Switching(status, hypervisor, heartbeat, service, server, connect)


def _rpc_server(settings: Settings, status: HostStatus, transport: Any) -> RpcServer:
    from agent.switching.rpc import rpc_server  # noqa: PLC0415  oslo.messaging

    key = settings.registry.host_key
    permit = AgentPermissions(key, settings.host) if key else None
    return rpc_server(transport, settings.host, status, settings.exchange, permit)
