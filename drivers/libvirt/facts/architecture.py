"""Which architecture the host has (HW_ARCH_*) and its guests can have (COMPUTE_ARCH_*); which
guests its libvirt can run, and what it tells of each: domain capabilities.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self
from xml.etree.ElementTree import Element

from drivers.api import DriverContext
from drivers.libvirt.connection.events import CONNECTION
from drivers.libvirt.documents import checked
from drivers.libvirt.facts.fact import Sources, Subject
from drivers.libvirt.facts.topology import HostCpu, host_cpu
from drivers.libvirt.tree.reported import HostReport

# fmt: off
HOST_ARCHES = (
    "aarch64", "alpha", "armv6", "armv7", "armv7b", "cris", "i686", "ia64", "lm32", "m68k",
    "microblaze", "microblazeel", "mips", "mips64", "mips64el", "mipsel", "openrisc", "parisc",
    "parisc64", "ppc", "ppc64", "ppc64le", "ppcemb", "ppcle", "s390", "s390x", "sh4", "sh4eb",
    "sparc", "sparc64", "unicore32", "x86_64", "xtensa", "xtensaeb",
)
# fmt: on
GUEST_ARCHES = ("aarch64", "mipsel", "ppc64le", "riscv64", "s390x", "x86_64")

OWNED = frozenset(f"HW_ARCH_{arch.upper()}" for arch in HOST_ARCHES) | frozenset(
    f"COMPUTE_ARCH_{arch.upper()}" for arch in GUEST_ARCHES
)


@dataclass(frozen=True, slots=True)
class Architecture:
    """The capabilities tell all of it."""

    virt_type: str
    name: ClassVar[str] = "architecture"

    @classmethod
    def of(cls, context: DriverContext) -> Self:
        """Return the fact by virt_type."""
        return cls(context.conf.libvirt.virt_type)

    def ask(self, sources: Sources) -> None:
        """Nothing more."""

    def judge(self, _answer: None, of: Subject) -> HostReport:
        """And whether guests of ``virt_type`` can be run at all."""
        document = of.capabilities
        traits = arch_traits(host_cpu(document), document)
        return HostReport(traits=traits, notes=not_run(document, self.virt_type))


def arch_traits(cpu: HostCpu, capabilities: Element) -> dict[str, bool]:
    """Whether the host has each trait; empty where the document does not say."""
    traits: dict[str, bool] = {}
    if cpu.arch is not None:
        traits |= {f"HW_ARCH_{arch.upper()}": arch == cpu.arch for arch in HOST_ARCHES}
    guests = {arch.get("name") for arch in capabilities.findall("guest/arch")}
    if guests:
        traits |= {f"COMPUTE_ARCH_{arch.upper()}": arch in guests for arch in GUEST_ARCHES}
    return traits


QEMU_TYPES = frozenset({"kvm", "qemu"})
"""Values of virt_type whose guests QEMU runs."""


MACHINES = MappingProxyType({"x86_64": ("pc", "q35"), "i686": ("pc", "q35"), "aarch64": ("virt",)})
"""Machine types that guests are commonly given, as far as the host has them."""


@dataclass(frozen=True, slots=True)
class Question:
    """The arguments of domain capabilities; ``machine`` ``None``: the default one."""

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


def domain_capabilities(sources: Sources, one: Question) -> str | None:
    """Return the domain capabilities of an architecture; needs a read-write connection."""
    on = f"{one.machine}, {one.virt_type}" if one.machine else one.virt_type
    return sources.ask(
        f"domain capabilities of {one.arch} on {on}",
        lambda c: checked(
            str(c.getDomainCapabilities(None, one.arch, one.machine, one.virt_type, 0)),
            "domainCapabilities",
        ),
        until=CONNECTION,
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
