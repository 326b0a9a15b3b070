"""Which architecture the host has (HW_ARCH_*) and its guests can have (COMPUTE_ARCH_*)."""

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from drivers.libvirt.facts.cpu import HostCpu, host_cpu
from drivers.libvirt.facts.fact import Look, Subject
from drivers.libvirt.facts.guest_types import not_run
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
    name: str = "architecture"

    def ask(self, look: Look) -> None:
        """Nothing more."""

    def judge(self, _answer: None, of: Subject) -> HostReport:
        """And whether guests of ``virt_type`` can be run at all."""
        document = of.capabilities
        traits = arch_traits(host_cpu(document), document)
        return HostReport(traits=traits, notes=not_run(document, self.virt_type))


def arch_traits(cpu: HostCpu, capabilities: Element) -> dict[str, bool]:
    """Whether the host has each trait; empty where the document does not say."""
    found: dict[str, bool] = {}
    if cpu.arch is not None:
        found |= {f"HW_ARCH_{arch.upper()}": arch == cpu.arch for arch in HOST_ARCHES}
    guests = {arch.get("name") for arch in capabilities.findall("guest/arch")}
    if guests:
        found |= {f"COMPUTE_ARCH_{arch.upper()}": arch in guests for arch in GUEST_ARCHES}
    return found
