"""Run the periods of many nodes, so that neither one that hangs nor Placement delays the others.

:class:`Workers` runs them in a bounded number of threads.  A batch ends when all its jobs have
finished, or when none has for ``patience`` seconds.  A job that hangs keeps its thread, further
threads run the others, and it is not started again before it has ended.  :class:`Breaker` stops
sending requests once Placement is unreachable.
"""

import copy
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agent.period.tracker import Tracker
from agent.reporting.reports import Report
from drivers.errors import DriverError
from reportclient.errors import Unreachable
from reportclient.http import API
from reportclient.plain_text import error_text
from reportclient.view import View

Job = Callable[[], Report]


class NotDone(Exception):
    """A node's period has not finished: something hangs."""


@dataclass(slots=True)
class _Batch:
    """Waiting jobs (``pending``) and reports (``done``); once ``over``, ``done`` is not read."""

    pending: deque[tuple[str, Job]]
    done: queue.SimpleQueue[tuple[str, Report]] = field(default_factory=queue.SimpleQueue)
    over: bool = False


@dataclass(slots=True)
class Workers:
    """Runs ``at_once`` jobs at the same time, in at most ``max_threads`` threads.

    If no job ends for ``patience`` seconds, the running jobs count as hung, and additional threads
    are started.
    """

    at_once: int = 8
    patience: float = 10.0
    max_threads: int = 64
    clock: Callable[[], float] = time.monotonic
    _since: dict[str, float] = field(default_factory=dict)
    """When the jobs that run began, by key."""
    _late: dict[str, Report] = field(default_factory=dict)
    """Reports of jobs that ended after their batch, by key."""

    def each(self, trackers: Sequence[Tracker], job: Callable[[Tracker], Report]) -> list[Report]:
        """Run the job for each tracker; return their reports, with NotDone for jobs that hang.

        New roots get the names of traits and classes that Placement knows from the view of another
        root, or of the first new one, whose job runs for that before the others.
        """
        jobs: dict[str, Job] = {
            tracker.uuid: partial(_safely, job, tracker) for tracker in trackers
        }
        hangs = any(self.busy(uuid) is not None for uuid in jobs)
        if len(trackers) == 1 and not hangs:
            return [jobs[trackers[0].uuid]()]
        reports: dict[str, Report] = {}
        new = [tracker for tracker in trackers if not tracker.view.generations]
        if new and not hangs:
            source = next((tracker for tracker in trackers if tracker.view.generations), new[0])
            if source is new[0]:
                reports = self.run({source.uuid: jobs.pop(source.uuid)})
            if self.busy(source.uuid) is None:
                for tracker in new:
                    if tracker is not source:
                        tracker.root.view = replace(View(), names=source.view.names)
        reports |= self.run(jobs)
        return [self._report_of(tracker, reports.get(tracker.uuid)) for tracker in trackers]

    def _report_of(self, tracker: Tracker, report: Report | None) -> Report:
        """Return the report, with what a job that ended late has done; ``None``: none in time."""
        seconds = self.busy(tracker.uuid)
        late = self._late.pop(tracker.uuid, None) if report or seconds is None else None
        if report and late:
            return replace(report, calls=report.calls + late.calls, done=late.done + report.done)
        if finished := report or late:
            return finished
        if seconds is None:
            text = "not started: the periods of too many other nodes hang"
            return Report(tracker.node, error=NotDone(text))
        under_way = (
            f"driver {loaded.name} is in {method}"
            for loaded in tracker.drivers
            for _, method in loaded.calls.now
        )
        doing = next((text for text in under_way if f"({tracker.node})" in text), tracker.activity)
        text = f"not finished after {seconds:.0f} s: {doing}; other nodes are not affected"
        return Report(tracker.node, error=NotDone(text))

    def run(self, jobs: Mapping[str, Job]) -> dict[str, Report]:
        """Run the jobs; return the reports by key, without those of jobs that hang."""
        waiting = {key: job for key, job in jobs.items() if key not in self._since}
        batch = _Batch(deque(waiting.items()))
        reports: dict[str, Report] = {}
        self._start_threads(batch)
        while len(reports) < len(waiting):
            try:
                key, report = batch.done.get(timeout=self.patience)
            except queue.Empty:
                if not batch.pending or not self._start_threads(batch):
                    break
            else:
                reports[key] = report
        batch.over = True
        batch.pending.clear()
        return reports

    def busy(self, key: str) -> float | None:
        """Return for how many seconds this job has been running; ``None`` if it is not."""
        since = self._since.get(key)
        return None if since is None else self.clock() - since

    def _start_threads(self, batch: _Batch) -> int:
        """Start as many threads as may run at once and are needed; return how many."""
        wanted = min(self.at_once, len(batch.pending), self.max_threads - len(self._since))
        for _ in range(wanted):
            # A daemon thread: if it hangs, it does not delay the end of the process.
            threading.Thread(target=self._work, args=[batch], name="node", daemon=True).start()
        return wanted

    def _work(self, batch: _Batch) -> None:
        while True:
            try:
                key, job = batch.pending.popleft()
            except IndexError:
                return
            self._since[key] = self.clock()
            report = job()
            if batch.over:
                self._late[key] = report
            del self._since[key]
            batch.done.put((key, report))


def _safely(job: Callable[[Tracker], Report], tracker: Tracker) -> Report:
    began = time.monotonic()
    try:
        report = job(tracker)
    except SystemExit as err:
        report = Report(
            tracker.node, error=DriverError(f"a driver raised SystemExit: {error_text(err)}")
        )
    return replace(report, seconds=time.monotonic() - began)


@dataclass(slots=True)
class Breaker:
    """A circuit breaker around Placement's API, shared by all roots.

    After ``after`` requests in a row without an answer, all further requests of the period fail at
    once with the error of the last one.
    """

    api: API
    after: int
    waiting: dict[object, float] = field(default_factory=dict)
    """When the requests that wait for their answers were sent, in monotonic seconds."""
    _unanswered: int = 0
    _last_error: Unreachable | None = None

    def close(self) -> None:
        """Allow requests again: a new period begins."""
        self._unanswered, self._last_error = 0, None

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        if self._last_error is not None:
            raise copy.copy(self._last_error)  # else each raise adds its frames to the error kept
        key = object()
        self.waiting[key] = time.monotonic()
        try:
            answer = self.api.request(method, path, json=json, needs=needs)
        except Unreachable as err:
            self._unanswered += 1
            if self._unanswered >= self.after:
                self._last_error = copy.copy(err)
            raise
        finally:
            del self.waiting[key]
        self._unanswered = 0
        return answer
