"""When things happen: a schedule without drift, jobs in between, and the end.

The loop is one thread and sleeps on one queue.  Whoever wants something of it
(a signal, a driver's event, a call over RPC) puts a job there.
"""

import logging
import queue
import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeVar

from reportclient.schedule import doubled

LOG = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """Something to be done in the loop's thread, for which somebody may wait."""

    work: Callable[[], Any]
    done: Future[Any] = field(default_factory=Future)

    def run(self) -> None:
        """Do it, unless nobody wants it any more; an error goes to whoever waits."""
        if not self.done.set_running_or_notify_cancel():
            return
        try:
            self.done.set_result(self.work())
        except Exception as err:  # noqa: BLE001  it is raised where somebody waits
            self.done.set_exception(err)


@dataclass(slots=True)
class Schedule:
    """When the next period is due; in seconds of a monotonic clock.

    Periods are ``interval`` apart whatever they take themselves.  One that takes
    longer makes those it ran over fall out.  ``interval`` ``None``: only when asked.
    """

    interval: float | None
    due: float

    def after(self, now: float) -> int:
        """Set the next time and return how many periods fell out."""
        if self.interval is None:
            self.due = inf
            return 0
        missed = max(0, int((now - self.due) // self.interval))
        self.due += (missed + 1) * self.interval
        return missed


@dataclass(slots=True)
class Loop:
    """Calls the period when it is due or asked for, and ``idle`` while it waits."""

    idle: Callable[[], None]
    idle_every: float = 10.0
    clock: Callable[[], float] = time.monotonic
    commands: queue.SimpleQueue[Job] = field(default_factory=queue.SimpleQueue)
    promise: Callable[[], Future[Any]] = Future
    """Makes what somebody who posts a job waits for."""
    stopping: bool = False
    gap: float = 1.0
    """Seconds at least between a period and one that somebody asks for after it."""
    longest_gap: float = 30.0
    """The same, where what is asked for fails again and again."""
    uniform: Callable[[float, float], float] = random.uniform
    _schedule: Schedule | None = None
    _asked: bool = False
    _rest_until: float = -inf
    _failed: int = 0
    """Periods in a row that were asked for and failed."""
    _later: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    def run(
        self, period: Callable[[], object], interval: float | None, first_in: float = 0.0
    ) -> None:
        """Until :meth:`stop`.  The first period comes after ``first_in`` seconds.

        ``period`` returns ``False`` if it failed.
        """
        schedule = self._schedule = Schedule(interval, self.clock() + first_in)
        while not self.stopping:
            asked = self._wait(schedule)
            if self.stopping:
                break
            well = period() is not False
            self._rest(failed_again=asked and not well)
            missed = 0 if asked else schedule.after(self.clock())
            if missed:
                LOG.warning(
                    "The period took longer than update_resources_interval (%g s): %d skipped",
                    schedule.interval,
                    missed,
                )
        self._cancel_jobs()

    def stop(self) -> None:
        """End after what is being done now.  Any thread, or a signal handler, may call it."""
        self.stopping = True
        self.commands.put(Job(lambda: None))  # or it would sleep on

    def refresh(self) -> None:
        """Ask for a period now.  Any thread may call it."""
        self.commands.put(Job(self._note_asked))

    def post(self, work: Callable[[], T]) -> Future[T]:
        """Have something done between two periods, soon.  Any thread may call it.

        The future is cancelled if the loop ends before.
        """
        job = Job(work, self.promise())
        if self.stopping:
            job.done.cancel()
        else:
            self.commands.put(job)
        return job.done

    def every(self, interval: float | None) -> None:
        """Another interval from now on.  Only for what runs in the loop's thread.

        The next period comes anywhere in it: other hosts are told at the same moment.
        """
        if self._schedule is not None:
            wait = inf if interval is None else self.uniform(0.0, interval)
            self._schedule.interval, self._schedule.due = interval, self.clock() + wait

    def later(self, seconds: float, work: Callable[[], object]) -> None:
        """Have something done after that time.  Only for what runs in the loop's thread."""
        self._later.append((self.clock() + seconds, work))

    def _note_asked(self) -> None:
        self._asked = True

    def _rest(self, *, failed_again: bool) -> None:
        """Whoever asks for a period in each period, or for what fails, shall not be a storm."""
        self._failed = self._failed + 1 if failed_again else 0
        self._rest_until = self.clock() + doubled(self.gap, self._failed, self.longest_gap)

    def _wait(self, schedule: Schedule) -> bool:
        """Until it is time, or the end; or for who asked: then true.

        One period serves everybody who asked before it began.
        """
        while not self.stopping:
            self.run_jobs()
            now, due = self.clock(), schedule.due
            if due <= now or (self._asked and self._rest_until <= now):
                self._asked = False
                return due > now
            wanted = [due, self.next_job_at()]
            if self._asked:
                wanted.append(self._rest_until)
            self._sleep(min(wanted) - now)
        return False

    def _sleep(self, seconds: float) -> None:
        """Until somebody wants something, and no longer than that."""
        if seconds <= 0 or self.stopping:
            return
        try:
            self.commands.get(timeout=min(seconds, self.idle_every)).run()
        except queue.Empty:
            self.idle()

    def next_job_at(self) -> float:
        """Return when the first job of :meth:`later` is due, by ``clock``; infinity without one."""
        return min((at for at, _ in self._later), default=inf)

    def run_jobs(self) -> None:
        """Run the jobs that are due or were posted.  Only for the loop's thread."""
        now = self.clock()
        due = [work for at, work in self._later if at <= now]
        self._later = [(at, work) for at, work in self._later if at > now]
        for work in due:
            try:
                work()
            except Exception:
                LOG.exception("A scheduled job failed")
        while not self.stopping and not self.commands.empty():
            self.commands.get().run()

    def _cancel_jobs(self) -> None:
        """Nobody shall wait for a loop that has ended."""
        while not self.commands.empty():
            self.commands.get().done.cancel()
