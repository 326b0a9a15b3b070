"""Saved state of all roots in one file: JSON documents by root, kind and key.

A document is as small as what changes at once (a provider, a manager's claims on it): a
change is appended, so that a small one is a small write and one fsync, and the file is
written anew once more than half of it is outdated.  Each call is on disk when it returns
true, all of it or nothing.

::

    store.replace(root, {("view", provider): {...}, ("ledger", "libvirt"): [...]})
    store.save(root, {("view", provider): {...}}, removed=[("ledger", "libvirt")])
    store.load(root) == {("view", provider): {...}}

Any thread may use it.
"""

import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.state import files
from agent.state.appended import AppendOnlyFile
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
"""Bytes that may be outdated in any case."""


@dataclass(slots=True)
class RootStore:
    """``roots.journal`` in the state directory; without a ``path`` nothing is kept."""

    path: Path | None = None
    writing: bool = True
    """False: read only."""
    slack: int = SLACK
    _file: AppendOnlyFile | None = None
    _limit: int = 0
    """Bytes at which the file is written anew."""
    _decoded: DecodedRecords | None = field(default=None, repr=False)
    """What the file had when it was read, less what was loaded or changed since."""
    _taken: set[str] = field(default_factory=set)
    """Roots that are not in ``_decoded`` any more."""
    _complete: set[str] = field(default_factory=set)
    """Roots of which the file has all that was ever saved."""
    problem: str = ""
    """Why the file can't be written; empty while it can."""
    is_new: bool = False
    """Whether the agent had no file in the state directory yet."""
    _lost_all: bool = False
    _lock: AbstractContextManager[Any] = field(default_factory=threading.RLock, repr=False)

    @classmethod
    def in_directory(cls, state_path: Path, *, writing: bool = True) -> "RootStore":
        """The store of the agent with this state directory."""
        try:
            names = {path.name for path in state_path.iterdir()}
            is_new = {name for name in names if not name.startswith(".")} <= FIRST_FILES
        except OSError:
            is_new = not state_path.exists()
        return cls(state_path / FILE_NAME, writing, is_new=is_new)

    def roots(self) -> list[str]:
        """UUIDs of the roots of which something is kept, be it damaged."""
        with self._lock:
            kept = self._read_anew()
            return sorted({*kept.roots, *kept.damaged})

    def load(self, root: str) -> Documents:
        """All documents of a root; none if there are none that can be used."""
        with self._lock:
            kept = (
                self._read_anew() if self._decoded is None or root in self._taken else self._decoded
            )
            self._taken.add(root)
            documents = kept.roots.pop(root, None)
            if root in kept.damaged:
                LOG.warning(
                    "The saved state of the root %s in %s is damaged and ignored", root, self.path
                )
                return {}
            if documents is not None:
                self._complete.add(root)
            return documents or {}

    @property
    def directory(self) -> Path | None:
        """The state directory; ``None`` where nothing is kept."""
        return None if self.path is None else self.path.parent

    def has_lost(self, root: str) -> bool:
        """Whether there may have been documents of this root that can't be read any more."""
        with self._lock:
            if self._decoded is None:
                self._read_anew()
            return self._lost_all or (self._decoded is not None and root in self._decoded.damaged)

    def save(self, root: str, changed: Mapping[Key, Any], removed: Iterable[Key] = ()) -> bool:
        """Add, replace and remove documents of a root.

        False says that the file does not have all of this root: :meth:`replace` it then.
        ``problem`` says why something can't be written.
        """
        if self.path is None or not self.writing:
            return True
        gone = [key for key in removed if key not in changed]
        if root not in self._complete or not (changed or gone):
            return root in self._complete
        return self._write(root, change_record(root, changed, gone), delta=True)

    def replace(self, root: str, documents: Mapping[Key, Any]) -> bool:
        """Make these the documents of a root, and have no others."""
        return self._write(root, change_record(root, documents, whole=True))

    def forget(self, root: str) -> bool:
        """Keep nothing of a root any more."""
        done = self._write(root, forget_record(root))
        self._complete.discard(root)
        return done

    def close(self) -> None:
        """Let go of the file; whatever is asked next opens it again."""
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = self._decoded = None

    # -- writing

    def _write(self, root: str, data: bytes, *, delta: bool = False) -> bool:
        if self.path is None or not self.writing:
            return True
        with self._lock:
            try:
                file = self._opened(self.path)
                if delta and root not in self._complete:  # the file is another one than before
                    return False
                file.append(data)
                self._note_written(root, len(data))
                if file.size > self._limit:
                    self._write_anew(self.path)
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

    def _opened(self, path: Path) -> AppendOnlyFile:
        """The file, at its end; whoever took it away took every root along.

        :raises OSError: or Unusable.
        """
        if self._file is not None and not self._file.is_intact():
            self.close()
            self._complete.clear()
        if self._file is None:
            kept = self._decoded if self._is_as_read(path) and self._decoded else self._scan(path)
            self._file = AppendOnlyFile.open_at(path, kept.good)
            if not kept.good:
                self._begin(self._file)
            self._limit = 2 * kept.size + self.slack
        return self._file

    def _begin(self, file: AppendOnlyFile) -> None:
        try:
            file.append(first_record(VERSION))
        except OSError:
            self.close()  # or what is appended next would be the first record
            raise

    def _is_as_read(self, path: Path) -> bool:
        try:
            return self._decoded is not None and path.stat().st_size == self._decoded.total
        except OSError:
            return False

    def _write_anew(self, path: Path) -> None:
        """Without what is outdated, or damaged.  :raises OSError: or Unusable."""
        data = encode_records(VERSION, self._scan(path).roots)
        files.replace(path, data)
        self.close()
        self._file = AppendOnlyFile.open_at(path, len(data))
        self._limit = 2 * len(data) + self.slack

    # -- reading

    def _read_anew(self) -> DecodedRecords:
        """Return the documents of the file; none, with a warning, if it can't be used."""
        self._decoded, self._taken = None, set()
        if self.path is None:
            return DecodedRecords()
        try:
            self._decoded = self._scan(self.path)
            # It may have been cut off by more than a crash.
            self._lost_all |= self._decoded.good < self._decoded.total or self._is_empty(self.path)
        except Unusable as err:
            self._note_problem(err)
        return self._decoded or DecodedRecords()

    def _is_empty(self, path: Path) -> bool:
        return path.is_file() and self._decoded is not None and not self._decoded.total

    def _scan(self, path: Path) -> DecodedRecords:
        """:raises Unusable: for another reason than damage, which costs what is kept."""
        try:
            kept = decode_records(files.read(path))
        except (FileNotFoundError, NotADirectoryError):
            return DecodedRecords()
        except OSError as err:
            raise Unreadable(f"{path} can't be read: {files.describe_error(err)}") from err
        except NotARecord as err:
            self._set_aside(path, err)
            return DecodedRecords()
        if kept.version > VERSION:
            raise Later(path, kept.version, VERSION)
        return kept

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
        """Note why the file can't be written or read: a condition of each node says so."""
        text = str(err)
        if isinstance(err, OSError):
            text = f"{self.path} can't be written: {files.describe_error(err)}"
        if text != self.problem:
            LOG.debug("%s", text)
        self.problem = text
