"""Calls to Keystone for HTTP requests, which may hang.  The database's have timeouts of their own.

A request waits for a limited time.  The call itself goes on in its thread until its own timeouts
end it; as many as hang are not started anew, so that requests are refused at once meanwhile.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from agent.loop import in_slot

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
        job = in_slot(self._turns, call, f"call to {self.what}")
        if job is None:
            raise TimeoutError(
                f"{self.what} has not answered {self.at_once} earlier calls: try again in a moment"
            )
        try:
            return job.result(self.within)
        except TimeoutError as err:
            text = f"{self.what} did not answer within {self.within:g} s: try again in a moment"
            raise TimeoutError(text) from err
