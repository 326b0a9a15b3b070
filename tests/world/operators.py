"""Operators that disable and enable hosts, and the status that each host should have.

An operator changes the registry's record, as ``computectl service`` and the REST API do, or calls
the host's agent, as Nova's API does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.bus.errors import MessagingError
from agent.bus.rpcapi import ComputeAgentAPI
from agent.registry.client import RegistryClient
from agent.registry.control import Control
from agent.registry.errors import RegistryError
from agent.switching.machine import State
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
    """Whether a host is disabled, by host; both values if that cannot be known."""
    restores: int = 0
    """How often the registry's database was restored."""
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
        """Note that the host may also have this status, since a decision may be lost."""
        self._expected[host] = self._expected.get(host, frozenset({False})) | {might_be}

    def by_record(self, machine: Machine, *, disabled: bool) -> None:
        """Switch a host as ``computectl service`` does, one operator at a time for each host."""
        self._alone(self._by_record, machine, disabled)

    def _alone(
        self, switch: Callable[[Machine, bool], None], machine: Machine, disabled: bool
    ) -> None:
        if machine.host not in self._busy:
            self._busy.add(machine.host)
            switch(machine, disabled)
            self._busy.discard(machine.host)

    def _by_record(self, machine: Machine, disabled: bool) -> None:
        host, restores = machine.host, self.restores
        known_version = machine.note_version(machine.process)
        overtaken = self._is_overtaken(host)
        try:
            done = self.control.switch(host, disabled=disabled, reason=REASON if disabled else None)
        except RegistryError:
            self.doubt(host, might_be=disabled)
            return
        self._expected[host] = frozenset({disabled})
        # After a restore the agent may know another record of this version, or a later one.
        if done.record.version <= known_version or restores != self.restores or overtaken:
            self.doubt(host, might_be=not disabled)

    def _is_overtaken(self, host: str) -> bool:
        """Whether an earlier call to the host, which was given up, may still be carried out."""
        late = self.world.broker.late
        return any(host in (queue, one.arguments.get("host")) for queue, one in late)

    def by_call(self, machine: Machine, *, disabled: bool) -> None:
        """Switch a host as Nova's ``openstack compute service set`` does, by a call to the agent."""
        self._alone(self._by_call, machine, disabled)

    def _by_call(self, machine: Machine, disabled: bool) -> None:
        host, restores = machine.host, self.restores
        record_status, waited = self._unknown_record_status(machine), self.world.broker.waited[host]
        overtaken = self._is_overtaken(host)
        try:
            answer = self.agents.set_host_enabled(host, not disabled)
        except MessagingError:
            self.doubt(host, might_be=disabled)
            return
        self._expected[host] = frozenset({answer == "disabled"})
        if record_status is not None:
            self.doubt(host, might_be=record_status)
        # A call that waited changes nothing; it answers the current status, which may change when the
        # hypervisor is back.
        if self.world.broker.waited[host] != waited:
            self._expected[host] = EITHER
        if overtaken or restores != self.restores or self._may_be_answered_by_twin(host):
            self.doubt(host, might_be=not disabled)
        # Once restarted, the agent has the status of before; a restored record may have its version.
        status = machine.process.status if machine.process is not None else None
        if self.restores and (status is None or status.document.problem):
            self.doubt(host, might_be=not disabled)

    def _may_be_answered_by_twin(self, host: str) -> bool:
        """Whether a twin may have answered: twins detect each other only through the registry."""
        return any(twin.host == host for twin in self.world.twins)

    def _unknown_record_status(self, machine: Machine) -> bool | None:
        """Return the record's status if the agent does not know this record yet, else ``None``."""
        record = self.world.registry.record(machine.host)
        status = machine.process.status if machine.process is not None else None
        if record is None or (status and status.current.record_version == record.version):
            return None
        return record.disabled

    def record_is_older(self) -> None:
        """Note that the registry was restored.

        Agents keep decisions made since the backup if they know them, and, once restarted, if they
        could save them.  An older record may disable a host, but not enable it.
        """
        self.restores += 1
        for machine in self.world.machines:
            record = self.world.registry.record(machine.host)
            record_disabled = record is not None and record.disabled and not record.is_auto
            status = machine.process.status if machine.process is not None else None
            agent_disabled = (
                status and not status.document.problem and status.current.state is State.DISABLED
            )
            if record_disabled or not agent_disabled:
                self.doubt(machine.host, might_be=record_disabled)
