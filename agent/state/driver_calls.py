"""``driver-calls`` in the state directory: the driver calls that are under way.

A driver that ends the process (``os._exit``, a crash of the interpreter) leaves no log line.  From
this file the next start logs which call that was, or that a stop did not wait for the call.
"""

import logging
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agent.state import files
from drivers.loaded import LoadedDriver
from reportclient.plain_text import plain

LOG = logging.getLogger("compute_agent.drivers")

FILE_NAME = "driver-calls"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_END = b"\0"
"""Ends the valid content; the bytes behind it in the file are old."""
_LEFT = "left behind at a stop: "


@dataclass(slots=True)
class DriverCalls:
    """The file, overwritten in place when a call begins or ends; write errors stop no call."""

    path: Path
    drivers: Iterable[LoadedDriver]
    problem: str = ""
    """Why the file can't be written; empty while it can."""
    _file: int | None = None
    _stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self) -> None:
        """Log the calls in which the last run ended, and record the calls of this run."""
        with suppress(OSError):
            text, _, _ = files.read(self.path).partition(_END)
            for line in map(plain, text.decode(errors="replace").splitlines()):
                _warn(line)
        for driver in self.drivers:
            driver.calls.changed = self._note
        self._note()

    def leave(self) -> None:
        """Record that the process ends without waiting for the calls under way."""
        self._stopped = True
        self._note()

    def _note(self) -> None:
        with self._lock:
            before = _LEFT if self._stopped else ""
            calls = [
                (method, driver.name) for driver in self.drivers for _, method in driver.calls.now
            ]
            lines = [f"{before}{method} of driver {name}" for method, name in calls]
            try:
                if self._file is None:
                    self.path.unlink(missing_ok=True)
                    self._file = files.open_file(self.path, _NEW)
                os.pwrite(self._file, "\n".join(lines).encode() + _END, 0)
            except OSError as err:
                self.problem = f"{self.path} can't be written: {files.describe_error(err)}"
            else:
                self.problem = ""

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)


def _warn(line: str) -> None:
    if line.startswith(_LEFT):
        LOG.warning("The last stop did not wait for %s", line.removeprefix(_LEFT))
        return
    LOG.warning(
        "The last run of the agent ended during %s: it was killed, or the driver "
        "ended the process (os._exit, or a crash of the interpreter)",
        line,
    )
