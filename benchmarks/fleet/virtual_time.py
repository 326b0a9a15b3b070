"""Virtual time: threads of which one runs at a time, the one that wakes first."""

import heapq
import threading
from collections.abc import Callable


class Ended(BaseException):
    """The simulation is over; not an ``Exception``, so that no agent handles it."""


class Scheduler:
    """Runs functions as threads; the clock jumps to the time of the next one."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._number = 0
        self._parked = threading.Semaphore(0)
        self._over = False

    def clock(self) -> float:
        """Return the present time in seconds."""
        return self.now

    def call(self, work: Callable[[], object], after: float) -> None:
        """Call ``work``, which must not sleep, after so many seconds."""
        self._number += 1
        heapq.heappush(self._due, (self.now + max(0.0, after), self._number, work))

    def spawn(self, work: Callable[[], None]) -> None:
        """Run ``work``, which may sleep, in a thread of its own."""

        def run() -> None:
            try:
                work()
            except Ended:
                pass
            finally:
                self._parked.release()

        self.call(lambda: self._resume(threading.Thread(target=run, daemon=True).start), 0.0)

    def sleep(self, seconds: float) -> None:
        """Sleep in a spawned thread.

        :raises Ended: the simulation was closed.
        """
        woken = threading.Semaphore(0)
        self.call(lambda: self._resume(woken.release), seconds)
        self._parked.release()
        woken.acquire()
        if self._over:
            raise Ended

    def run(self, until: float) -> None:
        """Run all threads until this time."""
        while self._due and self._due[0][0] <= until:
            self.now, _, work = heapq.heappop(self._due)
            work()
        self.now = until

    def close(self) -> None:
        """End all threads."""
        self._over = True
        while self._due:
            self.run(self._due[0][0])

    def _resume(self, thread: Callable[[], object]) -> None:
        """Let a thread run until it sleeps or ends."""
        thread()
        self._parked.acquire()
