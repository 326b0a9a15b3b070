"""A disk that is full, for whoever writes to it."""

from __future__ import annotations

import errno
import os


def no_space(*_: int) -> None:
    """In the place of ``os.fsync`` and the like."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
