"""Which CPU a guest of this host gets, and so which features it can count on: HW_CPU_* traits.

    host-model, host-passthrough   the host's features
    custom                         those of each model of ``cpu_models`` together
    none                           those of QEMU's default model

and ``cpu_model_extra_flags`` on top of each.  Models are names; libvirt writes their
features out (:class:`Question`).  Every trait here is one that os-traits has (a test holds them
against it), and nothing else of that family is touched.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from drivers.api import DriverContext
from drivers.libvirt.connection.events import CONNECTION
from drivers.libvirt.documents import checked, read
from drivers.libvirt.facts.fact import Sources, Subject
from drivers.libvirt.facts.topology import HostCpu, features, host_cpu, hyperthreading
from drivers.libvirt.tree.reported import HostReport

HYPERTHREADING = "HW_CPU_HYPERTHREADING"

# fmt: off
# By libvirt's names of CPUID bits: those whose trait is called as they are, and the others;
# two where libvirt renamed one.
X86_FEATURES = {name.upper(): (name,) for name in (
    "3dnow", "abm", "avx", "avx2", "avx512bitalg", "avx512bw", "avx512cd", "avx512dq",
    "avx512er", "avx512f", "avx512ifma", "avx512pf", "avx512vbmi", "avx512vbmi2", "avx512vl",
    "avx512vnni", "bmi2", "f16c", "fma4", "mmx", "mpx", "pdpe1gb", "sgx", "sse", "sse2",
    "sse4a", "ssse3", "svm", "tbm", "vmx", "xop",
)} | {
    "AESNI": ("aes",), "AMD_IBPB": ("ibpb",), "AMD_NO_SSB": ("amd-no-ssb",),
    "AMD_SSBD": ("amd-ssbd",), "AMD_SVM": ("svm",), "AMD_VIRT_SSBD": ("virt-ssbd",),
    "AMXBF16": ("amx-bf16",), "AMXINT8": ("amx-int8",), "AMXTILE": ("amx-tile",),
    "AVX512GFNI": ("gfni",), "AVX512VAES": ("vaes",), "AVX512VPCLMULQDQ": ("vpclmulqdq",),
    "AVX512VPOPCNTDQ": ("avx512-vpopcntdq",), "BMI": ("bmi1",),
    "CLMUL": ("pclmuldq", "pclmulqdq"), "FMA3": ("fma",), "INTEL_MD_CLEAR": ("md-clear",),
    "INTEL_PCID": ("pcid",), "INTEL_SPEC_CTRL": ("spec-ctrl",), "INTEL_SSBD": ("ssbd",),
    "INTEL_VMX": ("vmx",), "SHA": ("sha-ni",), "SSE3": ("pni", "sse3"), "SSE41": ("sse4.1",),
    "SSE42": ("sse4.2",), "STIBP": ("stibp", "amd-stibp"), "TSX": ("rtm",),
}
_AARCH64_FEATURES = (
    "aes", "asimd", "asimddp", "asimdhp", "asimdrdm", "atomics", "cpuid", "crc32", "dcpop",
    "evtstrm", "fcma", "fp", "fphp", "jscvt", "lrcpc", "pmull", "sha1", "sha2", "sha3", "sha512",
    "sm3", "sm4", "sve",
)
# fmt: on

_BY_FEATURE: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {f"HW_CPU_X86_{name}": bits for name, bits in X86_FEATURES.items()},
    "aarch64": {f"HW_CPU_AARCH64_{name.upper()}": (name,) for name in _AARCH64_FEATURES},
}
_BY_FEATURE["i686"] = _BY_FEATURE["x86_64"]

_BY_MODEL = {
    "ppc64le": {"HW_CPU_PPC64LE_POWER8": "POWER8", "HW_CPU_PPC64LE_POWER9": "POWER9"},
}

# Both makers' CPUs can have these bits, but the traits are named for one of them.
_MAKERS = {"HW_CPU_X86_AMD_": "Intel", "HW_CPU_X86_INTEL_": "AMD"}

OWNED = frozenset(
    [HYPERTHREADING, *_BY_FEATURE["x86_64"], *_BY_FEATURE["aarch64"], *_BY_MODEL["ppc64le"]]
)
"""All that this module may ever set, and so may take away."""

AARCH64 = "aarch64"
HOST_MODES = frozenset({"host-model", "host-passthrough"})

_DEFAULT_MODELS = {"i686": "qemu32", "ppc64le": "POWER8", AARCH64: "max"}
_WITH_CPU_MODELS = frozenset({"kvm", "qemu"})


@dataclass(frozen=True, slots=True)
class CpuChoice:
    """The operator's choice, as configured; ``mode`` ``None``: by virt_type."""

    virt_type: str = "kvm"
    mode: str | None = None
    models: tuple[str, ...] = ()
    extra_flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A <cpu> document whose features libvirt shall write out, and its name for people."""

    document: str
    name: str


@dataclass(frozen=True, slots=True)
class Features:
    """Names of features; where ``complete`` is false there may be more."""

    names: frozenset[str]
    complete: bool


@dataclass(frozen=True, slots=True)
class CpuFeatures:
    """What guests can count on."""

    choice: CpuChoice
    name: ClassVar[str] = "CPU features"

    @classmethod
    def of(cls, context: DriverContext) -> Self:
        """:raises ValueError: a mode and models that do not go together."""
        group = context.conf.libvirt
        if group.cpu_models and group.cpu_mode != "custom":
            raise ValueError("[libvirt] cpu_models is only for [libvirt] cpu_mode = custom")
        if group.cpu_mode == "custom" and not group.cpu_models:
            raise ValueError("[libvirt] cpu_mode = custom needs [libvirt] cpu_models")
        models, flags = tuple(group.cpu_models), tuple(group.cpu_model_extra_flags)
        return cls(CpuChoice(group.virt_type, group.cpu_mode, models, flags))

    def ask(self, sources: Sources) -> Features | None:
        """Libvirt's own gaps leave features out."""
        cpu = host_cpu(sources.capabilities)
        models = cpu_models(sources, cpu.arch) if self.choice.models and cpu.arch else ()
        asked = questions(cpu, self.choice, models)
        answers = [expanded_cpu(sources, one) for one in asked]
        return guest_features(cpu, self.choice, asked, answers)

    def judge(self, answer: Features | None, of: Subject) -> HostReport:
        """Judge the traits of the host's kind of CPU."""
        threads = hyperthreading(of.capabilities)
        return HostReport(traits=cpu_traits(host_cpu(of.capabilities), answer, threads))


def expanded_cpu(sources: Sources, one: Question) -> str | None:
    """A <cpu> document with all features of its model written out."""
    flag = sources.host.binding.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
    return sources.ask(
        f"the features of {one.name}",
        lambda c: checked(str(c.baselineCPU([one.document], flag)), "cpu"),
        until=CONNECTION,
    )


def cpu_models(sources: Sources, arch: str) -> tuple[str, ...]:
    """Names of the CPU models that libvirt has for an architecture."""
    names = sources.ask(
        f"CPU models of {arch}",
        lambda c: tuple(map(str, c.getCPUModelNames(arch))),
        until=CONNECTION,
    )
    return names or ()


def mode_of(choice: CpuChoice, arch: str | None) -> str | None:
    """The mode that holds; ``None``: guests of this virt_type have no CPU model."""
    if choice.virt_type not in _WITH_CPU_MODELS:
        return None if choice.mode == "none" else choice.mode
    if choice.mode is None:
        return "host-passthrough" if arch == AARCH64 else "host-model"
    return choice.mode


def questions(
    cpu: HostCpu, choice: CpuChoice, known_models: Iterable[str] = ()
) -> tuple[Question, ...]:
    """Return the CPUs to expand by libvirt.  ``known_models`` have libvirt's spelling."""
    mode = mode_of(choice, cpu.arch)
    if mode in HOST_MODES:
        # Hosts whose model libvirt does not know (all of ARM) list all that there is.
        told = cpu.arch == AARCH64 or cpu.model is None
        return () if told else (Question(cpu.document, "the host's CPU"),)
    if mode is None or cpu.arch is None:
        return ()
    spelling = {name.lower(): name for name in known_models}
    models = choice.models if mode == "custom" else ()
    return tuple(
        _question(cpu.arch, spelling.get(model.lower(), model))
        for model in models or (_DEFAULT_MODELS.get(cpu.arch, "qemu64"),)
    )


def guest_features(
    cpu: HostCpu, choice: CpuChoice, asked: Sequence[Question], answers: Sequence[str | None]
) -> Features | None:
    """Return the CPU features of all guests; ``None``: unknown for this virt_type or host.

    ``answers`` belong to ``asked``; ``None`` is a question without an answer.
    """
    mode = mode_of(choice, cpu.arch)
    if mode is None or cpu.arch is None:
        return None
    written = [read(answer) for answer in answers if answer]
    names = frozenset().union(*map(features, written))
    if mode in HOST_MODES:
        names |= cpu.features
    complete = len(written) == len(asked) and bool(names)
    return Features(_with_flags(names, choice.extra_flags), complete)


def _question(arch: str, model: str) -> Question:
    cpu = Element("cpu")
    ET.SubElement(cpu, "arch").text = arch
    ET.SubElement(cpu, "model").text = model
    return Question(ET.tostring(cpu, encoding="unicode"), f"CPU model {model}")


def _with_flags(names: frozenset[str], flags: Iterable[str]) -> frozenset[str]:
    """``flag`` and ``+flag`` add, ``-flag`` takes away; case does not matter."""
    cleaned = [flag.strip().lower() for flag in flags]
    removed = {flag[1:] for flag in cleaned if flag.startswith("-")}
    added = {flag.removeprefix("+") for flag in cleaned if not flag.startswith("-")}
    return (names | added) - removed


def cpu_traits(
    cpu: HostCpu, features: Features | None, hyperthreading: bool | None
) -> dict[str, bool]:
    """Whether the host has each trait; one that it can't tell about is not in there."""
    traits = {} if features is None else _of_features(cpu, features)
    if cpu.model is not None:
        by_model = _BY_MODEL.get(cpu.arch or "", {})
        traits |= {trait: model == cpu.model for trait, model in by_model.items()}
    if hyperthreading is not None:
        traits[HYPERTHREADING] = hyperthreading
    return traits


def _of_features(cpu: HostCpu, features: Features) -> dict[str, bool]:
    """Features that may be missing only from the answer make no trait go."""
    has = {
        trait: not features.names.isdisjoint(bits) and not _of_other_maker(trait, cpu.vendor)
        for trait, bits in _BY_FEATURE.get(cpu.arch or "", {}).items()
    }
    return has if features.complete else {trait: True for trait, there in has.items() if there}


def _of_other_maker(trait: str, vendor: str | None) -> bool:
    return any(trait.startswith(prefix) and vendor == maker for prefix, maker in _MAKERS.items())
