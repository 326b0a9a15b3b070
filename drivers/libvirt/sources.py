"""Sources: what is asked anew each time, remembered for when it can't be answered.

A source that fails or is slow degrades its own part: the last answer holds, and the
source is named until it answers again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from drivers.errors import DriverNotReady

T = TypeVar("T")
D = TypeVar("D")


class Sources:
    """For one thread at a time; ``failed`` and ``took`` may be read from any."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: dict[str, Any] = {}
        self._failed: dict[str, str] = {}
        self._took: dict[str, float] = {}

    def read(self, name: str, question: Callable[[], T]) -> T:
        """The answer, or the last one.  :raises DriverNotReady: there has never been one."""
        started = self._clock()
        try:
            answer = question()
        except DriverNotReady as err:
            self._failed[name] = str(err)
            if name not in self._answers:
                raise
        else:
            self._answers[name] = answer
            self._failed.pop(name, None)
        finally:
            self._took[name] = self._clock() - started
        last: T = self._answers[name]
        return last

    def read_or(self, name: str, question: Callable[[], T], otherwise: D) -> T | D:
        """As ``read``; ``otherwise`` where there has never been an answer."""
        try:
            return self.read(name, question)
        except DriverNotReady:
            return otherwise

    def failed(self) -> dict[str, str]:
        """Sources whose last question failed, and why."""
        return dict(self._failed)

    def never_answered(self) -> bool:
        """Whether any source has been asked and nothing is known from it."""
        return any(name not in self._answers for name in self._failed)

    def took(self) -> dict[str, float]:
        """Seconds that each source took the last time."""
        return dict(self._took)
