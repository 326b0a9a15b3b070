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
    restores: int = 0
    """How often the registry's database became an older one."""
    _busy: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        agents: Any = ComputeAgentAPI(None, timeout=60.0)
        agents.rpc = Client(self.world.broker, 60.0)
        client: Any = Client(self.world.broker, 10.0, REGISTRY)
        self.agents = agents
        self.control = Control(RegistryClient(client), agents, down_after=180.0)

    def expected(self, machine: Machine) -> frozenset[bool]:
        if machine.setup.attached:
            return frozenset({False})
        if machine.hypervisor.lost:
            return frozenset({True})
        return self._expected.get(machine.host, frozenset({False}))

    def doubt(self, host: str, *, might_be: bool) -> None:
        """What was decided may be lost, or be otherwise."""
        self._expected[host] = self._expected.get(host, frozenset({False})) | {might_be}

    def by_record(self, machine: Machine, *, disabled: bool) -> None:
        """``computectl service disable``, one at a time for each host."""
        if machine.host not in self._busy:
            self._busy.add(machine.host)
            self._by_record(machine, disabled)
            self._busy.discard(machine.host)

    def _by_record(self, machine: Machine, disabled: bool) -> None:
        host, restores = machine.host, self.restores
        known = machine.note_version(machine.process)
        overtaken = self._is_overtaken(host)
        try:
            done = self.control.switch(host, disabled=disabled, reason=REASON if disabled else None)
        except RegistryError:
            self.doubt(host, might_be=disabled)
            return
        self._expected[host] = frozenset({disabled})
        # After a restore the agent may know another record of this version, or a later one.
        if done.record.version <= known or restores != self.restores or overtaken:
            self.doubt(host, might_be=not disabled)

    def _is_overtaken(self, host: str) -> bool:
        """By a call before, which was given up and will be carried out yet."""
        late = self.world.broker.late
        return any(host in (queue, one.arguments.get("host")) for queue, one in late)

    def by_call(self, machine: Machine, *, disabled: bool) -> None:
        """``openstack compute service set``, of Nova, which keeps its own record."""
        if machine.host not in self._busy:
            self._busy.add(machine.host)
            self._by_call(machine, disabled)
            self._busy.discard(machine.host)

    def _by_call(self, machine: Machine, disabled: bool) -> None:
        host, restores = machine.host, self.restores
        sent = datetime.fromtimestamp(self.world.wall(), UTC).isoformat()
        unheard, waited = self._unheard(machine), self.world.broker.waited[host]
        try:
            answer = self.agents.set_host_enabled(host, not disabled, about={"timestamp": sent})
        except MessagingError:
            self.doubt(host, might_be=disabled)
            return
        self._expected[host] = frozenset({answer == "disabled"})
        if unheard is not None:
            self.doubt(host, might_be=unheard)
        # A call that waited changes nothing: its answer is what holds, until a hypervisor is back.
        if self.world.broker.waited[host] != waited:
            self._expected[host] = EITHER
        if restores != self.restores or self._may_be_a_twins(host):
            self.doubt(host, might_be=not disabled)

    def _may_be_a_twins(self, host: str) -> bool:
        """Who answered: two that are called the same hear of each other by the registry only."""
        return any(twin.host == host for twin in self.world.twins)

    def _unheard(self, machine: Machine) -> bool | None:
        """What the record says, where the agent has not heard of it: it may hold."""
        record = self.world.registry.record(machine.host)
        status = machine.process.status if machine.process is not None else None
        if record is None or (status and status.current.record_version == record.version):
            return None
        return record.disabled

    def record_is_older(self) -> None:
        """What was decided since the backup is known to the agents that had heard of it.

        An older record that disables counts, one that enables does not.
        """
        self.restores += 1
        for machine in self.world.machines:
            found = self.world.registry.record(machine.host)
            record = found is not None and found.disabled
            status = machine.process.status if machine.process is not None else None
            heard = status is not None and status.current.disabled
            if record or not heard:
                self.doubt(machine.host, might_be=record)
