"""Work that may hang, in a thread that nobody has to wait for."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Begin at once, in a daemon thread: a process that ends waits for none of these.

    An error is raised where the future is asked for its result.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as err:  # noqa: BLE001  it is raised where somebody waits
            done.set_exception(err)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done
