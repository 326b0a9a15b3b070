"""Pure: what the modules of this driver say of a host, and of one provider below its root."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

CELLS, PCI, MDEV, ENCRYPTION = "cells", "pci", "mdev", "encryption"
HOST, TRAITS, DISK, PMEM = "host", "traits", "disk", "pmem"
OF_THE_ROOT = (HOST, DISK, PMEM)
"""Sources: whose word what is reported is; each may be silent alone."""

Records = Mapping[str, Mapping[str, Any]]
"""Inventory by class, as :class:`drivers.api.ProviderTree` takes it."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A provider below the root, or below its NUMA cell where cells are reported.

    ``name`` is the whole
    provider name, unique on the host; ``from_root`` are classes that earlier releases kept
    on the root: where they still are, they move here, with their allocations.  ``replaces``
    are names under which the same things may have been reported until now: of those that are
    gone, classes that are in ``inventory`` move here, too.  ``source`` is whose word it is.
    """

    name: str
    inventory: Records
    traits: frozenset[str] = frozenset()
    cell: int | None = None
    from_root: frozenset[str] = field(default_factory=frozenset)
    replaces: frozenset[str] = field(default_factory=frozenset)
    source: str = PCI


@dataclass(frozen=True, slots=True)
class HostReport:
    """A host, or what one fact says of it: the root's own inventory, and all that is below it.

    ``whose`` word a class of the root is; ``HOST``'s where that is not said.  ``kept`` are
    classes that stay on the root as Placement has them, while who reports them can't say.
    ``traits`` of the root: whether the host has each; those that can't be told are not in
    there, and stay as they are.  ``notes`` say what is odd, by what it is about, and
    ``warnings`` what works, but not well.
    ``cells`` are the NUMA cells by libvirt's number, empty where they are not reported.
    Of the ``silent`` sources nothing is known since the start: what they said before stays, and
    what is here for them is how it was.  Of the ``unsure`` ones not all is: nothing of theirs goes.
    """

    inventory: Records = field(default_factory=dict)
    cells: Mapping[int, Reported] = field(default_factory=dict)
    children: Sequence[Reported] = ()
    traits: Mapping[str, bool] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    silent: frozenset[str] = frozenset()
    unsure: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    whose: Mapping[str, str] = field(default_factory=dict)


def together(parts: Mapping[str, HostReport], current: Records) -> HostReport:
    """Return one report of all facts; ``current`` is the root's inventory."""
    kept = {name for part in parts.values() for name in part.kept & current.keys()}
    said: dict[str, Any] = {name: current[name] for name in kept}
    whose: dict[str, str] = {}
    for source, part in parts.items():
        said |= part.inventory
        whose |= dict.fromkeys(part.inventory, source)
    return HostReport(
        said,
        _merged(part.cells for part in parts.values()),
        tuple(one for part in parts.values() for one in part.children),
        _merged(part.traits for part in parts.values()),
        _merged(part.notes for part in parts.values()),
        tuple(one for part in parts.values() for one in part.warnings),
        frozenset().union(*(part.silent for part in parts.values())),
        frozenset().union(*(part.unsure for part in parts.values())),
        whose=whose,
    )


def _merged(parts: Iterable[Mapping[K, V]]) -> dict[K, V]:
    return {key: value for part in parts for key, value in part.items()}
