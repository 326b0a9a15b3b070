"""Pure: reports of a host, and of one provider below its root."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

CELLS, PCI, MDEV, ENCRYPTION = "cells", "pci", "mdev", "encryption"
HOST, TRAITS = "host", "traits"

Records = Mapping[str, Mapping[str, Any]]
"""Inventory by class, as :class:`drivers.api.ProviderTree` takes it."""

Observed = Mapping[str, Records]
"""Inventory in Placement of this host's providers, by name."""


@dataclass(frozen=True, slots=True)
class ReportedProvider:
    """A provider below the root, or below its NUMA cell where cells are providers.

    ``name`` is unique on the host.  ``from_root``: classes that earlier releases had on the root,
    from where inventory and allocations move here.  ``replaces``: earlier names of the same things;
    of providers with these names that are no longer reported, the classes in ``inventory`` move
    here too. ``source`` is the source that asserts the provider.
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
    """Report of one fact, or of all of them, on a host.

    ``inventory`` is the root's; ``sources`` are those that assert it, and ``source_by_class`` has
    the one of each class, ``HOST`` where it is missing; each source can be silent alone.
    ``unchanged_classes`` stay on the root as in Placement, since they are unknown.

    ``cells`` are the NUMA cells by libvirt's number, empty where they are not providers;
    ``children`` are the other providers.

    ``traits`` of the root: whether the host has each; unknown ones are left out, and not changed.

    ``notes`` are problems by their subject; ``warnings`` are about what works, but not well.

    ``silent`` sources have not answered since the start: what they asserted before stays, and what
    the report has of them is as in Placement.  ``incomplete`` sources lack a part: none of their
    providers is removed.
    """

    inventory: Records = field(default_factory=dict)
    cells: Mapping[int, ReportedProvider] = field(default_factory=dict)
    children: Sequence[ReportedProvider] = ()
    traits: Mapping[str, bool] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    silent: frozenset[str] = frozenset()
    incomplete: frozenset[str] = frozenset()
    unchanged_classes: frozenset[str] = frozenset()
    sources: Sequence[str] = (HOST,)
    source_by_class: Mapping[str, str] = field(default_factory=dict)


def merge_reports(parts: Mapping[str, HostReport], current: Records) -> HostReport:
    """Return one report of all facts; ``current`` is the root's inventory in Placement."""
    unchanged = {
        name for part in parts.values() for name in part.unchanged_classes & current.keys()
    }
    inventory: dict[str, Any] = {name: current[name] for name in unchanged}
    source_by_class: dict[str, str] = {}
    for source, part in parts.items():
        inventory |= part.inventory
        source_by_class |= dict.fromkeys(part.inventory, source)
    return HostReport(
        inventory,
        _merged(part.cells for part in parts.values()),
        tuple(child for part in parts.values() for child in part.children),
        _merged(part.traits for part in parts.values()),
        _merged(part.notes for part in parts.values()),
        tuple(warning for part in parts.values() for warning in part.warnings),
        frozenset().union(*(part.silent for part in parts.values())),
        frozenset().union(*(part.incomplete for part in parts.values())),
        sources=tuple(parts),
        source_by_class=source_by_class,
    )


def _merged(parts: Iterable[Mapping[K, V]]) -> dict[K, V]:
    return {key: value for part in parts for key, value in part.items()}
