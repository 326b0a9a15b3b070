"""Calls that may hang: each in another thread, waited for only so long, one at a time.

Nothing in Python ends a call that is blocked.  What hangs is left behind in its daemon thread,
and nothing more is asked before that has ended; where calls may run at once, only not the same.
"""

import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from drivers.errors import DriverError, DriverNotReady

WITHIN = 60.0
"""Seconds, where no configuration says otherwise."""

CLOSING = 1.0
"""Seconds for the session of a thread that was left behind, once its call has returned."""

S = TypeVar("S")
T = TypeVar("T")


def _unheard(*_: object) -> None:
    """Nobody counts."""


class Overdue(Exception):
    """No answer within the deadline; the call goes on, nobody waits for it any more."""


class Blocked(Exception):
    """Not even tried: an earlier call has not come back yet, or others take too long."""


@dataclass(slots=True, eq=False)
class _Call:
    what: str
    job: Callable[[Any], Any] | None
    began: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)
    left: threading.Thread | None = None
    """That nobody waits for any more."""
    answer: Any = None
    error: BaseException | None = None

    def run(self, session: object) -> None:
        """In the worker's thread."""
        assert self.job is not None
        process = os.getpid()
        try:
            self.answer = self.job(session)
        except BaseException as err:  # noqa: BLE001  the one who waits gets it, whatever it is
            self.error = err
        finally:
            if os.getpid() != process:
                os._exit(_exit_code(self.error))
            self.job = None  # it holds the tree, which nobody may keep
            self.done.set()

    def result(self) -> Any:
        err, answer = self.error, self.answer
        self.error = self.answer = None
        if err is None:
            return answer
        try:
            raise err
        finally:
            del err  # with its traceback it would hold itself


def _exit_code(err: BaseException | None) -> int:
    """Return the exit code of a forked child that came back here, as a second agent would.

    It would never end, and hold the lock on the state directory.
    """
    code = err.code if isinstance(err, SystemExit) else err and 1
    return code if isinstance(code, int) else int(code is not None)


class _Worker(Generic[S]):
    """A daemon: whoever hangs must not hold up the end of the process."""

    def __init__(self, name: str, make: Callable[[], AbstractContextManager[S]]) -> None:
        self.jobs: SimpleQueue[_Call | None] = SimpleQueue()
        """``None`` ends it."""
        self.thread = threading.Thread(
            target=_serve, args=[self.jobs, make], name=name, daemon=True
        )
        self.thread.start()


def _serve(
    jobs: SimpleQueue[_Call | None], make: Callable[[], AbstractContextManager[object]]
) -> None:
    with make() as session:
        while (call := jobs.get()) is not None:
            call.run(session)
            del call  # nothing of it stays while the thread waits


class CallQueue(Generic[S]):
    """Any thread may call.  ``make`` gives a worker thread the session that its jobs get: only
    that thread ever touches it, and leaves it at its end.

    Calls take turns; ``thread_safe``: those that are made ``at_once`` do not.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], AbstractContextManager[S]],
        *,
        thread_safe: bool = False,
    ) -> None:
        self.changed: Callable[[], object] = _unheard
        """Called when ``now`` has changed."""
        self._name = name
        self._make = make
        self._thread_safe = thread_safe
        self._turn = threading.Lock()
        self._idle: list[_Worker[S]] = []
        self._calls: list[_Call] = []

    def __del__(self) -> None:
        for worker in self._idle:
            worker.jobs.put(None)

    @property
    def now(self) -> list[tuple[float, str]]:
        """When each that has not returned began (monotonic), and its name; for any thread."""
        return [(call.began, call.what) for call in list(self._calls) if not call.done.is_set()]

    def call(
        self, what: str, job: Callable[[S], T], deadline: float, *, at_once: bool = False
    ) -> T:
        """``job(session)`` in a worker thread, or what it raised; ``deadline`` is in seconds.

        :raises Overdue: it took longer.
        :raises Blocked: an earlier call is still stuck, or others take too long.
        """
        with self._alone(deadline, at_once=at_once and self._thread_safe):
            self._refuse(what)
            call = _Call(what, job)
            self._calls.append(call)
            self.changed()
            try:
                self._wait(call, deadline)
            finally:
                if call.left is None:
                    self._calls.remove(call)
                self.changed()
        result: T = call.result()
        return result

    def close(self, deadline: float) -> None:
        """End the workers; one that is stuck, or busy for longer, ends with the process."""
        with suppress(Blocked), self._alone(deadline, at_once=False):
            while self._idle:
                worker = self._idle.pop()
                worker.jobs.put(None)
                worker.thread.join(deadline)

    def _refuse(self, what: str) -> None:
        """While an earlier one hangs, more threads would hang beside it."""
        for call in list(self._calls):
            if call.left is not None and call.done.is_set():
                call.left.join(CLOSING)
            if call.left is not None and not call.left.is_alive():
                with suppress(ValueError):  # several threads may see that
                    self._calls.remove(call)
            elif not self._thread_safe or call.what == what:
                since = f"{call.what} has not returned for {time.monotonic() - call.began:.0f} s"
                raise Blocked(f"still waiting for an earlier call ({since})")

    def _wait(self, call: _Call, deadline: float) -> None:
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker(self._name, self._make)
        worker.jobs.put(call)
        if not call.done.wait(deadline):
            call.left = worker.thread
            worker.jobs.put(None)
            raise Overdue(f"no answer within {deadline:g} s")
        self._idle.append(worker)

    @contextmanager
    def _alone(self, deadline: float, *, at_once: bool) -> Iterator[None]:
        if at_once:
            yield
            return
        if not self._turn.acquire(timeout=deadline):
            raise Blocked(f"other calls took all of {deadline:g} s")
        try:
            yield
        finally:
            self._turn.release()


class DriverHangs(DriverNotReady):
    """A driver has not returned from a method in time."""


Told = Callable[[str, float, bool], object]
"""Hears of each call: the method, its seconds, and whether it failed."""


class Calls(CallQueue[None]):
    """All calls of one driver.  ``within`` seconds each may take.

    ``thread_safe``: several ``update_provider_tree`` at once; everything else waits its turn.
    """

    def __init__(self, within: float = WITHIN, *, thread_safe: bool = False) -> None:
        super().__init__("driver", nullcontext, thread_safe=thread_safe)
        self.within = within
        self.told: Told = _unheard
        """Called when one has ended, in the thread of who waited for it."""

    def __call__(self, method: str, question: Callable[[], T], *, about: str = "") -> T:
        """Return or raise what ``question`` does; ``about`` is its node.

        :raises DriverHangs: neither within the time, or a call before it has not ended.
        :raises DriverError: it raised what would end a program, or is ``async def``.
        """
        name = f"{method}({about})" if about else method
        began, failed = time.monotonic(), True
        try:
            job = _plain(name, question)
            answer = self.call(name, job, self.within, at_once=bool(about))
            failed = False
        except Overdue:
            words = f"{name} has not returned within {self.within:g} s ([compute] driver_timeout)"
            raise DriverHangs(words) from None
        except Blocked as err:
            raise DriverHangs(f"{name} was not called: {err}") from None
        finally:
            self.told(method, time.monotonic() - began, failed)
        return answer


def _plain(name: str, question: Callable[[], T]) -> Callable[[object], T]:
    """The question; what it raises can't interrupt the agent."""

    def job(_session: object) -> T:
        try:
            answer = question()
        except (Exception, SystemExit):
            raise
        except BaseException as err:
            raise DriverError(
                f"{name} raised {type(err).__name__}, which only who ends the agent may"
            ) from err
        if inspect.iscoroutine(answer):
            answer.close()
            raise DriverError(f"{name} is `async def`: it has to be a plain `def`")
        return answer

    return job
