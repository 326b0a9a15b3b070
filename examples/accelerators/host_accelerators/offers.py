"""The devices to report: their inventories and traits.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from drivers.api import Device
from host_accelerators.pci import KINDS, PciDevice

KIND_TRAITS = {kind: f"CUSTOM_DEVICE_{kind.upper()}" for kind in KINDS}
NUMA = "CUSTOM_DEVICE_NUMA_"


def offers(
    devices: Iterable[PciDevice], kinds: Collection[str], exclude: Collection[str]
) -> Iterator[Device]:
    """Yield a device to report for each PCI device of these kinds that can be allocated.

    One whose controller is not live is not healthy; one that the host uses is only reserved.
    """
    for device in devices:
        inventory = _inventory(device, exclude)
        if inventory and device.kind in kinds and device.address not in exclude:
            reason = device.kept or ""
            yield Device(
                f"device_{device.address}",
                inventory,
                frozenset(_traits(device)),
                healthy="controller" not in reason,
                reason=reason,
            )


def _inventory(device: PciDevice, exclude: Collection[str]) -> dict[str, dict[str, int]]:
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


def resource_class(device: PciDevice) -> str:
    """Return the resource class, named as in Nova, so that Nova's flavors match."""
    return f"CUSTOM_PCI_{device.vendor}_{device.product}".upper()


def _traits(device: PciDevice) -> Iterator[str]:
    yield KIND_TRAITS[device.kind]
    yield f"CUSTOM_DEVICE_VENDOR_{device.vendor}".upper()
    if device.numa_node is not None:
        yield f"{NUMA}{device.numa_node}"
