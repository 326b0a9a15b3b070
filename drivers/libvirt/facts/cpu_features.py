"""HW_CPU_* traits: the CPU features that guests of this host can have, by cpu_mode:

    host-model, host-passthrough   the host's features
    custom                         the features of all ``cpu_models`` together
    none                           the features of QEMU's default model

``cpu_model_extra_flags`` adds and removes features.  libvirt expands a model to its features
(:func:`expanded_cpu`).  Every trait here is one of os-traits; a test compares them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

import os_traits

from drivers.api import DriverContext
from drivers.libvirt.connection.events import CONNECTION
from drivers.libvirt.documents import parse_document
from drivers.libvirt.facts.architecture import QEMU_TYPES
from drivers.libvirt.facts.fact import ReportContext, Sources
from drivers.libvirt.facts.topology import HostCpu, features, host_cpu
from drivers.libvirt.tree.reported import HostReport

# fmt: off
# libvirt's feature names by the end of the trait's name: first those that have the same name in
# both.  Two names where libvirt renamed a feature.
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
# fmt: on

_ARM = "HW_CPU_AARCH64_"
_BY_FEATURE: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {f"HW_CPU_X86_{name}": bits for name, bits in X86_FEATURES.items()},
    "aarch64": {trait: (trait.removeprefix(_ARM).lower(),) for trait in os_traits.get_traits(_ARM)},
}
_BY_FEATURE["i686"] = _BY_FEATURE["x86_64"]

_BY_MODEL = {"ppc64le": {f"HW_CPU_PPC64LE_{model}": model for model in ("POWER8", "POWER9")}}

# CPUs of both vendors can have these features, but their traits are named after one vendor.
_OTHER_VENDORS = {"HW_CPU_X86_AMD_": "Intel", "HW_CPU_X86_INTEL_": "AMD"}

AARCH64 = "aarch64"
HOST_MODES = frozenset({"host-model", "host-passthrough"})

_DEFAULT_MODELS = {"i686": "qemu32", "ppc64le": "POWER8", AARCH64: "max"}


@dataclass(frozen=True, slots=True)
class GuestCpuFeatures:
    """Names of the features of guests' CPUs; unless ``complete``, there may be more."""

    names: frozenset[str]
    complete: bool


@dataclass(frozen=True, slots=True)
class CpuFeatures:
    """The traits of CPU features; ``mode`` ``None``: see :meth:`effective_mode`."""

    virt_type: str = "kvm"
    mode: str | None = None
    models: tuple[str, ...] = ()
    extra_flags: tuple[str, ...] = ()
    name: ClassVar[str] = "CPU features"

    @classmethod
    def from_context(cls, context: DriverContext) -> Self:
        """Return the fact with the options of guests' CPUs.

        :raises ValueError: cpu_mode and cpu_models contradict each other.
        """
        group = context.conf.libvirt
        if group.cpu_models and group.cpu_mode != "custom":
            raise ValueError("[libvirt] cpu_models is only for [libvirt] cpu_mode = custom")
        if group.cpu_mode == "custom" and not group.cpu_models:
            raise ValueError("[libvirt] cpu_mode = custom needs [libvirt] cpu_models")
        models, flags = tuple(group.cpu_models), tuple(group.cpu_model_extra_flags)
        return cls(group.virt_type, group.cpu_mode, models, flags)

    def query_host(self, sources: Sources) -> GuestCpuFeatures | None:
        """Return the features of guests' CPUs; incomplete where libvirt did not answer."""
        cpu = host_cpu(sources.capabilities)
        models = cpu_models(sources, cpu.arch) if self.models and cpu.arch else ()
        cpus = self.cpus_to_expand(cpu, models)
        return self.guest_features(cpu, [expanded_cpu(sources, *each) for each in cpus.items()])

    def build_report(self, answer: GuestCpuFeatures | None, context: ReportContext) -> HostReport:
        """Return the traits for the host's architecture."""
        return HostReport(traits=cpu_traits(host_cpu(context.capabilities), answer))

    def effective_mode(self, arch: str | None) -> str | None:
        """Return the configured CPU mode, or Nova's default; ``None`` if virt_type has no modes."""
        if self.virt_type not in QEMU_TYPES:
            return None if self.mode == "none" else self.mode
        if self.mode is None:
            return "host-passthrough" if arch == AARCH64 else "host-model"
        return self.mode

    def cpus_to_expand(self, cpu: HostCpu, libvirt_models: Iterable[str] = ()) -> dict[str, str]:
        """Return the <cpu> documents for libvirt to expand, by a name for messages.

        Models are spelt as in ``libvirt_models``.
        """
        mode = self.effective_mode(cpu.arch)
        if mode in HOST_MODES:
            # Of a model that libvirt does not know (as on all ARM hosts) it lists all features.
            is_complete = cpu.arch == AARCH64 or cpu.model is None
            return {} if is_complete else {"the host's CPU": cpu.document}
        if mode is None or cpu.arch is None:
            return {}
        spelling = {name.lower(): name for name in libvirt_models}
        models = self.models if mode == "custom" else ()
        cpus = {}
        for model in models or (_DEFAULT_MODELS.get(cpu.arch, "qemu64"),):
            spelt = spelling.get(model.lower(), model)
            element = Element("cpu")
            ET.SubElement(element, "arch").text = cpu.arch
            ET.SubElement(element, "model").text = spelt
            cpus[f"CPU model {spelt}"] = ET.tostring(element, encoding="unicode")
        return cpus

    def guest_features(
        self, cpu: HostCpu, documents: Sequence[Element | None]
    ) -> GuestCpuFeatures | None:
        """Return the CPU features of guests; ``None``: unknown for this virt_type or host.

        ``documents`` are libvirt's answers for ``cpus_to_expand``; ``None`` if it did not answer.
        """
        mode = self.effective_mode(cpu.arch)
        if mode is None or cpu.arch is None:
            return None
        answers = [document for document in documents if document is not None]
        names = frozenset().union(*map(features, answers))
        if mode in HOST_MODES:
            names |= cpu.features
        complete = len(answers) == len(documents) and bool(names)
        flags = [flag.strip().lower() for flag in self.extra_flags]
        added = {flag.removeprefix("+") for flag in flags if not flag.startswith("-")}
        removed = {flag[1:] for flag in flags if flag.startswith("-")}
        return GuestCpuFeatures((names | added) - removed, complete)


def expanded_cpu(sources: Sources, name: str, document: str) -> Element | None:
    """Return a <cpu> document with all features of its model, or ``None``."""
    flag = sources.host.binding.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
    return sources.call_libvirt(
        f"the features of {name}",
        lambda c: parse_document(str(c.baselineCPU([document], flag)), "cpu"),
        until_event=CONNECTION,
    )


def cpu_models(sources: Sources, arch: str) -> tuple[str, ...]:
    """Return the CPU models that libvirt has for an architecture."""
    names = sources.call_libvirt(
        f"CPU models of {arch}",
        lambda c: tuple(map(str, c.getCPUModelNames(arch))),
        until_event=CONNECTION,
    )
    return names or ()


def cpu_traits(cpu: HostCpu, features: GuestCpuFeatures | None) -> dict[str, bool]:
    """Return for each trait whether the host has it; a trait is left out if that is unknown."""
    traits: dict[str, bool] = {}
    if features is not None:
        for trait, names in _BY_FEATURE.get(cpu.arch or "", {}).items():
            has = not features.names.isdisjoint(names) and not any(
                trait.startswith(prefix) and cpu.vendor == other
                for prefix, other in _OTHER_VENDORS.items()
            )
            if has or features.complete:  # else there may be more features than these
                traits[trait] = has
    if cpu.model is not None:
        by_model = _BY_MODEL.get(cpu.arch or "", {})
        traits |= {trait: model == cpu.model for trait, model in by_model.items()}
    return traits
