"""Whole files of the state directory: replaced at once, durable, and never through a link.

What can't be done is an ``OSError``; what that means is said by who asked.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from pathlib import Path

MODE = 0o644
"""Less the process's umask."""
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read(path: Path) -> bytes:
    """What is in it.  A pipe or a device there is an error, and nothing to wait for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        return file.read()


def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Afterwards the file has this, whatever it was; a crash leaves the old or the new one.

    Not ``durable`` is for what is written again all the time, and worth nothing after a
    power cut.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}")
    scratch.unlink(missing_ok=True)
    _fill(scratch, data, durable=durable)
    _move(scratch, path)
    if durable:
        sync_directory(path.parent)


def create(path: Path, data: bytes) -> None:
    """The same where there is no such file yet; of several who try, one succeeds.

    :raises FileExistsError: somebody else was first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{uuid.uuid4()}")
    _fill(scratch, data, durable=True)
    try:
        os.link(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
    sync_directory(path.parent)


def remove(path: Path) -> None:
    """Afterwards there is no such file."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def aside(path: Path) -> str:
    """Move it out of the way, for somebody to look at; where it is now, to end a clause with."""
    try:
        there = path.replace(path.with_name(f"{path.name}.damaged"))
        sync_directory(path.parent)
    except OSError as err:
        return f", and can't be moved away ({err.strerror})"
    return f", it is now {there}"


def sync_directory(directory: Path) -> None:
    """A power cut must not take a file's name."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fill(scratch: Path, data: bytes, *, durable: bool) -> None:
    descriptor = os.open(scratch, _FRESH, MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(descriptor)
    except OSError:
        _discard(scratch)
        raise


def _move(scratch: Path, path: Path) -> None:
    try:
        scratch.replace(path)
    except OSError:
        _discard(scratch)
        raise


def _discard(scratch: Path) -> None:
    with contextlib.suppress(OSError):
        scratch.unlink(missing_ok=True)
