"""``driver-calls`` in the state directory: in which calls of drivers the agent is.

A driver that ends the process (``os._exit``, a crash of the interpreter) leaves no word of it;
this file tells the next start where it was.
"""

import logging
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


@dataclass(slots=True)
class DriverCalls:
    """Written when a call begins, removed when none is under way; a disk that fails stops none."""

    path: Path
    drivers: Iterable[LoadedDriver]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self) -> None:
        """Say in which calls an earlier run has ended, and note those of this one."""
        with suppress(OSError):
            for line in files.read(self.path).decode(errors="replace").splitlines():
                LOG.warning(
                    "The agent ended inside %s: it was killed, or the driver has ended it"
                    " (os._exit, or a crash of the interpreter)",
                    plain(line),
                )
        for one in self.drivers:
            one.calls.changed = self._note
        self._note()

    def _note(self) -> None:
        with self._lock, suppress(OSError):
            lines = [f"{m} of driver {one.name}" for one in self.drivers for _, m in one.calls.now]
            if lines:
                files.replace(self.path, "\n".join(lines).encode(), durable=False)
            else:
                self.path.unlink(missing_ok=True)
