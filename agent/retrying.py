"""Retries of what an operator may mend meanwhile, such as a port that another program has."""

import threading
from collections.abc import Callable
from typing import TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_when_event_set,
    wait_random_exponential,
)

from reportclient.plain_text import error_text

T = TypeVar("T")

FIRST_PAUSE = 2.0
"""Longest pause in seconds after the first failed attempt."""


def until_it_works(
    attempt: Callable[[], T],
    stopping: threading.Event,
    log: Callable[[str], object],
    longest: float,
    errors: type[Exception] = Exception,
) -> T | None:
    """Return the result of the first attempt that works, ``None`` once ``stopping`` is set.

    ``log`` is called with the text of each of ``errors`` that differs from the one before; other
    errors are raised.  The pauses are random, of at most ``FIRST_PAUSE`` seconds, doubled each time
    up to ``longest``.
    """
    logged = ""

    def log_if_new(state: RetryCallState) -> None:
        nonlocal logged
        error = None if state.outcome is None else state.outcome.exception()
        if error is not None and (text := error_text(error)) != logged:
            log(text)
            logged = text

    retries = Retrying(
        retry=retry_if_exception_type(errors),
        stop=stop_when_event_set(stopping),
        wait=wait_random_exponential(FIRST_PAUSE, max=longest),
        sleep=sleep_using_event(stopping),
        before_sleep=log_if_new,
        retry_error_callback=lambda _: None,
    )
    return retries(lambda: None if stopping.is_set() else attempt())
