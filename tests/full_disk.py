"""A disk that is full, for whoever writes to it."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock


def no_space(*_: int) -> None:
    """In the place of ``os.fsync`` and the like."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def full_disk() -> Iterator[None]:
    """Nothing can be brought to disk in the block."""
    with mock.patch("os.fsync", no_space):
        yield
