"""The file of a script: read again when it changes, and the last good one kept."""

import logging
import threading
from pathlib import Path

from drivers.fake.parse import ScriptError, parse
from drivers.fake.script import Script

LOG = logging.getLogger(__name__)

_Signature = tuple[int, int, int, int]


class ScriptFile:
    """Any thread may ask for the script."""

    def __init__(self, path: Path, host: str) -> None:
        self._path = path
        self._host = host
        self._lock = threading.Lock()
        self._seen: _Signature | None = None
        self._script: Script | None = None
        self._problem: ScriptError | None = None

    @property
    def problem(self) -> str | None:
        """What is wrong with the file as it is now, if anything."""
        return None if self._problem is None else str(self._problem)

    def current(self) -> Script:
        """The script of the file, or the last good one if the file is bad.

        :raises ScriptError: there was no good one yet.
        """
        with self._lock:
            try:
                self._read_if_changed()
            except ScriptError as err:
                self._note(err)
            if self._script is None:
                assert self._problem is not None
                raise self._problem
            return self._script

    def _read_if_changed(self) -> None:
        try:
            # Before reading: what is written meanwhile is then seen the next time.
            signature = self._signature()
            if signature == self._seen:
                return
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as err:
            self._seen = None
            raise ScriptError(f"{self._path}: can't be read: {err}") from err
        self._seen = signature
        self._script = parse(text, str(self._path), self._host)
        self._problem = None
        LOG.info("read the script %s: %d nodes", self._path, len(self._script.nodes))

    def _signature(self) -> _Signature:
        stat = self._path.stat()
        return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino

    def _note(self, err: ScriptError) -> None:
        if self._script is not None and str(err) != self.problem:
            LOG.warning("the last good script stays in use: %s", err)
        self._problem = err
