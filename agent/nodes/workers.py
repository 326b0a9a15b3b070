"""Run the periods of many nodes in a limited number of threads; one that hangs delays no others.

A batch ends when all its jobs have finished, or when no job has finished for ``patience`` seconds.
A job that hangs keeps its thread and is not started again before it has ended; additional threads
run the others.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from agent.period.tracker import Tracker
from agent.reporting.reports import Report
from drivers.errors import DriverError
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
    _late: dict[str, Report] = field(default_factory=dict)

    def each(self, trackers: Sequence[Tracker], job: Callable[[Tracker], Report]) -> list[Report]:
        """Run the job for each tracker; return their reports, with NotDone for jobs that hang."""
        busy = any(self.busy(tracker.uuid) is not None for tracker in trackers)
        if len(trackers) == 1 and not busy:
            return [_safely(job, trackers[0])]
        reports = self._share_names(trackers, job) if not busy else {}
        rest = {
            tracker.uuid: partial(_safely, job, tracker)
            for tracker in trackers
            if tracker.uuid not in reports
        }
        reports |= self.run(rest)
        return [self._report_of(tracker, reports.get(tracker.uuid)) for tracker in trackers]

    def _share_names(
        self, trackers: Sequence[Tracker], job: Callable[[Tracker], Report]
    ) -> dict[str, Report]:
        """Copy Placement's names of traits and classes to the views of new roots.

        The source is another root's view.  If all roots are new, the first one's job is run for
        that, and its report is returned, by UUID.
        """
        new = [tracker for tracker in trackers if not tracker.view.generations]
        if not new:
            return {}
        old = [tracker for tracker in trackers if tracker.view.generations]
        source = old[0] if old else new[0]
        reports = {}
        if not old:
            reports = self.run({source.uuid: partial(_safely, job, source)})
        if self.busy(source.uuid) is None:
            for tracker in new:
                if tracker is not source:
                    tracker.view = replace(View(), names=source.view.names)
        return reports

    def _report_of(self, tracker: Tracker, report: Report | None) -> Report:
        if report is None:
            return Report(tracker.node, error=self._not_done(tracker))
        late = self.late(tracker.uuid)
        if late is None:
            return report
        return replace(report, calls=report.calls + late.calls, done=(*late.done, *report.done))

    def _not_done(self, tracker: Tracker) -> NotDone:
        seconds = self.busy(tracker.uuid)
        if seconds is None:
            return NotDone("not started: the periods of too many other nodes hang")
        under_way = (
            f"driver {loaded.name} is in {method}"
            for loaded in tracker.drivers
            for _, method in loaded.calls.now
        )
        doing = next((text for text in under_way if f"({tracker.node})" in text), tracker.activity)
        return NotDone(f"not finished after {seconds:.0f} s: {doing}; other nodes are not affected")

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

    def late(self, key: str) -> Report | None:
        """Return, once, the report of a job that ended after its batch."""
        return self._late.pop(key, None)

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
