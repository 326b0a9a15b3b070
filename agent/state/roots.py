"""Saved state of all roots in one file: JSON documents by root, kind and key.

A document is as small as what changes at once: a provider, or the claims on it.  Changes are
appended, so that a small change is a small write and one fsync.  The file is rewritten once more
than half of it is outdated.  A call that returns true is on disk as a whole; others change nothing.

::

    store.replace(root, {("view", provider): {...}, ("ledger", "libvirt"): [...]})
    store.save(root, {("view", provider): {...}}, removed=[("ledger", "libvirt")])
    store.documents_of(root) == {("view", provider): {...}}

All methods are thread-safe.

SQLite with a rollback journal (``journal_mode=TRUNCATE``, ``synchronous=EXTRA``) was measured
beside it: to save one change of 10,001 providers took 1.7 ms of CPU and 25 ms in all, here 0.33 and
5 ms, since an append takes one fsync and such a transaction several.
"""

import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.state import files
from agent.state.document import Later, Unreadable, Unusable
from agent.state.records import (
    DecodedRecords,
    Documents,
    Key,
    NotARecord,
    change_record,
    decode_records,
    encode_records,
    first_record,
    forget_record,
)

LOG = logging.getLogger(__name__)

FILE_NAME = "roots.journal"
VERSION = 1
FIRST_FILES = {"compute_id", "driver-calls", "lost+found"}
"""Names that may be in the state directory before the agent's first start, besides hidden ones."""
SLACK = 1 << 20
"""Outdated bytes that never cause a rewrite."""


@dataclass(slots=True)
class RootStore:
    """``roots.journal`` in the state directory; without a ``path`` nothing is saved."""

    path: Path | None = None
    writing: bool = True
    """False: the store is read-only."""
    slack: int = SLACK
    _file: files.AppendOnlyFile | None = None
    _limit: int = 0
    """Size in bytes at which the file is rewritten."""
    _decoded: DecodedRecords | None = field(default=None, repr=False)
    """The file's content as read, without the roots that were loaded or changed since."""
    _taken: set[str] = field(default_factory=set)
    """Roots that were taken out of ``_decoded``."""
    _unread: set[str] = field(default_factory=set)
    """Roots that were loaded while the file could not be read: not written until loaded again."""
    _complete: set[str] = field(default_factory=set)
    """Roots whose documents are all in the file, so that changes can be appended."""
    problem: str = ""
    """Why the file can't be written; empty while it can."""
    is_new: bool = False
    """Whether the agent had no file in the state directory yet."""
    _lost_all: bool = False
    lock: AbstractContextManager[Any] = field(default_factory=threading.RLock, repr=False)

    @classmethod
    def in_directory(cls, state_path: Path, *, writing: bool = True) -> "RootStore":
        """Return the store in a state directory."""
        try:
            names = {path.name for path in state_path.iterdir()}
            is_new = {name for name in names if not name.startswith(".")} <= FIRST_FILES
        except OSError:
            is_new = not state_path.exists()
        return cls(state_path / FILE_NAME, writing, is_new=is_new)

    def roots(self) -> list[str]:
        """Return the UUIDs of all roots in the file, damaged ones too."""
        with self.lock:
            decoded = self._read_file()
            return sorted({*decoded.roots, *decoded.damaged})

    def documents_of(self, root: str) -> Documents:
        """Return all documents of a root; none if they are missing, damaged or can't be read."""
        with self.lock:
            decoded = (
                self._read_file() if self._decoded is None or root in self._taken else self._decoded
            )
            if self.path is not None and self._decoded is None:
                self._unread.add(root)
                return {}
            if root in self._unread:
                self._unread.discard(root)
                self.problem = ""
            self._taken.add(root)
            documents = decoded.roots.pop(root, None)
            if root in decoded.damaged:
                LOG.warning(
                    "The saved state of the root %s in %s is damaged and ignored", root, self.path
                )
                return {}
            if documents is not None:
                self._complete.add(root)
            return documents or {}

    def is_unread(self, root: str) -> bool:
        """Return whether the file could not be read when this root was loaded."""
        return root in self._unread

    @property
    def directory(self) -> Path | None:
        """The state directory; ``None`` if nothing is saved."""
        return None if self.path is None else self.path.parent

    def has_lost(self, root: str) -> bool:
        """Return whether documents of this root may have been lost by damage."""
        with self.lock:
            if self._decoded is None:
                self._read_file()
            return self._lost_all or (self._decoded is not None and root in self._decoded.damaged)

    def save(self, root: str, changed: Mapping[Key, Any], removed: Iterable[Key] = ()) -> bool:
        """Add, replace and remove documents of a root.

        Return false if they are not saved: call :meth:`replace` then, with all documents of the
        root.  ``problem`` has the reason if the file can't be written.
        """
        if self.path is None or not self.writing:
            return True
        gone = [key for key in removed if key not in changed]
        if root not in self._complete or not (changed or gone):
            return root in self._complete
        return self._write(root, change_record(root, changed, gone), delta=True)

    def replace(self, root: str, documents: Mapping[Key, Any]) -> bool:
        """Replace all documents of a root; return whether they are saved."""
        return self._write(root, change_record(root, documents, whole=True))

    def forget(self, root: str) -> bool:
        """Remove all documents of a root; return whether that is saved."""
        done = self._write(root, forget_record(root))
        self._complete.discard(root)
        return done

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self.lock:
            if self._file is not None:
                self._file.close()
            self._file = self._decoded = None

    # -- writing

    def _write(self, root: str, data: bytes, *, delta: bool = False) -> bool:
        if self.path is None or not self.writing:
            return True
        if root in self._unread:
            return False
        with self.lock:
            try:
                file = self._opened(self.path)
                if delta and root not in self._complete:  # the file was replaced or removed
                    return False
                file.append(data)
                self._note_written(root, len(data))
                if file.size > self._limit:
                    self._rewrite(self.path)
            except (OSError, Unusable) as err:
                self._complete.discard(root)
                self._note_problem(err)
                return False
            self.problem = ""
            return True

    def _note_written(self, root: str, size: int) -> None:
        is_new = root not in self._taken and not (self._decoded and root in self._decoded.roots)
        self._limit += 2 * size if is_new else 0
        self._complete.add(root)
        self._taken.add(root)
        if self._decoded is not None:
            self._decoded.roots.pop(root, None)

    def _opened(self, path: Path) -> files.AppendOnlyFile:
        """Return the open file; if it was replaced or removed, all roots have to be saved again.

        :raises OSError: the file can't be written.
        :raises Unusable: the file can't be read, or is of a later version.
        """
        if self._file is not None and not self._file.is_intact():
            self.close()
            self._complete.clear()
        if self._file is None:
            decoded = (
                self._decoded if self._is_as_read(path) and self._decoded else self._scan(path)
            )
            self._file = files.AppendOnlyFile.open_at(path, decoded.good)
            if not decoded.good:
                self._begin(self._file)
            self._limit = 2 * decoded.size + self.slack
        return self._file

    def _begin(self, file: files.AppendOnlyFile) -> None:
        try:
            file.append(first_record(VERSION))
        except OSError:
            self.close()  # or the next append would be the first record
            raise

    def _is_as_read(self, path: Path) -> bool:
        try:
            return self._decoded is not None and path.stat().st_size == self._decoded.total
        except OSError:
            return False

    def _rewrite(self, path: Path) -> None:
        """Rewrite the file without outdated and damaged records.  :raises OSError: or Unusable."""
        data = encode_records(VERSION, self._scan(path).roots)
        files.replace(path, data)
        self.close()
        self._file = files.AppendOnlyFile.open_at(path, len(data))
        self._limit = 2 * len(data) + self.slack

    # -- reading

    def _read_file(self) -> DecodedRecords:
        """Read the file and return its content; empty if the file can't be used."""
        self._decoded, self._taken = None, set()
        if self.path is None:
            return DecodedRecords()
        try:
            self._decoded = self._scan(self.path)
            # More than the last record may have been cut off.
            self._lost_all |= self._decoded.good < self._decoded.total or self._is_empty(self.path)
        except Unusable as err:
            self._note_problem(err)
        return self._decoded or DecodedRecords()

    def _is_empty(self, path: Path) -> bool:
        return path.is_file() and self._decoded is not None and not self._decoded.total

    def _scan(self, path: Path) -> DecodedRecords:
        """Read and decode the file; a damaged one is set aside.

        :raises Unusable: the file can't be read, or is of a later version.
        """
        try:
            decoded = decode_records(files.read(path))
        except (FileNotFoundError, NotADirectoryError):
            return DecodedRecords()
        except OSError as err:
            raise Unreadable(f"{path} can't be read: {files.describe_error(err)}") from err
        except NotARecord as err:
            self._set_aside(path, err)
            return DecodedRecords()
        if decoded.version > VERSION:
            raise Later(path, decoded.version, VERSION)
        return decoded

    def _set_aside(self, path: Path, err: NotARecord) -> None:
        self._complete.clear()
        self._lost_all = True
        aside = files.set_aside(path) if self.writing else ""
        LOG.warning(
            "%s is damaged (%s)%s: the saved state of all roots is lost, Placement is read instead",
            path,
            err,
            aside,
        )

    def _note_problem(self, err: Exception) -> None:
        """Note why the file can't be written or read; each node has that as a condition."""
        text = str(err)
        if isinstance(err, OSError):
            text = f"{self.path} can't be written: {files.describe_error(err)}"
        if text != self.problem:
            LOG.debug("%s", text)
        self.problem = text
