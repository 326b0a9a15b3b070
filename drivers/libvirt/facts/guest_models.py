"""Device models and features for guests (COMPUTE_* traits), from domain capabilities.

Only guests of the host's own architecture with common machine types count, not emulated ones of
other architectures.  Models that libvirt does not list (VIFs, IOMMUs, sound on older versions) come
from tables of what QEMU has for an architecture.  The names of traits come from os-traits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Self
from xml.etree.ElementTree import Element

from drivers.api import DriverContext
from drivers.libvirt.connection.events import CONNECTION
from drivers.libvirt.facts.architecture import (
    GuestType,
    domain_capabilities,
    guest_types,
    traits_with_prefix,
)
from drivers.libvirt.facts.fact import ReportContext, Sources
from drivers.libvirt.tree.reported import HostReport

BUSES = "COMPUTE_STORAGE_BUS_"
VIDEO = "COMPUTE_GRAPHICS_MODEL_"
SOUND = "COMPUTE_SOUND_MODEL_"
VIF = "COMPUTE_NET_VIF_MODEL_"
IOMMU = "COMPUTE_VIOMMU_MODEL_"
TPM = "COMPUTE_SECURITY_TPM_"

LISTED_MODELS = (
    (BUSES, "devices/disk", "bus"),
    (VIDEO, "devices/video", "modelType"),
    (SOUND, "devices/sound", "model"),
)
"""Prefix of the traits, and the section and enum of the document that lists the models."""

X86 = frozenset({"x86_64", "i686"})
PCI_VIFS = frozenset({"virtio", "e1000", "e1000e", "rtl8139", "pcnet", "ne2k_pci"})
PCI_SOUNDS = frozenset({"es1370", "ac97", "ich6", "ich9", "usb"})
PCI_ARCHES = (*X86, "aarch64", "ppc64le", "ppc64", "riscv64", "armv7l", "loongarch64")
X86_IOMMUS = frozenset({"intel", "virtio", "auto"})

Models = Mapping[str, frozenset[str]]
"""Models by architecture."""

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

IGB, VIRTIO_SOUND = f"{VIF}IGB", f"{SOUND}VIRTIO"
NOT_IN_TABLES = frozenset({f"{VIF}SRIOV", IGB, VIRTIO_SOUND})
"""Traits that the tables don't decide: they depend on devices, or on newer versions."""
ADDRESS_SPACES = ("COMPUTE_ADDRESS_SPACE_EMULATED", "COMPUTE_ADDRESS_SPACE_PASSTHROUGH")
STATELESS = "COMPUTE_SECURITY_STATELESS_FIRMWARE"
SECRETS = f"{TPM}SECRET_SECURITY_"
SECRET_KINDS = ("user", "host", "deployment")


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of libvirt and QEMU as numbers: 8007000 is 8.7.0; 0: unknown."""

    libvirt: int = 0
    qemu: int = 0


def read_versions(connection: Any) -> Versions:
    """Return the versions of libvirt and of its hypervisor."""
    return Versions(int(connection.getLibVersion()), int(connection.getVersion()))


@dataclass(frozen=True, slots=True)
class GuestModels:
    """The traits of device models, from domain capabilities and versions.

    ``has_tpm``: whether guests can have an emulated TPM; ``secrets``: Nova's modes of keeping its
    secret.
    """

    virt_type: str
    has_tpm: bool = False
    secrets: frozenset[str] = frozenset(SECRET_KINDS)
    name: ClassVar[str] = "domain capabilities"

    @classmethod
    def from_context(cls, context: DriverContext) -> Self:
        """Return the fact with virt_type and the options of emulated TPMs."""
        group = context.conf.libvirt
        secrets = frozenset(group.supported_tpm_secret_security)
        return cls(group.virt_type, group.swtpm_enabled, secrets)

    def query_host(self, sources: Sources) -> tuple[Sequence[Element | None], Versions | None]:
        """Return the domain capabilities of each guest type (``None``: unknown), and versions
        (``None``: the hypervisor has none or never answered).
        """
        types = guest_types(sources.capabilities, self.virt_type)
        documents = [domain_capabilities(sources, guest_type) for guest_type in types]
        if not types:
            return documents, None
        call = partial(sources.host.call_if_supported, "versions", read_versions, None)
        return documents, sources.fetch_or_default("versions", call, None, CONNECTION)

    def build_report(
        self, answer: tuple[Sequence[Element | None], Versions | None], context: ReportContext
    ) -> HostReport:
        """Return the traits for the host's own architecture."""
        types, (documents, versions) = guest_types(context.capabilities, self.virt_type), answer
        return HostReport(traits=self.model_traits(types, documents, versions))

    def model_traits(
        self,
        types: Sequence[GuestType],
        answers: Sequence[Element | None],
        versions: Versions | None = None,
    ) -> dict[str, bool]:
        """Return for each trait whether guests can have it; unknown ones are left out.

        ``answers`` are the documents of ``types``; if one is ``None``, only tables and versions are
        used.
        """
        if not types:
            return {}
        arch = types[0].arch
        traits = {"COMPUTE_NET_VIRTIO_PACKED": True}
        for prefix, table in ((VIF, VIFS), (SOUND, SOUNDS), (IOMMU, IOMMUS)):
            if arch in table or prefix == IOMMU:
                by_prefix = traits_with_prefix(prefix, table.get(arch, frozenset()))
                traits |= {key: by_prefix[key] for key in by_prefix.keys() - NOT_IN_TABLES}
        if versions is not None and arch in VIFS:
            traits |= _by_version(arch, versions)
        documents = [answer for answer in answers if answer is not None]
        if len(documents) < len(types):
            return traits
        for prefix, section, enum in LISTED_MODELS:
            values = _values(documents, section, enum)
            traits |= {} if values is None else traits_with_prefix(prefix, values)
        return traits | _features(documents, arch) | self._tpm(documents)

    def _tpm(self, documents: list[Element]) -> dict[str, bool]:
        """Return the traits of emulated TPMs; where libvirt lists no versions, swtpm has both."""
        backends = _values(documents, "devices/tpm", "backendModel")
        if backends is None:
            return {}
        enabled = self.has_tpm and "emulator" in backends
        models = _values(documents, "devices/tpm", "model") or frozenset()
        versions = _values(documents, "devices/tpm", "backendVersion") or {"1.2", "2.0"}
        return {
            f"{TPM}1_2": enabled and "1.2" in versions,
            f"{TPM}2_0": enabled and "2.0" in versions,
            f"{TPM}TIS": enabled and "tpm-tis" in models,
            f"{TPM}CRB": enabled and "tpm-crb" in models,
            **{
                f"{SECRETS}{kind.upper()}": enabled and kind in self.secrets
                for kind in SECRET_KINDS
            },
        }


def _by_version(arch: str, versions: Versions) -> dict[str, bool]:
    """Return, for traits that no document lists, whether these versions support them."""
    lib, qemu = versions.libvirt, versions.qemu
    pci = "e1000e" in VIFS.get(arch, frozenset())
    traits = dict.fromkeys(ADDRESS_SPACES, arch in X86 and lib >= 8007000)
    traits[STATELESS] = lib >= 8_006_000
    if qemu:
        traits[IGB] = pci and lib >= 9_003_000 and qemu >= 8_000_000
        traits[VIRTIO_SOUND] = pci and lib >= 10_004_000 and qemu >= 8_002_000
    return traits


def _values(documents: Iterable[Element], section: str, enum: str) -> frozenset[str] | None:
    """Return all values that any document lists; ``None`` if no document says."""
    found = [document.find(section) for document in documents]
    sections = [element for element in found if element is not None]
    supported = [it for it in sections if it.get("supported", "yes") == "yes"]
    enums = [it for element in supported for it in element.findall(f"enum[@name='{enum}']")]
    if not enums and (supported or not sections):
        return None
    texts = (value.text for each in enums for value in each.findall("value"))
    return frozenset(text.strip() for text in texts if text)


def _features(documents: list[Element], arch: str) -> dict[str, bool]:
    """Return the traits of file systems and firmware; QEMU itself has a BIOS for x86."""
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
