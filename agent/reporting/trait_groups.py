"""Traits for people: sorted, families folded.  Pure."""

from collections.abc import Iterable

FAMILIES = (
    "HW_CPU_X86_",
    "HW_CPU_AARCH64_",
    "HW_CPU_PPC64LE_",
    "HW_NIC_OFFLOAD_",
    "COMPUTE_GRAPHICS_MODEL_",
    "COMPUTE_IMAGE_TYPE_",
    "COMPUTE_NET_VIF_MODEL_",
    "COMPUTE_SOUND_MODEL_",
    "COMPUTE_STORAGE_BUS_",
)
"""Prefixes of the traits that are shown together."""


def folded(traits: Iterable[str]) -> list[str]:
    """Return traits with families folded: COMPUTE_STATUS_* first, then CUSTOM_*, then others.

    >>> folded(["HW_CPU_X86_AVX2", "HW_CPU_X86_AVX", "CUSTOM_FAST"])
    ['CUSTOM_FAST', 'HW_CPU_X86_{AVX,AVX2}']
    """
    families: dict[str, list[str]] = {}
    for trait in sorted(traits):
        prefixes = (each for each in FAMILIES if trait.startswith(each) and trait != each)
        families.setdefault(next(prefixes, trait), []).append(trait)
    words = []
    for family, members in families.items():
        inner = ",".join(member.removeprefix(family) for member in members)
        word = members[0] if len(members) == 1 else f"{family}{{{inner}}}"
        first = ("COMPUTE_STATUS_", "CUSTOM_")
        rank = next((rank for rank, prefix in enumerate(first) if family.startswith(prefix)), 2)
        words.append((rank, family, word))
    return [word for _, _, word in sorted(words)]
