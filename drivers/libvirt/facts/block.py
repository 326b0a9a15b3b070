"""What kind of disk a file system is on, by the kernel's files below a root.

Nothing is said of virtual disks: a hypervisor's word on them is no word on the disk.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath

VIRTUAL = re.compile(r"/(virtio\d+|vbd-\d+|loop\d+|ram\d+|zram\d+|nbd\d+|rbd\d+)(/|$)")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def file_system_spins(root: Path, path: PurePath) -> bool | None:
    """Whether the disk of the file system that holds ``path`` rotates; ``None``: not known.

    :raises OSError: the kernel's files can't be read.
    """
    mounts = (root / "proc/self/mountinfo").read_text(errors="replace").splitlines()
    found = _mount(mounts, path)
    if found is None:
        return None
    number, source = found
    if not number.startswith("0:"):
        return _spins(root / "sys/dev/block" / number)
    return device_spins(root, source)


def device_spins(root: Path, device: str) -> bool | None:
    """The same of ``/dev/sda`` or ``/dev/sda1``."""
    if not device.startswith("/dev/"):
        return None
    return _spins(root / "sys/class/block" / PurePath(device).name)


def _mount(lines: list[str], path: PurePath) -> tuple[str, str] | None:
    """Device number and source of the mount that holds ``path``; of several the last one."""
    best: tuple[int, str, str] | None = None
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, more = before.split(), after.split()
        if len(fields) < 5 or len(more) < 2:
            continue
        point = PurePath(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[4]))
        depth = len(point.parts)
        if path.is_relative_to(point) and (best is None or depth >= best[0]):
            best = depth, fields[2], more[1]
    return None if best is None else best[1:]


def _spins(link: Path) -> bool | None:
    """A partition has no queue of its own, its disk has."""
    if not link.exists():
        return None
    device = link.resolve()
    if VIRTUAL.search(device.as_posix()):
        return None
    disk = device if (device / "queue").is_dir() else device.parent
    flag = disk / "queue/rotational"
    said = flag.read_text(errors="replace").strip() if flag.exists() else ""
    return {"0": False, "1": True}.get(said)
