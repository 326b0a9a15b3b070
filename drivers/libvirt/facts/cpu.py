"""Pure: the host's CPUs, from its capabilities document."""

from dataclasses import dataclass
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from drivers.libvirt.documents import numbers, text_of

OFF = frozenset({"disable", "forbid"})
"""Policies of a <feature> that say that it is not there."""


@dataclass(frozen=True, slots=True)
class HostCpu:
    """What kind of CPU the host has; ``None`` and empty: not said.

    ``features`` are those beyond the model's own; ``document`` is the <cpu> element,
    for libvirt to write the model's features out.
    """

    arch: str | None = None
    model: str | None = None
    vendor: str | None = None
    features: frozenset[str] = frozenset()
    document: str = ""


def host_cpu(capabilities: Element) -> HostCpu:
    """The <cpu> element of the host."""
    element = capabilities.find("host/cpu")
    if element is None:
        return HostCpu()
    return HostCpu(
        arch=text_of(element, "arch"),
        model=text_of(element, "model"),
        vendor=text_of(element, "vendor"),
        features=features(element),
        document=ET.tostring(element, encoding="unicode").strip(),
    )


def features(cpu: Element) -> frozenset[str]:
    """Names of the features that a <cpu> element lists and does not switch off."""
    listed = (feature for feature in cpu.iter("feature") if feature.get("policy") not in OFF)
    return frozenset(name for feature in listed if (name := feature.get("name")))


def hyperthreading(capabilities: Element) -> bool | None:
    """Whether any core runs several threads; ``None`` if the cells don't say.

    <cpu><topology> is no help: libvirt does not vouch for it.
    """
    siblings = [numbers(cpu.get("siblings")) for cpu in _cell_cpus(capabilities)]
    if not any(siblings):
        return None
    return any(len(threads) > 1 for threads in siblings)


def cores(capabilities: Element) -> frozenset[frozenset[int]]:
    """The threads of each core, as far as the cells say."""
    return frozenset(numbers(cpu.get("siblings")) for cpu in _cell_cpus(capabilities))


def _cell_cpus(capabilities: Element) -> list[Element]:
    return capabilities.findall("host/topology/cells/cell/cpus/cpu")
