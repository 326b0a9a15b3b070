"""Run work that may hang in a daemon thread."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Start ``work`` in a daemon thread and return the future of its result.

    The process can end without waiting for the thread.  ``Future.result`` raises what ``work``
    raised.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as err:  # noqa: BLE001  raised by Future.result
            done.set_exception(err)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done
