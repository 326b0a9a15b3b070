"""Persistent memory namespaces, as inventory CUSTOM_PMEM_NAMESPACE_<label> of the root.

The option labels namespaces in Nova's syntax, ``LABEL:NAMESPACE[|NAMESPACE][,...]``; namespaces
with the same label are interchangeable.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from os_resource_classes import normalize_name

from drivers.api import DriverContext
from drivers.errors import DriverNotReady
from drivers.inventory import record
from drivers.libvirt.facts.fact import ReportContext, Sources
from drivers.libvirt.tree.reported import HostReport
from reportclient.plain_text import first_few

OPTION = "[libvirt] pmem_namespaces"

LONGEST_CLASS = 255

PmemLabels = Mapping[str, tuple[str, ...]]
"""Names of namespaces by resource class."""


@dataclass(frozen=True, slots=True)
class Pmem:
    """The number of existing namespaces of each label."""

    labels: PmemLabels
    name: ClassVar[str] = "pmem"

    @classmethod
    def from_context(cls, context: DriverContext) -> Self:
        """Return the fact with pmem_namespaces."""
        return cls(pmem_labels(context.conf.libvirt.pmem_namespaces))

    def query_host(self, sources: Sources) -> frozenset[str] | None:
        """Return the names of existing namespaces, without unnamed ones."""
        if not self.labels:
            return frozenset()
        wanted = frozenset().union(*self.labels.values())

        def read(root: Path) -> frozenset[str]:
            names = namespace_names(root)
            late = sources.late({("namespace", name): name in names for name in wanted})
            if late:
                raise DriverNotReady(
                    f"no devdax namespace {first_few([name for _, name in late])} yet"
                )
            return names

        return sources.read_files("persistent memory", "persistent memory namespaces", read, None)

    def build_report(self, answer: frozenset[str] | None, context: ReportContext) -> HostReport:
        """Return the number of namespaces of each label."""
        if answer is None:
            return HostReport(
                unchanged_classes=frozenset(self.labels), unanswered=frozenset({self.name})
            )
        counts = {key: len(answer.intersection(names)) for key, names in self.labels.items()}
        inventory = {key: record(count, 0) for key, count in counts.items() if count}
        missing = sorted(frozenset().union(*self.labels.values()) - answer)
        existing = ", ".join(sorted(answer)) or "none"
        note = f"this host has no devdax namespace {', '.join(missing)} (it has: {existing})"
        return HostReport(inventory, notes={OPTION: note} if missing else {})


def namespace_names(root: Path) -> frozenset[str]:
    """Return the names of the kernel's namespaces that guests can have.

    That is in the mode devdax, which the kernel calls "dax".

    :raises DriverNotReady: the kernel's files can't be read, or its module is not loaded.
    """
    devices = root / "sys/bus/nd/devices"
    if not devices.is_dir():
        raise DriverNotReady("the kernel module libnvdimm is not loaded")
    directories = devices.glob("namespace*")
    try:
        texts = [_file(each / "alt_name") for each in directories if _file(each / "mode") == "dax"]
    except OSError as err:
        raise DriverNotReady(f"can't read the persistent memory namespaces: {err}") from err
    return frozenset(filter(None, texts))


def _file(path: Path) -> str:
    """Return the stripped content of a file; empty if there is none."""
    return path.read_text(errors="replace").strip() if path.exists() else ""


def pmem_labels(parts: Sequence[str]) -> PmemLabels:
    """Parse the option's parts.

    :raises ValueError: a part is invalid or repeated; the message names option and part.
    """
    labels: dict[str, tuple[str, ...]] = {}
    listed: set[str] = set()
    for part in parts:
        label, colon, namespaces = (piece.strip() for piece in part.partition(":"))
        names = tuple(name.strip() for name in namespaces.split("|"))
        if not (label and colon and all(names)):
            raise ValueError(f"{OPTION}: {part!r} is not LABEL:NAMESPACE[|NAMESPACE]")
        resource_class = normalize_name(f"PMEM_NAMESPACE_{label}")
        if len(resource_class) > LONGEST_CLASS:
            raise ValueError(f"{OPTION}: the label {label!r} is too long for a resource class")
        if resource_class in labels:
            raise ValueError(f"{OPTION}: the label {label!r} is listed twice ({resource_class})")
        duplicates = listed.intersection(names) or {n for n in names if names.count(n) > 1}
        if duplicates:
            raise ValueError(f"{OPTION}: the namespace {min(duplicates)!r} is listed twice")
        listed.update(names)
        labels[resource_class] = names
    return labels
