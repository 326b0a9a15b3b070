"""Calls that may hang, with a deadline: each runs in a worker thread, one at a time.

Python can't end a blocked call.  A call that misses its deadline is left running in its daemon
thread, and new calls are refused until it has returned; with ``thread_safe``, only calls of the
same name.
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

from drivers.errors import DriverError, DriverFault, DriverNotReady

WITHIN = 60.0
"""Default deadline of a driver's call, in seconds."""

CLOSING = 1.0
"""Seconds in which an abandoned thread has to close its session, once its call has returned."""

S = TypeVar("S")
T = TypeVar("T")


class Overdue(Exception):
    """The call did not return within its deadline; it goes on in its thread."""


class Blocked(Exception):
    """The call was not started: an earlier one has not returned, or there is no thread for it."""


@dataclass(slots=True, eq=False)
class _Call:
    name: str
    job: Callable[[Any], Any] | None
    began: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)
    abandoned: threading.Thread | None = None
    """The worker's thread, once the call missed its deadline."""
    answer: Any = None
    error: BaseException | None = None

    def run(self, session: object) -> None:
        """Call ``job`` and save its result or exception; runs in the worker's thread."""
        assert self.job is not None
        process = os.getpid()
        try:
            self.answer = self.job(session)
        except BaseException as err:  # noqa: BLE001  raised again in the caller's thread
            self.error = err
        finally:
            if os.getpid() != process:
                os._exit(_exit_code(self.error))
            self.job = None  # it refers to the provider tree, which must not be kept
            self.done.set()

    def result(self) -> Any:
        err, answer = self.error, self.answer
        self.error = self.answer = None
        if err is None:
            return answer
        try:
            raise err
        finally:
            del err  # its traceback refers to this frame: a reference cycle


def _exit_code(err: BaseException | None) -> int:
    """Return the exit code for a process that the driver forked and that returned from the job.

    Without an exit here the fork would go on as a second agent, and hold the lock on the state
    directory.
    """
    code = err.code if isinstance(err, SystemExit) else err and 1
    return code if isinstance(code, int) else int(code is not None)


class _Worker(threading.Thread):
    """A daemon thread, so that a hanging call does not delay the end of the process."""

    def __init__(self, name: str, make: Callable[[], AbstractContextManager[object]]) -> None:
        super().__init__(name=name, daemon=True)
        self._make = make
        self.jobs: SimpleQueue[_Call | None] = SimpleQueue()
        """Calls to run; ``None`` ends the thread."""

    def run(self) -> None:
        with self._make() as session:
            while (call := self.jobs.get()) is not None:
                call.run(session)
                del call  # the idle thread keeps no reference to it


class CallQueue(Generic[S]):
    """Runs calls with a deadline in worker threads; may be used from any thread.

    ``make`` returns the context manager of a session; each worker thread enters its own, passes
    it to its jobs, and leaves it when the thread ends.  Calls run one after the other; with
    ``thread_safe``, those made ``at_once`` run concurrently.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], AbstractContextManager[S]],
        *,
        thread_safe: bool = False,
    ) -> None:
        self._name = name
        self._make = make
        self._thread_safe = thread_safe
        self._turn = threading.Lock()
        self._turns = 0
        self._idle: list[_Worker] = []
        self._calls: list[_Call] = []

    def __del__(self) -> None:
        for worker in self._idle:
            worker.jobs.put(None)

    @property
    def now(self) -> list[tuple[float, str]]:
        """The calls that have not returned: start time (monotonic) and name.  For any thread."""
        return [(call.began, call.name) for call in list(self._calls) if not call.done.is_set()]

    def call(
        self, name: str, job: Callable[[S], T], deadline: float, *, at_once: bool = False
    ) -> T:
        """Run ``job(session)`` in a worker thread; return its result or raise its exception.

        ``deadline`` is in seconds.

        :raises Overdue: the job did not return within the deadline.
        :raises Blocked: an earlier call has not returned, none has ended for so long, or no thread
            can be started.
        """
        with self._alone(deadline, at_once=at_once and self._thread_safe):
            self._refuse_if_blocked(name)
            call = _Call(name, job)
            self._calls.append(call)
            try:
                self._wait(call, deadline)
            finally:
                if call.abandoned is None:
                    self._calls.remove(call)
        result: T = call.result()
        return result

    def close(self, deadline: float) -> None:
        """End the worker threads; a thread still busy after ``deadline`` ends with the process."""
        if self._turn.acquire(timeout=deadline):
            try:
                while self._idle:
                    worker = self._idle.pop()
                    worker.jobs.put(None)
                    worker.join(deadline)
            finally:
                self._turn.release()

    def _refuse_if_blocked(self, name: str) -> None:
        """Raise ``Blocked`` while an earlier call hangs: another thread would hang, too."""
        for call in list(self._calls):
            if call.abandoned is not None and call.done.is_set():
                call.abandoned.join(CLOSING)
            if call.abandoned is not None and not call.abandoned.is_alive():
                with suppress(ValueError):  # another thread may have removed it
                    self._calls.remove(call)
            elif not self._thread_safe or call.name == name:
                since = f"{call.name} has not returned for {time.monotonic() - call.began:.0f} s"
                raise Blocked(f"still waiting for an earlier call ({since})")

    def _wait(self, call: _Call, deadline: float) -> None:
        try:
            worker = self._idle.pop()
        except IndexError:
            try:
                worker = _Worker(self._name, self._make)
                worker.start()
            except RuntimeError as err:  # no thread can be started now
                raise Blocked(str(err)) from None
        worker.jobs.put(call)
        if not call.done.wait(deadline):
            call.abandoned = worker
            worker.jobs.put(None)
            raise Overdue(f"no answer within {deadline:g} s")
        self._idle.append(worker)

    @contextmanager
    def _alone(self, deadline: float, *, at_once: bool) -> Iterator[None]:
        if at_once:
            yield
            return
        before = self._turns
        while not self._turn.acquire(timeout=deadline):
            if before == self._turns:
                raise Blocked(f"no other call has ended for {deadline:g} s")
            before = self._turns
        try:
            yield
        finally:
            self._turns += 1
            self._turn.release()


class DriverHangs(DriverNotReady):
    """A method of a driver has not returned in time."""


def result_of(method: str, function: Callable[[], T]) -> T:
    """Return the result of ``function``.  :raises DriverError: it is ``async def``."""
    answer = function()
    if inspect.iscoroutine(answer):
        answer.close()
        raise DriverError(f"{method} is `async def`: it has to be a plain `def`")
    return answer


CallObserver = Callable[[str, float, bool], object]
"""Called after each call with the method, its duration in seconds, and whether it failed."""


class Calls(CallQueue[None]):
    """Calls the methods of one driver, each with a deadline of ``within`` seconds.

    With ``thread_safe``, calls of ``update_provider_tree`` run concurrently; all other calls run
    one after the other.
    """

    def __init__(self, within: float = WITHIN, *, thread_safe: bool = False) -> None:
        super().__init__("driver", nullcontext, thread_safe=thread_safe)
        self.within = within
        self.on_call: CallObserver = lambda *_: None
        """Called when a call has ended or missed its deadline, in the caller's thread."""

    def __call__(self, method: str, function: Callable[[], T], *, node: str = "") -> T:
        """Return the result of ``function``.

        ``method`` and ``node`` name the call in errors; ``node`` is given for
        ``update_provider_tree`` only.

        :raises DriverHangs: the function did not return in time, or an earlier call hangs.
        :raises DriverFault: the function raised an exception that is no DriverError, be it one
            that would interrupt the agent, such as KeyboardInterrupt.
        :raises DriverError: it raised a DriverError, or is ``async def``.
        """
        name = f"{method}({node})" if node else method

        def job(_session: object) -> T:
            try:
                return result_of(name, function)
            except (DriverError, SystemExit):  # a forked process has the exit code of the latter
                raise
            except BaseException as err:  # its text is the driver's code, too
                raise DriverFault(err) from err

        began, failed = time.monotonic(), True
        try:
            answer = self.call(name, job, self.within, at_once=bool(node))
            failed = False
        except Overdue:
            text = f"{name} has not returned within {self.within:g} s ([compute] driver_timeout)"
            raise DriverHangs(text) from None
        except Blocked as err:
            raise DriverHangs(f"{name} was not called: {err}") from None
        except SystemExit as err:
            raise DriverFault(err) from err
        finally:
            self.on_call(method, time.monotonic() - began, failed)
        return answer
