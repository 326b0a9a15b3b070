"""A host as a folder: what the kernel shows of its PCI devices.  ``make_host.py DIRECTORY``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DEVICES = "sys/bus/pci/devices"
PLACE = "sys/devices/pci0000:00"
GPU, NVME, ACCELERATOR, CONSOLE = "0x030200", "0x010802", "0x120000", "0x030000"


def plug_in(
    root: Path, address: str, pci_class: str, vendor: str, product: str, numa: int = -1
) -> Path:
    """The device's folder, linked as the kernel links it."""
    folder = root / PLACE / address
    folder.mkdir(parents=True)
    files = {"class": pci_class, "vendor": f"0x{vendor}", "device": f"0x{product}"}
    for name, value in {**files, "numa_node": numa}.items():
        (folder / name).write_text(f"{value}\n")
    links = root / DEVICES
    links.mkdir(parents=True, exist_ok=True)
    (links / address).symlink_to(os.path.relpath(folder, links))
    return folder


def cut(root: Path, physical: str, *virtual: str, product: str) -> None:
    """Make virtual functions of a physical one."""
    parent = root / PLACE / physical
    for number, address in enumerate(virtual):
        pci_class, vendor = (parent / "class").read_text().strip(), (parent / "vendor").read_text()
        numa = int((parent / "numa_node").read_text())
        folder = plug_in(root, address, pci_class, vendor.strip().removeprefix("0x"), product, numa)
        (folder / "physfn").symlink_to(f"../{physical}")
        (parent / f"virtfn{number}").symlink_to(f"../{address}")


def add_disk(root: Path, address: str, name: str, state: str = "live") -> Path:
    """The namespace of an NVMe controller."""
    controller = root / PLACE / address / "nvme" / name.partition("n1")[0]
    disk = controller / name
    disk.mkdir(parents=True)
    (controller / "state").write_text(f"{state}\n")
    return disk


def make_host(root: Path) -> Path:
    """Two GPUs, an accelerator that is cut into four, and two disks, one of them the host's."""
    (root / "proc").mkdir(parents=True)
    (root / "proc/mounts").write_text("proc /proc proc rw 0 0\n/dev/nvme0n1p1 / ext4 rw 0 0\n")
    plug_in(root, "0000:00:02.0", CONSOLE, "1a03", "2000")
    plug_in(root, "0000:17:00.0", GPU, "10de", "2330", numa=0)
    plug_in(root, "0000:65:00.0", GPU, "10de", "2330", numa=1)
    plug_in(root, "0000:6a:00.0", ACCELERATOR, "8086", "4940", numa=1)
    functions = [f"0000:6a:00.{number}" for number in range(1, 5)]
    cut(root, "0000:6a:00.0", *functions, product="4941")
    plug_in(root, "0000:01:00.0", NVME, "144d", "a80a", numa=0)
    (add_disk(root, "0000:01:00.0", "nvme0n1") / "nvme0n1p1").mkdir()
    (root / PLACE / "0000:01:00.0/nvme/nvme0/nvme0n1/nvme0n1p1/partition").write_text("1\n")
    plug_in(root, "0000:81:00.0", NVME, "144d", "a80a", numa=1)
    add_disk(root, "0000:81:00.0", "nvme1n1")
    return root


if __name__ == "__main__":
    make_host(Path(sys.argv[1]))
