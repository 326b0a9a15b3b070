"""Pure: moves allocations along when inventory moves to other providers (a reshape).

Each consumer keeps its totals.  Its allocations stay together: on its preferred target if that
has room, else on the first target with room for all of them.  The largest consumers are placed
first, since they are the hardest to place; a consumer that fits on no single target is split.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivers.errors import ReshapeFailed
from reportclient.model import Allocations, Inventory
from reportclient.provider_tree import ProviderTree


@dataclass(frozen=True, slots=True)
class Move:
    """Resource classes that move from source providers to target providers (all by UUID).

    Targets are tried in their order.
    """

    sources: Mapping[str, frozenset[str]]
    targets: tuple[str, ...]

    @property
    def classes(self) -> frozenset[str]:
        """Return the classes that leave any of the sources."""
        return frozenset().union(*self.sources.values())


@dataclass(slots=True)
class _Room:
    """A target's inventory of one class; ``free`` decreases as allocations are placed."""

    record: Inventory
    free: int

    def part(self, amount: int, held: int) -> int:
        """Return how much of ``amount`` fits here for a consumer that has ``held`` already."""
        record = self.record
        assert record.max_unit and record.min_unit and record.step_size
        most = held + min(amount, self.free, record.max_unit - held)
        most -= most % record.step_size
        return max(0, most - held) if most >= record.min_unit else 0


_Rooms = Mapping[str, Mapping[str, _Room]]
"""Rooms by target UUID and class."""


def move_allocations(
    tree: ProviderTree,
    moves: Iterable[Move],
    allocations: Allocations,
    preferred: Mapping[str, str] | None = None,
) -> None:
    """Edit ``allocations`` in place; ``tree`` has the new inventories already.

    ``preferred`` maps consumers to the target to try first.

    :raises ReshapeFailed: a consumer fits on no target; the message says what to do.
    """
    for move in moves:
        taken = _taken(move, allocations)
        rooms = _rooms(tree, move.targets, allocations)
        bound = {consumer: uuid for consumer, uuid in (preferred or {}).items() if uuid in rooms}
        for consumer, amounts in _in_order(taken, rooms, bound):
            parts = allocations[consumer]["allocations"]
            targets = [bound[consumer]] if consumer in bound else []
            if not _placed_whole(parts, amounts, [*targets, *move.targets], rooms):
                _split(tree, parts, consumer, amounts, rooms)


def held_amounts(allocations: Allocations) -> dict[str, dict[str, list[int]]]:
    """Return the amounts that consumers hold, by provider (UUID) and class."""
    amounts: dict[str, dict[str, list[int]]] = {}
    for held in allocations.values():
        for uuid, part in held["allocations"].items():
            for name, amount in part["resources"].items():
                amounts.setdefault(uuid, {}).setdefault(name, []).append(amount)
    return amounts


def _rooms(tree: ProviderTree, targets: Sequence[str], allocations: Allocations) -> _Rooms:
    held = held_amounts(allocations)
    return {
        uuid: {
            name: _Room(
                record.with_defaults(None), record.capacity - sum(held.get(uuid, {}).get(name, ()))
            )
            for name, record in tree.records(uuid).items()
        }
        for uuid in targets
    }


def _taken(move: Move, allocations: Allocations) -> dict[str, Counter[str]]:
    """Remove the moving allocations from the sources; return the amounts by consumer."""
    taken: dict[str, Counter[str]] = {}
    for consumer, held in allocations.items():
        amounts: Counter[str] = Counter()
        parts = held["allocations"]
        for source in move.sources.keys() & parts.keys():
            resources = parts[source]["resources"]
            for name in move.sources[source] & resources.keys():
                amounts[name] += resources.pop(name)
            if not resources:
                del parts[source]
        if amounts:
            taken[consumer] = amounts
    return taken


def _in_order(
    taken: Mapping[str, Counter[str]], rooms: _Rooms, bound: Mapping[str, str]
) -> list[tuple[str, Mapping[str, int]]]:
    """Sort consumers: those with a preferred target first, then by their largest share."""
    totals: Counter[str] = Counter()
    for classes in rooms.values():
        totals.update({name: room.record.total for name, room in classes.items()})

    def share(amounts: Mapping[str, int]) -> float:
        return max(amount / max(totals[name], 1) for name, amount in amounts.items())

    return sorted(taken.items(), key=lambda pair: (pair[0] not in bound, -share(pair[1]), pair[0]))


def _placed_whole(
    parts: dict[str, Any], amounts: Mapping[str, int], targets: Sequence[str], rooms: _Rooms
) -> bool:
    for uuid in targets:
        free = rooms[uuid]
        if amounts.keys() <= free.keys() and all(
            free[name].part(amount, _held(parts, uuid, name)) == amount
            for name, amount in amounts.items()
        ):
            for name, amount in amounts.items():
                _give(parts, uuid, name, amount, rooms)
            return True
    return False


def _split(
    tree: ProviderTree,
    parts: dict[str, Any],
    consumer: str,
    amounts: Mapping[str, int],
    rooms: _Rooms,
) -> None:
    """Place each class by itself, each part on the target that takes most of it."""
    for name, amount in sorted(amounts.items()):
        rest = amount
        while rest:
            offers = {
                uuid: classes[name].part(rest, _held(parts, uuid, name))
                for uuid, classes in rooms.items()
                if name in classes
            }
            best = max(offers, key=lambda uuid: (offers[uuid], rooms[uuid][name].free), default="")
            if not offers.get(best):
                what = f"{rest} of {amount} {name} of consumer {consumer}"
                raise ReshapeFailed(_no_room(tree, what, name, rooms))
            _give(parts, best, name, offers[best], rooms)
            rest -= offers[best]


def _give(parts: dict[str, Any], uuid: str, name: str, amount: int, rooms: _Rooms) -> None:
    rooms[uuid][name].free -= amount
    resources = parts.setdefault(uuid, {"resources": {}})["resources"]
    resources[name] = resources.get(name, 0) + amount


def _held(parts: Mapping[str, Any], uuid: str, name: str) -> int:
    return int(parts.get(uuid, {}).get("resources", {}).get(name, 0))


def _no_room(tree: ProviderTree, what: str, name: str, rooms: _Rooms) -> str:
    free = ", ".join(
        f"{tree.data(uuid).name} has {max(classes[name].free, 0)} free"
        for uuid, classes in rooms.items()
        if name in classes
    )
    return (
        f"no room for {what} ({free or 'no provider has this class'}): raise the allocation ratio"
        f" of {name}, or move a guest away, then restart compute-agent"
    )
