"""Events around the hosts: operators, broker, registry, backups, clocks, twins."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.world.broker import REGISTRY
from tests.world.disk import StatePath
from tests.world.events import Event
from tests.world.hypervisor import Hypervisor
from tests.world.world import World


@dataclass(frozen=True)
class HostSwitched(Event):
    disabled: bool
    by_record: bool

    def happen(self, world: World) -> None:
        way = world.operators.by_record if self.by_record else world.operators.by_call
        way(self.on(world), disabled=self.disabled)

    def sentence(self) -> str:
        what = "disables" if self.disabled else "enables"
        how = "in the registry" if self.by_record else "with a call, as Nova does"
        return f"an operator {what} {self.host} {how}"


@dataclass(frozen=True)
class HypervisorLost(Event):
    seconds: float

    @property
    def lasts(self) -> float:
        """Includes the time until the host is enabled again, which is longer if connections flap."""
        return self.seconds + 300

    def happen(self, world: World) -> None:
        machine = self.on(world)
        machine.set_connection_lost("libvirtd is gone")
        world.scheduler.sleep(self.seconds)
        machine.set_connection_lost(None)

    def sentence(self) -> str:
        return f"{self.host}'s connection to its hypervisor is lost for {self.seconds:.0f} s"


@dataclass(frozen=True)
class ClockSteps(Event):
    """The registry's clock; agents decide by no clock that may step."""

    seconds: float

    @property
    def lasts(self) -> float:
        return 0.0

    def happen(self, world: World) -> None:
        world.registry_clock_is_off += self.seconds

    def sentence(self) -> str:
        return f"the registry's clock steps by {self.seconds:+.0f} s"


# -- the message bus


@dataclass(frozen=True)
class BrokerAway(Event):
    seconds: float
    with_queues: bool

    def happen(self, world: World) -> None:
        world.broker.go()
        world.scheduler.sleep(self.seconds)
        world.broker.come_back(with_queues=self.with_queues)

    def sentence(self) -> str:
        left = "" if self.with_queues else ", and comes back without its queues"
        return f"the broker is unavailable for {self.seconds:.0f} s{left}"


@dataclass(frozen=True)
class BadMessage(Event):
    """A fault of the next message to the host's agent, or to the registry."""

    kind: str
    seconds: float
    registry: bool

    def happen(self, world: World) -> None:
        queue = REGISTRY if self.registry else self.host
        world.broker.faults.setdefault(queue, []).append((self.kind, self.seconds))

    def sentence(self) -> str:
        to = "the registry" if self.registry else f"{self.host}'s agent"
        return f"the next message to {to} is {self.kind} ({self.seconds:.1f} s)"


# -- the registry


@dataclass(frozen=True)
class RegistryAway(Event):
    seconds: float
    database: bool

    def happen(self, world: World) -> None:
        if self.database:
            world.registry.database.away = True
        else:
            world.broker.leave(REGISTRY, None)
        world.scheduler.sleep(self.seconds)
        world.registry.database.away = False
        world.registry_listens()

    def sentence(self) -> str:
        what = "the registry's database" if self.database else "compute-registry"
        return f"{what} is unavailable for {self.seconds:.0f} s"


@dataclass(frozen=True)
class RegistryRestored(Event):
    seconds: float

    def happen(self, world: World) -> None:
        def restored() -> None:
            world.registry.database.restore()
            world.operators.record_is_older()

        world.registry.database.back_up()
        world.scheduler.stray(restored, self.seconds)

    def sentence(self) -> str:
        return f"the registry's database is backed up, and restored {self.seconds:.0f} s later"


# -- Placement


@dataclass(frozen=True)
class PlacementRestored(Event):
    seconds: float

    def happen(self, world: World) -> None:
        def restored() -> None:
            world.placement.restore(world.scheduler.now)
            world.needs_audit = True
            for machine in world.machines:  # the restored trees may need the reshape again
                if machine.is_on and machine.setup.reshapes_at_start:
                    machine.kill()

        world.placement.back_up()
        world.scheduler.stray(restored, self.seconds)

    def sentence(self) -> str:
        return f"Placement's database is backed up, and restored {self.seconds:.0f} s later"


# -- twins


@dataclass(frozen=True)
class Twin(Event):
    """A machine is started from a copy of the host's disk."""

    seconds: float
    renamed: bool

    def happen(self, world: World) -> None:
        machine = self.on(world)
        if world.setup.attached:
            return
        twin = machine.cloned(
            f"twin{len(world.twins) + 1}",
            [self._hypervisor(node) for node in machine.nodes],
            self._disk(world),
        )
        world.twins.append(twin)
        twin.start()
        world.scheduler.sleep(self.seconds)
        twin.turn_off()
        world.invariants.check_twins_reported(machine, twin)

    def _disk(self, world: World) -> StatePath:
        return world.state_path(f"twin{len(world.twins) + 1}")

    def _hypervisor(self, node: Hypervisor) -> Hypervisor:
        parts = {name: replace(part, total=part.total + 1) for name, part in node.parts.items()}
        host = node.host + "b" if self.renamed else node.host
        return Hypervisor(host, node.root, parts, two_drivers=node.two_drivers)

    def sentence(self) -> str:
        name = "another name" if self.renamed else "the same name"
        return f"a copy of {self.host}'s disk boots under {name}, for {self.seconds:.0f} s"
