"""Pure: the host's memory."""

from __future__ import annotations


def memory_mb(kib: int) -> int:
    """MEMORY_MB (MiB) of a host with ``kib`` KiB; what is left of a MiB is not counted."""
    return kib // 1024
