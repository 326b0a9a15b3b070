"""Traits of the host's architecture (HW_ARCH_*) and its guests' (COMPUTE_ARCH_*); libvirt's domain
capabilities by architecture and machine type.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self
from xml.etree.ElementTree import Element

import os_traits

from drivers.api import DriverContext
from drivers.libvirt.connection.events import CONNECTION
from drivers.libvirt.documents import parse_document
from drivers.libvirt.facts.fact import ReportContext, Sources
from drivers.libvirt.facts.topology import HostCpu, host_cpu
from drivers.libvirt.tree.reported import HostReport


@dataclass(frozen=True, slots=True)
class Architecture:
    """The traits of architectures, from the host capabilities."""

    virt_type: str
    name: ClassVar[str] = "architecture"

    @classmethod
    def from_context(cls, context: DriverContext) -> Self:
        """Return the fact with virt_type."""
        return cls(context.conf.libvirt.virt_type)

    def query_host(self, sources: Sources) -> None:
        """Return nothing: the capabilities in the ReportContext are enough."""

    def build_report(self, _answer: None, context: ReportContext) -> HostReport:
        """Return the traits, and a note if the host can't run guests of ``virt_type``."""
        document = context.capabilities
        traits = arch_traits(host_cpu(document), document)
        return HostReport(traits=traits, notes=virt_type_note(document, self.virt_type))


def arch_traits(cpu: HostCpu, capabilities: Element) -> dict[str, bool]:
    """Return for each trait whether the host has it; empty where the document does not say."""
    traits: dict[str, bool] = {}
    if cpu.arch is not None:
        traits |= traits_with_prefix("HW_ARCH_", {cpu.arch})
    guests = {arch.get("name", "") for arch in capabilities.findall("guest/arch")}
    if guests:
        traits |= traits_with_prefix("COMPUTE_ARCH_", guests)
    return traits


def traits_with_prefix(prefix: str, offered: Iterable[str]) -> dict[str, bool]:
    """Return, for all standard traits with this prefix, whether they are offered."""
    names = {prefix + value.upper().replace("-", "_") for value in offered}  # spapr-vlan
    return {trait: trait in names for trait in os_traits.get_traits(prefix)}


QEMU_TYPES = frozenset({"kvm", "qemu"})
"""Values of virt_type whose guests QEMU runs."""


MACHINES = MappingProxyType({"x86_64": ("pc", "q35"), "i686": ("pc", "q35"), "aarch64": ("virt",)})
"""Machine types in common use, by architecture; only those that the host has are used."""


@dataclass(frozen=True, slots=True)
class GuestType:
    """A guest's architecture, machine type (``None``: the default) and virt_type."""

    arch: str
    machine: str | None
    virt_type: str


def guest_types(capabilities: Element, virt_type: str) -> tuple[GuestType, ...]:
    """Return the guest types of the host's architecture; empty if none has ``virt_type``."""
    arch = host_cpu(capabilities).arch
    guests = [guest for guest in _native_guests(capabilities) if virt_type in _virt_types(guest)]
    if arch is None or virt_type not in QEMU_TYPES or not guests:
        return ()
    names = {(machine.text or "").strip() for guest in guests for machine in guest.iter("machine")}
    machines: list[str | None] = [name for name in MACHINES.get(arch, ()) if name in names]
    return tuple(GuestType(arch, machine, virt_type) for machine in machines or [None])


def domain_capabilities(sources: Sources, guest: GuestType) -> Element | None:
    """Return the domain capabilities document of a guest type; needs a read-write connection."""
    kind = f"{guest.machine}, {guest.virt_type}" if guest.machine else guest.virt_type
    return sources.call_libvirt(
        f"domain capabilities of {guest.arch} on {kind}",
        lambda c: parse_document(
            str(c.getDomainCapabilities(None, guest.arch, guest.machine, guest.virt_type, 0)),
            "domainCapabilities",
        ),
        until_event=CONNECTION,
    )


def virt_type_note(capabilities: Element, virt_type: str) -> dict[str, str]:
    """Return a note if the host's QEMU can't run guests of ``virt_type``, else nothing."""
    types = sorted({name for guest in _native_guests(capabilities) for name in _virt_types(guest)})
    if virt_type not in QEMU_TYPES or virt_type in types or not QEMU_TYPES & set(types):
        return {}
    return {
        "virt_type": f"[libvirt] virt_type = {virt_type}, but libvirt can run guests of"
        f" {', '.join(types)} only: load {virt_type}'s kernel module (is there a /dev/kvm?),"
        f" or set virt_type = {types[-1]}"
    }


def _native_guests(capabilities: Element) -> list[Element]:
    arch = host_cpu(capabilities).arch
    return [guest for guest in capabilities.findall("guest/arch") if guest.get("name") == arch]


def _virt_types(guest: Element) -> set[str]:
    return {domain.get("type", "") for domain in guest.findall("domain")}
