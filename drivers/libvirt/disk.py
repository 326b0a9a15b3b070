"""Pure: where guests' disks are, and how much room there is."""

from __future__ import annotations

IN_FILES = frozenset({"default", "raw", "flat", "qcow2", "ploop"})
"""Values of ``images_type`` that keep disks as files below ``instances_path``."""


def disk_gb(size: int) -> int:
    """DISK_GB (GiB) of a file system of ``size`` bytes; what is left of a GiB is not counted."""
    return size // 1024**3
