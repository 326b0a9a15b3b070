"""What a node is at a moment: its script with the changes that hold by then.  Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from drivers.fake.script import Change, Failure, MoveSpec, NodeSpec, Now, ProviderSpec
from reportclient.model import Inventory


@dataclass(frozen=True, slots=True)
class Move:
    """Allocations of a class that go along with the inventory; providers by name."""

    source: str
    resource_class: str
    new_class: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeState:
    """The providers that a node shall have, parents first, and the moves so far."""

    providers: tuple[ProviderSpec, ...]
    moves: tuple[Move, ...] = ()


def state_at(node: NodeSpec, now: Now) -> NodeState:
    """The node with all changes that hold, in the order of the file."""
    providers = {provider.ref: provider for provider in node.providers}
    moves: list[Move] = []
    for change in node.changes:
        if change.span.holds(now) and change.ref in providers:
            _change(providers, change)
            moves.extend(_moves(providers, change))
            if change.removed:
                _remove(providers, change.ref)
    return NodeState(tuple(providers.values()), _still_meant(moves, providers))


def failures_at(node: NodeSpec, now: Now) -> list[Failure]:
    """The failures that hold, in the order of the file."""
    return [failure for failure in node.failures if failure.span.holds(now)]


def _change(providers: dict[str, ProviderSpec], change: Change) -> None:
    before = providers[change.ref]
    providers[change.ref] = replace(
        before,
        inventory=_overlaid(before.inventory, change.inventory),
        traits=before.traits - change.remove_traits | change.add_traits,
        aggregates=before.aggregates - change.remove_aggregates | change.add_aggregates,
    )
    for child in change.children:
        if child.parent in providers:
            providers[child.ref] = child


def _moves(providers: dict[str, ProviderSpec], change: Change) -> list[Move]:
    return [_moved(providers, change.ref, spec) for spec in change.moves]


def _moved(providers: dict[str, ProviderSpec], ref: str, spec: MoveSpec) -> Move:
    source = providers[ref]
    providers[ref] = replace(
        source, inventory=_overlaid(source.inventory, {spec.resource_class: None})
    )
    targets = {ref: record for ref, record in spec.targets.items() if ref in providers}
    for target, record in targets.items():
        inventory = _overlaid(providers[target].inventory, {spec.new_class: record})
        providers[target] = replace(providers[target], inventory=inventory)
    names = tuple(providers[target].name for target in targets)
    return Move(source.name, spec.resource_class, spec.new_class, names)


def _remove(providers: dict[str, ProviderSpec], top: str) -> None:
    for ref in [ref for ref in providers if ref == top or ref.startswith(f"{top}/")]:
        del providers[ref]


def _still_meant(moves: list[Move], providers: Mapping[str, ProviderSpec]) -> tuple[Move, ...]:
    """The moves as later changes leave them.

    A source that got the class back has it for good; a target that lost it, or is
    gone, takes nothing.
    """
    held = {(one.name, name) for one in providers.values() for name in one.inventory}
    return tuple(
        replace(move, targets=tuple(t for t in move.targets if (t, move.new_class) in held))
        for move in moves
        if (move.source, move.resource_class) not in held
    )


def _overlaid(
    below: Mapping[str, Inventory], above: Mapping[str, Inventory | None]
) -> dict[str, Inventory]:
    merged = {**below, **above}
    return {name: record for name, record in merged.items() if record is not None}
