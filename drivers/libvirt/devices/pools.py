"""Pure: devices that are alike, as providers: one for each, or one for all of a kind.

Many similar providers make candidate generation explode: with eight or more, Placement
looks at every combination.  So there is a choice.  A change of it moves inventory and
allocations from the one kind of provider to the other.

A device has one class at a time.  When an operator gives it another, the old one has to
be free before the new one is offered, or two guests could get the same device.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import os_traits

from drivers.inventory import record
from drivers.libvirt.facts.numa import Observed, waits_for
from drivers.libvirt.tree.reported import Reported

MANY = 8
"""So many similar children make a search for candidates slow."""

LONGEST_LABEL = 100
"""Characters of a group's name after the node's."""


_OF_GROUP = re.compile(r"(_[0-9a-f]{8})?(_numa\d+)?")
"""What follows the class in a group's name."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Devices that are one provider: a device, or a PF with its VFs.

    ``used``: one of them was given to a guest and is not to be given again.
    """

    name: str
    resource_class: str
    count: int
    traits: frozenset[str] = frozenset()
    cell: int | None = None
    used: bool = False
    from_root: frozenset[str] = field(default_factory=frozenset)


def providers(
    node: str, pools: Sequence[Pool], observed: Observed, *, grouped: bool, by_cell: bool
) -> tuple[list[Reported], dict[str, str]]:
    """Return the providers of pools, and notes, by provider name.

    ``grouped`` is the operator's choice; ``by_cell``: NUMA cells are providers.
    """
    by_name: dict[str, list[Pool]] = {}
    for pool in pools:
        together = grouped and not _alone(pool)
        name = _group_name(node, pool, by_cell) if together else pool.name
        by_name.setdefault(name, []).append(pool)
    reported, notes = [], {}
    for name, members in by_name.items():
        first, current = members[0], observed.get(name, {})
        count = sum(pool.count for pool in members)
        old = sorted(current.keys() - {first.resource_class})
        if old and first.resource_class not in current:
            inventory: dict[str, dict[str, Any]] = {}
            notes[name] = waits_for(old, first.resource_class)
        else:
            there = current.get(first.resource_class, {})
            inventory = {first.resource_class: device_record(count, there, first.used)}
        reported.append(
            Reported(
                name,
                inventory,
                first.traits,
                cell=first.cell,
                from_root=first.from_root,
                replaces=_other_names(node, members) - {name},
            )
        )
    return reported, notes


def device_record(total: int, current: Mapping[str, Any], used: bool = False) -> dict[str, Any]:
    """Inventory of so many devices; what an operator reserved stays, as far as it can."""
    all_of_them = used or int(current.get("reserved") or 0) > total
    return record(total, total if all_of_them else None)


def many_alike(children: Iterable[Reported]) -> tuple[str, ...]:
    """Classes of which there are so many similar providers that searches get slow, in words."""
    kinds = Counter((min(one.inventory), one.traits) for one in children if one.inventory)
    return tuple(
        f"{count} similar providers of {name} make a search for candidates slow"
        " (see docs/libvirt/pci.rst)"
        for (name, _), count in sorted(kinds.items(), key=lambda kind: (kind[0][0], kind[1]))
        if count >= MANY
    )


def _alone(pool: Pool) -> bool:
    """Return whether it matters which device of the pool is used."""
    return os_traits.HW_PCI_ONE_TIME_USE in pool.traits


def _other_names(node: str, members: Iterable[Pool]) -> frozenset[str]:
    """Under which the same devices may have been reported before."""
    names: set[str] = set()
    for pool in members:
        if not _alone(pool):
            names |= {pool.name, *(_group_name(node, pool, by_cell) for by_cell in (True, False))}
    return frozenset(names)


def is_group_of(node: str, resource_class: str, name: str) -> bool:
    """Whether ``name`` is, or was, a group of devices of this class, whatever their traits."""
    rest = name.removeprefix(f"{node}_all_{resource_class[:LONGEST_LABEL]}")
    return rest != name and _OF_GROUP.fullmatch(rest) is not None


def _group_name(node: str, pool: Pool, by_cell: bool) -> str:
    special = sorted(pool.traits - {os_traits.COMPUTE_MANAGED_PCI_DEVICE})
    label = pool.resource_class
    if special or len(label) > LONGEST_LABEL:
        told = " ".join([label, *special])
        label = f"{label[:LONGEST_LABEL]}_{hashlib.sha256(told.encode()).hexdigest()[:8]}"
    on_cell = f"_numa{pool.cell}" if by_cell and pool.cell is not None else ""
    return f"{node}_all_{label}{on_cell}"
