"""Many nodes at once: a bounded number of threads, and none that hangs holds the others.

A round ends when all its jobs are done, or when for a while none was: what hangs is left
to its thread, others take its place, and its job is not begun again before it has ended.
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
    """A node's period has not ended: something hangs."""


@dataclass(slots=True)
class _Round:
    """Jobs that wait, and those that are done; ``over``: nobody looks there any more."""

    pending: deque[tuple[str, Job]]
    done: queue.SimpleQueue[tuple[str, Report]] = field(default_factory=queue.SimpleQueue)
    over: bool = False


@dataclass(slots=True)
class Workers:
    """``at_once`` jobs at the same time; one that takes ``patience`` seconds while no other
    ends is not counted any more.  There are never more than ``most`` threads.
    """

    at_once: int = 8
    patience: float = 10.0
    most: int = 64
    clock: Callable[[], float] = time.monotonic
    _since: dict[str, float] = field(default_factory=dict)
    _late: dict[str, Report] = field(default_factory=dict)

    def each(self, trackers: Sequence[Tracker], job: Callable[[Tracker], Report]) -> list[Report]:
        """The job done for each of them; what hangs is told as not done."""
        busy = any(self.busy(tracker.uuid) is not None for tracker in trackers)
        if len(trackers) == 1 and not busy:
            return [_safely(job, trackers[0])]
        reports = self._taught(trackers, job) if not busy else {}
        rest = {one.uuid: partial(_safely, job, one) for one in trackers if one.uuid not in reports}
        reports |= self.run(rest)
        return [self._report_of(tracker, reports.get(tracker.uuid)) for tracker in trackers]

    def _taught(
        self, trackers: Sequence[Tracker], job: Callable[[Tracker], Report]
    ) -> dict[str, Report]:
        """New roots learn which names Placement knows: from others, or from the first of them."""
        new = [tracker for tracker in trackers if not tracker.view.generations]
        if not new:
            return {}
        taught = [tracker for tracker in trackers if tracker.view.generations]
        teacher = taught[0] if taught else new[0]
        reports = {}
        if not taught:
            reports = self.run({teacher.uuid: partial(_safely, job, teacher)})
        if self.busy(teacher.uuid) is None:
            for tracker in new:
                if tracker is not teacher:
                    tracker.view = replace(View(), names=teacher.view.names)
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
            f"driver {one.name} is in {method}"
            for one in tracker.drivers
            for _, method in one.calls.now
        )
        doing = next((text for text in under_way if f"({tracker.node})" in text), tracker.activity)
        return NotDone(f"not finished after {seconds:.0f} s: {doing}; other nodes are not affected")

    def run(self, jobs: Mapping[str, Job]) -> dict[str, Report]:
        """Return the results of the jobs by key, without those that are not done in time."""
        waiting = {key: job for key, job in jobs.items() if key not in self._since}
        round_ = _Round(deque(waiting.items()))
        reports: dict[str, Report] = {}
        self._hire(round_)
        while len(reports) < len(waiting):
            try:
                key, report = round_.done.get(timeout=self.patience)
            except queue.Empty:
                if not round_.pending or not self._hire(round_):
                    break
            else:
                reports[key] = report
        round_.over = True
        round_.pending.clear()
        return reports

    def busy(self, key: str) -> float | None:
        """For how many seconds this job has been at work; ``None``: it is not."""
        since = self._since.get(key)
        return None if since is None else self.clock() - since

    def late(self, key: str) -> Report | None:
        """Return, once, the result of a job that ended late."""
        return self._late.pop(key, None)

    def _hire(self, round_: _Round) -> int:
        """More threads, as many as may work at once; how many there are now."""
        wanted = min(self.at_once, len(round_.pending), self.most - len(self._since))
        for _ in range(wanted):
            # A daemon: whoever hangs must not hold up the end of the process.
            threading.Thread(target=self._work, args=[round_], name="node", daemon=True).start()
        return wanted

    def _work(self, round_: _Round) -> None:
        while True:
            try:
                key, job = round_.pending.popleft()
            except IndexError:
                return
            self._since[key] = self.clock()
            report = job()
            if round_.over:
                self._late[key] = report
            del self._since[key]
            round_.done.put((key, report))


def _safely(job: Callable[[Tracker], Report], tracker: Tracker) -> Report:
    began = time.monotonic()
    try:
        report = job(tracker)
    except SystemExit as err:
        report = Report(
            tracker.node, error=DriverError(f"a driver raised SystemExit: {error_text(err)}")
        )
    return replace(report, seconds=time.monotonic() - began)
