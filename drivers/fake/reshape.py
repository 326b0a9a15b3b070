"""Moving allocations along with inventory, spread over the targets by what is free there."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from drivers.errors import ReshapeFailed
from drivers.fake.state import Move
from reportclient.model import Allocations, Inventory
from reportclient.provider_tree import ProviderTree


@dataclass(frozen=True, slots=True)
class Pending:
    """A move that Placement has not seen, with the UUID of its source."""

    source: str
    move: Move


@dataclass(slots=True)
class _Room:
    """What a target takes; ``free`` falls as it is filled."""

    uuid: str
    inventory: Inventory
    free: int

    def piece(self, amount: int, held: int) -> int:
        """The most of ``amount`` that a consumer who holds ``held`` here can be given, by
        the unit sizes; may be 0.
        """
        record = self.inventory
        assert record.max_unit and record.min_unit and record.step_size
        most = held + min(amount, self.free, record.max_unit - held)
        most -= most % record.step_size
        return max(0, most - held) if most >= record.min_unit else 0


def pending_moves(tree: ProviderTree, moves: Iterable[Move]) -> list[Pending]:
    """Those of ``moves`` whose source still has the class in ``tree``: call before editing it."""
    sources = [(tree.data(move.source), move) for move in moves if tree.exists(move.source)]
    return [
        Pending(data.uuid, move) for data, move in sources if move.resource_class in data.inventory
    ]


def move_allocations(
    tree: ProviderTree, pending: Iterable[Pending], allocations: Allocations
) -> None:
    """Edit ``allocations`` in place; the targets are in ``tree`` by now.

    :raises ReshapeFailed: the targets have no room for a consumer's amount.
    """
    for one in pending:
        rooms = _rooms(tree, one.move, allocations)
        for consumer, amount in _amounts(one, allocations):
            _take(allocations[consumer]["allocations"], one.source, one.move.resource_class)
            _spread(allocations[consumer]["allocations"], consumer, amount, one.move, rooms)


def _amounts(one: Pending, allocations: Allocations) -> list[tuple[str, int]]:
    """The largest first: they are the hardest to place."""
    found = {
        consumer: _amount(record["allocations"], one.source, one.move.resource_class)
        for consumer, record in allocations.items()
    }
    return sorted(
        ((consumer, amount) for consumer, amount in found.items() if amount),
        key=lambda pair: (-pair[1], pair[0]),
    )


def _rooms(tree: ProviderTree, move: Move, allocations: Allocations) -> list[_Room]:
    rooms = []
    for target in (tree.data(name) for name in move.targets):
        full = Inventory.from_dict(target.inventory[move.new_class]).over(None)
        assert full.reserved is not None and full.allocation_ratio is not None
        capacity = int((full.total - full.reserved) * full.allocation_ratio)
        used = sum(
            _amount(record["allocations"], target.uuid, move.new_class)
            for record in allocations.values()
        )
        rooms.append(_Room(target.uuid, full, capacity - used))
    return rooms


def _spread(
    held: dict[str, Any], consumer: str, amount: int, move: Move, rooms: list[_Room]
) -> None:
    """Put it where most is free: whole where it fits, otherwise in pieces."""
    left = amount
    while left:
        piece, room = _best(held, left, move, rooms)
        if room is None or not piece:
            raise ReshapeFailed(
                f"no room for {left} of {amount} {move.resource_class} of consumer {consumer} "
                f"on its way from {move.source} to {', '.join(move.targets) or 'nowhere'}"
            )
        room.free -= piece
        left -= piece
        resources = held.setdefault(room.uuid, {"resources": {}})["resources"]
        resources[move.new_class] = resources.get(move.new_class, 0) + piece


def _best(
    held: dict[str, Any], left: int, move: Move, rooms: list[_Room]
) -> tuple[int, _Room | None]:
    offers = [(room.piece(left, _amount(held, room.uuid, move.new_class)), room) for room in rooms]
    return max(offers, key=lambda offer: (offer[0], offer[1].free), default=(0, None))


def _take(held: dict[str, Any], uuid: str, resource_class: str) -> None:
    del held[uuid]["resources"][resource_class]
    if not held[uuid]["resources"]:
        del held[uuid]


def _amount(held: dict[str, Any], uuid: str, resource_class: str) -> int:
    return int(held.get(uuid, {}).get("resources", {}).get(resource_class, 0))
