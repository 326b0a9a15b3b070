"""Those who disable and enable hosts, and what they expect of it.

Two ways lead to a host: the registry's record, as ``computectl service`` and the REST
interface take, and a call to the host itself, as Nova's API makes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agent.bus.errors import MessagingError
from agent.bus.rpcapi import ComputeAgentAPI
from agent.registry.client import RegistryClient
from agent.registry.control import Control
from agent.registry.errors import RegistryError
from tests.world.broker import REGISTRY, Client

if TYPE_CHECKING:
    from tests.world.machine import Machine
    from tests.world.world import World

EITHER = frozenset({True, False})
REASON = "new disks"


@dataclass
class Operators:
    world: World
    _expected: dict[str, frozenset[bool]] = field(default_factory=dict)
    """Whether the host is disabled; both where nobody can know."""
    _busy: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        agents: Any = ComputeAgentAPI(None, timeout=60.0)
        agents._rpc = Client(self.world.broker, 60.0)
        client: Any = Client(self.world.broker, 10.0, REGISTRY)
        self.agents = agents
        self.control = Control(RegistryClient(client), agents, down_after=180.0)

    def expected(self, machine: Machine) -> frozenset[bool]:
        if machine.hypervisor.lost:
            return frozenset({True})
        return self._expected.get(machine.host, frozenset({False}))

    def doubt(self, host: str, *, might_be: bool) -> None:
        """What was decided may be lost, or be otherwise."""
        self._expected[host] = self._expected.get(host, frozenset({False})) | {might_be}

    def by_record(self, host: str, *, disabled: bool) -> None:
        """``computectl service disable``, one at a time for each host."""
        if host in self._busy:
            return
        self._busy.add(host)
        try:
            self.control.switch(host, disabled=disabled, reason=REASON if disabled else None)
        except RegistryError:
            self.doubt(host, might_be=disabled)
        else:
            self._expected[host] = frozenset({disabled})
        self._busy.discard(host)

    def by_call(self, host: str, *, disabled: bool) -> None:
        """``openstack compute service set``, of Nova, which keeps its own record."""
        if host in self._busy:
            return
        self._busy.add(host)
        sent = datetime.fromtimestamp(self.world.wall(), UTC).isoformat()
        try:
            self.agents.set_host_enabled(host, not disabled, about={"timestamp": sent})
        except MessagingError:
            self.doubt(host, might_be=disabled)
        else:
            self._expected[host] = frozenset({disabled})
        self._busy.discard(host)
