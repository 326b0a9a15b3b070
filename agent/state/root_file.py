"""The saved state of one root: JSON documents by kind and key, in a file of its own.

A document is as small as what changes at once: a provider, or the claims on it.  The first line
has all documents; each further line is one change, all of it or nothing, so that a small change is
a small write and one fsync.  A method that returns true has its change on disk; others change
nothing.  Once more than half of the file is outdated it is replaced, as it is at the first save::

    <digest> [version, [[kind, key, value], ...], [[kind, key] of removed documents, ...]]

A digest is that of the previous line's digest and of the rest of its own line; before the first
line stands the file's name.  Further lines have 0 in place of the version.

A digest that is wrong costs all documents, since an older state must not pass for the newest.  An
incomplete line at the end is no damage: its write never succeeded.

SQLite with a rollback journal (``journal_mode=TRUNCATE``, ``synchronous=EXTRA``) was measured
beside it: to save one change of 10,001 providers took 1.7 ms of CPU and 25 ms in all, here 0.33 and
5 ms, since an append takes one fsync and such a transaction several.
"""

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.state import files
from agent.state.document import Damaged, Later, Unreadable, Unusable

LOG = logging.getLogger("compute_agent.placement")

Key = tuple[str, str]
"""Kind of a document (view, ledger, removed), and its key within the kind."""
Documents = dict[Key, Any]

VERSION = 1
FIRST_FILES = {"compute_id", "driver-calls", "lost+found"}
"""Names that may be in the state directory before the agent's first start, besides hidden ones."""
SLACK = 1 << 16
"""Outdated bytes that never cause a replacement."""
_NAME = re.compile(r"root-([0-9a-f-]{36})\.journal")
_DIGEST_SIZE = 16
"""Hexadecimal digits of a digest."""


def root_path(state_path: Path, root: str) -> Path:
    """Return the path of a root's file."""
    return state_path / f"root-{root}.journal"


def saved_roots(state_path: Path) -> list[str]:
    """Return the UUIDs of the roots that are saved in a state directory."""
    matches = map(_NAME.fullmatch, _names(state_path) or ())
    return sorted(match[1] for match in matches if match)


def is_new(state_path: Path) -> bool:
    """Return whether the agent had no file in the state directory yet."""
    names = _names(state_path)
    if names is None:
        return not state_path.exists()
    return {name for name in names if not name.startswith(".")} <= FIRST_FILES


def _names(directory: Path) -> list[str] | None:
    try:
        return [path.name for path in directory.iterdir()]
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class _End:
    """The end of the file as this process knows it, where the next line belongs."""

    size: int
    digest: bytes
    """The last line's digest."""
    limit: int
    """Size in bytes at which the file is replaced."""


@dataclass(slots=True)
class RootFile:
    """The file of one root; it is read before anything is saved."""

    path: Path
    writing: bool = True
    """False: the file is read-only."""
    slack: int = SLACK
    problem: str = ""
    """Why the file can't be written or read; empty while it can."""
    is_unread: bool = field(default=False, init=False)
    """Whether the file could not be read: then nothing is saved until it is read."""
    has_lost: bool = field(default=False, init=False)
    """Whether documents may have been lost by damage."""
    _end: _End | None = field(default=None, init=False)
    """``None``: the file lacks documents, so that all have to be saved."""

    def read(self) -> Documents:
        """Return all documents; none if they are missing, damaged or can't be read.

        What can't be read now is noted, and a damaged file is set aside.
        """
        self._end, was_unread, self.is_unread = None, self.is_unread, False
        try:
            try:
                documents = self._parsed(files.read(self.path))
            except (FileNotFoundError, NotADirectoryError):
                documents = {}
            except OSError as err:
                reason = f"{self.path} can't be read: {files.describe_error(err)}"
                raise Unreadable(reason) from err
        except Damaged as err:
            self.has_lost = True
            aside = files.set_aside(self.path) if self.writing else ""
            LOG.warning(
                "%s%s: the saved state of its root is lost, Placement is read instead", err, aside
            )
            documents = {}
        except Unusable as err:
            self.is_unread, self.problem = True, str(err)
            LOG.debug("%s", err)
            return {}
        if was_unread:
            self.problem = ""
        return documents

    def save(self, changed: Mapping[Key, Any], removed: Iterable[Key] = ()) -> bool:
        """Add, replace and remove documents.

        Return false if they are not saved: call :meth:`replace` then, with all documents.
        """
        gone = [key for key in removed if key not in changed]
        end = self._end
        if not self.writing or end is None or not (changed or gone):
            return not self.writing or end is not None
        digest, line = _line(end.digest, 0, changed, gone)
        self._end = None
        if end.size + len(line) > end.limit:
            return False
        try:
            files.append(self.path, line, end.size)
        except FileNotFoundError:
            return False  # somebody took it away
        except OSError as err:
            self._note_unwritable(err)
            return False
        self._end, self.problem = _End(end.size + len(line), digest, end.limit), ""
        return True

    def replace(self, documents: Mapping[Key, Any]) -> bool:
        """Replace all documents; return whether they are saved.  ``problem`` has the reason."""
        if not self.writing or self.is_unread:
            return not self.writing
        digest, line = _line(self._first_digest, VERSION, documents, ())
        try:
            files.replace(self.path, line)
        except OSError as err:
            self._note_unwritable(err)
            return False
        self._end, self.problem = _End(len(line), digest, 2 * len(line) + self.slack), ""
        return True

    def forget(self) -> bool:
        """Remove the file; return whether that was done."""
        if not self.writing or self.is_unread:
            return not self.writing
        self._end = None
        try:
            files.remove(self.path)
        except OSError as err:
            self._note_unwritable(err)
            return False
        return True

    @property
    def _first_digest(self) -> bytes:
        """Stands before the first line, so that another root's file is damage."""
        return self.path.name.encode()

    def _parsed(self, data: bytes) -> Documents:
        """Return the documents of the complete lines.

        :raises Unusable: the file is damaged, or a later version wrote it.
        """
        documents: Documents = {}
        size, digest, first = 0, self._first_digest, 0
        for line in data.splitlines(keepends=True):
            # The last character is the end of the line, whatever became of it.
            body = line[_DIGEST_SIZE + 1 : -1]
            if line[:_DIGEST_SIZE] != _digest(digest, body):
                break
            version, *values = json.loads(body)
            if version > VERSION:
                raise Later(self.path, version, VERSION)
            changed, removed = values
            for kind, key in removed:
                documents.pop((kind, key), None)
            documents.update({(kind, key): value for kind, key, value in changed})
            size, digest = size + len(line), line[:_DIGEST_SIZE]
            first = first or size
        rest = data[size:]
        if rest.endswith(b"\n") and b"\0\0" not in rest:
            raise Damaged(f"{self.path} is damaged: a checksum is wrong at byte {size}")
        self.has_lost |= bool(rest) or not data
        if not rest and data.endswith(b"\n"):
            self._end = _End(size, digest, 2 * first + self.slack)
        return documents

    def _note_unwritable(self, err: OSError) -> None:
        """Note why the file can't be written; each node has that as a condition."""
        self.problem = f"{self.path} can't be written: {files.describe_error(err)}"
        LOG.debug("%s", self.problem)


def _line(
    before: bytes, version: int, changed: Mapping[Key, Any], removed: Iterable[Key]
) -> tuple[bytes, bytes]:
    """Return a line's digest, and the line; ``before``: the previous line's digest."""
    values = [version, [[*key, value] for key, value in changed.items()], list(removed)]
    body = json.dumps(values, separators=(",", ":")).encode()
    digest = _digest(before, body)
    return digest, b"%s %s\n" % (digest, body)


def _digest(before: bytes, body: bytes) -> bytes:
    digest = hashlib.blake2b(before, digest_size=_DIGEST_SIZE // 2)
    digest.update(body)
    return digest.hexdigest().encode()
