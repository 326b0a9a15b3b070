"""Inventories and traits of devices.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from host_accelerators.pci import KINDS, Device

KIND_TRAITS = {kind: f"CUSTOM_DEVICE_{kind.upper()}" for kind in KINDS}
NUMA = "CUSTOM_DEVICE_NUMA_"
PREFIXES = ("CUSTOM_DEVICE_",)
"""This driver sets and removes the traits with these prefixes."""


@dataclass(frozen=True)
class Offer:
    """A provider to report; its name ends with ``suffix``."""

    suffix: str
    inventory: dict[str, dict[str, int]]
    traits: frozenset[str]


def offers(
    devices: Iterable[Device], kinds: Collection[str], exclude: Collection[str]
) -> list[Offer]:
    """Return a provider for each device of these kinds, in the order of the devices."""
    return [
        Offer(device.address, _inventory(device, exclude), frozenset(_traits(device)))
        for device in devices
        if device.kind in kinds and device.address not in exclude
    ]


def kept(devices: Iterable[Device]) -> dict[str, str]:
    """Return ``{address: reason}`` for the devices that can't be allocated now."""
    every = [each for device in devices for each in (device, *device.functions)]
    return {device.address: device.kept for device in every if device.kept is not None}


def _inventory(device: Device, exclude: Collection[str]) -> dict[str, dict[str, int]]:
    """Return the inventory of a device: of its virtual functions if it has any, else of itself.

    A device that can't be allocated now is reserved: it still exists, and may be free later.
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
    """Return the resource class, named as in Nova, so that Nova's flavors match."""
    return f"CUSTOM_PCI_{device.vendor}_{device.product}".upper()


def _traits(device: Device) -> Iterator[str]:
    yield KIND_TRAITS[device.kind]
    yield f"CUSTOM_DEVICE_VENDOR_{device.vendor}".upper()
    if device.numa_node is not None:
        yield f"{NUMA}{device.numa_node}"
