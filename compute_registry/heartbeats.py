"""Heartbeats that report nothing new: recorded together, once a second, and not answered.

A broker that hangs, or takes no messages since its memory is full, keeps its connections.  Then the
silence of hosts says nothing about them; so the registry sends messages to itself.
"""

import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from queue import SimpleQueue

from agent.bus.caller import REASON, Caller
from agent.bus.messaging import RpcClient
from agent.bus.rpcapi import ComputeAgentAPI
from agent.errors import MessagingError, RegistryError
from agent.registry.checks import HeartbeatMessage
from compute_registry.store import SqlRegistry

LOG = logging.getLogger(__name__)

OWN = Caller(user="compute-registry", where=socket.gethostname())
TOGETHER = 1.0
"""Seconds of heartbeats that are recorded together."""
ECHO_WITHIN = 5.0
"""Seconds after an echo in which others' messages are expected to arrive, too."""
ECHO_TIMEOUT = 2.0
"""Seconds to send one."""


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """Records what ``received`` has."""

    store: SqlRegistry
    received: "SimpleQueue[HeartbeatMessage]"
    agents: ComputeAgentAPI
    problem: Callable[[], str]
    """Returns why no heartbeats can arrive, empty if they can; else no host gets more silent."""
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
            changed = self.store.keep_alive(beats) if beats or not self.problem() else []
            for host, version, disabled in changed:
                LOG.info("Calling the agent of %s, which has not seen version %s", host, version)
                about = OWN.context() | {REASON: f"a reminder of version {version} of its record"}
                self.agents.set_host_enabled(
                    host, not disabled, record_version=version, about=about, answered=False
                )
        except (RegistryError, MessagingError) as err:
            LOG.debug("Heartbeats of %d hosts: %s", len(beats), err)
        except Exception:
            LOG.exception("Heartbeats of %d hosts were not recorded", len(beats))


@dataclass(slots=True)
class Echo:
    """Whether this registry can be heard: it sends itself, ``name``, messages over the broker."""

    rpc: RpcClient
    name: str
    clock: Callable[[], float] = time.monotonic
    _number: str = field(default_factory=secrets.token_hex)
    """Known to this instance only."""
    _received_at: float = -inf

    def send(self) -> None:
        """Send a message; it comes back to :meth:`receive`."""
        try:
            self.rpc.call("echo", server=self.name, answered=False, number=self._number)
        except (MessagingError, RuntimeError) as err:  # or no thread can be started
            LOG.debug("No echo: %s", err)

    def receive(self, number: object) -> None:
        """Note that a message came; one of somebody else counts for nothing."""
        if number == self._number:
            self._received_at = self.clock()

    def is_received(self) -> bool:
        """Return whether a message came back lately."""
        return self.clock() - self._received_at <= ECHO_WITHIN
