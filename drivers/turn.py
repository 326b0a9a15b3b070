"""Turns at a driver that can be asked only by one thread at a time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import TracebackType

from drivers.errors import DriverNotReady

WITHIN = 60.0
"""Seconds after which a node gives its turn up until the next period."""


@dataclass(slots=True)
class Turn:
    """A lock that is waited for only so long: the node that has it may hang.

    :raises DriverNotReady: on entering, when it does.
    """

    within: float = WITHIN
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=self.within):
            raise DriverNotReady(
                f"it has been asked about another node for {self.within:g} s and does not answer"
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        err: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()
