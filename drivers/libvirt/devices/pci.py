"""Pure: PCI devices that guests can have, as providers, by Nova's rules and names.

A device or a PF is a provider, ``<node>_0000:81:00.0`` (letters in capitals); the VFs of a PF are
inventory of the PF's provider.  A guest that gets a PF takes its VFs away from other guests, so
only one kind is offered: where both match, the VFs.  A provider has one class and one set of
traits, those of the device with the lowest address.  A device that does not fit is left out and
named in a note.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import os_traits

from drivers.inventory import record
from drivers.libvirt.devices.device_spec import OPTION, DeviceSpec, device_specs
from drivers.libvirt.devices.pci_devices import PciBus, PciDevice
from drivers.libvirt.tree.reported import ReportedProvider
from reportclient.plain_text import first_few

LARGEST_DOMAIN = 0xFFFF
NO_GROUP = "PCI devices without an IOMMU group"
"""The key of the note on them."""


@dataclass(frozen=True, slots=True)
class PciSettings:
    """The operator's options; without ``specs`` nothing is reported.

    ``is_unused``: ``device_spec`` has devices for Placement that are not to be reported.
    """

    specs: tuple[DeviceSpec, ...] = ()
    report_physical_networks: bool = False
    group_devices: bool = False
    is_unused: bool = False

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        """Return the settings; ``device_spec`` is read only if devices are reported, as it may be
        Nova's.

        :raises ValueError: naming the entry that is wrong.
        """
        pci = conf.pci
        specs = device_specs(pci.device_spec) if pci.report_in_placement else ()
        for_neutron = all("physical_network" in value for value in pci.device_spec)
        is_unused = not (pci.report_in_placement or for_neutron)
        return cls(specs, pci.report_physical_networks, pci.group_devices, is_unused)

    def notes(self, bus: PciBus) -> dict[str, str]:
        """Return a note if ``device_spec`` has no effect, or has entries without a device."""
        if self.is_unused:
            return {OPTION: "is set, but not [pci] report_in_placement: no device is reported"}
        unmatched = [
            spec.text
            for spec in self.specs
            if not any(spec.matches(device, bus.networks) for device in bus.devices.values())
        ]
        return {OPTION: f"no device matches {first_few(unmatched)}"} if unmatched else {}


@dataclass(frozen=True, slots=True)
class _Candidate:
    device: PciDevice
    spec: DeviceSpec

    @property
    def subject(self) -> str:
        """The key of notes on the device."""
        return f"PCI device {self.device.address}"

    @property
    def lacks_iommu_group(self) -> bool:
        """Whether no guest can have the device, as VFIO needs an IOMMU group.

        Neutron's ports of type macvtap, which have VFs, need none.
        """
        device, spec = self.device, self.spec
        may_be_macvtap = device.physical and spec.physical_network and not spec.remote_managed
        return not (device.has_iommu_group or may_be_macvtap)

    @property
    def resource_class(self) -> str:
        default = f"CUSTOM_PCI_{self.device.vendor}_{self.device.product}".upper()
        return self.spec.resource_class or default

    @property
    def traits(self) -> frozenset[str]:
        return self.spec.traits | {os_traits.COMPUTE_MANAGED_PCI_DEVICE}


def pci_name(node: str, owner: str) -> str:
    """Return the name of the provider of a device that is no VF, by its address."""
    return f"{node}_{owner.upper()}"


def pci_pools(
    node: str,
    bus: PciBus,
    settings: PciSettings,
    assigned: Collection[str],
    not_whole: Mapping[str, str],
) -> tuple[list[ReportedProvider], dict[str, str]]:
    """Return the devices, a PF with its VFs, and the reason for each that is not offered.

    ``assigned``: addresses of devices that guests have; ``not_whole``: by address, why divided
    devices can't be assigned whole.
    """
    notes: dict[str, str] = {}
    ungrouped: list[str] = []
    owners: dict[str, list[_Candidate]] = {}
    for candidate in _matched(bus, settings):
        device, spec = candidate.device, candidate.spec
        # Guests get these as ports of a network, not as PCI devices.
        is_for_neutron = bool(spec.physical_network) or spec.remote_managed
        reason = not_whole.get(device.address) or _rejection(candidate)
        if reason:
            notes[candidate.subject] = reason
        elif is_for_neutron and not settings.report_physical_networks:
            continue
        elif candidate.lacks_iommu_group:
            ungrouped.append(device.address)
        else:
            owners.setdefault(device.owner, []).append(candidate)
    if ungrouped:
        notes[NO_GROUP] = (
            f"not offered, as VFIO needs one: {first_few(ungrouped)}; enable the IOMMU in firmware"
            " (VT-d, AMD-Vi) and with the kernel's option intel_iommu=on or amd_iommu=on"
        )
    pools = []
    for owner, candidates in owners.items():
        first, *others = _pf_or_vfs(candidates, notes)
        unlike = {it.subject: why for it in others if (why := _difference(first, it))}
        notes |= unlike
        count = 1 + len(others) - len(unlike)
        pf = bus.devices.get(owner)
        used = first.spec.one_time_use and first.device.address in assigned
        inventory = {first.resource_class: record(count, count if used else None)}
        cell = first.device.cell if pf is None or pf.cell is None else pf.cell
        name = pci_name(node, owner)
        pools.append(ReportedProvider(name, inventory, first.traits, cell=cell))
    return pools, notes


def has_remote_managed(bus: PciBus, settings: PciSettings) -> bool:
    """Return whether there are ``remote_managed`` VFs, which their network card manages."""
    return any(
        candidate.spec.remote_managed and candidate.device.physical is not None
        for candidate in _matched(bus, settings)
    )


def _matched(bus: PciBus, settings: PciSettings) -> Iterator[_Candidate]:
    for device in bus.devices.values():
        for spec in settings.specs:
            if spec.matches(device, bus.networks):
                yield _Candidate(device, spec)
                break


def _rejection(candidate: _Candidate) -> str | None:
    device, spec = candidate.device, candidate.spec
    if int(device.address.partition(":")[0], 16) > LARGEST_DOMAIN:  # as behind Intel's VMD
        return f"QEMU can't give a guest a device of a PCI domain above {LARGEST_DOMAIN:x}"
    if device.physical is not None:
        return "one_time_use is for whole devices, not for VFs" if spec.one_time_use else None
    if spec.remote_managed:
        return "remote_managed is for VFs only"
    if spec.devname:
        return "its network device disappears while a guest has it: use address instead of devname"
    return None


def _pf_or_vfs(candidates: Sequence[_Candidate], notes: dict[str, str]) -> Sequence[_Candidate]:
    """Return the VFs if there are any, else the PF.

    A note names the PF that is left out, unless its own address selects its VFs.
    """
    virtual = [candidate for candidate in candidates if candidate.device.physical is not None]
    if virtual and len(virtual) < len(candidates):
        (pf,) = (candidate for candidate in candidates if candidate.device.physical is None)
        if not (pf.spec.single and virtual[0].spec is pf.spec):
            notes[pf.subject] = (
                "not reported beside its VFs: change [pci] device_spec so that it matches the"
                " device or its VFs, not both"
            )
    return virtual or candidates


def _difference(first: _Candidate, candidate: _Candidate) -> str | None:
    for attribute, own, other in (
        ("the class", candidate.resource_class, first.resource_class),
        ("the traits", ", ".join(sorted(candidate.traits)), ", ".join(sorted(first.traits))),
    ):
        if own != other:
            return (
                f"not reported: {attribute} would be {own}, but {first.device.address} of the same"
                f" device has {other}; [pci] device_spec has to give all VFs of a device the same"
            )
    return None
