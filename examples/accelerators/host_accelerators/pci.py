"""The PCI devices of a host, as the kernel shows them below /sys.

This module does not use Placement.  If a file vanishes while it is read, the device is being
unplugged, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DEVICES = "sys/bus/pci/devices"
KINDS = {"gpu": "0302", "nvme": "0108", "accelerator": "1200", "coprocessor": "0b40"}
"""Kinds, and the first two bytes of their PCI class; 0300 is the host's own display."""


@dataclass(frozen=True)
class PciDevice:
    """A PCI device; ``numa_node`` is ``None`` if it is unknown.

    ``functions`` are its virtual functions, if it has any.
    """

    address: str
    kind: str
    vendor: str
    product: str
    numa_node: int | None
    kept: str | None = None
    """Why it can't be allocated now; ``None`` if it can."""
    functions: tuple[PciDevice, ...] = ()


def read_devices(root: Path) -> list[PciDevice]:
    """Return the physical devices of the known kinds, in the order of their addresses.

    :raises OSError: the kernel's folders can't be read.
    """
    mounts = (root / "proc/mounts").read_text(encoding="utf-8", errors="replace")
    mounted = {line.split()[0] for line in mounts.splitlines() if line.startswith("/dev/")}
    folders = sorted((root / DEVICES).iterdir())
    found = (_device(folder, mounted) for folder in folders if not (folder / "physfn").exists())
    return [device for device in found if device is not None]


def _device(folder: Path, mounted: set[str]) -> PciDevice | None:
    try:
        kind = _kind((folder / "class").read_text(encoding="ascii"))
        if kind is None:
            return None
        return PciDevice(
            address=folder.name,
            kind=kind,
            vendor=_id(folder / "vendor"),
            product=_id(folder / "device"),
            numa_node=_numa_node(folder),
            kept=next(_reasons(folder, mounted), None),
            functions=tuple(_functions(folder, mounted)),
        )
    except FileNotFoundError:
        return None


def _functions(folder: Path, mounted: set[str]) -> Iterator[PciDevice]:
    links = sorted(folder.glob("virtfn*"), key=lambda path: int(path.name.removeprefix("virtfn")))
    for link in links:
        function = _device(link.resolve(), mounted)
        if function is not None:
            yield function


def _kind(text: str) -> str | None:
    code = text.strip().removeprefix("0x")[:4]
    return next((kind for kind, its in KINDS.items() if its == code), None)


def _id(file: Path) -> str:
    return file.read_text(encoding="ascii").strip().removeprefix("0x").lower()


def _numa_node(folder: Path) -> int | None:
    try:
        node = int((folder / "numa_node").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _reasons(folder: Path, mounted: set[str]) -> Iterator[str]:
    """Yield why a device can't be allocated: a defect, or the host uses it itself."""
    for state in folder.glob("nvme/nvme*/state"):
        controller = state.read_text(encoding="ascii").strip()
        if controller != "live":
            yield f"its controller is {controller}"
    for disk in folder.glob("nvme/nvme*/nvme*n*"):
        if any(disk.glob("*/partition")):
            yield f"{disk.name} has partitions"
        if any(disk.glob("holders/*")):
            yield f"{disk.name} is part of another device"
        if f"/dev/{disk.name}" in mounted:
            yield f"{disk.name} is mounted"
