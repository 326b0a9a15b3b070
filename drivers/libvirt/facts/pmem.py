"""Persistent memory namespaces that guests can have, as CUSTOM_PMEM_NAMESPACE_<label>.

The operator names them by label, in Nova's syntax: ``LABEL:NAMESPACE[|NAMESPACE][,...]``;
those of one label are alike.  They stay on the root, also where cells are reported:
who gave one to a guest knows which, and Placement counts them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from os_resource_classes import normalize_name

from drivers.api import DriverContext
from drivers.errors import DriverNotReady
from drivers.inventory import record
from drivers.libvirt.facts.fact import Sources, Subject
from drivers.libvirt.tree.reported import PMEM, HostReport

OPTION = "[libvirt] pmem_namespaces"

LONGEST_CLASS = 255

PmemLabels = Mapping[str, tuple[str, ...]]
"""Names of namespaces by resource class."""


@dataclass(frozen=True, slots=True)
class Pmem:
    """Namespaces by what the kernel calls them."""

    labels: PmemLabels
    name: ClassVar[str] = PMEM

    @classmethod
    def of(cls, context: DriverContext) -> Self:
        """Return the fact by pmem_namespaces."""
        return cls(pmem_labels(context.conf.libvirt.pmem_namespaces))

    def ask(self, sources: Sources) -> frozenset[str] | None:
        """Names of namespaces that are there; those without a name do not count."""
        if not self.labels:
            return frozenset()
        what = "persistent memory namespaces"
        return sources.on_files("persistent memory", what, namespace_names, None)

    def judge(self, answer: frozenset[str] | None, of: Subject) -> HostReport:  # noqa: ARG002
        """Judge the number of namespaces of each label."""
        if answer is None:
            return HostReport(kept=frozenset(self.labels), silent=frozenset({self.name}))
        notes = missing_namespaces(self.labels, answer)
        return HostReport(pmem_inventory(self.labels, answer), notes=notes)


def namespace_names(root: Path) -> frozenset[str]:
    """:raises DriverNotReady: they are there and can't be read."""
    files = (root / "sys/bus/nd/devices").glob("namespace*/alt_name")
    try:
        texts = [file.read_text(errors="replace") for file in files]
    except OSError as err:
        raise DriverNotReady(f"no names of persistent memory namespaces: {err}") from err
    return frozenset(name for text in texts if (name := text.strip()))


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
            raise ValueError(f"{OPTION}: the label {label!r} is listed twice ({resource_class})")
        again = taken.intersection(names) or {n for n in names if names.count(n) > 1}
        if again:
            raise ValueError(f"{OPTION}: the namespace {min(again)!r} is listed twice")
        taken.update(names)
        labels[resource_class] = names
    return labels


def pmem_inventory(labels: PmemLabels, there: frozenset[str]) -> dict[str, dict[str, Any]]:
    """Inventory by class of the namespaces that are ``there``."""
    counts = {name: len(there.intersection(wanted)) for name, wanted in labels.items()}
    return {name: record(count, 0) for name, count in counts.items() if count}


def missing_namespaces(labels: PmemLabels, there: frozenset[str]) -> dict[str, str]:
    """Which of them this host does not have, in words."""
    missing = sorted({name for names in labels.values() for name in names} - there)
    if not missing:
        return {}
    here = ", ".join(sorted(there)) or "none"
    return {OPTION: f"this host has no namespace {', '.join(missing)} (it has: {here})"}
