"""What each device is in Placement's words.  Pure: from devices to providers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from host_accelerators.pci import KINDS, Device

KIND_TRAITS = {kind: f"CUSTOM_DEVICE_{kind.upper()}" for kind in KINDS}
NUMA = "CUSTOM_DEVICE_NUMA_"
PREFIXES = ("CUSTOM_DEVICE_",)
"""Traits that begin so are this driver's to set and to take away."""


@dataclass(frozen=True)
class Offer:
    """One provider; ``suffix`` ends its name.  ``inventory`` is as the tree wants it."""

    suffix: str
    inventory: dict[str, dict[str, int]]
    traits: frozenset[str]


def offers(
    devices: Iterable[Device], kinds: Collection[str], exclude: Collection[str]
) -> list[Offer]:
    """For each device that may be given out; in the order of the devices."""
    return [
        Offer(device.address, _inventory(device, exclude), frozenset(_traits(device)))
        for device in devices
        if device.kind in kinds and device.address not in exclude
    ]


def kept(devices: Iterable[Device]) -> dict[str, str]:
    """Why some can't be given out, by address."""
    every = [each for device in devices for each in (device, *device.functions)]
    return {device.address: device.kept for device in every if device.kept is not None}


def _inventory(device: Device, exclude: Collection[str]) -> dict[str, dict[str, int]]:
    """A device, or the functions it is cut into: never both.

    What is kept is reserved: it is still there, and may be free again.
    """
    units = device.functions or (device,)
    inventory: dict[str, dict[str, int]] = {}
    for unit in units:
        if unit.address in exclude:
            continue
        record = inventory.setdefault(resource_class(unit), {"total": 0, "reserved": 0})
        record["total"] += 1
        record["reserved"] += bool(unit.kept or device.kept)
    for record in inventory.values():
        record["max_unit"] = record["total"]
    return inventory


def resource_class(device: Device) -> str:
    """As Nova calls a class of PCI devices, so that its flavors fit."""
    return f"CUSTOM_PCI_{device.vendor}_{device.product}".upper()


def _traits(device: Device) -> Iterator[str]:
    yield KIND_TRAITS[device.kind]
    yield f"CUSTOM_DEVICE_VENDOR_{device.vendor}".upper()
    if device.numa_node is not None:
        yield f"{NUMA}{device.numa_node}"
