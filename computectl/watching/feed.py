"""The data of a screen, read in a thread of its own so that keys never wait."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from computectl.shared.errors import as_command_error

KEPT = 200
"""Changes that are remembered."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change:
    """Something that was otherwise before; ``at`` in seconds since the epoch."""

    at: float
    subject: str
    text: str
    style: str = ""


@dataclass(slots=True)
class Feed(Generic[T]):
    """``latest`` is what was read last; ``wrong`` says why it could not be read since.

    The screen reads ``changes``, the newest first, in another thread: it is replaced, never edited.
    """

    read: Callable[[], T]
    changed: Callable[[T, T, float], list[Change]]
    interval: float
    latest: T
    at: float = field(default_factory=time.time)
    wrong: str = ""
    changes: tuple[Change, ...] = ()
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Return at once; what hangs does not keep the program from its end."""
        threading.Thread(target=self._run, name="feed", daemon=True).start()

    def stop(self) -> None:
        """Read no more."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self.interval):
            self.once()

    def once(self) -> None:
        """Read it, and note what changed."""
        try:
            now = self.read()
        except Exception as err:  # noqa: BLE001  it is shown, and tried again
            self.wrong = str(as_command_error(err, "the configuration"))
            return
        at = time.time()
        found = self.changed(self.latest, now, at)
        self.changes = (*reversed(found), *self.changes)[:KEPT]
        self.latest, self.at, self.wrong = now, at, ""
