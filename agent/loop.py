"""The agent's loop: periods on a schedule without drift, and jobs between them.

The loop is one thread that sleeps on one queue.  Signals, events of drivers and RPC calls put jobs
into that queue.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeVar

from reportclient.schedule import doubled

LOG = logging.getLogger("compute_agent.service")

T = TypeVar("T")

SKIPPED = "The period took longer than update_resources_interval (%g s): %d skipped"
LONGEST_SLEEP = 3600.0
"""Seconds of one wait for a job, at most."""


@dataclass(frozen=True, slots=True)
class Job:
    """Work for the loop's thread, and the future of its result."""

    work: Callable[[], Any]
    done: Future[Any] = field(default_factory=Future)

    def run(self) -> None:
        """Run the work, unless ``done`` was cancelled; ``done`` gets the result or the error."""
        if not self.done.set_running_or_notify_cancel():
            return
        try:
            self.done.set_result(self.work())
        except BaseException as err:  # noqa: BLE001  SystemExit too; raised by Future.result
            self.done.set_exception(err)


def in_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Run ``work``, which may hang, in a daemon thread; return the future of its result.

    The process can end without waiting for the thread.  ``Future.result`` raises what ``work``
    raised.
    """
    job = Job(work)
    threading.Thread(target=job.run, name=name, daemon=True).start()
    return job.done


@dataclass(slots=True)
class Loop:
    """Runs the period when it is due or requested, and jobs while it waits.

    Periods begin an interval apart; those that are due while another one runs are skipped.  With
    the interval ``None`` a period runs only on request.
    """

    clock: Callable[[], float] = time.monotonic
    commands: queue.SimpleQueue[Job] = field(default_factory=queue.SimpleQueue)
    stopping: bool = False
    gap: float = 1.0
    """Least seconds between the end of a period and the next requested one."""
    longest_gap: float = 30.0
    """Upper bound of ``gap``, which doubles with each requested period that fails."""
    _interval: float = inf
    _due: float = inf
    """The time of the next period, by ``clock``."""
    _asked: bool = False
    _rest_until: float = -inf
    """The earliest time of the next requested period."""
    _failed: int = 0
    """Number of requested periods that failed in a row."""
    _later: dict[Callable[[], object], float] = field(default_factory=dict)
    """When work of :meth:`later` is due, by ``clock``."""

    def run(
        self, period: Callable[[], object], interval: float | None, first_in: float = 0.0
    ) -> None:
        """Run periods and jobs until :meth:`stop`; the first period after ``first_in`` seconds.

        ``period`` returns ``False`` if it failed.
        """
        self.reschedule(interval, first_in)
        try:
            while (asked := self._wait()) is not None:
                well = period() is not False
                self._failed = self._failed + 1 if asked and not well else 0
                rest = doubled(self.gap, self._failed, self.longest_gap)
                self._rest_until = self.clock() + rest
                if asked:
                    continue
                skipped = max(0, int((self.clock() - self._due) // self._interval))
                self._due += (skipped + 1) * self._interval
                if skipped:
                    LOG.warning(SKIPPED, self._interval, skipped)
        finally:
            while not self.commands.empty():
                self.commands.get().done.cancel()

    def stop(self) -> None:
        """End the loop after the current period.  Threads and signal handlers may call it."""
        self.stopping = True
        self.commands.put(Job(lambda: None))  # ends the sleep

    def refresh(self) -> None:
        """Request a period now.  Any thread may call it."""
        self.commands.put(Job(self._note_asked))

    def post(self, work: Callable[[], object]) -> Future[None]:
        """Run ``work`` as :meth:`submit` does; an error is logged."""
        return self.submit(lambda: _run_logged(work))

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run ``work`` in the loop's thread, between two periods.  Any thread may call it.

        The caller takes the future's result, or an error is lost.  The future is cancelled if the
        loop ends first.
        """
        job = Job(work)
        if self.stopping:
            job.done.cancel()
        else:
            self.commands.put(job)
        return job.done

    def reschedule(self, interval: float | None, first_in: float) -> None:
        """Run the next period after so many seconds, and further ones as usual.

        Only the loop's thread may call it.
        """
        self._interval, self._due = interval or inf, self.clock() + first_in

    def later(self, seconds: float, work: Callable[[], object]) -> None:
        """Run ``work`` once, after so many seconds; if it waits already, at this time instead.

        Any thread may call it.
        """
        at = self.clock() + seconds
        self.commands.put(Job(lambda: self._later.update({work: at})))

    def _note_asked(self) -> None:
        self._asked = True

    def _wait(self) -> bool | None:
        """Sleep and run jobs until a period is due or requested.

        Return whether the period was requested; it serves all requests made before it.  ``None``:
        the loop ends.
        """
        while True:
            self.run_jobs()
            if self.stopping:
                return None
            now, next_period = self.clock(), self._next_period_at()
            if next_period <= now:
                self._asked = False
                return self._due > now
            wait = min(next_period, self.next_job_at(), now + LONGEST_SLEEP) - now
            if wait > 0:
                with suppress(queue.Empty):
                    self.commands.get(timeout=wait).run()

    def _next_period_at(self) -> float:
        """Return when the next period is due by the schedule or by request, by ``clock``."""
        return min(self._due, self._rest_until if self._asked else inf)

    def next_job_at(self) -> float:
        """Return when the first job of :meth:`later` is due, by ``clock``; infinity without one."""
        return min(self._later.values(), default=inf)

    def run_jobs(self) -> None:
        """Run the jobs that are due or were posted.  Only for the loop's thread.

        Jobs that are posted meanwhile wait while a period is due, so that it gets its turn.
        """
        now = self.clock()
        for work in [each for each, at in self._later.items() if at <= now]:
            del self._later[work]
            _run_logged(work)
        while posted := self.commands.qsize():
            for _ in range(posted):
                if self.stopping:
                    return  # run cancels the others
                self.commands.get().run()
            if self._next_period_at() <= self.clock():
                return


def _run_logged(work: Callable[[], object]) -> None:
    try:
        work()
    except (Exception, SystemExit):
        LOG.exception("A scheduled job failed")
