"""Pure: similar devices as providers: one for each, or one for all of a kind.

Many similar providers make searches for allocation candidates slow: with eight or more, Placement
tries every combination.  So operators can group them.  Changing that moves inventory and
allocations from one kind of provider to the other.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import os_traits

from drivers.inventory import record
from drivers.libvirt.tree.reported import ReportedProvider

MANY = 8
"""Similar children from which on a search for candidates is slow."""

LONGEST_LABEL = 100
"""Characters of a group's name after the node's."""


_OF_GROUP = re.compile(r"(_[0-9a-f]{8})?(_numa\d+)?")
"""Pattern of the text after the class in a group's name."""


def pool_providers(
    node: str, devices: Iterable[ReportedProvider], *, grouped: bool, by_cell: bool
) -> list[ReportedProvider]:
    """Return the providers of devices, each of which has one class.

    ``grouped``: one provider for each kind of device; ``by_cell``: NUMA cells are providers.
    """
    by_name: dict[str, list[ReportedProvider]] = {}
    for device in devices:
        is_grouped = grouped and not _needs_own_provider(device)
        name = _group_name(node, device, by_cell) if is_grouped else device.name
        by_name.setdefault(name, []).append(device)
    reported = []
    for name, members in by_name.items():
        first, inventory = members[0], members[0].inventory
        if len(members) > 1:
            totals = (each["total"] for member in members for each in member.inventory.values())
            inventory = {min(inventory): record(sum(totals))}
        replaces = _other_names(node, members) - {name}
        reported.append(replace(first, name=name, inventory=inventory, replaces=replaces))
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


def _needs_own_provider(device: ReportedProvider) -> bool:
    """Return whether a device must not be grouped: one-time-use devices differ in state."""
    return os_traits.HW_PCI_ONE_TIME_USE in device.traits


def _other_names(node: str, members: Iterable[ReportedProvider]) -> frozenset[str]:
    """Return names under which the same devices may have been reported before."""
    names: set[str] = set()
    for device in members:
        if not _needs_own_provider(device):
            groups = (_group_name(node, device, by_cell) for by_cell in (True, False))
            names |= {device.name, *groups}
    return frozenset(names)


def is_group_of(node: str, resource_class: str, name: str) -> bool:
    """Return whether ``name`` is a group of devices of this class, whatever their traits."""
    rest = name.removeprefix(f"{node}_all_{resource_class[:LONGEST_LABEL]}")
    return rest != name and _OF_GROUP.fullmatch(rest) is not None


def _group_name(node: str, device: ReportedProvider, by_cell: bool) -> str:
    special = sorted(device.traits - {os_traits.COMPUTE_MANAGED_PCI_DEVICE})
    (label,) = device.inventory
    if special or len(label) > LONGEST_LABEL:
        full_label = " ".join([label, *special])
        label = f"{label[:LONGEST_LABEL]}_{hashlib.sha256(full_label.encode()).hexdigest()[:8]}"
    on_cell = f"_numa{device.cell}" if by_cell and device.cell is not None else ""
    return f"{node}_all_{label}{on_cell}"
