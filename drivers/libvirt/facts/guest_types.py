"""The types of guest that the host's libvirt can run.  Pure."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from drivers.libvirt.facts.cpu import host_cpu

QEMU_TYPES = frozenset({"kvm", "qemu"})
"""Values of virt_type whose guests QEMU runs."""


def able(capabilities: Element, virt_type: str) -> list[Element]:
    """The <arch> elements of guests of the host's own architecture and of ``virt_type``."""
    return [one for one in _own(capabilities) if virt_type in _types(one)]


def not_run(capabilities: Element, virt_type: str) -> dict[str, str]:
    """A note, where QEMU is there and can't run what ``virt_type`` says."""
    types = sorted({name for one in _own(capabilities) for name in _types(one)})
    if virt_type not in QEMU_TYPES or virt_type in types or not QEMU_TYPES & set(types):
        return {}
    return {
        "virt_type": f"[libvirt] virt_type = {virt_type}, but libvirt can run guests of"
        f" {', '.join(types)} only: load {virt_type}'s kernel module (is /dev/kvm there?),"
        f" or set virt_type = {types[-1]}"
    }


def _own(capabilities: Element) -> list[Element]:
    arch = host_cpu(capabilities).arch
    return [one for one in capabilities.findall("guest/arch") if one.get("name") == arch]


def _types(arch: Element) -> set[str]:
    return {domain.get("type", "") for domain in arch.findall("domain")}
