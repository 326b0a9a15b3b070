"""Whatever libvirt's documents say of devices and pools, what is made of it is valid."""

from __future__ import annotations

from pathlib import PurePath
from xml.etree import ElementTree as ET

import os_traits
from hypothesis import given
from hypothesis import strategies as st

from drivers.libvirt.facts.disk import ImageBackend, backend_pool, storage_pool
from drivers.libvirt.facts.guest_models import LISTED_MODELS, GuestModels, GuestType

KNOWN = frozenset(os_traits.get_traits())
WORDS = st.sampled_from(
    ["virtio", "none", "efi", "emulator", "2.0", "tpm-crb", "yes", ""]
) | st.text("abcXYZ019-_. ", max_size=12)
SECTIONS = (
    *(section for _, section, _ in LISTED_MODELS),
    "os",
    "os/loader",
    "devices/tpm",
    "memoryBacking",
)
ENUMS = (*(enum for *_, enum in LISTED_MODELS), "firmware", "secure", "backendModel", "sourceType")


@st.composite
def domain_documents(draw: st.DrawFn) -> ET.Element:
    """Sections, enums and values, each of them there or not, known or not."""
    root = ET.Element("domainCapabilities")
    for section in draw(st.lists(st.sampled_from(SECTIONS), max_size=6)):
        place = root
        for tag in section.split("/"):
            found = place.find(tag)
            place = ET.SubElement(place, tag) if found is None else found
        if draw(st.booleans()):
            place.set("supported", draw(st.sampled_from(["yes", "no", "perhaps"])))
        enum = ET.SubElement(place, "enum", name=draw(st.sampled_from(ENUMS)))
        for word in draw(st.lists(WORDS, max_size=4)):
            ET.SubElement(enum, "value").text = word
    return root


ARCHES = st.sampled_from(["x86_64", "aarch64", "s390x", "ppc64le", "riscv64", "sparc", "?"])
ANSWERS = st.lists(domain_documents() | st.none(), max_size=3)


@given(ARCHES, ANSWERS, st.booleans())
def test_traits_are_known_to_os_traits_whatever_the_documents_say(arch, answers, tpm):
    asked = [GuestType(arch, None, "kvm") for _ in answers]
    assert GuestModels("kvm", tpm).model_traits(asked, answers).keys() <= KNOWN


@given(
    st.sampled_from(["dir", "rbd", "logical", "zfs", "odd", ""]),
    st.sampled_from(["bytes", "KiB", "G", "parsec", ""]),
    st.text("0123456789-. ", max_size=30) | st.just("٣"),
    st.sampled_from(["vms", "", "other"]),
)
def test_a_pool_is_read_as_a_size_that_placement_takes_or_not_at_all(kind, unit, size, source):
    text = (
        f"<pool type='{kind}'><capacity unit='{unit}'>{size}</capacity>"
        f"<source><name>{source}</name></source><target><path>/srv</path></target></pool>"
    )
    try:
        pool = storage_pool(text)
    except ValueError:
        return  # such a document is not read
    for images in (
        ImageBackend(),
        ImageBackend("rbd", "vms"),
        ImageBackend("lvm", "vms"),
        ImageBackend("zfs", "vms"),
    ):
        found = backend_pool([pool], images, PurePath("/srv"))
        assert found is None or found.size >= 0
