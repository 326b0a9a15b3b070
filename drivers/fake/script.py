"""A script as values: what the file says, with all names spelled out.

Providers are kept flat, parents before children.  Inside a node each has a *ref*:
its keys in the file joined by ``/`` (``numa0/pf1``), ``.`` for the node itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reportclient.model import Inventory

ROOT = "."


@dataclass(frozen=True, slots=True)
class Now:
    """The moment of one call: ``periods`` are over since the start, and ``seconds``."""

    periods: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """From when on, and for how long (``None``: for ever), and after how long again.

    All in seconds if ``timed``, else in periods.
    """

    after: float = 0
    length: float | None = None
    every: float | None = None
    timed: bool = False

    def holds(self, now: Now) -> bool:
        """Whether ``now`` is inside."""
        since = (now.seconds if self.timed else now.periods) - self.after
        if since < 0 or self.length is None:
            return since >= 0
        return (since if self.every is None else since % self.every) < self.length


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """What one provider shall be.  ``parent`` is a ref; sharing ones and the node have none."""

    ref: str
    name: str
    parent: str | None = None
    uuid: str | None = None
    inventory: Mapping[str, Inventory] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    private: bool = True
    """Whether no other node can mean the same provider."""
    awaited: bool = False
    """Whether an earlier node of the script makes it, and this one only finds it."""

    @property
    def sharing(self) -> bool:
        """Whether it is a root beside the node."""
        return self.parent is None and self.ref != ROOT


@dataclass(frozen=True, slots=True)
class MoveSpec:
    """Inventory of a class that goes to other providers (by ref), with its allocations."""

    resource_class: str
    new_class: str
    targets: Mapping[str, Inventory]


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes different at the provider ``ref`` while ``span`` holds.

    A class whose inventory is ``None`` is taken away.
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
    """What goes wrong while ``span`` holds; exactly one of the last four is there."""

    span: Span
    ref: str = ROOT
    not_ready: str | None = None
    error: str | None = None
    sleep: float | None = None
    inventory: Mapping[str, Any] | None = None
    """Handed to the tree as it is, however wrong."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node; the first of its providers is its root."""

    name: str
    providers: tuple[ProviderSpec, ...]
    changes: tuple[Change, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def uuid(self) -> str | None:
        """The UUID that the script gives the root, if it does."""
        return self.providers[0].uuid


@dataclass(frozen=True, slots=True)
class Script:
    """All nodes by name, in the order of the file."""

    nodes: Mapping[str, NodeSpec]
