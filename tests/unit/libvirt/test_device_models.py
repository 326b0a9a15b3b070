"""COMPUTE_* traits of what guests can be given, held against os-traits."""

from xml.etree.ElementTree import fromstring

import os_traits
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.period.traits import CAPABILITY_TRAITS
from drivers.libvirt.facts.guest_models import (
    BUSES,
    IGB,
    IOMMU,
    IOMMUS,
    SOUND,
    SOUNDS,
    TPM,
    VIDEO,
    VIF,
    VIFS,
    VIRTIO_SOUND,
    GuestModels,
    GuestType,
    Versions,
    guest_types,
)
from tests.unit.libvirt.fake_binding import DATA
from tests.unit.libvirt.hosts import ARCH_TRAITS

PC, Q35 = ((DATA / f"domain-{name}.xml").read_text() for name in ("pc", "q35"))
ASKED = (GuestType("x86_64", "pc", "kvm"), GuestType("x86_64", "q35", "kvm"))
NEW = Versions(11_000_000, 10_000_000)
NOT_OURS = {
    "COMPUTE_CONFIG_DRIVE_REGENERATION",
    "COMPUTE_EPHEMERAL_ENCRYPTION_LUKSV2",
    "COMPUTE_MANAGED_PCI_DEVICE",
    "COMPUTE_MIGRATE_AUTO_CONVERGE",
    "COMPUTE_MIGRATE_POST_COPY",
    "COMPUTE_NODE",
    "COMPUTE_SHARE_LOCAL_FS",
    "COMPUTE_STATUS_DISABLED",
    "COMPUTE_USB_MODEL_NEC_XHCI",
    "COMPUTE_USB_MODEL_QEMU_XHCI",
    "COMPUTE_VOLUME_ATTACH",
    "COMPUTE_NET_VIF_MODEL_SRIOV",
}
"""What hangs on the compute service's own configuration, or on more than libvirt says."""


def full_document(**enums: str) -> str:
    """Everything that is read, with two values where several are possible."""
    given = {
        "firmware": "bios efi",
        "secure": "yes no",
        "bus": "virtio scsi",
        "video": "virtio none",
        "sound": "ich9 virtio",
        "filesystem": "path virtiofs",
        "memory": "memfd anonymous",
        "tpm": "tpm-tis tpm-crb",
        "backend": "emulator",
        "version": "1.2 2.0",
        **enums,
    }
    parts = {
        key: "".join(f"<value>{v}</value>" for v in text.split()) for key, text in given.items()
    }
    return f"""<domainCapabilities><os><enum name='firmware'>{parts["firmware"]}</enum>
<loader supported='yes'><enum name='secure'>{parts["secure"]}</enum></loader></os>
<memoryBacking supported='yes'><enum name='sourceType'>{parts["memory"]}</enum></memoryBacking>
<devices><disk><enum name='bus'>{parts["bus"]}</enum></disk>
<video supported='yes'><enum name='modelType'>{parts["video"]}</enum></video>
<sound supported='yes'><enum name='model'>{parts["sound"]}</enum></sound>
<filesystem supported='yes'><enum name='driverType'>{parts["filesystem"]}</enum></filesystem>
<tpm supported='yes'><enum name='model'>{parts["tpm"]}</enum>
<enum name='backendModel'>{parts["backend"]}</enum>
<enum name='backendVersion'>{parts["version"]}</enum></tpm></devices></domainCapabilities>"""


def told(
    *answers: str | None, arch: str = "x86_64", tpm: bool = True, versions: Versions | None = NEW
) -> dict[str, bool]:
    asked = tuple(GuestType(arch, f"m{number}", "kvm") for number in range(len(answers)))
    documents = [None if text is None else fromstring(text) for text in answers]
    return GuestModels("kvm", tpm).model_traits(asked, documents, versions)


def those(found: dict[str, bool], prefix: str) -> set[str]:
    return {
        name.removeprefix(prefix) for name, has in found.items() if has and name.startswith(prefix)
    }


def test_every_compute_trait_is_reported_or_listed_as_not_ours():
    by_others = set(CAPABILITY_TRAITS.values()) | ARCH_TRAITS
    ours = set(told(full_document()))
    told_of = {name for name in ours | by_others | NOT_OURS if name.startswith("COMPUTE_")}
    assert set(os_traits.get_traits("COMPUTE_")) == told_of


@pytest.mark.parametrize(
    ("prefix", "table"),
    [(VIF, VIFS), (SOUND, SOUNDS), (IOMMU, IOMMUS)],
    ids=["vif", "sound", "iommu"],
)
def test_all_names_of_the_tables_are_in_os_traits(prefix, table):
    names = {prefix + name.upper() for offered in table.values() for name in offered}
    assert names <= set(os_traits.get_traits(prefix))


def test_this_machines_documents():
    found = GuestModels("kvm", True).model_traits(ASKED, (fromstring(PC), fromstring(Q35)))
    assert those(found, BUSES) == {"FDC", "IDE", "SATA", "SCSI", "USB", "VIRTIO"}
    assert those(found, VIDEO) == {"BOCHS", "CIRRUS", "NONE", "QXL", "VGA", "VIRTIO", "VMVGA"}
    assert found["COMPUTE_FIRMWARE_BIOS"] and not found["COMPUTE_FIRMWARE_UEFI"]
    assert not found["COMPUTE_SECURITY_UEFI_SECURE_BOOT"]
    assert those(found, TPM) == set()  # no emulator is installed
    assert found["COMPUTE_STORAGE_VIRTIO_FS"] and "COMPUTE_MEM_BACKING_FILE" not in found


def test_a_host_with_firmware_and_swtpm():
    found = told(full_document())
    assert found["COMPUTE_FIRMWARE_UEFI"] and found["COMPUTE_SECURITY_UEFI_SECURE_BOOT"]
    secrets = {f"SECRET_SECURITY_{who}" for who in ("USER", "HOST", "DEPLOYMENT")}
    assert those(found, TPM) == {"1_2", "2_0", "TIS", "CRB"} | secrets
    assert those(found, SOUND) == {"ICH9", "VIRTIO"}


NO_VIDEO = full_document().replace("<video supported='yes'", "<video supported='no'")


@pytest.mark.parametrize(
    ("documents", "tpm", "trait", "has"),
    [
        ([full_document(secure="no")], True, "COMPUTE_SECURITY_UEFI_SECURE_BOOT", False),
        ([full_document(firmware="bios")], True, "COMPUTE_SECURITY_UEFI_SECURE_BOOT", False),
        ([full_document()], False, "COMPUTE_SECURITY_TPM_2_0", False),
        ([full_document()], False, "COMPUTE_SECURITY_TPM_TIS", False),
        ([full_document(version="")], True, "COMPUTE_SECURITY_TPM_1_2", True),
        ([full_document(version="")], True, "COMPUTE_SECURITY_TPM_2_0", True),
        ([full_document(bus="ide"), full_document(bus="sata")], True, f"{BUSES}IDE", True),
        ([full_document(bus="ide"), full_document(bus="sata")], True, f"{BUSES}SATA", True),
        ([full_document(bus="ide"), full_document(bus="sata")], True, f"{BUSES}SCSI", False),
        ([NO_VIDEO], True, f"{VIDEO}VIRTIO", False),
        ([full_document(sound="ich9")], True, VIRTIO_SOUND, False),
    ],
)
def test_a_trait_is_what_the_documents_and_the_operator_allow(documents, tpm, trait, has):
    assert told(*documents, tpm=tpm)[trait] is has


def test_what_a_document_does_not_speak_of_is_not_told():
    found = told("<domainCapabilities/>")
    assert not [name for name in found if name.startswith((BUSES, VIDEO, TPM))]
    assert "COMPUTE_FIRMWARE_UEFI" not in found and "COMPUTE_STORAGE_VIRTIO_FS" not in found


def test_a_libvirt_that_lists_no_firmware_says_nothing_of_it():
    old = full_document().replace("'firmware'", "'firm'")
    assert "COMPUTE_FIRMWARE_UEFI" in told(full_document())
    assert "COMPUTE_FIRMWARE_UEFI" not in told(old)
    assert IGB not in told(old, versions=Versions(11_000_000, 0)), "QEMU's version is not known"


def test_a_missing_document_leaves_what_depends_on_it_alone():
    found = told(full_document(), None)
    assert those(found, VIF) and not [name for name in found if name.startswith(BUSES)]


def test_each_architecture_has_its_own_models():
    assert those(told(full_document(), arch="s390x"), VIF) == {"VIRTIO"}
    assert "SPAPR_VLAN" in those(told(full_document(), arch="ppc64le"), VIF)
    assert those(told(full_document(), arch="aarch64"), IOMMU) == {"AUTO", "SMMUV3", "VIRTIO"}
    assert not told(full_document(), arch="aarch64")["COMPUTE_FIRMWARE_BIOS"]
    for arch in ("armv7l", "loongarch64", "riscv64"):
        assert {"VIRTIO", "E1000E"} <= those(told(full_document(), arch=arch), VIF)
    assert not [name for name in told(full_document(), arch="pdp11") if name.startswith(VIF)]


CAPABILITIES = fromstring((DATA / "capabilities-x86_64.xml").read_text())


def test_guest_types_are_those_of_the_hosts_own_architecture():
    (only,) = guest_types(CAPABILITIES, "kvm")
    assert only == GuestType("x86_64", "pc", "kvm")
    assert guest_types(CAPABILITIES, "lxc") == guest_types(fromstring("<x/>"), "kvm") == ()
    without = fromstring((DATA / "capabilities-x86_64.xml").read_text())
    for arch in without.findall("guest/arch"):
        for domain in arch.findall("domain[@type='kvm']"):
            arch.remove(domain)
    assert guest_types(without, "kvm") == ()


def test_only_the_secrets_that_the_operator_lets_guests_have_are_told():
    asked = (GuestType("x86_64", "q35", "kvm"),)
    fact = GuestModels("kvm", True, frozenset({"user"}))
    found = fact.model_traits(asked, [fromstring(full_document())])
    assert {name for name in those(found, TPM) if "SECRET" in name} == {"SECRET_SECURITY_USER"}
    assert found[f"{TPM}SECRET_SECURITY_HOST"] is False


@pytest.mark.parametrize(
    ("trait", "old", "new"),
    [
        (IGB, (9_002_000, 8_000_000), (9_003_000, 8_000_000)),
        (IGB, (9_003_000, 7_002_000), (9_003_000, 8_000_000)),
        (VIRTIO_SOUND, (10_003_000, 8_002_000), (10_004_000, 8_002_000)),
        (VIRTIO_SOUND, (10_004_000, 8_001_000), (10_004_000, 8_002_000)),
        ("COMPUTE_ADDRESS_SPACE_EMULATED", (8_006_000, 9_000_000), (8_007_000, 0)),
        ("COMPUTE_ADDRESS_SPACE_PASSTHROUGH", (8_006_000, 9_000_000), (8_007_000, 0)),
        ("COMPUTE_SECURITY_STATELESS_FIRMWARE", (8_005_000, 9_000_000), (8_006_000, 0)),
    ],
)
def test_what_hangs_on_versions_of_libvirt_and_qemu(trait, old, new):
    document = full_document().replace("<sound", "<noise").replace("</sound", "</noise")
    assert told(document, versions=Versions(*old))[trait] is False
    assert told(document, versions=Versions(*new))[trait] is True
    assert trait not in told(document, versions=None)


WORDS = st.lists(
    st.sampled_from(["virtio", "none", "efi", "emulator", "2.0", "tpm-crb", "yes"])
    | st.text("abcXYZ019-_.", max_size=12),
    max_size=4,
).map(" ".join)
ENUMS = ("firmware", "secure", "bus", "video", "sound", "filesystem", "memory", "backend", "tpm")


@given(
    st.sampled_from(["x86_64", "aarch64", "s390x", "ppc64le", "riscv64", "sparc", "?"]),
    st.lists(st.fixed_dictionaries(dict.fromkeys((*ENUMS, "version"), WORDS)), max_size=3),
    st.sampled_from(["yes", "no", "perhaps"]),
    st.booleans(),
)
def test_traits_are_known_to_os_traits_whatever_the_documents_say(arch, documents, word, tpm):
    texts = [
        full_document(**one).replace("supported='yes'", f"supported='{word}'") for one in documents
    ]
    found = told(*texts, "<domainCapabilities/>", arch=arch, tpm=tpm)
    assert found.keys() <= set(os_traits.get_traits())
