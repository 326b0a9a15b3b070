"""Events of a history, as data; the text of an event is a sentence that describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.world.disk import DISK_FAULTS
from tests.world.files import BAD, NAME
from tests.world.hypervisor import AGGREGATES, PARTS, TRAITS, Hypervisor, Part
from tests.world.placement import SQUATTER, is_accepted

if TYPE_CHECKING:
    from tests.world.machine import Machine
    from tests.world.world import World


@dataclass(frozen=True)
class Event:
    """Happens at the second ``at``, or ``steps`` steps of the host's agent later."""

    at: float
    machine: int
    steps: int

    def happen(self, world: World) -> None:
        raise NotImplementedError

    def sentence(self) -> str:
        raise NotImplementedError

    @property
    def lasts(self) -> float:
        """Seconds during which the event may prevent a host from having the right status."""
        return getattr(self, "seconds", 0.0)

    def on(self, world: World) -> Machine:
        return world.places[self.machine][0]

    def node(self, world: World) -> Hypervisor:
        return world.places[self.machine][1]

    @property
    def host(self) -> str:
        return f"host{self.machine + 1}"

    def __str__(self) -> str:
        later = f", {self.steps} steps of {self.host}'s agent later" if self.steps else ""
        return f"At {self.at:.2f} s{later}, {self.sentence()}."


# -- the agent and its host


@dataclass(frozen=True)
class Killed(Event):
    def happen(self, world: World) -> None:
        self.on(world).kill()

    def sentence(self) -> str:
        return f"{self.host}'s agent is killed"


@dataclass(frozen=True)
class HostOff(Event):
    seconds: float

    def happen(self, world: World) -> None:
        self.on(world).turn_off()
        world.scheduler.spawn(self.on(world).turn_on, after=self.seconds)

    def sentence(self) -> str:
        return f"{self.host} is off for {self.seconds:.0f} s"


@dataclass(frozen=True)
class HostChanged(Event):
    """The host's hardware changes; if ``wakes``, the driver starts a period at once."""

    parts: Mapping[str, Part]
    moves: bool
    wakes: bool

    def happen(self, world: World) -> None:
        node = self.node(world)
        node.parts, node.moves = dict(self.parts), self.moves
        node.changed_at = world.scheduler.now
        for wake in list(self.on(world).hypervisor.wakers) if self.wakes else []:
            wake()

    def sentence(self) -> str:
        parts = "; ".join(_part(name, part) for name, part in self.parts.items())
        how = " (moving allocations)" if self.moves else ""
        return f"{self.host} now has{how}: {parts}"


def _part(name: str, part: Part) -> str:
    more = [*sorted(part.traits), *(f"aggregate {each[-1]}" for each in sorted(part.aggregates))]
    below = f" below {part.parent}" if part.parent else ""
    having = f" with {', '.join(more)}" if more else ""
    return f"{name or 'the root'}{below}: {part.total} {part.resource_class}{having}"


@dataclass(frozen=True)
class DriverSilent(Event):
    seconds: float
    drivers: tuple[int, ...]

    def happen(self, world: World) -> None:
        node = self.node(world)
        node.silent.update(self.drivers)
        world.scheduler.sleep(self.seconds)
        node.silent.difference_update(self.drivers)

    def sentence(self) -> str:
        which = "the drivers" if len(self.drivers) > 1 else f"driver {self.drivers[0] + 1}"
        return f"{which} of {self.host} cannot read the hypervisor for {self.seconds:.0f} s"


@dataclass(frozen=True)
class NodeGone(Event):
    """The drivers do not report a node any more, for some seconds if ``comes_back``."""

    seconds: float
    comes_back: bool

    def happen(self, world: World) -> None:
        node = self.node(world)
        if all(other.gone or other is node for other in self.on(world).nodes):
            return  # the agent treats a driver without any node as one that cannot answer
        node.gone = True

        def comes_back() -> None:
            node.gone = False

        if self.comes_back:
            world.scheduler.stray(comes_back, self.seconds)

    def sentence(self) -> str:
        how = f"for {self.seconds:.0f} s" if self.comes_back else "for good"
        return f"the node {self.host} is gone {how}"


@dataclass(frozen=True)
class ProviderFileChanged(Event):
    """An operator changes the provider file and reloads the agent."""

    part: str
    total: int
    bad: bool

    def happen(self, world: World) -> None:
        machine = self.on(world)
        if self.bad:
            (machine.files / NAME).write_text(BAD)
        else:
            world.write_files(machine, self.part, self.total)
        machine.reload()

    def sentence(self) -> str:
        if self.bad:
            return f"the provider file on {self.host} becomes invalid"
        where = self.part or "the root"
        return f"a provider file on {self.host} adds {self.total} CUSTOM_FILED to {where}"


# -- the way to Placement


@dataclass(frozen=True)
class RequestFault(Event):
    kind: str
    seconds: float
    write: bool

    def happen(self, world: World) -> None:
        self.on(world).link.faults.append((self.kind, self.seconds, self.write))

    def sentence(self) -> str:
        what = "write" if self.write else "request"
        return f"the next {what} of {self.host} to Placement {self.kind} ({self.seconds:.1f} s)"


@dataclass(frozen=True)
class PlacementUnreachable(Event):
    seconds: float

    def happen(self, world: World) -> None:
        link = self.on(world).link
        link.cut = True
        world.scheduler.sleep(self.seconds)
        link.cut = False

    def sentence(self) -> str:
        return f"{self.host} is cut off from Placement for {self.seconds:.0f} s"


# -- the disk


@dataclass(frozen=True)
class BadDisk(Event):
    kind: str
    seconds: float

    def happen(self, world: World) -> None:
        machine = self.on(world)
        machine.disk_fault = DISK_FAULTS[self.kind]
        world.scheduler.sleep(self.seconds)
        machine.disk_fault = 0

    def sentence(self) -> str:
        return f"{self.host}'s disk {self.kind} for {self.seconds:.0f} s"


# -- strangers and guests


STRANGERS = {
    "add_trait": "adds the trait {0.its_trait} to",
    "take_trait": "removes the trait {0.our_trait} from",
    "add_aggregate": "adds the aggregate {0.its_aggregate} to",
    "old_tool": "removes an aggregate, with an old microversion, from",
    "add_class": "adds the class {0.its_class} to",
    "total": "sets another total of",
    "child": "creates a child below",
    "deletes": "deletes",
    "renames": "renames",
    "moves": "moves below /{0.its_parent}",
    "squats": "takes the name of",
}
"""What another service does to a provider, in words."""


@dataclass(frozen=True)
class ForeignWrite(Event):
    """Another service writes to a provider of the host."""

    kind: str
    part: str
    number: int

    def happen(self, world: World) -> None:
        uuid = self.node(world).uuid(self.part)
        is_accepted(getattr(self, f"_{self.kind}"), world, uuid)

    def sentence(self) -> str:
        what = STRANGERS[self.kind].format(self)
        return f"another service {what} {self.part or 'the root'} of {self.host}"

    @property
    def our_trait(self) -> str:
        return TRAITS[self.number % 3]

    @property
    def its_trait(self) -> str:
        return ("CUSTOM_STRANGE", "HW_CPU_X86_SSE")[self.number % 2]

    @property
    def its_aggregate(self) -> str:
        return f"bbbbbbbb-0000-4000-8000-00000000000{self.number % 2}"

    @property
    def its_class(self) -> str:
        return ("PGPU", "SRIOV_NET_VF")[self.number % 2]

    @property
    def its_parent(self) -> str:
        return ("", *PARTS)[self.number]

    def _put(self, world: World, uuid: str, kind: str, name: str, value: Any = True) -> None:
        world.placement.foreign.claims.setdefault(uuid, {})[kind, name] = value

    def _take_trait(self, world: World, uuid: str) -> None:
        world.placement.stranger.remove_trait(uuid, self.our_trait)

    def _add_trait(self, world: World, uuid: str) -> None:
        world.placement.stranger.add_trait(uuid, self.its_trait)
        self._put(world, uuid, "trait", self.its_trait)

    def _add_aggregate(self, world: World, uuid: str) -> None:
        stranger = world.placement.stranger
        stranger.set_aggregates(uuid, {self.its_aggregate, *stranger.aggregates(uuid)})
        self._put(world, uuid, "aggregate", self.its_aggregate)

    def _old_tool(self, world: World, uuid: str) -> None:
        stranger = world.placement.stranger
        aggregates = stranger.aggregates(uuid) - {AGGREGATES[self.number % 2]}
        stranger.set_aggregates(uuid, aggregates, old_microversion=True)
        world.needs_audit = True

    def _add_class(self, world: World, uuid: str) -> None:
        stranger = world.placement.stranger
        inventory = {**stranger.inventory(uuid), self.its_class: {"total": 50 + self.number}}
        stranger.set_inventory(uuid, inventory)
        value = world.placement.rows[uuid].inventory[self.its_class]
        self._put(world, uuid, "class", self.its_class, dict(value))

    def _total(self, world: World, uuid: str) -> None:
        stranger = world.placement.stranger
        inventory = stranger.inventory(uuid)
        for name in inventory:
            if ("class", name) not in world.placement.foreign.claims.get(uuid, {}):
                inventory[name]["total"] += 1 + self.number
        stranger.set_inventory(uuid, inventory)

    def _child(self, world: World, uuid: str) -> None:
        child = f"dddddddd-0000-4000-8000-{self.machine:04}{self.number:08}"
        world.placement.stranger.create_child(uuid, f"strangers{child[-9:]}", child)
        world.placement.foreign.providers[child] = uuid
        world.placement.stranger.set_inventory(child, {"FPGA": {"total": 3}})
        record = dict(world.placement.rows[child].inventory["FPGA"])
        self._put(world, child, "class", "FPGA", record)

    def _deletes(self, world: World, uuid: str) -> None:
        world.placement.stranger.delete_provider(uuid)
        world.placement.foreign.forget(uuid)

    def _renames(self, world: World, uuid: str) -> None:
        world.placement.stranger.rename(uuid, f"renamed{self.number}")

    def _moves(self, world: World, uuid: str) -> None:
        if self.part:
            world.placement.stranger.move(uuid, self.node(world).uuid(self.its_parent))

    def _squats(self, world: World, uuid: str) -> None:
        squatter = f"{SQUATTER}{self.machine:04}{self.number:08}"
        world.placement.stranger.create_provider(self.node(world).name(self.part), squatter)


@dataclass(frozen=True)
class Guest(Event):
    """A guest comes to a provider of the host, or one is deleted."""

    part: str
    comes: bool

    def happen(self, world: World) -> None:
        placement = world.placement
        if not self.comes:
            for consumer in sorted(placement.foreign.guests)[:1]:
                placement.stranger.delete_allocation(consumer)
                del placement.foreign.guests[consumer]
            return
        uuid = self.node(world).uuid(self.part)
        row = placement.rows.get(uuid)
        claims = placement.foreign.claims.get(uuid, {})
        classes = [] if row is None else [c for c in row.inventory if ("class", c) not in claims]
        if classes:
            number = len(placement.foreign.guests) + int(self.at * 100)
            consumer = f"99999999-0000-4000-8000-{number:012}"
            uses = {uuid: {sorted(classes)[0]: 1}}
            if is_accepted(placement.stranger.put_allocation, uses, consumer):
                placement.foreign.guests[consumer] = dict(uses[uuid])

    def sentence(self) -> str:
        if not self.comes:
            return "a guest goes"
        return f"a guest comes to {self.part or 'the root'} of {self.host}"
