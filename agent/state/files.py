"""Files of the state directory: replaced atomically, synced, never through a link.

Each is a regular file of the directory's owner, or is refused: commands are often run by root, and
that owner, whose service may have been taken over, must not lead root to another file.

All functions and methods raise ``OSError``, which the caller explains to the operator.
"""

import contextlib
import errno
import fcntl
import os
import pwd
import stat
import sys
from collections.abc import Callable
from pathlib import Path

MODE = 0o644
"""The mode of new files, less the umask."""
_REFUSED = {errno.EACCES, errno.EPERM}
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_GET_GENERATION = 0x80087601
"""FS_IOC_GETVERSION of linux/fs.h."""
_ALWAYS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read(path: Path) -> bytes:
    """Return the content of a file; see :func:`open_file`."""
    return read_with_identity(path)[0]


def read_with_identity(path: Path) -> tuple[bytes, list[int]]:
    """Return the content of a file, and its :func:`identity`."""
    with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
        return file.read(), identity(file.fileno())


def identity(descriptor: int) -> list[int]:
    """Return the inode of a file, with the inode's own generation.

    A copy has another inode, or one that was used before and has a new generation.  Not every
    file system has generations; then it is 0.
    """
    generation = bytearray(8)
    with contextlib.suppress(OSError):
        fcntl.ioctl(descriptor, _GET_GENERATION, generation)
    return [os.fstat(descriptor).st_ino, int.from_bytes(generation, sys.byteorder)]


def read_anywhere(path: Path) -> bytes:
    """Return the content of a regular file that is no part of the state; links are followed."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        _require_regular(os.fstat(file.fileno()).st_mode, path)
        return file.read()


def describe_error(err: OSError) -> str:
    """Return an error's reason; for a file of another user also its owner and the next step."""
    text = err.strerror or str(err)
    if err.errno not in _REFUSED or not isinstance(err.filename, str | os.PathLike):
        return text
    path = Path(err.filename)
    for existing in (path, *path.parents):
        with contextlib.suppress(OSError):
            owner, us = existing.stat().st_uid, os.geteuid()
            if owner == us:
                return text
            return (
                f"{text}: {existing} belongs to {_user(owner)}, and this process runs as "
                f"{_user(us)} (run it as {_user(owner)}, or chown -R {_user(us)} {existing})"
            )
    return text


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


Content = bytes | Callable[[list[int]], bytes]
"""The content of a new file, or a function of the file's :func:`identity` that returns it."""


def replace(path: Path, data: Content, *, durable: bool = True, mode: int | None = None) -> None:
    """Replace a file atomically: after a crash it has the old or the new content.

    Without ``durable`` it is not synced to disk: for files that are written again all the time.
    ``mode`` overrides the umask.
    """
    scratch = path.with_name(f".{path.name}")
    scratch.unlink(missing_ok=True)
    try:
        with os.fdopen(open_file(scratch, _FRESH), "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data if isinstance(data, bytes) else data(identity(file.fileno())))
            file.flush()
            if durable:
                os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


def open_file(path: Path, flags: int) -> int:
    """Open or create a regular file, and return its descriptor; no open blocks.

    ``flags`` has ``O_EXCL`` with ``O_CREAT``.  What root creates is given to the owner of the
    directory, since the agent that writes it later is not root; other files of that directory root
    opens only if they have the same owner.
    """
    try:
        descriptor = os.open(path, flags | _ALWAYS, MODE)
    except OSError as err:
        if err.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "is a symbolic link", str(path)) from err
    try:
        file = os.fstat(descriptor)
        _require_regular(file.st_mode, path)
        if os.geteuid() == 0:
            _require_owner(descriptor, file.st_uid, path, created=bool(flags & os.O_EXCL))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file", str(path))


def _require_owner(descriptor: int, user: int, path: Path, *, created: bool) -> None:
    owner = path.parent.stat()
    if created and owner.st_uid != 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    elif user != owner.st_uid:  # another name of a file elsewhere
        text = f"belongs to {_user(user)}, and its directory to {_user(owner.st_uid)}"
        raise OSError(errno.EINVAL, text, str(path))


def remove(path: Path) -> None:
    """Remove a file, if it exists."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def move_damaged(path: Path) -> str:
    """Rename a damaged file to ``NAME.damaged``; return what became of it, to end a clause with."""
    try:
        target = path.replace(path.with_name(f"{path.name}.damaged"))
        sync_directory(path.parent)
    except OSError as err:
        return f", and can't be moved away ({err.strerror})"
    return f", it is now {target}"


def sync_directory(directory: Path) -> None:
    """Sync a directory, so that a power cut does not lose a file's name."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
