"""Calls to Keystone for HTTP requests, which may hang.  The database's have timeouts of their own.

A request waits for a limited time.  The call itself goes on in its thread until its own timeouts
end it; as many as hang are not started anew, so that requests are refused at once meanwhile.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from agent.loop import in_thread

WITHIN = 10.0
"""Seconds that a request waits for a call."""
T = TypeVar("T")


@dataclass(slots=True)
class Bounded:
    """Makes calls to ``what``, at most ``at_once`` at the same time, each in a thread."""

    what: str
    at_once: int
    within: float = WITHIN
    _turns: threading.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._turns = threading.Semaphore(self.at_once)

    def __call__(self, call: Callable[[], T]) -> T:
        """Return the result of a call.

        :raises TimeoutError: it took too long, or too many earlier calls go on.
        """
        if not self._turns.acquire(blocking=False):
            raise TimeoutError(
                f"{self.what} has not answered {self.at_once} earlier calls: try again in a moment"
            )
        try:
            job = in_thread(partial(self._run, call), f"call to {self.what}")
        except RuntimeError:  # no thread can be started
            self._turns.release()
            raise
        try:
            return job.result(self.within)
        except TimeoutError as err:
            text = f"{self.what} did not answer within {self.within:g} s: try again in a moment"
            raise TimeoutError(text) from err

    def _run(self, call: Callable[[], T]) -> T:
        try:
            return call()
        finally:
            self._turns.release()
