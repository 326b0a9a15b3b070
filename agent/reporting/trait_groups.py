"""Traits for people: sorted, families folded.  Pure."""

import re
from collections.abc import Iterable

FAMILIES = re.compile(
    "HW_CPU_(X86|AARCH64|PPC64LE)_|HW_NIC_OFFLOAD_"
    "|COMPUTE_(GRAPHICS_MODEL|IMAGE_TYPE|NET_VIF_MODEL|SOUND_MODEL|STORAGE_BUS)_"
)
"""Prefixes of the traits that are shown together."""


def folded(traits: Iterable[str]) -> list[str]:
    """Return traits with families folded: COMPUTE_STATUS_* first, then CUSTOM_*, then others.

    >>> folded(["HW_CPU_X86_AVX2", "HW_CPU_X86_AVX", "CUSTOM_FAST"])
    ['CUSTOM_FAST', 'HW_CPU_X86_{AVX,AVX2}']
    """
    families: dict[str, list[str]] = {}
    for trait in sorted(traits):
        prefix = FAMILIES.match(trait)
        families.setdefault(prefix[0] if prefix else trait, []).append(trait)
    words = []
    for family, members in families.items():
        inner = ",".join(member.removeprefix(family) for member in members)
        word = members[0] if len(members) == 1 else f"{family}{{{inner}}}"
        first = ("COMPUTE_STATUS_", "CUSTOM_")
        rank = next((rank for rank, prefix in enumerate(first) if family.startswith(prefix)), 2)
        words.append((rank, family, word))
    return [word for _, _, word in sorted(words)]
