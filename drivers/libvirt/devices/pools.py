"""Pure: similar devices as providers: one for each, or one for all of a kind.

Many similar providers make searches for allocation candidates slow: with eight or more, Placement
tries every combination.  So operators can group them.  Changing that moves inventory and
allocations from one kind of provider to the other.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import os_traits

from drivers.inventory import record
from drivers.libvirt.tree.reported import ReportedProvider

MANY = 8
"""Similar children from which on a search for candidates is slow."""

LONGEST_LABEL = 100
"""Characters of a group's name after the node's."""


_OF_GROUP = re.compile(r"(_[0-9a-f]{8})?(_numa\d+)?")
"""Pattern of the text after the class in a group's name."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Devices that are one provider: a device, or a PF with its VFs.

    ``used``: the device was given to a guest, and must not be given to another one.
    """

    name: str
    resource_class: str
    count: int
    traits: frozenset[str] = frozenset()
    cell: int | None = None
    used: bool = False
    from_root: frozenset[str] = field(default_factory=frozenset)


def pool_providers(
    node: str, pools: Sequence[Pool], *, grouped: bool, by_cell: bool
) -> list[ReportedProvider]:
    """Return the providers of pools.

    ``grouped``: one provider for each kind of device; ``by_cell``: NUMA cells are providers.
    """
    by_name: dict[str, list[Pool]] = {}
    for pool in pools:
        is_grouped = grouped and not _needs_own_provider(pool)
        name = _group_name(node, pool, by_cell) if is_grouped else pool.name
        by_name.setdefault(name, []).append(pool)
    reported = []
    for name, members in by_name.items():
        first, count = members[0], sum(pool.count for pool in members)
        reported.append(
            ReportedProvider(
                name,
                {first.resource_class: record(count, count if first.used else None)},
                first.traits,
                cell=first.cell,
                from_root=first.from_root,
                replaces=_other_names(node, members) - {name},
            )
        )
    return reported


def similar_provider_warnings(children: Iterable[ReportedProvider]) -> tuple[str, ...]:
    """Return a warning for each kind of provider of which there are ``MANY``."""
    kinds = Counter((min(child.inventory), child.traits) for child in children if child.inventory)
    return tuple(
        f"{count} similar providers of {name} make a search for candidates slow"
        " (see docs/libvirt/pci.rst)"
        for (name, _), count in sorted(kinds.items(), key=lambda kind: (kind[0][0], kind[1]))
        if count >= MANY
    )


def _needs_own_provider(pool: Pool) -> bool:
    """Return whether the pool must not be grouped: one-time-use devices differ in state."""
    return os_traits.HW_PCI_ONE_TIME_USE in pool.traits


def _other_names(node: str, members: Iterable[Pool]) -> frozenset[str]:
    """Return names under which the same devices may have been reported before."""
    names: set[str] = set()
    for pool in members:
        if not _needs_own_provider(pool):
            names |= {pool.name, *(_group_name(node, pool, by_cell) for by_cell in (True, False))}
    return frozenset(names)


def is_group_of(node: str, resource_class: str, name: str) -> bool:
    """Return whether ``name`` is a group of devices of this class, whatever their traits."""
    rest = name.removeprefix(f"{node}_all_{resource_class[:LONGEST_LABEL]}")
    return rest != name and _OF_GROUP.fullmatch(rest) is not None


def _group_name(node: str, pool: Pool, by_cell: bool) -> str:
    special = sorted(pool.traits - {os_traits.COMPUTE_MANAGED_PCI_DEVICE})
    label = pool.resource_class
    if special or len(label) > LONGEST_LABEL:
        full_label = " ".join([label, *special])
        label = f"{label[:LONGEST_LABEL]}_{hashlib.sha256(full_label.encode()).hexdigest()[:8]}"
    on_cell = f"_numa{pool.cell}" if by_cell and pool.cell is not None else ""
    return f"{node}_all_{label}{on_cell}"
