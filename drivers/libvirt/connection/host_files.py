"""What this host's file system tells; all of it may block, so Host asks in a thread."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from drivers.errors import DriverNotReady


def file_system_size(path: Path) -> int:
    """:raises DriverNotReady: the file system can't be read."""
    nearest = next(place for place in (path, *path.parents) if place.exists())
    try:
        found = os.statvfs(nearest)
    except OSError as err:
        raise DriverNotReady(f"no size of the file system of {path}: {err}") from err
    if not found.f_blocks:
        raise DriverNotReady(f"the file system of {path} says that it has no blocks at all")
    return found.f_blocks * found.f_frsize


def bytes_of_files(directory: Path, beside: Path) -> int:
    """What the files in a directory take of the disk that ``beside`` is on.

    0 where it is on another one, or is not there; what goes while it is looked at is not
    counted.

    :raises DriverNotReady: it can't be read.
    """
    try:
        if directory.stat().st_dev != beside.stat().st_dev:
            return 0
        found = [entry.stat() for entry in os.scandir(directory) if entry.is_file()]
    except FileNotFoundError:
        return 0
    except OSError as err:
        raise DriverNotReady(f"no size of the files in {directory}: {err}") from err
    return sum(one.st_blocks * 512 for one in found)


def namespace_names(devices: Path) -> frozenset[str]:
    """:raises DriverNotReady: they are there and can't be read."""
    try:
        texts = [file.read_text(errors="replace") for file in devices.glob("namespace*/alt_name")]
    except OSError as err:
        raise DriverNotReady(f"no names of persistent memory namespaces: {err}") from err
    return frozenset(name for text in texts if (name := text.strip()))


def cells_of_cpus(system: Path, cpus: Iterable[int]) -> dict[int, int]:
    """NUMA cells of these CPUs, as far as the kernel says; it does of offline ones, too.

    :raises DriverNotReady: they are there and can't be read.
    """
    try:
        links = [(n, link.name) for n in cpus for link in (system / f"cpu{n}").glob("node*")]
    except OSError as err:
        raise DriverNotReady(f"no NUMA cells of CPUs: {err}") from err
    cells = {cpu: name.removeprefix("node") for cpu, name in links}
    return {cpu: int(number) for cpu, number in cells.items() if number.isdecimal()}


def switch_of(file: Path) -> bool | None:
    """Kernels write Y or 1; what can't be read is not known."""
    try:
        said = file.read_text(errors="replace").strip().upper()
    except OSError:
        return None
    return said not in {"N", "0"} if said else None


def capacity_of(file: Path, resource: str) -> int | None:
    """A line each: ``tdx 31``; what is not there, or can't be read, is not known."""
    try:
        lines = [line.split() for line in file.read_text(errors="replace").splitlines()]
    except OSError:
        return None
    found = [words[1] for words in lines if len(words) == 2 and words[0] == resource]
    return int(found[0]) if found and found[0].isascii() and found[0].isdigit() else None
