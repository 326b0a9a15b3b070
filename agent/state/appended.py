"""A file that only grows: what was appended is on disk, or was never there."""

import contextlib
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.state import files

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW


@dataclass(slots=True, weakref_slot=True)
class AppendOnlyFile:
    """Open at its end, for as long as somebody holds it.  Everything here raises ``OSError``."""

    path: Path
    size: int
    _descriptor: int
    _broken: bool = False
    _finalizer: Callable[[], object] | None = None

    @classmethod
    def open_at(cls, path: Path, good: int) -> "AppendOnlyFile":
        """Made if there is none; what comes after its ``good`` bytes is cut off."""
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        opened = cls(path, good, files.open_file(path, _FLAGS))
        opened._finalizer = weakref.finalize(opened, _closed, opened._descriptor)
        try:
            os.ftruncate(opened._descriptor, good)
            if is_new:
                files.sync_directory(path.parent)
        except OSError:
            opened.close()
            raise
        return opened

    def append(self, data: bytes) -> None:
        """On disk when this returns; else the file is as it was."""
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written:], self.size + written)
            os.fsync(self._descriptor)
        except OSError:
            self._take_back()
            raise
        self.size += len(data)

    def is_intact(self) -> bool:
        """Whether the path still leads to this file, and all that was appended is in it."""
        try:
            there, own = self.path.stat(), os.fstat(self._descriptor)
        except OSError:
            return False
        return not self._broken and (there.st_ino, there.st_size) == (own.st_ino, self.size)

    def close(self) -> None:
        """Let go of it."""
        if self._finalizer is not None:
            self._finalizer()

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            self._broken = True


def _closed(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.close(descriptor)
