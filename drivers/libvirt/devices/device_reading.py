"""DeviceReader: what the host tells about its devices.  Only what the options need is asked."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from drivers.libvirt import documents
from drivers.libvirt.connection.events import CONNECTION, DEVICES, GUESTS
from drivers.libvirt.connection.host import Host
from drivers.libvirt.connection.listed import LastRead, Listed
from drivers.libvirt.devices.devices import Devices
from drivers.libvirt.devices.encryption import SEV, SEV_ES, SEV_SNP, TDX, Encryption
from drivers.libvirt.devices.pci_devices import assigned_addresses
from drivers.libvirt.facts.cpu import host_cpu
from drivers.libvirt.facts.device_models import questions
from drivers.libvirt.facts.guest_types import not_run
from drivers.libvirt.facts.sources import Sources
from drivers.libvirt.settings import LibvirtSettings

SWITCHES = {
    SEV: ("kvm_amd", "sev"),
    SEV_ES: ("kvm_amd", "sev_es"),
    SEV_SNP: ("kvm_amd", "sev_snp"),
    TDX: ("kvm_intel", "tdx"),
}
"""Where the kernel has each technique switched on or off."""

Q35 = "q35"


class DeviceReader:
    """A device that can't be read is the one that it was, as long as it is listed."""

    def __init__(self, host: Host, settings: LibvirtSettings, sources: Sources) -> None:
        self._host = host
        self._settings = settings
        self._sources = sources
        self._devices = LastRead()
        self._guests = LastRead()

    def read(self, capabilities: Element) -> Devices:
        """Everything, for a host with this capabilities document."""
        kinds = self._settings.devices.kinds()
        found: Listed | None = Listed()
        if kinds:
            listed = self._sources.read_or(
                DEVICES, lambda: self._host.node_devices(kinds), None, until=DEVICES
            )
            if listed is not None and listed.unread:
                self._sources.ask_again(DEVICES)
            found = None if listed is None else self._devices.filled(listed)
        guests = self._guests_that_matter()
        return Devices(
            None if found is None else tuple(map(documents.read, found.documents.values())),
            {**({} if found is None else found.notes("node device")), **guests.notes("guest")},
            assigned_addresses(guests.documents.values()),
            self._encryption(capabilities),
            all_read=found is None or found.unread.keys() <= found.documents.keys(),
        )

    def _guests_that_matter(self) -> Listed:
        """Those whose devices are not to be given again."""
        if not self._settings.devices.pci.asks_who_uses:
            return Listed()
        found = self._sources.read_or(GUESTS, self._host.guests, Listed(), until=GUESTS)
        if found.unread:
            self._sources.ask_again(GUESTS)
        return self._guests.filled(found)

    def _encryption(self, capabilities: Element) -> Encryption:
        """Only KVM guests on x86 can have it; TDX only those of machine type q35."""
        arch = host_cpu(capabilities).arch
        if arch is None:
            return Encryption(None)
        if arch != "x86_64" or self._settings.cpu.virt_type != "kvm":
            return Encryption(documents.read(None))
        if not_run(capabilities, "kvm"):
            return Encryption(None)
        name = "memory encryption"
        machines = [one.machine for one in questions(capabilities, "kvm")]
        machine = Q35 if Q35 in machines else None

        def document() -> str | None:
            return self._host.domain_capabilities(arch, "kvm", machine)

        text = self._sources.read_or(name, document, None, until=CONNECTION)
        if text is None:
            self._sources.ask_again(name)
        switches = self._sources.read_or("kernel modules", self._switches, {})
        off = frozenset(name for name, on in switches.items() if on is False)
        on = frozenset(name for name, on in switches.items() if on)
        keys = self._sources.read_or("keys of TDX", lambda: self._host.misc_capacity("tdx"), None)
        asked = {name, "kernel modules", "keys of TDX"}
        told = not asked & self._sources.never_answered()
        return Encryption(documents.read(text) if text else None, off, on, keys, told)

    def _switches(self) -> dict[str, bool | None]:
        return {name: self._host.kernel_switch(*place) for name, place in SWITCHES.items()}
