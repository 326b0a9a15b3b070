"""The size of a file system and the kind of its disk, from files below a root directory.

The kind of a virtual disk is unknown.  All functions may block, so they run in a thread
(``Host.read_files``).
"""

import os
import re
from contextlib import suppress
from pathlib import Path, PurePath

from drivers.errors import DriverNotReady

VIRTUAL = re.compile(r"/(virtio\d+|vbd-\d+|loop\d+|ram\d+|zram\d+|nbd\d+|rbd\d+)(/|$)")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def file_system_size(path: Path) -> int:
    """Return the size in bytes of the file system of ``path``, or of its nearest existing parent.

    :raises DriverNotReady: the file system can't be read.
    """
    nearest = next(place for place in (path, *path.parents) if place.exists())
    try:
        file_system = os.statvfs(nearest)
    except OSError as err:
        raise DriverNotReady(f"can't read the size of the file system of {path}: {err}") from err
    if not file_system.f_blocks:
        raise DriverNotReady(f"the file system of {path} reports a size of 0 blocks")
    return file_system.f_blocks * file_system.f_frsize


def bytes_of_files(directory: Path, reference: Path) -> int:
    """Return the bytes of the files in a directory.

    0 if it does not exist, or is on another file system than ``reference``; files that are removed
    meanwhile don't count.

    :raises DriverNotReady: the directory can't be read.
    """
    total = 0
    try:
        if directory.stat().st_dev != reference.stat().st_dev:
            return 0
        for entry in os.scandir(directory):
            with suppress(FileNotFoundError):
                total += entry.stat().st_blocks * 512 if entry.is_file() else 0
    except FileNotFoundError:
        return 0
    except OSError as err:
        raise DriverNotReady(f"can't read the size of the files in {directory}: {err}") from err
    return total


def file_system_rotational(root: Path, path: PurePath) -> bool | None:
    """Return whether the disk that holds ``path`` rotates; ``None``: unknown."""
    try:
        text = (root / "proc/self/mountinfo").read_text(errors="replace")
    except OSError:
        return None
    mount = _mount(text.splitlines(), path)
    if mount is None:
        return None
    number, source = mount
    if not number.startswith("0:"):
        return _rotational(root / "sys/dev/block" / number)
    return device_rotational(root, source)


def device_rotational(root: Path, device: str) -> bool | None:
    """Return whether ``/dev/sda`` or ``/dev/sda1`` rotates; ``None``: unknown."""
    if not device.startswith("/dev/"):
        return None
    return _rotational(root / "sys/class/block" / PurePath(device).name)


def _mount(lines: list[str], path: PurePath) -> tuple[str, str] | None:
    """Return device number and source of the last mount that holds ``path``."""
    best: tuple[int, str, str] | None = None
    for line in lines:
        mount_part, _, source_part = line.partition(" - ")
        fields, after_dash = mount_part.split(), source_part.split()
        if len(fields) < 5 or len(after_dash) < 2:
            continue
        point = PurePath(_ESCAPED.sub(lambda escaped: chr(int(escaped[1], 8)), fields[4]))
        depth = len(point.parts)
        if path.is_relative_to(point) and (best is None or depth >= best[0]):
            best = depth, fields[2], after_dash[1]
    return None if best is None else best[1:]


def _rotational(link: Path) -> bool | None:
    """Return the flag ``rotational`` of a block device, or of a partition's disk."""
    try:
        device = link.resolve(strict=True)
        if VIRTUAL.search(device.as_posix()):
            return None
        disk = device if (device / "queue").is_dir() else device.parent
        value = (disk / "queue/rotational").read_text(errors="replace").strip()
    except OSError:  # the kernel's files can't be read
        return None
    return {"0": False, "1": True}.get(value)
