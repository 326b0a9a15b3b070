"""The agents' disks: real files in memory, with steps at which one fills or a process ends.

Only ``agent/state`` writes below a state directory.  Its two modules that open files find
this in the place of ``os``, and the directory is a path that counts steps as well.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path, PosixPath
from typing import Any, ClassVar

from agent.state import appended, files
from tests.world.scheduler import Scheduler

_WRITING = os.O_WRONLY | os.O_RDWR


class Os:
    """``os``, with a step before whatever touches the disk."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, *rest: int) -> int:
        self.step(path, writes=bool(flags & _WRITING))
        return os.open(path, flags, *rest)

    def fsync(self, _: int) -> None:
        """What is written here outlives the process, and there is nothing to wait for."""
        self.step("a file", writes=True)

    def link(self, source: Any, target: Any) -> None:
        self.step(target, writes=True)
        os.link(source, target)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        """A disk that is full takes the half of it first, as real ones may."""
        process = self._scheduler.owner
        if process is not None and process.machine.disk_fault and len(data) > 1:
            return os.pwrite(descriptor, data[: len(data) // 2], offset)
        self.step("a file", writes=True)
        return os.pwrite(descriptor, data, offset)

    def step(self, what: Any, *, writes: bool) -> None:
        process = self._scheduler.owner
        if process is None:
            return
        process.step()
        fault = process.machine.disk_fault
        if writes and fault:
            process.met_bad_disk = True
            raise OSError(fault, os.strerror(fault), str(what))


class StatePath(PosixPath):
    """A state directory, and whatever is below it."""

    disk: ClassVar[Os]

    def replace(self, target: Any) -> Path:
        self.disk.step(target, writes=True)
        return super().replace(target)

    def touch(self, *args: Any, **named: Any) -> None:
        self.disk.step(self, writes=not self.exists())
        super().touch(*args, **named)

    def unlink(self, missing_ok: bool = False) -> None:
        self.disk.step(self, writes=False)
        super().unlink(missing_ok)


@contextlib.contextmanager
def disks(scheduler: Scheduler) -> Iterator[None]:
    """Within, the agents' disks are these."""
    before = vars(files)["os"], vars(appended)["os"]
    StatePath.disk = Os(scheduler)
    vars(files)["os"] = vars(appended)["os"] = StatePath.disk
    try:
        yield
    finally:
        vars(files)["os"], vars(appended)["os"] = before


DISK_FAULTS = {
    "is full": errno.ENOSPC,
    "is read-only": errno.EROFS,
    "fails": errno.EIO,
}
