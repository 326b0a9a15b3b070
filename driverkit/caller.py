"""A thread that asks a driver, as the agent's do, and a limit to how long we wait for it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

PATIENCE = 60.0
"""Seconds for one answer: a whole period of the agent."""

T = TypeVar("T")


class TooLong(Exception):
    """The driver has not answered in time."""


@dataclass(slots=True)
class _Job(Generic[T]):
    """A question, and its answer once ``done``."""

    question: Callable[[], T]
    done: threading.Event
    answer: T | None = None
    error: BaseException | None = None

    def run(self) -> None:
        try:
            self.answer = self.question()
        except BaseException as err:  # noqa: BLE001  the one who waits gets it, whatever it is
            self.error = err
        finally:
            self.done.set()


class Caller:
    """One thread; what hangs in it is left behind, and the process can end all the same."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(self, question: Callable[[], T]) -> T:
        """What ``question`` returns, or raises.  :raises TooLong: neither, for too long."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="driver-kit", daemon=True)
            self._thread.start()
        job = _Job(question, threading.Event())
        self._jobs.put(job)
        if not job.done.wait(self._patience):
            raise TooLong(f"no answer within {self._patience:g} s")
        if job.error is not None:
            raise job.error
        return job.answer  # type: ignore[return-value]  # it is there if there is no error

    def close(self) -> None:
        """Let the thread end once it has nothing to do."""
        self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            del job  # it holds the tree, and the rule is that nobody keeps that
