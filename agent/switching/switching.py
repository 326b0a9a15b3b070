"""All that disables and enables this host, put together: RPC, registry, hypervisor, switch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agent.config import Settings
from agent.loop import Loop
from agent.registry.access import open_registry
from agent.registry.address import here
from agent.registry.errors import HostTaken
from agent.registry.permission import OfAnAgent
from agent.service import Service
from agent.switching.heartbeat import LATEST_BEAT, Heartbeat
from agent.switching.hypervisor import Hypervisor
from agent.switching.rpc import VERSION_6, rpc_server
from agent.switching.standing import StandingFile
from agent.switching.switch import LONGEST_RETRY, Switch
from agent.told.reports import Report
from agent.told.status_file import NO_RPC, SERVING
from drivers.loaded import LoadedDriver, words

LOG = logging.getLogger(__name__)

STATUS_WITHIN = 5.0
"""Seconds that the first period waits for the registry; then the last known status holds."""

LOOK_EVERY = 5.0
"""Seconds."""
CLOCKS = 5.0
"""Seconds by which the clocks of callers and of this host may differ."""


@dataclass(slots=True)
class Switching:
    """Started before the first period, and stopped after the last one."""

    switch: Switch
    hypervisor: Hypervisor
    heartbeat: Heartbeat
    service: Service
    loop: Loop
    server: Any = None
    """The RPC server, ``None`` where there is no message bus."""
    changed: Callable[[], object] = lambda: None
    """Called when the facts are others than before, in the loop's thread."""
    _facts: dict[str, Any] = field(default_factory=dict)

    def connect(self) -> None:
        """Let each of them hear of the others."""
        self.switch.told_registry = self.heartbeat.soon
        self.switch.written = self.service.after_switch
        self.service.disabled = lambda: self.switch.disabled
        self.service.complaints = self.switch.complaints
        self.service.after_period = self._after_period
        self.heartbeat.rpc_version = self._rpc_version
        if self.server is not None:
            # Who has just started can be called at once, not only after the next heartbeat.
            self.server.told = self.heartbeat.soon

    def look(self) -> None:
        """For a single period: the last known status, and the record's if there is one."""
        self.switch.load()
        self.heartbeat.look()

    def watch_drivers(self) -> None:
        """From now on a hypervisor that is lost disables this host."""
        for loaded in self.service.nodes.drivers:
            if loaded.watched is not None:
                begin = partial(_watch, loaded, self.hypervisor.listener(loaded.name))
                if loaded.opening.failed is None:
                    begin()
                else:
                    loaded.opening.then = begin

    def start(self) -> None:
        """Hear of the status before the first period, if that can be; answer calls.

        :raises HostTaken: another agent, that is up, has this host's name.
        """
        self.switch.load()
        self.heartbeat.start()
        if not self.heartbeat.heard.wait(STATUS_WITHIN):
            LOG.warning("Starting without an answer of the registry: the last known status holds")
        if self.heartbeat.taken:
            raise HostTaken(self.heartbeat.taken)
        if self.service.nodes.rules.attached:
            LOG.info("The roots belong to another service, which answers calls to this host")
        elif self.server is None:
            LOG.info("No transport_url: this host follows its record, without RPC")
        else:
            self.server.start()
        if not self.service.nodes.rules.attached:
            self.watch_drivers()
        self.loop.post(self.look_on)

    def look_on(self) -> None:
        """Tell what has changed, though the next period is far: the broker was lost, or is back."""
        facts = self.facts()
        if facts != self._facts:
            self._facts = facts
            self.changed()
        self.loop.later(LOOK_EVERY, self.look_on)

    def stop(self) -> None:
        """In bounded time."""
        self.heartbeat.stop()
        if self.server is not None and not self.server.stop():
            LOG.info("Leaving while calls are under way")

    def facts(self) -> dict[str, Any]:
        """For ``status.json``."""
        standing = self.switch.standing
        return {
            "disabled": standing.disabled,
            "reason": standing.reason,
            "registry": self.heartbeat.taken or self.heartbeat.lost,
            "rpc": self._rpc(),
            "attached": self.service.nodes.rules.attached,
        }

    def _rpc(self) -> str:
        if self.server is None:
            return NO_RPC
        return SERVING if self.server.is_connected() else "waiting for the broker"

    def _rpc_version(self) -> str | None:
        """Nobody shall call us before we can answer."""
        serving = self.server is not None and self.server.serving.is_set()
        return VERSION_6 if serving else None

    def _after_period(self, reports: Sequence[Report]) -> None:
        self.switch.period_done(reports)
        found = self.service.nodes.any_disabled()
        if found is not None:
            self.switch.settle(found=found)
        self.hypervisor.remind()


def _watch(loaded: LoadedDriver, tell: Callable[[str | None], None]) -> None:
    """A driver that can't notice by itself reports all the same."""
    assert loaded.watched is not None
    try:
        loaded.watched.watch(tell)
    except (Exception, SystemExit) as err:
        LOG.warning(
            "Driver %s can't watch its hypervisor, which being lost will not disable this host: %s",
            loaded.name,
            words(err),
        )
        LOG.debug("Driver %s", loaded.name, exc_info=err)


def switching(settings: Settings, loop: Loop, service: Service, transport: Any) -> Switching:
    """Everything with everything; nothing is opened yet.  ``transport`` ``None``: no RPC."""
    file = StandingFile.of(settings.state_path)
    switch = Switch(
        file,
        loop,
        service.switch,
        settings.interval or LONGEST_RETRY,
        slack=LATEST_BEAT * settings.registry.report_interval + CLOCKS,
    )
    heartbeat = Heartbeat(
        lambda: open_registry(settings.registry, transport, host=settings.host),
        settings.host,
        here(settings.state_path),
        service.nodes.roots,
        switch,
        every=settings.registry.report_interval,
    )
    made = Switching(switch, Hypervisor(switch, loop), heartbeat, service, loop)
    # Calls to this host are for the owner of its root, where that is another service.
    if transport is not None and not settings.rules.attached:
        made.server = rpc_server(
            transport, settings.host, switch, heartbeat.in_step, settings.exchange
        )
        if settings.registry.host_key:
            made.server.permit = OfAnAgent(settings.registry.host_key, settings.host)
    made.connect()
    return made
