"""Pure: how many guests can have their memory encrypted, as MEM_ENCRYPTION_CONTEXT.

One provider for each technique: ``<node>_amd_sev``, ``<node>_amd_sev_es`` and
``<node>_intel_tdx``, with the trait that says so.  Earlier releases of Nova had SEV's on the
root, from where it moves here.

    <sev supported='yes'> <maxGuests>15</maxGuests> <maxESGuests>84</maxESGuests> ... </sev>
    <tdx supported='yes'/>
    <launchSecurity supported='yes'> <enum name='sectype'> <value>tdx</value> ...
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

import os_traits

from drivers.libvirt.documents import text_of, whole
from drivers.libvirt.numa import Known
from drivers.libvirt.pools import device_record
from drivers.libvirt.reported import Reported
from reportclient.model import MAX_INT

CONTEXT = "MEM_ENCRYPTION_CONTEXT"
OPTION = "[libvirt] num_memory_encrypted_guests"
SEV, SEV_ES, TDX = "amd_sev", "amd_sev_es", "intel_tdx"
TRAITS = {
    SEV: os_traits.HW_CPU_X86_AMD_SEV,
    SEV_ES: os_traits.HW_CPU_X86_AMD_SEV_ES,
    TDX: os_traits.HW_CPU_X86_INTEL_TDX,
}


@dataclass(frozen=True, slots=True)
class Encryption:
    """What the host tells: its domain capabilities, ``None`` where it could not be asked, and
    what its kernel switched off (by technique).
    """

    domain_capabilities: Element | None = None
    switched_off: frozenset[str] = frozenset()


def encryption(
    node: str, found: Encryption, wanted: int | None, known: Known
) -> tuple[list[Reported], dict[str, str]]:
    """Providers, and what is odd; ``wanted`` is the operator's limit for SEV.

    What could not be asked stays as Placement has it.
    """
    if found.domain_capabilities is None:
        return _as_it_was(node, known), {}
    slots = {
        technique: count
        for technique, count in _slots(found.domain_capabilities)
        if technique not in found.switched_off
    }
    notes = _limit(slots, wanted)
    reported = [_reported(node, name, count, known) for name, count in slots.items() if count]
    return reported, notes


def moved_traits(reported: list[Reported]) -> dict[str, bool]:
    """Traits that the root had before these providers were there."""
    return {name: False for one in reported for name in one.traits & {TRAITS[SEV]}}


def _slots(document: Element) -> Iterator[tuple[str, int]]:
    """How many guests at once; of those who don't say, as many as there may be."""
    sev = document.find("features/sev")
    if sev is not None and sev.get("supported") == "yes":
        told = whole(text_of(sev, "maxGuests"))
        yield SEV, MAX_INT if told is None else min(told, MAX_INT)
        yield SEV_ES, min(whole(text_of(sev, "maxESGuests")) or 0, MAX_INT)
    tdx = document.find("features/tdx")
    values = document.findall("features/launchSecurity/enum[@name='sectype']/value")
    if (tdx is not None and tdx.get("supported") == "yes") or _lists(document, values, "tdx"):
        yield TDX, MAX_INT


def _lists(document: Element, values: list[Element], name: str) -> bool:
    security = document.find("features/launchSecurity")
    supported = security is not None and security.get("supported") == "yes"
    return supported and any((value.text or "").strip() == name for value in values)


def _limit(slots: dict[str, int], wanted: int | None) -> dict[str, str]:
    """Lower SEV's to the limit, and say where that is none."""
    if wanted is None:
        return {}
    if SEV not in slots:
        if not wanted:
            return {}
        return {OPTION: f"is {wanted}, but this host can't encrypt memory with SEV"}
    most, slots[SEV] = slots[SEV], min(slots[SEV], wanted)
    if wanted > most:
        return {OPTION: f"is {wanted}, but this host can run {most} such guests at once"}
    return {}


def _reported(node: str, technique: str, count: int, known: Known) -> Reported:
    name = f"{node}_{technique}"
    record = device_record(count, known.get(name, {}).get(CONTEXT, {}))
    traits = frozenset({TRAITS[technique]})
    from_root = frozenset({CONTEXT}) if technique == SEV else frozenset[str]()
    # Who starts a guest takes one context: so Nova reports it too.
    record["max_unit"] = 1
    return Reported(name, {CONTEXT: record}, traits, managed=traits, from_root=from_root)


def _as_it_was(node: str, known: Known) -> list[Reported]:
    names = (f"{node}_{technique}" for technique in TRAITS)
    return [Reported(name, known[name]) for name in names if known.get(name)]
