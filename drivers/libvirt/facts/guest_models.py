"""Device models and features for guests (COMPUTE_* traits), from domain capabilities.

The host's own architecture decides, over its usual machine types: what only emulated
guests of another one can have is no promise to the host's guests.  What libvirt's
document does not list (VIF models, sound on older versions, IOMMUs) stands in tables
of what QEMU has for an architecture.  os-traits decides which names there are.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self
from xml.etree.ElementTree import Element

import os_traits

from drivers.api import DriverContext
from drivers.libvirt.connection.events import CONNECTION
from drivers.libvirt.documents import read
from drivers.libvirt.facts.architecture import Question, domain_capabilities, questions
from drivers.libvirt.facts.fact import Sources, Subject
from drivers.libvirt.tree.reported import HostReport

BUSES = "COMPUTE_STORAGE_BUS_"
VIDEO = "COMPUTE_GRAPHICS_MODEL_"
SOUND = "COMPUTE_SOUND_MODEL_"
VIF = "COMPUTE_NET_VIF_MODEL_"
IOMMU = "COMPUTE_VIOMMU_MODEL_"
TPM = "COMPUTE_SECURITY_TPM_"

LISTED = (
    (BUSES, "devices/disk", "bus"),
    (VIDEO, "devices/video", "modelType"),
    (SOUND, "devices/sound", "model"),
)
"""Traits by prefix, and where a document has their names: section and enum."""

X86 = frozenset({"x86_64", "i686"})
PCI_VIFS = frozenset({"virtio", "e1000", "e1000e", "rtl8139", "pcnet", "ne2k_pci"})
PCI_SOUNDS = frozenset({"es1370", "ac97", "ich6", "ich9", "usb"})
PCI_ARCHES = (*X86, "aarch64", "ppc64le", "ppc64", "riscv64", "armv7l", "loongarch64")
X86_IOMMUS = frozenset({"intel", "virtio", "auto"})

Models = Mapping[str, frozenset[str]]
"""By architecture."""

VIFS: Models = MappingProxyType(
    {
        **dict.fromkeys(PCI_ARCHES, PCI_VIFS),
        **dict.fromkeys(X86, PCI_VIFS | {"vmxnet3"}),
        **dict.fromkeys(("ppc64le", "ppc64"), PCI_VIFS | {"spapr_vlan"}),
        "s390x": frozenset({"virtio"}),
    }
)
SOUNDS: Models = MappingProxyType(
    {
        **dict.fromkeys(PCI_ARCHES, PCI_SOUNDS),
        **dict.fromkeys(X86, PCI_SOUNDS | {"sb16", "pcspk"}),
        "s390x": frozenset(),
    }
)
IOMMUS: Models = MappingProxyType(
    {**dict.fromkeys(X86, X86_IOMMUS), "aarch64": frozenset({"smmuv3", "virtio", "auto"})}
)

UNSAID = frozenset({"COMPUTE_NET_VIF_MODEL_SRIOV", "COMPUTE_NET_VIF_MODEL_IGB"}) | {
    "COMPUTE_SOUND_MODEL_VIRTIO"
}
"""Not for a table to know: they hang on devices, or on newer versions than others do."""


IGB, VIRTIO_SOUND = f"{VIF}IGB", f"{SOUND}VIRTIO"
ADDRESS_SPACES = ("COMPUTE_ADDRESS_SPACE_EMULATED", "COMPUTE_ADDRESS_SPACE_PASSTHROUGH")
STATELESS = "COMPUTE_SECURITY_STATELESS_FIRMWARE"
SECRETS = f"{TPM}SECRET_SECURITY_"
SECRET_KINDS = ("user", "host", "deployment")


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of libvirt and QEMU as numbers: 8007000 is 8.7.0; 0: unknown."""

    libvirt: int = 0
    qemu: int = 0


@dataclass(frozen=True, slots=True)
class TpmChoice:
    """Whether guests can have an emulated TPM, and who may keep its secrets, by Nova's words."""

    enabled: bool = False
    secrets: frozenset[str] = frozenset(SECRET_KINDS)


@dataclass(frozen=True, slots=True)
class GuestModels:
    """The documents for each question, and the versions that tables hang on."""

    virt_type: str
    tpm: TpmChoice
    name: ClassVar[str] = "domain capabilities"

    @classmethod
    def of(cls, context: DriverContext) -> Self:
        """Return the fact by virt_type and the options of emulated TPMs."""
        group = context.conf.libvirt
        secrets = frozenset(group.supported_tpm_secret_security)
        return cls(group.virt_type, TpmChoice(group.swtpm_enabled, secrets))

    def ask(self, sources: Sources) -> tuple[Sequence[str | None], Versions | None]:
        """A document for each question; what hangs on versions is left alone without them."""
        asked = questions(sources.capabilities, self.virt_type)
        documents = [domain_capabilities(sources, one) for one in asked]
        return documents, _versions(sources) if asked else None

    def judge(
        self, answer: tuple[Sequence[str | None], Versions | None], of: Subject
    ) -> HostReport:
        """Judge by the host's own architecture."""
        asked, (documents, versions) = questions(of.capabilities, self.virt_type), answer
        return HostReport(traits=model_traits(asked, documents, tpm=self.tpm, versions=versions))


def _versions(sources: Sources) -> Versions | None:
    """``None``: this hypervisor has none, or never said."""

    def ask() -> Versions | None:
        return sources.host.ask_if_able(
            "versions", lambda c: Versions(int(c.getLibVersion()), int(c.getVersion())), None
        )

    return sources.read_or("versions", ask, None, until=CONNECTION)


def model_traits(
    asked: Sequence[Question],
    answers: Sequence[str | None],
    *,
    tpm: TpmChoice,
    versions: Versions | None = None,
) -> dict[str, bool]:
    """Whether guests can have each; what can't be told is not in there.

    ``answers`` are documents; while any is missing, only tables are told of; what hangs on
    ``versions`` is not told while those are not.
    """
    if not asked:
        return {}
    arch = asked[0].arch
    traits = _tables(arch) | (
        {} if versions is None or arch not in VIFS else _by_version(arch, versions)
    )
    documents = [read(answer) for answer in answers if answer is not None]
    if len(documents) < len(asked) or any(d.tag != "domainCapabilities" for d in documents):
        return traits
    return traits | _listed(documents) | _features(documents, arch) | _tpm(documents, tpm)


def _tables(arch: str) -> dict[str, bool]:
    traits = {"COMPUTE_NET_VIRTIO_PACKED": True}
    for prefix, table in ((VIF, VIFS), (SOUND, SOUNDS), (IOMMU, IOMMUS)):
        if arch in table or prefix == IOMMU:
            traits |= _told(prefix, table.get(arch, frozenset()))
    return {name: has for name, has in traits.items() if name not in UNSAID}


def _by_version(arch: str, versions: Versions) -> dict[str, bool]:
    """Return, by trait that no document lists, whether the versions have it."""
    lib, qemu = versions.libvirt, versions.qemu
    pci = "e1000e" in VIFS.get(arch, frozenset())
    traits = {
        IGB: pci and lib >= 9_003_000 and qemu >= 8_000_000,
        VIRTIO_SOUND: pci and lib >= 10_004_000 and qemu >= 8_002_000,
        STATELESS: lib >= 8_006_000,
    }
    return traits | dict.fromkeys(ADDRESS_SPACES, arch in X86 and lib >= 8007000)


def _told(prefix: str, offered: Collection[str]) -> dict[str, bool]:
    """Return, by trait with this prefix, whether it is offered."""
    names = {prefix + value.upper().replace("-", "_") for value in offered}  # spapr-vlan
    return {trait: trait in names for trait in os_traits.get_traits(prefix)}


def _values(documents: Iterable[Element], section: str, enum: str) -> frozenset[str] | None:
    """All values that any document lists; ``None`` if none knows of such a section."""
    sections = [one_section for one in documents if (one_section := one.find(section)) is not None]
    if not sections:
        return None
    texts = (
        value.text
        for one_section in sections
        if one_section.get("supported", "yes") == "yes"
        for listed in one_section.findall("enum")
        if listed.get("name") == enum
        for value in listed.findall("value")
    )
    return frozenset(text.strip() for text in texts if text)


def _listed(documents: list[Element]) -> dict[str, bool]:
    """Models that the documents list by name."""
    traits: dict[str, bool] = {}
    for prefix, section, enum in LISTED:
        values = _values(documents, section, enum)
        traits |= {} if values is None else _told(prefix, values)
    return traits


def _features(documents: list[Element], arch: str) -> dict[str, bool]:
    """File systems, and the firmware that libvirt finds; the BIOS of x86 comes with QEMU."""
    traits = {"COMPUTE_FIRMWARE_BIOS": arch in X86}
    drivers = _values(documents, "devices/filesystem", "driverType")
    if drivers is not None:
        traits["COMPUTE_STORAGE_VIRTIO_FS"] = "virtiofs" in drivers
    firmware = _values(documents, "os", "firmware")
    if firmware is not None:
        secure = _values(documents, "os/loader", "secure") or frozenset()
        traits["COMPUTE_FIRMWARE_UEFI"] = "efi" in firmware
        traits["COMPUTE_SECURITY_UEFI_SECURE_BOOT"] = "efi" in firmware and "yes" in secure
    return traits


def _tpm(documents: list[Element], choice: TpmChoice) -> dict[str, bool]:
    """Emulated ones.  libvirt before 8.6 does not list versions: swtpm has both."""
    backends = _values(documents, "devices/tpm", "backendModel")
    if backends is None:
        return {}
    able = choice.enabled and "emulator" in backends
    models = _values(documents, "devices/tpm", "model") or frozenset()
    versions = _values(documents, "devices/tpm", "backendVersion") or {"1.2", "2.0"}
    return {
        f"{TPM}1_2": able and "1.2" in versions,
        f"{TPM}2_0": able and "2.0" in versions,
        f"{TPM}TIS": able and "tpm-tis" in models,
        f"{TPM}CRB": able and "tpm-crb" in models,
        **{f"{SECRETS}{kind.upper()}": able and kind in choice.secrets for kind in SECRET_KINDS},
    }
