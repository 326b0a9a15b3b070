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
from agent.state.appended import Appended
from agent.state.document import Later, Unreadable, Unusable
from agent.state.records import (
    Decoded,
    Documents,
    Key,
    NotARecord,
    decoded,
    encoded,
    first_record,
    forgotten,
    record,
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
    _file: Appended | None = None
    _limit: int = 0
    """Bytes at which the file is written anew."""
    _kept: Decoded | None = field(default=None, repr=False)
    """What the file had when it was read, less what was loaded or changed since."""
    _gone: set[str] = field(default_factory=set)
    """Roots that are not in ``_kept`` any more."""
    _whole: set[str] = field(default_factory=set)
    """Roots of which the file has all that was ever saved."""
    problem: str = ""
    """Why the file can't be written; empty while it can."""
    is_new: bool = False
    """Whether the agent had no file in the state directory yet."""
    _lost_all: bool = False
    _lock: AbstractContextManager[Any] = field(default_factory=threading.RLock, repr=False)

    @classmethod
    def of(cls, state_path: Path, *, writing: bool = True) -> "RootStore":
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
            kept = self._read_anew() if self._kept is None or root in self._gone else self._kept
            self._gone.add(root)
            documents = kept.roots.pop(root, None)
            if root in kept.damaged:
                LOG.warning("What %s has of the root %s is damaged: it is left", self.path, root)
                return {}
            if documents is not None:
                self._whole.add(root)
            return documents or {}

    @property
    def directory(self) -> Path | None:
        """The state directory; ``None`` where nothing is kept."""
        return None if self.path is None else self.path.parent

    def has_lost(self, root: str) -> bool:
        """Whether there may have been documents of this root that can't be read any more."""
        with self._lock:
            if self._kept is None:
                self._read_anew()
            return self._lost_all or (self._kept is not None and root in self._kept.damaged)

    def save(self, root: str, changed: Mapping[Key, Any], removed: Iterable[Key] = ()) -> bool:
        """Add, replace and remove documents of a root.

        False says that the file does not have all of this root: :meth:`replace` it then.
        ``problem`` says why something can't be written.
        """
        if self.path is None or not self.writing:
            return True
        gone = [key for key in removed if key not in changed]
        if root not in self._whole or not (changed or gone):
            return root in self._whole
        return self._write(root, record(root, changed, gone), delta=True)

    def replace(self, root: str, documents: Mapping[Key, Any]) -> bool:
        """Make these the documents of a root, and have no others."""
        return self._write(root, record(root, documents, whole=True))

    def forget(self, root: str) -> bool:
        """Keep nothing of a root any more."""
        done = self._write(root, forgotten(root))
        self._whole.discard(root)
        return done

    def close(self) -> None:
        """Let go of the file; whatever is asked next opens it again."""
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = self._kept = None

    # -- writing

    def _write(self, root: str, data: bytes, *, delta: bool = False) -> bool:
        if self.path is None or not self.writing:
            return True
        with self._lock:
            try:
                file = self._opened(self.path)
                if delta and root not in self._whole:  # the file is another one than before
                    return False
                file.append(data)
                self._note(root, len(data))
                if file.size > self._limit:
                    self._write_anew(self.path)
            except (OSError, Unusable) as err:
                self._whole.discard(root)
                self._tell(err)
                return False
            self.problem = ""
            return True

    def _note(self, root: str, size: int) -> None:
        is_new = root not in self._gone and not (self._kept and root in self._kept.roots)
        self._limit += 2 * size if is_new else 0
        self._whole.add(root)
        self._gone.add(root)
        if self._kept is not None:
            self._kept.roots.pop(root, None)

    def _opened(self, path: Path) -> Appended:
        """The file, at its end; whoever took it away took every root along.

        :raises OSError: or Unusable.
        """
        if self._file is not None and not self._file.is_there():
            self.close()
            self._whole.clear()
        if self._file is None:
            kept = self._kept if self._is_as_read(path) and self._kept else self._scan(path)
            self._file = Appended.opened(path, kept.good)
            if not kept.good:
                self._begin(self._file)
            self._limit = 2 * kept.size + self.slack
        return self._file

    def _begin(self, file: Appended) -> None:
        try:
            file.append(first_record(VERSION))
        except OSError:
            self.close()  # or what is appended next would be the first record
            raise

    def _is_as_read(self, path: Path) -> bool:
        try:
            return self._kept is not None and path.stat().st_size == self._kept.total
        except OSError:
            return False

    def _write_anew(self, path: Path) -> None:
        """Without what is outdated, or damaged.  :raises OSError: or Unusable."""
        data = encoded(VERSION, self._scan(path).roots)
        files.replace(path, data)
        self.close()
        self._file = Appended.opened(path, len(data))
        self._limit = 2 * len(data) + self.slack

    # -- reading

    def _read_anew(self) -> Decoded:
        """Return the documents of the file; none, with a warning, if it can't be used."""
        self._kept, self._gone = None, set()
        if self.path is None:
            return Decoded()
        try:
            self._kept = self._scan(self.path)
            # It may have been cut off by more than a crash.
            self._lost_all |= self._kept.good < self._kept.total or self._is_empty(self.path)
        except Unusable as err:
            self._tell(err)
        return self._kept or Decoded()

    def _is_empty(self, path: Path) -> bool:
        return path.is_file() and self._kept is not None and not self._kept.total

    def _scan(self, path: Path) -> Decoded:
        """:raises Unusable: for another reason than damage, which costs what is kept."""
        try:
            kept = decoded(files.read(path))
        except (FileNotFoundError, NotADirectoryError):
            return Decoded()
        except OSError as err:
            raise Unreadable(f"{path} can't be read: {files.why(err)}") from err
        except NotARecord as err:
            self._set_aside(path, err)
            return Decoded()
        if kept.version > VERSION:
            raise Later(path, kept.version, VERSION)
        return kept

    def _set_aside(self, path: Path, err: NotARecord) -> None:
        self._whole.clear()
        self._lost_all = True
        aside = files.aside(path) if self.writing else ""
        LOG.warning(
            "%s is damaged (%s)%s: what is kept of each root is found out anew", path, err, aside
        )

    def _tell(self, err: Exception) -> None:
        """Note why the file can't be written or read: a condition of each node says so."""
        text = str(err)
        if isinstance(err, OSError):
            text = f"{self.path} can't be written: {files.why(err)}"
        if text != self.problem:
            LOG.debug("%s", text)
        self.problem = text
