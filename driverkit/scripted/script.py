"""A parsed script, with all placeholders filled in.

The providers of a node are a flat list, parents before children.  Each has a *ref* in its node:
its keys in the file joined by ``/`` (``numa0/pf1``), ``.`` for the node itself.

:func:`state_at` returns a node's state at a moment: its script with the changes that apply then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reportclient.model import Inventory

ROOT = "."


@dataclass(frozen=True, slots=True)
class Now:
    """The moment of a call: periods and seconds since the start."""

    periods: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """A time span: its start, its length (``None``: unlimited), and its interval of repetition.

    All are in seconds if ``timed``, else in periods.
    """

    after: float = 0
    length: float | None = None
    every: float | None = None
    timed: bool = False

    def holds(self, now: Now) -> bool:
        """Whether ``now`` is inside the span."""
        since = (now.seconds if self.timed else now.periods) - self.after
        if since < 0 or self.length is None:
            return since >= 0
        return (since if self.every is None else since % self.every) < self.length


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A provider of a script.  ``parent`` is a ref; sharing ones and the node have none."""

    ref: str
    name: str
    parent: str | None = None
    uuid: str | None = None
    inventory: Mapping[str, Inventory] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    private: bool = True
    """Whether other nodes can't list the same provider."""
    awaited: bool = False
    """Whether an earlier node of the script creates it, and this node only refers to it."""

    @property
    def sharing(self) -> bool:
        """Whether the provider is a sharing provider: a root beside the node."""
        return self.parent is None and self.ref != ROOT


@dataclass(frozen=True, slots=True)
class MoveSpec:
    """A move of a class's inventory and allocations to other providers (by ref)."""

    resource_class: str
    new_class: str
    targets: Mapping[str, Inventory]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the provider ``ref`` during ``span``.

    A class whose inventory is ``None`` is removed.
    """

    span: Span
    ref: str = ROOT
    inventory: Mapping[str, Inventory | None] = field(default_factory=dict)
    add_traits: frozenset[str] = frozenset()
    remove_traits: frozenset[str] = frozenset()
    add_aggregates: frozenset[str] = frozenset()
    remove_aggregates: frozenset[str] = frozenset()
    children: tuple[ProviderSpec, ...] = ()
    moves: tuple[MoveSpec, ...] = ()
    removed: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure during ``span``; exactly one of the last four fields is set."""

    span: Span
    ref: str = ROOT
    not_ready: str | None = None
    error: str | None = None
    sleep: float | None = None
    inventory: Mapping[str, Any] | None = None
    """Passed to the tree unchecked."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node; the first of its providers is its root."""

    name: str
    providers: tuple[ProviderSpec, ...]
    changes: tuple[Change, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def uuid(self) -> str | None:
        """The root's UUID in the script, if there is one."""
        return self.providers[0].uuid


@dataclass(frozen=True, slots=True)
class Script:
    """All nodes by name, in the order of the file."""

    nodes: Mapping[str, NodeSpec]


@dataclass(frozen=True, slots=True)
class Move:
    """A move of a class's allocations from one provider to others (by name)."""

    source: str
    resource_class: str
    new_class: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeState:
    """The providers that a node shall have, parents first, and the moves that apply."""

    providers: tuple[ProviderSpec, ...]
    moves: tuple[Move, ...] = ()


def state_at(node: NodeSpec, now: Now) -> NodeState:
    """Return the node with all changes that apply now, in the order of the file."""
    providers = {provider.ref: provider for provider in node.providers}
    moves: list[Move] = []
    for change in node.changes:
        if change.span.holds(now) and change.ref in providers:
            _change(providers, change)
            moves.extend(_moved(providers, change.ref, spec) for spec in change.moves)
            if change.removed:
                _remove(providers, change.ref)
    return NodeState(tuple(providers.values()), _remaining(moves, providers))


def failures_at(node: NodeSpec, now: Now) -> list[Failure]:
    """Return the failures that apply now, in the order of the file."""
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


def _remaining(moves: list[Move], providers: Mapping[str, ProviderSpec]) -> tuple[Move, ...]:
    """Return the moves that later changes did not undo.

    A move ends if its source has the class again; a target without the class is left out.
    """
    held = {(it.name, name) for it in providers.values() for name in it.inventory}
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
