"""Pure: PCI devices that guests can have, as providers; Nova's rules and names.

A device or a PF is a provider, ``<node>_0000:81:00.0`` (letters in capitals); the VFs of a PF
are inventory of the PF's.  Who gives a PF to a guest takes its VFs away from the others, so
never both are offered: where both match, the VFs are.  A provider has one class and one set
of traits; the device with the lowest address says which.  What does not fit is left out and
named, and stops nothing else.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import os_traits

from drivers.libvirt.devices.device_spec import DeviceSpec, device_specs
from drivers.libvirt.devices.pci_devices import PciBus, PciDevice
from drivers.libvirt.devices.pools import Pool


@dataclass(frozen=True, slots=True)
class PciSettings:
    """The operator's options; no ``specs``: nothing is reported."""

    specs: tuple[DeviceSpec, ...] = ()
    report_physical_networks: bool = False
    group_devices: bool = False

    @classmethod
    def of(cls, conf: Any) -> Self:
        """Where devices are not reported, the entries are another service's business.

        :raises ValueError: naming the entry that is wrong.
        """
        pci = conf.pci
        specs = device_specs(pci.device_spec) if pci.report_in_placement else ()
        return cls(specs, pci.report_physical_networks, pci.group_devices)


@dataclass(frozen=True, slots=True)
class _Offered:
    device: PciDevice
    spec: DeviceSpec

    @property
    def resource_class(self) -> str:
        made = f"CUSTOM_PCI_{self.device.vendor}_{self.device.product}".upper()
        return self.spec.resource_class or made

    @property
    def traits(self) -> frozenset[str]:
        return self.spec.traits | {os_traits.COMPUTE_MANAGED_PCI_DEVICE}


def pci_pools(
    node: str,
    bus: PciBus,
    settings: PciSettings,
    assigned: Collection[str] = (),
    others: Mapping[str, str] | None = None,
) -> tuple[list[Pool], dict[str, str]]:
    """Return the pools of devices, and a reason for each that is not offered.

    ``assigned`` are the addresses that guests have; ``others`` the addresses that are
    reported otherwise, and as what.
    """
    notes: dict[str, str] = {}
    owners: dict[str, list[_Offered]] = {}
    for one in _matched(bus, settings):
        why = (others or {}).get(one.device.address) or _refusal(one)
        if why:
            notes[_named(one.device)] = why
        elif settings.report_physical_networks or not _is_neutrons(one.spec):
            owners.setdefault(one.device.owner, []).append(one)
    pools = [
        _pool(f"{node}_{owner.upper()}", bus.devices.get(owner), _alike(offered, notes), assigned)
        for owner, offered in owners.items()
    ]
    return pools, notes


def has_remote_managed(bus: PciBus, settings: PciSettings) -> bool:
    """Whether there are VFs that their network card manages, for ports of a network."""
    matched = _matched(bus, settings)
    return any(one.spec.remote_managed and one.device.physical is not None for one in matched)


def _matched(bus: PciBus, settings: PciSettings) -> Iterator[_Offered]:
    for device in bus.devices.values():
        for spec in settings.specs:
            if spec.matches(device, bus.networks):
                yield _Offered(device, spec)
                break


def _is_neutrons(spec: DeviceSpec) -> bool:
    """Guests get these as ports of a network, which are not counted by PCI providers."""
    return bool(spec.physical_network) or spec.remote_managed


def _refusal(one: _Offered) -> str | None:
    if one.device.physical is not None:
        return "one_time_use is for whole devices, not for VFs" if one.spec.one_time_use else None
    if one.spec.remote_managed:
        return "remote_managed is for VFs only"
    if one.spec.devname:
        return "its devname goes with it to a guest: name it by its address"
    return None


def _pool(
    name: str, owner: PciDevice | None, alike: Sequence[_Offered], assigned: Collection[str]
) -> Pool:
    first = alike[0]
    cell = owner.cell if owner is not None else None
    return Pool(
        name,
        first.resource_class,
        len(alike),
        first.traits,
        cell=first.device.cell if cell is None else cell,
        used=first.spec.one_time_use and first.device.address in assigned,
    )


def _alike(offered: Sequence[_Offered], notes: dict[str, str]) -> Sequence[_Offered]:
    """The first, and those that can be counted with it."""
    first, *rest = _exclusive(offered, notes)
    alike = [first]
    for one in rest:
        why = _difference(first, one)
        if why is None:
            alike.append(one)
        else:
            notes[_named(one.device)] = why
    return alike


def _exclusive(offered: Sequence[_Offered], notes: dict[str, str]) -> Sequence[_Offered]:
    """The VFs of a PF where there are any; one entry that names both means them."""
    virtual = [one for one in offered if one.device.physical is not None]
    if virtual and len(virtual) < len(offered):
        (whole,) = (one for one in offered if one.device.physical is None)
        if all(one.spec is not whole.spec for one in virtual):
            notes[_named(whole.device)] = (
                "is not offered together with its VFs: change [pci] device_spec so that it matches"
                " the device or its VFs, not both"
            )
    return virtual or offered


def _difference(first: _Offered, one: _Offered) -> str | None:
    for what, mine, other in (
        ("the class", one.resource_class, first.resource_class),
        ("the traits", ", ".join(sorted(one.traits)), ", ".join(sorted(first.traits))),
    ):
        if mine != other:
            return (
                f"would have {what} {mine}, but {first.device.address} of the same device has"
                f" {other}: give all VFs of a device the same in [pci] device_spec"
            )
    return None


def _named(device: PciDevice) -> str:
    return f"PCI device {device.address}"
