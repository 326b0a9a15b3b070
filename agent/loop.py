"""When things happen: a schedule without drift, commands in between, and the end.

The loop is one thread and sleeps on one queue.  Whoever wants something of it
(a signal, a driver's event) puts a command there.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

LOG = logging.getLogger(__name__)


class Command(Enum):
    """What can be asked of the loop."""

    REFRESH = "refresh"
    STOP = "stop"


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
            self.due = float("inf")
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
    commands: queue.SimpleQueue[Command] = field(default_factory=queue.SimpleQueue)
    stopping: bool = False

    def run(
        self, period: Callable[[], object], interval: float | None, first_in: float = 0.0
    ) -> None:
        """Until :meth:`stop`.  The first period comes after ``first_in`` seconds."""
        schedule = Schedule(interval, self.clock() + first_in)
        while not self.stopping:
            command = self._wait(schedule.due)
            if command is Command.STOP or self.stopping:
                break
            period()
            if command is None:
                missed = schedule.after(self.clock())
                if missed:
                    LOG.warning(
                        "The period took longer than update_resources_interval (%g s): %d left out",
                        schedule.interval,
                        missed,
                    )

    def stop(self) -> None:
        """End after what is being done now.  Any thread, or a signal handler, may call it."""
        self.stopping = True
        self.commands.put(Command.STOP)

    def refresh(self) -> None:
        """Ask for a period now.  Any thread may call it."""
        self.commands.put(Command.REFRESH)

    def _wait(self, due: float) -> Command | None:
        """The next command, or ``None`` when it is time."""
        while (left := due - self.clock()) > 0:
            try:
                return self._with_all_that_wait(
                    self.commands.get(timeout=min(left, self.idle_every))
                )
            except queue.Empty:
                self.idle()
        return None

    def _with_all_that_wait(self, command: Command) -> Command:
        """One period serves everybody who asked before it began."""
        while command is not Command.STOP and not self.commands.empty():
            command = self.commands.get()
        return command
