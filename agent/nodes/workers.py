"""Many nodes at once: a bounded number of threads, and none that hangs holds the others.

A round ends when all its jobs are done, or when for a while none was: what hangs is left
to its thread, others take its place, and its job is not begun again before it has ended.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from agent.period.tracker import Tracker
from agent.told.reports import Report
from drivers.errors import DriverError
from drivers.loaded import words

Job = Callable[[], Report]


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

    def run(self, jobs: Mapping[str, Job]) -> dict[str, Report]:
        """What the jobs return, by their keys; those that are not done are left out."""
        waiting = {key: job for key, job in jobs.items() if key not in self._since}
        round_ = _Round(deque(waiting.items()))
        found: dict[str, Report] = {}
        self._hire(round_)
        while len(found) < len(waiting):
            try:
                key, report = round_.done.get(timeout=self.patience)
            except queue.Empty:
                if not round_.pending or not self._hire(round_):
                    break
            else:
                found[key] = report
        round_.over = True
        round_.pending.clear()
        return found

    def busy(self, key: str) -> float | None:
        """For how many seconds this job has been at work; ``None``: it is not."""
        since = self._since.get(key)
        return None if since is None else self.clock() - since

    def late(self, key: str) -> Report | None:
        """What a job returned after its round was over, once."""
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


def safely(job: Callable[[Tracker], Report], tracker: Tracker) -> Report:
    """With how long it took; a driver that ends the process ends its own period only."""
    began = time.monotonic()
    try:
        report = job(tracker)
    except SystemExit as err:
        report = Report(tracker.node, error=DriverError(f"a driver ended: {words(err)}"))
    return replace(report, seconds=time.monotonic() - began)
