"""Calls of a driver: each in another thread, waited for only so long, one at a time.

What hangs is left behind in its thread, and nothing more is asked before it has returned;
of a driver that is ``thread_safe`` only not the same thing.
"""

import inspect
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, TypeVar

from drivers.errors import DriverError, DriverNotReady

WITHIN = 60.0
"""Seconds, where no configuration says otherwise."""

T = TypeVar("T")


Told = Callable[[str, float, bool], object]
"""Hears of each call: the method, its seconds, and whether it failed."""


def _unheard(*_: object) -> None:
    """Nobody counts."""


class DriverHangs(DriverNotReady):
    """A driver has not returned from a method in time."""


@dataclass(slots=True, eq=False)
class _Call:
    method: str
    question: Callable[[], Any] | None
    began: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)
    answer: Any = None
    error: BaseException | None = None

    def run(self) -> None:
        """In the worker's thread."""
        assert self.question is not None
        try:
            self.answer = self.question()
        except BaseException as err:  # noqa: BLE001  the one who waits gets it, whatever it is
            self.error = err
        finally:
            self.question = None  # it holds the tree, which nobody may keep
            self.done.set()

    def result(self) -> Any:
        """:raises BaseException: what the driver raised; it can't interrupt the agent, though."""
        err, answer = self.error, self.answer
        self.error = self.answer = None
        if err is not None and not isinstance(err, Exception | SystemExit):
            raise DriverError(
                f"{self.method} raised {type(err).__name__}, which only who ends the agent may"
            ) from err
        if err is not None:
            try:
                raise err
            finally:
                del err  # with its traceback it would hold itself
        if inspect.iscoroutine(answer):
            answer.close()
            raise DriverError(f"{self.method} is `async def`: it has to be a plain `def`")
        return answer

    def seconds(self) -> float:
        return time.monotonic() - self.began


class Calls:
    """All calls of one driver.  ``within`` seconds each may take.

    ``thread_safe``: several ``update_provider_tree`` at once; everything else waits its turn.
    """

    def __init__(self, within: float = WITHIN, *, thread_safe: bool = False) -> None:
        self.within = within
        self._thread_safe = thread_safe
        self.told: Told = _unheard
        """Called when one has ended, in the thread of who waited for it."""
        self.changed: Callable[[], object] = _unheard
        """Called when ``now`` has changed."""
        self._turn = threading.Lock()
        self._idle: list[SimpleQueue[_Call | None]] = []
        self._calls: list[_Call] = []

    def __del__(self) -> None:
        for jobs in self._idle:
            jobs.put(None)

    @property
    def now(self) -> list[tuple[float, str]]:
        """When each that has not returned began (monotonic), and its name; for any thread."""
        return [(call.began, call.method) for call in list(self._calls) if not call.done.is_set()]

    def __call__(self, method: str, question: Callable[[], T], *, about: str = "") -> T:
        """What ``question`` returns or raises; ``about`` is the node that it is about.

        :raises DriverHangs: neither within the time, or a call before it has not ended.
        :raises DriverError: it raised what would end a program, or is ``async def``.
        """
        began, failed = time.monotonic(), True
        try:
            answer = self._answer(f"{method}({about})" if about else method, question, bool(about))
            failed = False
        finally:
            self.told(method, time.monotonic() - began, failed)
        return answer

    def _answer(self, name: str, question: Callable[[], T], about: bool) -> T:
        with self._alone(name, at_once=self._thread_safe and about):
            call = _Call(name, question)
            self._refuse(name)
            self._calls.append(call)
            self.changed()
            try:
                self._wait(call)
            finally:
                self._forget(call)
                self.changed()
        result: T = call.result()
        return result

    def _refuse(self, name: str) -> None:
        """While an earlier one hangs, more threads would hang beside it."""
        for call in list(self._calls):
            if self._forget(call):
                continue
            if not self._thread_safe or call.method == name:
                raise DriverHangs(f"{call.method} has not returned for {call.seconds():.0f} s")

    def _forget(self, call: _Call) -> bool:
        """Once it has returned; several threads may see that."""
        ended = call.done.is_set()
        if ended:
            with suppress(ValueError):
                self._calls.remove(call)
        return ended

    def _wait(self, call: _Call) -> None:
        try:
            jobs = self._idle.pop()
        except IndexError:
            jobs = SimpleQueue()
            # A daemon: whoever hangs must not hold up the end of the process.
            threading.Thread(target=_serve, args=[jobs], name="driver", daemon=True).start()
        jobs.put(call)
        if not call.done.wait(self.within):
            jobs.put(None)
            raise DriverHangs(
                f"{call.method} has not returned within {self.within:g} s"
                " ([compute] driver_timeout)"
            )
        self._idle.append(jobs)

    @contextmanager
    def _alone(self, name: str, *, at_once: bool) -> Iterator[None]:
        if at_once:
            yield
            return
        if not self._turn.acquire(timeout=self.within):
            raise DriverHangs(f"{name} was not called: other calls took {self.within:g} s")
        try:
            yield
        finally:
            self._turn.release()


def _serve(jobs: SimpleQueue[_Call | None]) -> None:
    while (call := jobs.get()) is not None:
        call.run()
        del call  # nothing of it stays while the thread waits
