"""Waiting in tests: for as long as a busy machine may need, and no longer than it takes."""

from __future__ import annotations

import time
from collections.abc import Callable

LONG = 60.0
"""Seconds. Nobody waits so long for what comes by itself in each of the tests' periods."""


def eventually(condition: Callable[[], object], within: float = LONG, every: float = 0.05) -> None:
    """Wait until it is so."""
    give_up = time.monotonic() + within
    while not condition():
        assert time.monotonic() < give_up, "it did not come"
        time.sleep(every)


def no_pause(_seconds: float) -> None:
    """In place of the wait between two tries after a conflict."""
