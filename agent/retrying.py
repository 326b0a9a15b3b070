"""Retries of what an operator may mend meanwhile, such as a port that another program has."""

import random
import threading
from collections.abc import Callable
from typing import TypeVar

from reportclient.plain_text import error_text

T = TypeVar("T")

FIRST_PAUSE = 2.0
"""Longest pause in seconds after the first failed attempt."""


def until_it_works(
    attempt: Callable[[], T],
    stopping: threading.Event,
    log: Callable[[str], object],
    longest: float,
    errors: type[Exception] | tuple[type[BaseException], ...] = Exception,
) -> T | None:
    """Return the result of the first attempt that works, ``None`` once ``stopping`` is set.

    ``log`` is called with the text of each of ``errors`` that differs from the one before; other
    errors are raised.  The pauses are random, of at most ``FIRST_PAUSE`` seconds, doubled each time
    up to ``longest``.
    """
    logged, pause = "", FIRST_PAUSE
    while not stopping.is_set():
        try:
            return attempt()
        except errors as err:
            if (text := error_text(err)) != logged:
                log(text)
            logged = text
        stopping.wait(random.uniform(0, pause))
        pause = min(2 * pause, longest)
    return None
