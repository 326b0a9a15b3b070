"""Read the data of a screen in a thread of its own, so that keys never wait."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from computectl.shared.errors import as_command_error

KEPT = 200
"""Maximum number of changes that are kept."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change:
    """A change between two reads; ``at``: seconds since the epoch."""

    at: float
    subject: str
    text: str
    style: str = ""


@dataclass(slots=True)
class Feed(Generic[T]):
    """Reads data every ``interval`` seconds; ``wrong``: why it could not be read since ``at``.

    ``changes`` has the newest first; it is replaced, not edited, as another thread reads it.
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
        """Start the thread; it does not keep the program from exiting."""
        threading.Thread(target=self._run, name="feed", daemon=True).start()

    def stop(self) -> None:
        """Stop reading."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self.interval):
            self.once()

    def once(self) -> None:
        """Read the data and note the changes."""
        try:
            now = self.read()
        except Exception as err:  # noqa: BLE001  shown, and retried
            self.wrong = str(as_command_error(err, "the configuration"))
            return
        at = time.time()
        new_changes = self.changed(self.latest, now, at)
        self.changes = (*reversed(new_changes), *self.changes)[:KEPT]
        self.latest, self.at, self.wrong = now, at, ""
