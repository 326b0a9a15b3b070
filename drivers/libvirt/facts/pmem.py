"""Pure: persistent memory namespaces that guests can have, as CUSTOM_PMEM_NAMESPACE_<label>.

The operator names them by label, in Nova's syntax: ``LABEL:NAMESPACE[|NAMESPACE][,...]``;
those of one label are alike.  They stay on the root, also where cells are reported:
who gave one to a guest knows which, and Placement counts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from os_resource_classes import normalize_name

OPTION = "[libvirt] pmem_namespaces"

LONGEST_CLASS = 255

PmemLabels = Mapping[str, tuple[str, ...]]
"""Names of namespaces by resource class."""


def pmem_labels(parts: Sequence[str]) -> PmemLabels:
    """What the option says.

    :raises ValueError: naming the option and the part that is wrong, or there twice.
    """
    labels: dict[str, tuple[str, ...]] = {}
    taken: set[str] = set()
    for part in parts:
        label, colon, listed = (piece.strip() for piece in part.partition(":"))
        names = tuple(name.strip() for name in listed.split("|"))
        if not (label and colon and all(names)):
            raise ValueError(f"{OPTION}: {part!r} is not LABEL:NAMESPACE[|NAMESPACE]")
        resource_class = normalize_name(f"PMEM_NAMESPACE_{label}")
        if len(resource_class) > LONGEST_CLASS:
            raise ValueError(f"{OPTION}: the label {label!r} is too long for a resource class")
        if resource_class in labels:
            raise ValueError(f"{OPTION}: the label {label!r} is there twice ({resource_class})")
        again = taken.intersection(names) or {n for n in names if names.count(n) > 1}
        if again:
            raise ValueError(f"{OPTION}: the namespace {min(again)!r} is there twice")
        taken.update(names)
        labels[resource_class] = names
    return labels


def pmem_inventory(labels: PmemLabels, there: frozenset[str]) -> dict[str, dict[str, Any]]:
    """Inventory by class of the namespaces that are ``there``."""
    counts = {name: len(there.intersection(wanted)) for name, wanted in labels.items()}
    return {
        name: {
            "total": count,
            "reserved": 0,
            "min_unit": 1,
            "max_unit": count,
            "step_size": 1,
            "allocation_ratio": 1.0,
        }
        for name, count in counts.items()
        if count
    }


def missing_namespaces(labels: PmemLabels, there: frozenset[str]) -> dict[str, str]:
    """Which of them this host does not have, in words."""
    missing = sorted({name for names in labels.values() for name in names} - there)
    if not missing:
        return {}
    known = ", ".join(sorted(there)) or "none"
    return {OPTION: f"this host has no namespace {', '.join(missing)} (it has: {known})"}
