"""The number of guests whose memory can be encrypted, as MEM_ENCRYPTION_CONTEXT.

One provider for each technique, with its trait: ``<node>_amd_sev``, ``<node>_amd_sev_es`` or, where
the host supports it, ``<node>_amd_sev_snp`` instead, and ``<node>_intel_tdx``.  Old releases of
Nova had SEV's inventory on the root, from where it moves here.

    <sev supported='yes'> <maxGuests>15</maxGuests> <maxESGuests>84</maxESGuests> ... </sev>
    <tdx supported='yes'/>
    <launchSecurity supported='yes'> <enum name='sectype'> <value>tdx</value> ...
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self
from xml.etree.ElementTree import Element

from drivers.api import DriverContext
from drivers.libvirt.devices.pools import device_record
from drivers.libvirt.documents import parse_document, text_of, whole_number
from drivers.libvirt.facts.architecture import (
    GuestType,
    domain_capabilities,
    guest_types,
    virt_type_note,
)
from drivers.libvirt.facts.fact import ReportContext, Sources
from drivers.libvirt.facts.topology import host_cpu
from drivers.libvirt.tree.names import CONTEXT, SEV, SEV_ES, SEV_SNP, TDX, TECHNIQUES
from drivers.libvirt.tree.reported import ENCRYPTION, HostReport, Observed, ReportedProvider
from drivers.opts import nova_owner_traits
from reportclient.model import MAX_INT

OPTION = "[libvirt] num_memory_encrypted_guests"
TDX_OPTION = "[libvirt] num_intel_tdx_guests"
Q35 = "q35"
KERNEL_SOURCES = ("kernel modules", "keys of TDX")
KERNEL_SWITCHES = {
    SEV: ("kvm_amd", "sev"),
    SEV_ES: ("kvm_amd", "sev_es"),
    SEV_SNP: ("kvm_amd", "sev_snp"),
    TDX: ("kvm_intel", "tdx"),
}
"""The kernel's module parameter that switches each technique on or off."""


@dataclass(frozen=True, slots=True)
class EncryptionAnswer:
    """What the host reported.

    ``domain_capabilities``: ``None`` where they could not be read; ``switched_off`` and
    ``switched_on``: techniques, by the kernel's module parameters; ``tdx_keys``: guests with TDX
    that there are keys for, ``None`` where the kernel does not say.
    """

    domain_capabilities: Element | None = None
    switched_off: frozenset[str] = frozenset()
    switched_on: frozenset[str] = frozenset()
    tdx_keys: int | None = None
    all_answered: bool = True
    """Whether each source has ever answered."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The operator's limits; ``sev`` and ``tdx`` ``None``: as many as the host supports."""

    sev: int | None = None
    tdx: int | None = None
    passes_cpu: bool = False
    """Whether guests get the host's CPU (cpu_mode = host-passthrough), which TDX requires."""

    @classmethod
    def from_conf(cls, group: Any) -> Self:
        """Return the limits by the options of ``[libvirt]``."""
        passes_cpu = group.cpu_mode == "host-passthrough"
        return cls(group.num_memory_encrypted_guests, group.num_intel_tdx_guests, passes_cpu)


@dataclass(frozen=True, slots=True)
class MemoryEncryption:
    """``owner_traits`` are set on every provider."""

    virt_type: str
    limits: Limits
    owner_traits: frozenset[str] = frozenset()
    name: ClassVar[str] = ENCRYPTION

    @classmethod
    def from_context(cls, context: DriverContext) -> Self:
        """Return the fact with virt_type and the operator's limits."""
        conf, group = context.conf, context.conf.libvirt
        return cls(group.virt_type, Limits.from_conf(group), nova_owner_traits(conf))

    def query_host(self, sources: Sources) -> EncryptionAnswer:
        """Return the answer, for guests of KVM on x86; TDX needs those of machine type q35."""
        capabilities = sources.capabilities
        arch = host_cpu(capabilities).arch
        if arch is not None and (arch != "x86_64" or self.virt_type != "kvm"):
            return EncryptionAnswer(parse_document(None))
        if arch is None or virt_type_note(capabilities, "kvm"):
            return EncryptionAnswer(None)
        machines = [guest_type.machine for guest_type in guest_types(capabilities, "kvm")]
        text = domain_capabilities(
            sources, GuestType(arch, Q35 if Q35 in machines else None, "kvm")
        )
        modules, keys = KERNEL_SOURCES
        switches = sources.read_files(modules, modules, _kernel_switches, dict[str, bool | None]())
        count = sources.read_files(keys, keys, _tdx_keys, None)
        return EncryptionAnswer(
            None if text is None else parse_document(text),
            frozenset(name for name, on in switches.items() if on is False),
            frozenset(name for name, on in switches.items() if on),
            count,
            all_answered=text is not None
            and not sources.never_answered().intersection(KERNEL_SOURCES),
        )

    def build_report(self, answer: EncryptionAnswer, context: ReportContext) -> HostReport:
        """Return the providers; SEV's inventory and trait are removed from the root."""
        children, notes = encryption(context.node, answer, self.limits, context.observed)
        return HostReport(
            children=[
                replace(child, traits=child.traits | self.owner_traits) for child in children
            ],
            traits={name: False for child in children for name in child.traits & {TECHNIQUES[SEV]}},
            notes=notes,
            unchanged_classes=frozenset({CONTEXT} if answer.domain_capabilities is None else ()),
            silent=frozenset(() if answer.all_answered else {self.name}),
        )


def _kernel_switches(root: Path) -> dict[str, bool | None]:
    """Return whether each technique is on (the kernel writes Y or 1); ``None``: unknown."""
    switches: dict[str, bool | None] = {}
    for name, (module, parameter) in KERNEL_SWITCHES.items():
        value = _text(root / "sys/module" / module / "parameters" / parameter).strip().upper()
        switches[name] = value not in {"N", "0"} if value else None
    return switches


def _tdx_keys(root: Path) -> int | None:
    """Return the number of TDX keys in the kernel's ``misc`` resources, such as ``tdx 31``."""
    lines = map(str.split, _text(root / "sys/fs/cgroup/misc.capacity").splitlines())
    return next(
        (whole_number(line[1]) for line in lines if len(line) == 2 and line[0] == "tdx"), None
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def encryption(
    node: str, answer: EncryptionAnswer, limits: Limits, observed: Observed
) -> tuple[list[ReportedProvider], dict[str, str]]:
    """Return the providers, and notes by option.

    Without domain capabilities, providers stay as Placement has them.
    """
    if answer.domain_capabilities is None:
        return _unchanged(node, observed), {}
    counts = dict(_guest_counts(answer, limits))
    problems = {
        OPTION: _sev_problem(counts.get(SEV), limits.sev),
        TDX_OPTION: _tdx_problem(answer, limits),
    }
    if SEV in counts and limits.sev is not None:
        counts[SEV] = min(counts[SEV], limits.sev)
    reported = [_reported(node, name, count, observed) for name, count in counts.items() if count]
    return reported, {option: problem for option, problem in problems.items() if problem}


def _guest_counts(answer: EncryptionAnswer, limits: Limits) -> Iterator[tuple[str, int]]:
    """Yield techniques with the number of guests at once.

    SEV without a number from libvirt has no limit.  Without SEV there are no SEV-ES and SEV-SNP
    either. These two share their keys: a host that supports both offers SEV-SNP.
    """
    document, off = answer.domain_capabilities, answer.switched_off
    assert document is not None
    sev = document.find("features/sev")
    if sev is not None and sev.get("supported") == "yes" and SEV not in off:
        max_guests = whole_number(text_of(sev, "maxGuests"))
        yield SEV, MAX_INT if max_guests is None else min(max_guests, MAX_INT)
        keys = min(whole_number(text_of(sev, "maxESGuests")) or 0, MAX_INT)
        if SEV_SNP in answer.switched_on and _lists_sectype(document, "sev-snp"):
            yield SEV_SNP, keys
        elif SEV_ES not in off:
            yield SEV_ES, keys
    if _can_tdx(answer) and limits.passes_cpu:
        counts = [count for count in (answer.tdx_keys, limits.tdx) if count is not None]
        yield TDX, min([*counts, MAX_INT]) if counts else 0


def _can_tdx(answer: EncryptionAnswer) -> bool:
    document = answer.domain_capabilities
    if document is None or TDX in answer.switched_off:
        return False
    tdx = document.find("features/tdx")
    return (tdx is not None and tdx.get("supported") == "yes") or _lists_sectype(document, "tdx")


def _tdx_problem(answer: EncryptionAnswer, limits: Limits) -> str | None:
    """Return a note if TDX is expected: the CPU is passed through, or a limit is set."""
    if not _can_tdx(answer):
        return _limit_without_support(limits.tdx, "this host can't encrypt memory with TDX")
    if not limits.passes_cpu:
        return _limit_without_support(limits.tdx, "TDX needs [libvirt] cpu_mode = host-passthrough")
    if answer.tdx_keys is None and limits.tdx is None:
        return (
            "is not set, and the kernel (misc.capacity of its cgroups) does not say how many"
            " guests with TDX there can be: none is reported"
        )
    return _limit_too_high(limits.tdx, answer.tdx_keys)


def _sev_problem(maximum: int | None, wanted: int | None) -> str | None:
    if maximum is None:
        return _limit_without_support(wanted, "this host can't encrypt memory with SEV")
    return _limit_too_high(wanted, maximum)


def _limit_without_support(wanted: int | None, why: str) -> str | None:
    return f"is {wanted}, but {why}" if wanted else None


def _limit_too_high(wanted: int | None, maximum: int | None) -> str | None:
    if wanted is None or maximum is None or wanted <= maximum:
        return None
    return f"is {wanted}, but this host can run {maximum} such guests at once"


def _lists_sectype(document: Element, name: str) -> bool:
    values = document.findall("features/launchSecurity/enum[@name='sectype']/value")
    security = document.find("features/launchSecurity")
    supported = security is not None and security.get("supported") == "yes"
    return supported and any((value.text or "").strip() == name for value in values)


def _reported(node: str, technique: str, count: int, observed: Observed) -> ReportedProvider:
    name = f"{node}_{technique}"
    record = device_record(count, observed.get(name, {}).get(CONTEXT, {}))
    traits = frozenset({TECHNIQUES[technique]})
    from_root = frozenset({CONTEXT}) if technique == SEV else frozenset[str]()
    # A guest takes one context; Nova reports the same.
    record["max_unit"] = 1
    return ReportedProvider(name, {CONTEXT: record}, traits, from_root=from_root, source=ENCRYPTION)


def _unchanged(node: str, observed: Observed) -> list[ReportedProvider]:
    names = (f"{node}_{technique}" for technique in TECHNIQUES)
    return [
        ReportedProvider(name, observed[name], source=ENCRYPTION)
        for name in names
        if observed.get(name)
    ]
