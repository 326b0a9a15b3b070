"""How many guests can have their memory encrypted, as MEM_ENCRYPTION_CONTEXT.

One provider for each technique: ``<node>_amd_sev``, ``<node>_amd_sev_es`` or, where the host can
do that, ``<node>_amd_sev_snp`` in its place, and ``<node>_intel_tdx``, with the trait that says so.
Earlier releases of Nova had SEV's on the root, from where it moves here.

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
from drivers.libvirt.documents import read, text_of, whole
from drivers.libvirt.facts.architecture import Question, domain_capabilities, not_run, questions
from drivers.libvirt.facts.fact import Sources, Subject
from drivers.libvirt.facts.numa import Observed
from drivers.libvirt.facts.topology import host_cpu
from drivers.libvirt.tree.names import CONTEXT, SEV, SEV_ES, SEV_SNP, TDX, TECHNIQUES
from drivers.libvirt.tree.reported import ENCRYPTION, HostReport, Reported
from drivers.opts import nova_owner_traits
from reportclient.model import MAX_INT

OPTION = "[libvirt] num_memory_encrypted_guests"
TDX_OPTION = "[libvirt] num_intel_tdx_guests"
Q35 = "q35"
FILES = ("kernel modules", "keys of TDX")
SWITCHES = {
    SEV: ("kvm_amd", "sev"),
    SEV_ES: ("kvm_amd", "sev_es"),
    SEV_SNP: ("kvm_amd", "sev_snp"),
    TDX: ("kvm_intel", "tdx"),
}
"""Where the kernel has each technique switched on or off."""


@dataclass(frozen=True, slots=True)
class Encryption:
    """What the host tells: its domain capabilities, ``None`` where it could not be asked; what
    its kernel switched off and on (by technique); and how many guests with TDX it has keys for,
    ``None`` where it does not say.
    """

    domain_capabilities: Element | None = None
    switched_off: frozenset[str] = frozenset()
    switched_on: frozenset[str] = frozenset()
    tdx_keys: int | None = None
    told: bool = True
    """Whether each of these questions has ever been answered."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The operator's limits; ``sev`` and ``tdx`` ``None``: as many as the host has."""

    sev: int | None = None
    tdx: int | None = None
    passes_cpu: bool = False
    """Whether guests get the host's CPU (cpu_mode = host-passthrough), which TDX needs."""

    @classmethod
    def of(cls, group: Any) -> Self:
        """By the options of ``[libvirt]``."""
        passes_cpu = group.cpu_mode == "host-passthrough"
        return cls(group.num_memory_encrypted_guests, group.num_intel_tdx_guests, passes_cpu)


@dataclass(frozen=True, slots=True)
class MemoryEncryption:
    """``owner_traits`` are traits that every provider gets."""

    virt_type: str
    limits: Limits
    owner_traits: frozenset[str] = frozenset()
    name: ClassVar[str] = ENCRYPTION

    @classmethod
    def of(cls, context: DriverContext) -> Self:
        """Return the fact by virt_type and the operator's limits."""
        conf, group = context.conf, context.conf.libvirt
        return cls(group.virt_type, Limits.of(group), nova_owner_traits(conf))

    def ask(self, sources: Sources) -> Encryption:
        """Only KVM guests on x86 can have it; TDX only those of machine type q35."""
        capabilities = sources.capabilities
        arch = host_cpu(capabilities).arch
        if arch is not None and (arch != "x86_64" or self.virt_type != "kvm"):
            return Encryption(read(None))
        if arch is None or not_run(capabilities, "kvm"):
            return Encryption(None)
        machines = [one.machine for one in questions(capabilities, "kvm")]
        text = domain_capabilities(sources, Question(arch, Q35 if Q35 in machines else None, "kvm"))
        modules, keys = FILES
        switches = sources.on_files(modules, modules, _switches, dict[str, bool | None]())
        count = sources.on_files(keys, keys, _tdx_keys, None)
        return Encryption(
            None if text is None else read(text),
            frozenset(name for name, on in switches.items() if on is False),
            frozenset(name for name, on in switches.items() if on),
            count,
            told=text is not None and not sources.never_answered().intersection(FILES),
        )

    def judge(self, answer: Encryption, of: Subject) -> HostReport:
        """SEV's context leaves the root, with its trait."""
        children, notes = encryption(of.node, answer, self.limits, of.observed)
        return HostReport(
            children=[replace(one, traits=one.traits | self.owner_traits) for one in children],
            traits={name: False for one in children for name in one.traits & {TECHNIQUES[SEV]}},
            notes=notes,
            kept=frozenset({CONTEXT} if answer.domain_capabilities is None else ()),
            silent=frozenset(() if answer.told else {self.name}),
        )


def _switches(root: Path) -> dict[str, bool | None]:
    """Kernels write Y or 1; what can't be read is not known."""
    switches: dict[str, bool | None] = {}
    for name, (module, parameter) in SWITCHES.items():
        said = _text(root / "sys/module" / module / "parameters" / parameter).strip().upper()
        switches[name] = said not in {"N", "0"} if said else None
    return switches


def _tdx_keys(root: Path) -> int | None:
    """Return the number of TDX keys in the kernel's ``misc`` resources, such as ``tdx 31``."""
    lines = map(str.split, _text(root / "sys/fs/cgroup/misc.capacity").splitlines())
    return next((whole(line[1]) for line in lines if len(line) == 2 and line[0] == "tdx"), None)


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def encryption(
    node: str, told: Encryption, limits: Limits, observed: Observed
) -> tuple[list[Reported], dict[str, str]]:
    """Providers, and what is odd.

    What could not be asked stays as Placement has it.
    """
    if told.domain_capabilities is None:
        return _as_it_was(node, observed), {}
    slots = dict(_slots(told, limits))
    problems = {
        OPTION: _sev_problem(slots.get(SEV), limits.sev),
        TDX_OPTION: _tdx_problem(told, limits),
    }
    if SEV in slots and limits.sev is not None:
        slots[SEV] = min(slots[SEV], limits.sev)
    reported = [_reported(node, name, count, observed) for name, count in slots.items() if count]
    return reported, {option: words for option, words in problems.items() if words}


def _slots(told: Encryption, limits: Limits) -> Iterator[tuple[str, int]]:
    """How many guests at once; of SEV, where libvirt does not say, as many as there may be.

    Without SEV in the kernel there is none of its successors either.  SEV-SNP and SEV-ES have
    the same keys: a host that can do both offers the stronger one.
    """
    document, off = told.domain_capabilities, told.switched_off
    assert document is not None
    sev = document.find("features/sev")
    if sev is not None and sev.get("supported") == "yes" and SEV not in off:
        most = whole(text_of(sev, "maxGuests"))
        yield SEV, MAX_INT if most is None else min(most, MAX_INT)
        keys = min(whole(text_of(sev, "maxESGuests")) or 0, MAX_INT)
        if SEV_SNP in told.switched_on and _lists(document, "sev-snp"):
            yield SEV_SNP, keys
        elif SEV_ES not in off:
            yield SEV_ES, keys
    if _can_tdx(told) and limits.passes_cpu:
        counts = [count for count in (told.tdx_keys, limits.tdx) if count is not None]
        yield TDX, min([*counts, MAX_INT]) if counts else 0


def _can_tdx(told: Encryption) -> bool:
    document = told.domain_capabilities
    if document is None or TDX in told.switched_off:
        return False
    tdx = document.find("features/tdx")
    return (tdx is not None and tdx.get("supported") == "yes") or _lists(document, "tdx")


def _tdx_problem(told: Encryption, limits: Limits) -> str | None:
    """Only where the operator can expect TDX: the CPU is passed on, or a number is given."""
    if not _can_tdx(told):
        return _unable(limits.tdx, "this host can't encrypt memory with TDX")
    if not limits.passes_cpu:
        return _unable(limits.tdx, "TDX needs [libvirt] cpu_mode = host-passthrough")
    if told.tdx_keys is None and limits.tdx is None:
        return (
            "is not set, and the kernel (misc.capacity of its cgroups) does not say how many"
            " guests with TDX there can be: none is reported"
        )
    return _too_many(limits.tdx, told.tdx_keys)


def _sev_problem(most: int | None, wanted: int | None) -> str | None:
    if most is None:
        return _unable(wanted, "this host can't encrypt memory with SEV")
    return _too_many(wanted, most)


def _unable(wanted: int | None, why: str) -> str | None:
    return f"is {wanted}, but {why}" if wanted else None


def _too_many(wanted: int | None, most: int | None) -> str | None:
    if wanted is None or most is None or wanted <= most:
        return None
    return f"is {wanted}, but this host can run {most} such guests at once"


def _lists(document: Element, name: str) -> bool:
    values = document.findall("features/launchSecurity/enum[@name='sectype']/value")
    security = document.find("features/launchSecurity")
    supported = security is not None and security.get("supported") == "yes"
    return supported and any((value.text or "").strip() == name for value in values)


def _reported(node: str, technique: str, count: int, observed: Observed) -> Reported:
    name = f"{node}_{technique}"
    record = device_record(count, observed.get(name, {}).get(CONTEXT, {}))
    traits = frozenset({TECHNIQUES[technique]})
    from_root = frozenset({CONTEXT}) if technique == SEV else frozenset[str]()
    # Who starts a guest takes one context: so Nova reports it too.
    record["max_unit"] = 1
    return Reported(name, {CONTEXT: record}, traits, from_root=from_root, source=ENCRYPTION)


def _as_it_was(node: str, observed: Observed) -> list[Reported]:
    names = (f"{node}_{technique}" for technique in TECHNIQUES)
    return [
        Reported(name, observed[name], source=ENCRYPTION) for name in names if observed.get(name)
    ]
