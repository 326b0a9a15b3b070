"""Heartbeats that report nothing new: recorded together, once a second, and not answered."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from agent.bus.errors import MessagingError
from agent.bus.rpcapi import ComputeAgentAPI
from agent.registry.checks import Report
from agent.registry.errors import RegistryError
from compute_registry.store import SqlRegistry

LOG = logging.getLogger(__name__)

TOGETHER = 1.0
"""Seconds of heartbeats that are recorded together."""


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """Records what ``received`` has."""

    store: SqlRegistry
    received: "SimpleQueue[Report]"
    agents: ComputeAgentAPI
    connected: Callable[[], bool]
    """Returns whether heartbeats can arrive; while they can't, no host gets more silent."""
    probe: Callable[[], object] = lambda: None
    """Called once a second, to find out."""

    def run(self, stop: threading.Event) -> None:
        """Record until ``stop`` is set."""
        while not stop.wait(TOGETHER):
            self.probe()
            self.record()

    def record(self) -> None:
        """Record what was received, and call the agents whose record has changed.

        If the database does not answer, the heartbeats are lost, as many as come in a second.
        """
        beats = {}
        while not self.received.empty():
            report = self.received.get()
            beats[report.host] = report
        try:
            changed = self.store.keep_alive(beats) if beats or self.connected() else []
            for host, version, disabled in changed:
                LOG.info("Calling the agent of %s, which has not seen version %s", host, version)
                self.agents.repeat_host_enabled(host, not disabled, version)
        except (RegistryError, MessagingError) as err:
            LOG.debug("Heartbeats of %d hosts: %s", len(beats), err)
        except Exception:
            LOG.exception("Heartbeats of %d hosts were not recorded", len(beats))
