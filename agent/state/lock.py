"""A lock that allows one process for each state directory.

The lock is on the directory itself: it can be taken on a full disk, and the kernel releases it
however the process ends.
"""

import fcntl
import logging
import os
from pathlib import Path

LOG = logging.getLogger("compute_agent.service")

LOCKS = Path("/proc/locks")


class InUse(Exception):
    """Another process has the lock; the text names the directory and the process."""

    def __init__(self, directory: Path, holder: str) -> None:
        self.what = f"state_path {directory} is in use by another compute-agent{holder}"
        super().__init__(f"{self.what}: stop that process, or set another state_path")


def lock_directory(directory: Path) -> int | None:
    """Lock a directory, which is created; return the descriptor that holds the lock.

    Return ``None`` if the directory can't be created: later writes to it report why.

    :raises InUse: another process has the lock.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        holder = _holder(os.fstat(descriptor).st_ino)
        os.close(descriptor)
        raise InUse(directory, holder) from err
    except OSError as err:
        LOG.warning(
            "%s can't be locked (%s): never run two compute-agents with this state_path",
            directory,
            err.strerror,
        )
    return descriptor


def _holder(inode: int) -> str:
    """Return the process with the lock, for messages; empty if unknown (see proc_locks(5))."""
    try:
        rows = [line.split() for line in LOCKS.read_text().splitlines()]
    except OSError:
        return ""
    holders = [row[4] for row in rows if row[1] == "FLOCK" and row[5].endswith(f":{inode}")]
    return f" (process {holders[0]})" if holders and holders[0].isdigit() else ""
