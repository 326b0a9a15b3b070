"""Whole files of the state directory: replaced at once, durable, and never through a link.

What can't be done is an ``OSError``; what that means is said by who asked.
"""

import contextlib
import errno
import os
import pwd
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

MODE = 0o644
"""Less the process's umask."""
_REFUSED = {errno.EACCES, errno.EPERM}
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def read(path: Path) -> bytes:
    """Return the content of a file.  A pipe or a device is an error; nothing waits for it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        return file.read()


def describe_error(err: OSError) -> str:
    """Return an OSError's reason; for a file of another user also its owner and the next step."""
    text = err.strerror or str(err)
    if err.errno not in _REFUSED or not isinstance(err.filename, str | os.PathLike):
        return text
    path = Path(err.filename)
    for there in (path, *path.parents):
        with contextlib.suppress(OSError):
            owner, us = there.stat().st_uid, os.geteuid()
            if owner == us:
                return text
            return (
                f"{text}: {there} belongs to {_user(owner)}, and this process runs as "
                f"{_user(us)} (run it as {_user(owner)}, or chown -R {_user(us)} {there})"
            )
    return text


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def replace(path: Path, data: bytes, *, durable: bool = True, mode: int | None = None) -> None:
    """Afterwards the file has this, whatever it was; a crash leaves the old or the new one.

    Not ``durable`` is for what is written again all the time, and worth nothing after a
    power cut; ``mode`` is for who reads it whatever the umask.
    """
    scratch = path.with_name(f".{path.name}")
    with _filled(scratch, data, durable=durable):
        if mode is not None:
            scratch.chmod(mode)
        scratch.replace(path)


def create(path: Path, data: bytes) -> None:
    """The same where there is no such file yet; of several who try, one succeeds.

    :raises FileExistsError: somebody else was first.
    """
    scratch = path.with_name(f".{path.name}.{uuid.uuid4()}")
    with _filled(scratch, data, durable=True):
        os.link(scratch, path)


def open_file(path: Path, flags: int) -> int:
    """A descriptor of a file that may be made; see :func:`give_to_owner`."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, MODE)
    give_to_owner(path)
    return descriptor


def give_to_owner(path: Path) -> None:
    """Give a file that root made to the owner of its directory: commands are often root's, and the
    agent, which has to write it from then on, is not.
    """
    if os.geteuid() != 0:
        return
    with contextlib.suppress(OSError):
        owner, there = path.parent.stat(), path.lstat()
        made = stat.S_ISREG(there.st_mode) and there.st_nlink == 1  # not led to somebody's file
        if made and there.st_uid == 0 and owner.st_uid != 0:
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


_OURS = (".journal", ".json", ".sqlite", "compute_id", "driver-calls")
"""How the names of the agent's files in its state directory end."""


def unusable_files(directory: Path) -> list[str]:
    """Say of each of the agent's files that something else is in its place, or that it is another
    user's, who lets nobody write.
    """
    problems = []
    with contextlib.suppress(OSError):
        for path in sorted(directory.iterdir()):
            if not path.name.endswith(_OURS):
                continue
            if not stat.S_ISREG(path.lstat().st_mode):
                problems.append(f"{path} is no regular file")
            elif not os.access(path, os.R_OK | os.W_OK):
                problems.append(f"{path} can't be read and written by {_user(os.geteuid())}")
    return problems


def remove(path: Path) -> None:
    """Afterwards there is no such file."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def set_aside(path: Path) -> str:
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


@contextlib.contextmanager
def _filled(scratch: Path, data: bytes, *, durable: bool) -> Iterator[None]:
    """A file that is given its name within, and is gone in any case afterwards."""
    scratch.parent.mkdir(parents=True, exist_ok=True)
    scratch.unlink(missing_ok=True)
    try:
        with os.fdopen(open_file(scratch, _FRESH), "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        yield
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
    if durable:
        sync_directory(scratch.parent)
