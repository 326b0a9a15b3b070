"""Pure: reports of a host, and of one provider below its root; whose a child is.

A name is the host's, ``_``, and the key of what the child stands for.  This driver's children have
UUIDs that are made from the keys, Nova's any UUID, so Nova's are recognised by name, trait and
classes.  This driver uses the same names:

    <node>_0000:81:00.0        a PCI device; Nova marks it with COMPUTE_MANAGED_PCI_DEVICE
    <node>_pci_0000_84_00_0    a parent of mediated devices
    <node>_amd_sev             memory encryption

Nova's provider is removed once its device is gone, or is in a group, so that it is not offered
twice.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import os_traits

from reportclient.model import ProviderData
from reportclient.provider_tree import own_key, own_uuid

LATE = 900.0
"""Seconds after the boot, or after it was last present, in which what is missing may still come."""

K = TypeVar("K")
V = TypeVar("V")

CELLS, PCI, MDEV, ENCRYPTION = "cells", "pci", "mdev", "encryption"
HOST, TRAITS = "host", "traits"

Records = Mapping[str, Mapping[str, Any]]
"""Inventory by class, as :class:`drivers.api.ProviderTree` takes it."""

Observed = Mapping[str, Records]
"""Inventory in Placement of this host's providers, by name."""


def total_of(records: Records, resource_class: str) -> int:
    """Return the total of a class, 0 without it."""
    return int(records.get(resource_class, {}).get("total") or 0)


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
    the one of each class, ``HOST`` where it is missing; each source can be unanswered alone.
    ``unchanged_classes`` stay on the root as in Placement, since they are unknown.

    ``cells`` are the NUMA cells by libvirt's number, empty where they are not providers;
    ``children`` are the other providers.

    ``traits`` of the root: whether the host has each; unknown ones are left out, and not changed.

    ``notes`` are problems by their subject; ``warnings`` are about what works, but not well.

    ``unanswered`` sources have not answered since the start: what they claimed before stays, and
    what the report has of them is as in Placement.  ``incomplete`` has the sources that lack a
    part, of whose providers none is removed, and the names of other providers that stay.
    """

    inventory: Records = field(default_factory=dict)
    cells: Mapping[int, ReportedProvider] = field(default_factory=dict)
    children: Sequence[ReportedProvider] = ()
    traits: Mapping[str, bool] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    unanswered: frozenset[str] = frozenset()
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
        frozenset().union(*(part.unanswered for part in parts.values())),
        frozenset().union(*(part.incomplete for part in parts.values())),
        sources=tuple(parts),
        source_by_class=source_by_class,
    )


def _merged(parts: Iterable[Mapping[K, V]]) -> dict[K, V]:
    return {key: value for part in parts for key, value in part.items()}


# -- whose children

VGPU = "VGPU"
CONTEXT = "MEM_ENCRYPTION_CONTEXT"
SEV, SEV_ES, SEV_SNP, TDX = "amd_sev", "amd_sev_es", "amd_sev_snp", "intel_tdx"
TECHNIQUES = {name: f"HW_CPU_X86_{name.upper()}" for name in (SEV, SEV_ES, SEV_SNP, TDX)}
"""The trait of each technique of memory encryption."""
GROUP = "_all_"
DRIVER = "libvirt"
"""This driver's name in the UUIDs of its children."""
_CELL = re.compile(r".+_numa\d+")
_PCI = re.compile(r".+_([0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])")
_MDEV_PARENT = re.compile(r".+_(pci_[0-9a-f]{4,8}_[0-9a-f]{2}_[0-9a-f]{2}_[0-7])")
_ENCRYPTION = re.compile(rf".+_({'|'.join(TECHNIQUES)})")
_OWNER = "OWNER_"


def child_uuid(root: str, key: str) -> str:
    """Return the UUID of this driver's child with a key, below the root with the UUID ``root``."""
    return own_uuid(root, key, DRIVER)


def name_now(root: ProviderData, child: ProviderData) -> str | None:
    """Return the name of this driver's or Nova's child with the host's current name.

    ``None``: it is a child of others.
    """
    key = own_key(root.uuid, child.uuid, child.name, [DRIVER]) or nova_key(child)
    return None if key is None else f"{root.name}_{key}"


def sources_of(name: str) -> frozenset[str]:
    """Return the sources that may have reported a provider of this name."""
    if _CELL.fullmatch(name) and GROUP not in name:
        return frozenset({CELLS})
    return frozenset({ENCRYPTION} if _ENCRYPTION.fullmatch(name) else {PCI, MDEV})


def nova_key(child: ProviderData) -> str | None:
    """Return the key of a child of the root that only Nova can have created; ``None`` of others."""
    owners = {trait for trait in child.traits if trait.startswith(_OWNER)}
    classes = child.inventory.keys()
    if owners - {os_traits.OWNER_NOVA}:
        return None
    if match := _PCI.fullmatch(child.name):
        return match[1] if os_traits.COMPUTE_MANAGED_PCI_DEVICE in child.traits else None
    if match := _MDEV_PARENT.fullmatch(child.name):
        is_mdev = all(name == VGPU or name.startswith("CUSTOM_") for name in classes)
        return match[1] if is_mdev else None
    match = _ENCRYPTION.fullmatch(child.name)
    return match[1] if match and classes <= {CONTEXT} else None
