"""Lane: calls that may hang, one at a time, on a thread that can be left behind.

Nothing in Python ends a call that is blocked in C.  So it is made on a daemon
thread; the caller waits for it until its deadline and then goes on without it.
At most one thread is left behind at a time: while it is stuck, whoever calls is
told so at once, and the thread that takes its place starts when it has ended.
"""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Closable(Protocol):
    """What a worker thread owns: only that thread ever touches it."""

    def close(self) -> None:
        """Called on the worker thread, last."""


S = TypeVar("S", bound=Closable)


class Overdue(Exception):
    """No answer within the deadline; the call goes on, nobody waits for it any more."""


class Blocked(Exception):
    """Not even tried: an earlier call has not come back yet."""


class _Worker(Generic[S]):
    """One daemon thread with a session of its own."""

    def __init__(self, name: str, make_session: Callable[[], S]) -> None:
        self._make_session = make_session
        self._jobs: queue.SimpleQueue[Callable[[S], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: Callable[[S], T]) -> Future[T]:
        future: Future[T] = Future()
        self._jobs.put(lambda session: _fulfil(future, job, session))
        return future

    def dismiss(self) -> None:
        """Let it close its session and end, once it is through with what it does."""
        self._jobs.put(None)

    def has_ended(self, wait: float = 0.0) -> bool:
        if wait:
            self._thread.join(wait)
        return not self._thread.is_alive()

    def _run(self) -> None:
        session = self._make_session()
        try:
            while (job := self._jobs.get()) is not None:
                job(session)
        finally:
            session.close()


def _fulfil(future: Future[T], job: Callable[[S], T], session: S) -> None:
    try:
        future.set_result(job(session))
    except BaseException as err:  # noqa: BLE001  # the caller gets it, whatever it is
        future.set_exception(err)


class Lane(Generic[S]):
    """Any thread may call; calls take turns."""

    def __init__(
        self,
        name: str,
        make_session: Callable[[], S],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._make_session = make_session
        self._clock = clock
        self._turn = threading.Lock()
        self._worker: _Worker[S] | None = None
        self._left: tuple[_Worker[S], str, float] | None = None

    def call(self, what: str, job: Callable[[S], T], deadline: float) -> T:
        """``job(session)`` on the worker thread, or what it raised.

        ``what`` names the call in errors; ``deadline`` is in seconds.

        :raises Overdue: it took longer.
        :raises Blocked: an earlier call is still stuck, or others keep the lane busy.
        """
        if not self._turn.acquire(timeout=deadline):
            raise Blocked(f"other calls took all of {deadline:g} s")
        try:
            return self._run(what, job, deadline)
        finally:
            self._turn.release()

    def close(self, deadline: float) -> None:
        """End the worker; one that is stuck, or busy for longer, ends with the process."""
        if not self._turn.acquire(timeout=deadline):
            return
        try:
            worker, self._worker = self._worker, None
            if worker is not None:
                worker.dismiss()
                worker.has_ended(wait=deadline)
        finally:
            self._turn.release()

    def _run(self, what: str, job: Callable[[S], T], deadline: float) -> T:
        future = self._ready_worker().submit(job)
        try:
            return future.result(timeout=deadline)
        except TimeoutError:
            if future.done():  # the job's own TimeoutError, or an answer in the last moment
                return future.result()
        self._leave(what)
        raise Overdue(f"no answer within {deadline:g} s")

    def _ready_worker(self) -> _Worker[S]:
        if self._left is not None:
            left, what, since = self._left
            if not left.has_ended():
                waited = self._clock() - since
                raise Blocked(f"still waiting for an earlier call ({what}, {waited:.0f} s overdue)")
            self._left = None
        if self._worker is None:
            self._worker = _Worker(self._name, self._make_session)
            self._worker.start()
        return self._worker

    def _leave(self, what: str) -> None:
        assert self._worker is not None
        self._worker.dismiss()
        self._left = (self._worker, what, self._clock())
        self._worker = None
