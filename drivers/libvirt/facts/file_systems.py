"""How large a file system is, and what kind of disk it is on, by the kernel's files below a root.

Nothing is said of virtual disks: a hypervisor's word on them is no word on the disk.  All of
it may block, so it is asked in a thread (``Host.on_files``).
"""

import os
import re
from pathlib import Path, PurePath

from drivers.errors import DriverNotReady

VIRTUAL = re.compile(r"/(virtio\d+|vbd-\d+|loop\d+|ram\d+|zram\d+|nbd\d+|rbd\d+)(/|$)")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def file_system_size(path: Path) -> int:
    """:raises DriverNotReady: the file system can't be read."""
    nearest = next(place for place in (path, *path.parents) if place.exists())
    try:
        file_system = os.statvfs(nearest)
    except OSError as err:
        raise DriverNotReady(f"no size of the file system of {path}: {err}") from err
    if not file_system.f_blocks:
        raise DriverNotReady(f"the file system of {path} says that it has no blocks at all")
    return file_system.f_blocks * file_system.f_frsize


def bytes_of_files(directory: Path, place: Path) -> int:
    """Return the bytes of the files in a directory, if it is on the disk of ``place``.

    0 where it is on another one, or is not there; what goes meanwhile is not counted.

    :raises DriverNotReady: it can't be read.
    """
    try:
        if directory.stat().st_dev != place.stat().st_dev:
            return 0
        files = [entry.stat() for entry in os.scandir(directory) if entry.is_file()]
    except FileNotFoundError:
        return 0
    except OSError as err:
        raise DriverNotReady(f"no size of the files in {directory}: {err}") from err
    return sum(one.st_blocks * 512 for one in files)


def file_system_spins(root: Path, path: PurePath) -> bool | None:
    """Whether the disk of the file system that holds ``path`` rotates; ``None``: not known."""
    try:
        text = (root / "proc/self/mountinfo").read_text(errors="replace")
    except OSError:
        return None
    mount = _mount(text.splitlines(), path)
    if mount is None:
        return None
    number, source = mount
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
        point = PurePath(_ESCAPED.sub(lambda escaped: chr(int(escaped[1], 8)), fields[4]))
        depth = len(point.parts)
        if path.is_relative_to(point) and (best is None or depth >= best[0]):
            best = depth, fields[2], more[1]
    return None if best is None else best[1:]


def _spins(link: Path) -> bool | None:
    """A partition has no queue of its own, its disk has."""
    try:
        device = link.resolve(strict=True)
        if VIRTUAL.search(device.as_posix()):
            return None
        disk = device if (device / "queue").is_dir() else device.parent
        said = (disk / "queue/rotational").read_text(errors="replace").strip()
    except OSError:  # the kernel's files are not to be had
        return None
    return {"0": False, "1": True}.get(said)
