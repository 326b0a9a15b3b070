"""The number of guests whose memory can be encrypted, as MEM_ENCRYPTION_CONTEXT.

One provider for each technique, with its trait: ``<node>_amd_sev``, ``<node>_amd_sev_es`` or, where
the host supports it, ``<node>_amd_sev_snp`` instead, and ``<node>_intel_tdx``.  Old releases of
Nova had SEV's inventory on the root, from where it moves here.

    <sev supported='yes'> <maxGuests>15</maxGuests> <maxESGuests>84</maxESGuests> ... </sev>
    <tdx supported='yes'/>
    <launchSecurity supported='yes'> <enum name='sectype'> <value>tdx</value> ...
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self
from xml.etree.ElementTree import Element

from drivers.api import DriverContext
from drivers.errors import DriverNotReady
from drivers.inventory import record
from drivers.libvirt.connection.host import file_text
from drivers.libvirt.documents import text_of, whole_number
from drivers.libvirt.facts.architecture import (
    GuestType,
    domain_capabilities,
    guest_types,
    virt_type_note,
)
from drivers.libvirt.facts.fact import ReportContext, Sources
from drivers.libvirt.facts.topology import host_cpu
from drivers.libvirt.tree.reported import (
    CONTEXT,
    ENCRYPTION,
    SEV,
    SEV_ES,
    SEV_SNP,
    TDX,
    TECHNIQUES,
    HostReport,
    ReportedProvider,
)
from reportclient.model import MAX_INT

OPTION = "[libvirt] num_memory_encrypted_guests"
TDX_OPTION = "[libvirt] num_intel_tdx_guests"
Q35 = "q35"


@dataclass(frozen=True, slots=True)
class EncryptionAnswer:
    """Answer of the host about memory encryption.

    ``switches``: whether the kernel's module parameters switch a technique on, as far as they say;
    ``tdx_keys``: guests with TDX that there are keys for, ``None`` where the kernel does not say.
    """

    domain_capabilities: Element
    switches: Mapping[str, bool] = field(default_factory=dict)
    tdx_keys: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryEncryption:
    """``sev_limit`` and ``tdx_limit``: the operator's; ``None``: as many as the host supports."""

    virt_type: str
    sev_limit: int | None = None
    tdx_limit: int | None = None
    passes_cpu: bool = False
    """Whether guests get the host's CPU (cpu_mode = host-passthrough), which TDX requires."""
    name: ClassVar[str] = ENCRYPTION

    @classmethod
    def from_context(cls, context: DriverContext) -> Self:
        """Return the fact with virt_type and the operator's limits."""
        group = context.conf.libvirt
        return cls(
            group.virt_type,
            group.num_memory_encrypted_guests,
            group.num_intel_tdx_guests,
            group.cpu_mode == "host-passthrough",
        )

    def query_host(self, sources: Sources) -> EncryptionAnswer | None:
        """Return the answer, for guests of KVM on x86; TDX needs those of machine type q35.

        ``None``: a source has never answered.
        """
        capabilities = sources.capabilities
        arch = host_cpu(capabilities).arch
        if arch is not None and (arch != "x86_64" or self.virt_type != "kvm"):
            return EncryptionAnswer(Element("domainCapabilities"))
        if arch is None or virt_type_note(capabilities, "kvm"):
            return None
        machines = [guest_type.machine for guest_type in guest_types(capabilities, "kvm")]
        guest_type = GuestType(arch, Q35 if Q35 in machines else None, "kvm")
        document, read = None, domain_capabilities(sources, guest_type)
        if read is not None:
            document = sources.read_part("SEV", "domcapabilities", lambda: sev_checked(read), None)
        has_sev = document is not None and _supported(document, "sev") is not None
        if document is not None and not (has_sev or _lists_tdx(document)):
            return EncryptionAnswer(document)  # whatever the kernel says
        kernel = sources.read_files("kernel modules", "kernel modules", _kernel, None)
        return None if document is None or kernel is None else EncryptionAnswer(document, *kernel)

    def build_report(self, answer: EncryptionAnswer | None, context: ReportContext) -> HostReport:
        """Return the providers; SEV's inventory and trait are removed from the root."""
        if answer is None:
            return HostReport(
                unchanged_classes=frozenset({CONTEXT}), unanswered=frozenset({self.name})
            )
        counts = _sev_counts(answer)
        problem = "this host can't encrypt memory with SEV" if SEV not in counts else None
        notes = {OPTION: _limit_problem(self.sev_limit, counts.get(SEV), problem)}
        if SEV in counts and self.sev_limit is not None:
            counts[SEV] = min(counts[SEV], self.sev_limit)
        tdx_count, notes[TDX_OPTION] = _tdx_count(answer, self)
        counts[TDX] = tdx_count or 0
        children = [
            ReportedProvider(
                f"{context.node}_{technique}",
                # A guest takes one context; Nova reports the same.
                {CONTEXT: {**record(count), "max_unit": 1}},
                frozenset({TECHNIQUES[technique]}),
                from_root=frozenset({CONTEXT} if technique == SEV else ()),
                source=ENCRYPTION,
            )
            for technique, count in counts.items()
            if count
        ]
        return HostReport(
            children=children,
            traits={TECHNIQUES[SEV]: False} if counts.get(SEV) else {},
            notes={option: note for option, note in notes.items() if note},
            incomplete=frozenset({f"{context.node}_{TDX}"} if tdx_count is None else ()),
        )


def sev_checked(document: Element) -> Element:
    """Return the domain capabilities.

    :raises ValueError: a number of guests can't be read.
    """
    for name in ("maxGuests", "maxESGuests"):
        number = text_of(document, f"features/sev/{name}")
        if number is not None and whole_number(number) is None:
            raise ValueError(f"<{name}> of <sev> is {number!r}")
    return document


def _kernel(root: Path) -> tuple[dict[str, bool], int | None]:
    """Return which techniques are on, as far as the kernel says, and the number of TDX keys.

    :raises DriverNotReady: KVM's module is not loaded.
    """
    modules = root / "sys/module"
    if modules.is_dir() and not any(modules.glob("kvm_*")):
        raise DriverNotReady("no kernel module kvm_amd or kvm_intel is loaded")
    switches: dict[str, bool] = {}
    for name in TECHNIQUES:  # amd_sev_es: the parameter sev_es of kvm_amd switches it on or off
        vendor, _, parameter = name.partition("_")
        file = modules / f"kvm_{vendor}" / "parameters" / parameter
        value = file_text(file).strip().upper()
        if value:  # Y, N, 1 or 0
            switches[name] = value not in {"N", "0"}
    # The kernel's ``misc`` resources have a line such as ``tdx 31``.
    lines = map(str.split, file_text(root / "sys/fs/cgroup/misc.capacity").splitlines())
    keys = (whole_number(line[1]) for line in lines if len(line) == 2 and line[0] == "tdx")
    return switches, next(keys, None)


def _sev_counts(answer: EncryptionAnswer) -> dict[str, int]:
    """Return the number of guests at once by technique of SEV.

    SEV without a number from libvirt has no limit.  Without SEV there are no SEV-ES and SEV-SNP
    either. These two share their keys: a host that supports both offers SEV-SNP.
    """
    document = answer.domain_capabilities
    sev = _supported(document, "sev")
    if sev is None or answer.switches.get(SEV) is False:
        return {}
    max_guests = whole_number(text_of(sev, "maxGuests"))
    counts = {SEV: MAX_INT if max_guests is None else min(max_guests, MAX_INT)}
    keys = min(whole_number(text_of(sev, "maxESGuests")) or 0, MAX_INT)
    if answer.switches.get(SEV_SNP) and _lists_sectype(document, "sev-snp"):
        counts[SEV_SNP] = keys
    elif answer.switches.get(SEV_ES) is not False:
        counts[SEV_ES] = keys
    return counts


def _tdx_count(answer: EncryptionAnswer, limits: MemoryEncryption) -> tuple[int | None, str | None]:
    """Return the number of guests with TDX at once (``None``: unknown), and a note if more are
    expected: the CPU is passed through, or a limit is set.
    """
    document = answer.domain_capabilities
    if answer.switches.get(TDX) is False or not _lists_tdx(document):
        return 0, _limit_problem(limits.tdx_limit, None, "this host can't encrypt memory with TDX")
    if not limits.passes_cpu:
        needs = "TDX needs [libvirt] cpu_mode = host-passthrough"
        return 0, _limit_problem(limits.tdx_limit, None, needs)
    counts = [count for count in (answer.tdx_keys, limits.tdx_limit) if count is not None]
    if not counts:
        return None, (
            "is not set, and the kernel (misc.capacity of its cgroups) does not say how many"
            " guests with TDX there can be: none is reported, or the last number stays"
        )
    return min([*counts, MAX_INT]), _limit_problem(limits.tdx_limit, answer.tdx_keys, None)


def _limit_problem(wanted: int | None, maximum: int | None, unsupported: str | None) -> str | None:
    """Return a note if the operator's limit is set, but ``unsupported``, or above the maximum."""
    if unsupported:
        return f"is {wanted}, but {unsupported}" if wanted else None
    if wanted is None or maximum is None or wanted <= maximum:
        return None
    return f"is {wanted}, but this host can run {maximum} such guests at once"


def _supported(document: Element, name: str) -> Element | None:
    return document.find(f"features/{name}[@supported='yes']")


def _lists_tdx(document: Element) -> bool:
    return _supported(document, "tdx") is not None or _lists_sectype(document, "tdx")


def _lists_sectype(document: Element, name: str) -> bool:
    security = _supported(document, "launchSecurity")
    values = () if security is None else security.findall("enum[@name='sectype']/value")
    return any((value.text or "").strip() == name for value in values)
