"""``driver-calls`` in the state directory: in which calls of drivers the agent is.

A driver that ends the process (``os._exit``, a crash of the interpreter) leaves no word of it;
this file tells the next start where it was, and whether it was a stop that did not wait for it.
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

LOG = logging.getLogger(__name__)

FILE_NAME = "driver-calls"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_END = b"\0"
"""Of what holds; what stands behind it in the file is older."""
_LEFT = "left behind at a stop: "


@dataclass(slots=True)
class DriverCalls:
    """Overwritten in place when a call begins and when it ends; a disk that fails stops none."""

    path: Path
    drivers: Iterable[LoadedDriver]
    problem: str = ""
    """Why the file can't be written; empty while it can."""
    _file: int | None = None
    _stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self) -> None:
        """Say in which calls an earlier run has ended, and note those of this one."""
        with suppress(OSError):
            text, _, _ = files.read(self.path).partition(_END)
            for line in map(plain, text.decode(errors="replace").splitlines()):
                _warn(line)
        for one in self.drivers:
            one.calls.changed = self._note
        self._note()

    def leave(self) -> None:
        """The process is about to be ended without waiting for the calls that are under way."""
        self._stopped = True
        self._note()

    def _note(self) -> None:
        with self._lock:
            before = _LEFT if self._stopped else ""
            calls = [(method, one.name) for one in self.drivers for _, method in one.calls.now]
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
        "The agent ended inside %s: it was killed, or the driver has ended it"
        " (os._exit, or a crash of the interpreter)",
        line,
    )
