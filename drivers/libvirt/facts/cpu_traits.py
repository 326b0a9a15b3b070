"""Pure: HW_CPU_* traits of the host, and nothing else of that family is touched.

Every name here is one that os-traits has (a test holds them against it).
"""

from dataclasses import dataclass

from drivers.libvirt.facts.topology import HostCpu

HYPERTHREADING = "HW_CPU_HYPERTHREADING"

# fmt: off
# By libvirt's names of CPUID bits: those whose trait is called as they are, and the others;
# two where libvirt renamed one.
_X86_FEATURES = {name.upper(): (name,) for name in (
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
    "x86_64": {f"HW_CPU_X86_{name}": bits for name, bits in _X86_FEATURES.items()},
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


@dataclass(frozen=True, slots=True)
class Features:
    """Names of features; where ``complete`` is false there may be more."""

    names: frozenset[str]
    complete: bool


def cpu_traits(
    cpu: HostCpu, features: Features | None, hyperthreading: bool | None
) -> dict[str, bool]:
    """Whether the host has each trait; one that it can't tell about is not in there."""
    found = {} if features is None else _of_features(cpu, features)
    if cpu.model is not None:
        by_model = _BY_MODEL.get(cpu.arch or "", {})
        found |= {trait: model == cpu.model for trait, model in by_model.items()}
    if hyperthreading is not None:
        found[HYPERTHREADING] = hyperthreading
    return found


def _of_features(cpu: HostCpu, features: Features) -> dict[str, bool]:
    """Features that may be missing only from the answer make no trait go."""
    has = {
        trait: not features.names.isdisjoint(bits) and not _of_other_maker(trait, cpu.vendor)
        for trait, bits in _BY_FEATURE.get(cpu.arch or "", {}).items()
    }
    return has if features.complete else {trait: True for trait, there in has.items() if there}


def _of_other_maker(trait: str, vendor: str | None) -> bool:
    return any(trait.startswith(prefix) and vendor == maker for prefix, maker in _MAKERS.items())
