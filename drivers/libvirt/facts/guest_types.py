"""The guests that the host's libvirt can run, and what it tells of each: domain capabilities."""

from dataclasses import dataclass
from types import MappingProxyType
from xml.etree.ElementTree import Element

from drivers.libvirt.connection.host import Host
from drivers.libvirt.documents import checked
from drivers.libvirt.facts.cpu import host_cpu

QEMU_TYPES = frozenset({"kvm", "qemu"})
"""Values of virt_type whose guests QEMU runs."""


MACHINES = MappingProxyType({"x86_64": ("pc", "q35"), "i686": ("pc", "q35"), "aarch64": ("virt",)})
"""Machine types that guests are commonly given, as far as the host has them."""


@dataclass(frozen=True, slots=True)
class Question:
    """What domain capabilities are asked of; ``machine`` ``None``: the default one."""

    arch: str
    machine: str | None
    virt_type: str


def able(capabilities: Element, virt_type: str) -> list[Element]:
    """The <arch> elements of guests of the host's own architecture and of ``virt_type``."""
    return [one for one in _own(capabilities) if virt_type in _types(one)]


def questions(capabilities: Element, virt_type: str) -> tuple[Question, ...]:
    """For the host's architecture; none where its guests are not of ``virt_type``."""
    arch = host_cpu(capabilities).arch
    if arch is None or virt_type not in QEMU_TYPES:
        return ()
    guests = able(capabilities, virt_type)
    if not guests:
        return ()
    names = {(machine.text or "").strip() for guest in guests for machine in guest.iter("machine")}
    machines: list[str | None] = [name for name in MACHINES.get(arch, ()) if name in names]
    return tuple(Question(arch, machine, virt_type) for machine in machines or [None])


def domain_capabilities(host: Host, one: Question) -> str | None:
    """What guests of an architecture can have; needs a read-write connection."""
    on = f"{one.machine}, {one.virt_type}" if one.machine else one.virt_type
    return host.ask_optional(
        f"domain capabilities of {one.arch} on {on}",
        lambda c: checked(
            str(c.getDomainCapabilities(None, one.arch, one.machine, one.virt_type, 0)),
            "domainCapabilities",
        ),
    )


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
