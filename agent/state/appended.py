"""A file that is only appended to: an append is on disk as a whole, or not at all."""

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
    """An open file; it is closed with the object.  All methods raise ``OSError``."""

    path: Path
    size: int
    _descriptor: int
    _broken: bool = False
    _finalizer: Callable[[], object] | None = None

    @classmethod
    def open_at(cls, path: Path, good: int) -> "AppendOnlyFile":
        """Open or create a file, and cut off all after its first ``good`` bytes."""
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        opened = cls(path, good, files.open_file(path, _FLAGS))
        opened._finalizer = weakref.finalize(opened, _close_quietly, opened._descriptor)
        try:
            os.ftruncate(opened._descriptor, good)
            if is_new:
                files.sync_directory(path.parent)
        except OSError:
            opened.close()
            raise
        return opened

    def append(self, data: bytes) -> None:
        """Append ``data`` and sync it to disk; on an error the file is as before."""
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written:], self.size + written)
            os.fsync(self._descriptor)
        except OSError:
            self._undo_append()
            raise
        self.size += len(data)

    def is_intact(self) -> bool:
        """Return whether the path still names this file, and the file has all that was appended."""
        try:
            named, opened = self.path.stat(), os.fstat(self._descriptor)
        except OSError:
            return False
        return not self._broken and (named.st_ino, named.st_size) == (opened.st_ino, self.size)

    def close(self) -> None:
        """Close the file."""
        if self._finalizer is not None:
            self._finalizer()

    def _undo_append(self) -> None:
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            self._broken = True


def _close_quietly(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.close(descriptor)
