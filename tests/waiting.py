"""Waiting in tests: for as long as a busy machine may need, and no longer than it takes."""

import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
LONG = 60.0
"""Seconds. Nobody waits so long for what comes by itself in each of the tests' periods."""


def eventually(
    condition: Callable[[], T | None],
    within: float = LONG,
    every: float = 0.05,
    *,
    process: subprocess.Popen[Any] | None = None,
    otherwise: Callable[[], object] = lambda: "it did not come",
) -> T:
    """Wait until it is so; what the condition returned.

    ``process``: the wait fails as soon as this one has ended.  ``otherwise`` explains a failure.
    """
    give_up = time.monotonic() + within
    while not (found := condition()):
        assert process is None or process.poll() is None, f"it ended: {otherwise()}"
        assert time.monotonic() < give_up, otherwise()
        time.sleep(every)
    return found


def without_error(call: Callable[[], T], *errors: type[Exception], within: float = LONG) -> T:
    """Call it until it raises none of these errors; what it returned."""
    give_up = time.monotonic() + within
    while True:
        try:
            return call()
        except errors:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)


def no_pause(_seconds: float) -> None:
    """In place of the wait between two tries after a conflict."""
