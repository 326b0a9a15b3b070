"""Locks: one process for each state directory, and one at a time that changes a file of it.

They are on the directory and on the file themselves: they can be taken on a full disk.  The kernel
releases locks however the process ends.
"""

import errno
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agent.state import files

LOG = logging.getLogger("compute_agent.service")

LOCKS = Path("/proc/locks")
LOOK_EVERY = 0.02
"""Seconds between two attempts to get the lock of a file."""


class InUse(Exception):
    """Another process has the lock; the text names the directory and the process."""

    def __init__(self, directory: Path) -> None:
        pid = holder(directory)
        process = f" (process {pid})" if pid else ""
        self.what = f"state_path {directory} is in use by another compute-agent{process}"
        super().__init__(f"{self.what}: stop that process, or set another state_path")


@dataclass(slots=True)
class StateDirectory:
    """The locked state directory of a running agent; somebody may remove, rename or replace it."""

    path: Path
    problem: str = ""
    """Empty while the directory is there."""
    _descriptor: int | None = None
    """It holds the lock; ``None`` if the directory could not be created: writes report why."""

    @classmethod
    def locked(cls, path: Path) -> "StateDirectory":
        """Return the directory, created and locked if possible.

        :raises InUse: another process has the lock.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return cls(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            os.close(descriptor)
            raise InUse(path) from err
        except OSError as err:
            text = "%s can't be locked (%s): never run two compute-agents with this state_path"
            LOG.warning(text, path, err.strerror)
        return cls(path, _descriptor=descriptor)

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def check(self) -> None:
        """Note, and log once, that the directory was removed, renamed or replaced."""
        before, self.problem = self.problem, ""
        if self._descriptor is None:
            return
        with suppress(OSError):
            if os.path.samestat(self.path.stat(), os.fstat(self._descriptor)):
                if before:
                    LOG.info("resolved: %s", before)
                return
        self.problem = (
            f"state_path {self.path} was removed, renamed or replaced: nothing is saved for the "
            "next start; stop compute-agent, put the directory back if it still exists, start "
            "compute-agent"
        )
        if not before:
            LOG.warning("%s", self.problem)


@contextmanager
def lock_file(path: Path, within: float) -> Iterator[None]:
    """Hold the lock of a file within this context; its holder may replace the file once.

    ``within``: seconds to wait for another process.

    :raises OSError: the file can't be opened, or another process holds the lock for longer.
    """
    give_up = time.monotonic() + within
    while True:
        with os.fdopen(files.open_file(path, os.O_RDONLY)) as file:
            is_locked = False
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Its holder may have replaced the file before this process got the lock.
                is_locked = os.path.samestat(os.fstat(file.fileno()), path.stat())
            if is_locked:
                yield
                return
        if time.monotonic() > give_up:
            text = f"is locked by another process for over {within:g} s"
            raise OSError(errno.EWOULDBLOCK, text, str(path))
        time.sleep(LOOK_EVERY)


def holder(path: Path) -> int | None:
    """Return the pid of the process with the lock of a directory or file (see proc_locks(5)).

    0 for a process that is not visible here, as that of a container; ``None`` if there is none.
    """
    try:
        inode = path.stat().st_ino
        rows = [line.split() for line in LOCKS.read_text().splitlines()]
    except OSError:
        return None
    holders = [row[4] for row in rows if row[1] == "FLOCK" and row[5].endswith(f":{inode}")]
    return next((max(0, int(pid)) for pid in holders if pid.lstrip("-").isdigit()), None)
