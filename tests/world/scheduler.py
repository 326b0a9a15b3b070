"""A scheduler with virtual time in one thread: actors are greenlets, and a seed decides their order.

It replaces the events, locks, queues and futures that the agent waits on, so that other actors run
while one waits.  Nothing sleeps: the clock jumps to the next event.
"""

from __future__ import annotations

import heapq
import queue
import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any, Protocol

from greenlet import GreenletExit, getcurrent, greenlet

LEAVES_WITHIN = 20
"""How often a task may wait while it is being ended: each ``finally`` may wait once."""


class Owner(Protocol):
    """A process; its tasks do not continue after its end."""

    alive: bool


class Task:
    """A thread of a process, or of the simulation; ``turn`` counts how often it was resumed."""

    __slots__ = ("green", "owner", "turn")

    def __init__(self, green: greenlet, owner: Owner | None) -> None:
        self.green, self.owner, self.turn = green, owner, 0


class Scheduler:
    def __init__(self, seed: object) -> None:
        self.now = 0.0
        self.dice = random.Random(f"{seed} order")
        self._due: list[tuple[float, float, int, Task | Callable[[], Any], int]] = []
        self._number = 0
        self._tasks: dict[Task, None] = {}
        self._hub = getcurrent()
        self._running: Task | None = None
        self.strays = 0
        """Number of pending calls whose sender has given them up."""

    # -- for the world

    def spawn(
        self, work: Callable[[], Any], owner: Owner | None = None, after: float = 0.0
    ) -> Task:
        task = Task(greenlet(work, self._hub), owner)
        self._tasks[task] = None
        self.wake(task, task.turn, after)
        return task

    def call(self, work: Callable[[], Any], after: float) -> None:
        """Call ``work`` later, without a task: it must not wait.  This is cheaper than ``spawn``."""
        self._put(after, work, 0)

    def stray(self, work: Callable[[], Any], after: float) -> None:
        """Like :meth:`call`, for work whose sender has given it up."""

        def come() -> None:
            self.strays -= 1
            work()

        self.strays += 1
        self.call(come, after)

    def run(self, until: float) -> None:
        """Run all tasks until this time; an exception of an actor is raised here."""
        due = self._due
        while due and due[0][0] <= until:
            at, _, _, task, turn = heapq.heappop(due)
            if not isinstance(task, Task):
                self.now = max(self.now, at)
                task()
                continue
            if turn != task.turn or not (task.owner is None or task.owner.alive):
                continue
            self.now = max(self.now, at)
            task.turn += 1
            self._running = task
            task.green.switch()
            self._running = None
            if task.green.dead:
                del self._tasks[task]
        self.now = max(self.now, until)

    def close(self) -> None:
        """End all waiting tasks."""
        for task in list(self._tasks):
            self._running = task
            for _ in range(LEAVES_WITHIN):
                if not task.green.dead:
                    task.green.throw(GreenletExit)
        self._running = None
        self._tasks.clear()
        self._due.clear()

    # -- for actors

    @property
    def current(self) -> Task:
        assert self._running is not None, "no task is running: only a spawned task may wait"
        return self._running

    @property
    def owner(self) -> Any:
        """The process whose task is running; ``None`` if there is none."""
        return None if self._running is None else self._running.owner

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.suspend(max(0.0, seconds))

    def suspend(self, timeout: float | None = None) -> None:
        """Wait until the task is woken, at most for ``timeout`` seconds."""
        if timeout is not None:
            task = self.current
            self.wake(task, task.turn, timeout)
        self._hub.switch()

    def wake(self, task: Task, turn: int, after: float = 0.0) -> None:
        self._put(after, task, turn)

    def _put(self, after: float, what: Task | Callable[[], Any], turn: int) -> None:
        self._number += 1
        heapq.heappush(self._due, (self.now + after, self.dice.random(), self._number, what, turn))


class Event:
    """Replaces ``threading.Event``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._waiting: list[tuple[Task, int]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for task, turn in waiting:
            self._scheduler.wake(task, turn)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            task = self._scheduler.current
            self._waiting.append((task, task.turn))
            self._scheduler.suspend(timeout)
        return self._is_set


class Lock:
    """Replaces ``threading.RLock``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._holder: Task | None = None
        self._times = 0
        self._waiting: deque[tuple[Task, int]] = deque()

    def __enter__(self) -> None:
        task = self._scheduler.current
        while self._holder not in (None, task):
            self._waiting.append((task, task.turn))
            self._scheduler.suspend()
        self._holder, self._times = task, self._times + 1

    def __exit__(self, *_: object) -> None:
        self._times -= 1
        if not self._times:
            self._holder = None
            if self._waiting:
                self._scheduler.wake(*self._waiting.popleft())


class Queue:
    """Replaces ``queue.SimpleQueue``, for one reader."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._items: deque[Any] = deque()
        self._more = Event(scheduler)

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._more.set()

    def empty(self) -> bool:
        return not self._items

    def get(self, timeout: float | None = None) -> Any:
        if not self._items:
            self._more.clear()
            self._more.wait(timeout)
        if not self._items:
            raise queue.Empty
        return self._items.popleft()


class Promise:
    """Replaces ``concurrent.futures.Future``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._outcome: tuple[Any, BaseException | None] | None = None
        self._then: list[Callable[[Any], object]] = []

    def done(self) -> bool:
        return self._outcome is not None

    def cancelled(self) -> bool:
        return self._outcome is not None and isinstance(self._outcome[1], CancelledError)

    def set_running_or_notify_cancel(self) -> bool:
        return not self.done()

    def set_result(self, result: Any) -> None:
        self._end(result, None)

    def set_exception(self, err: BaseException) -> None:
        self._end(None, err)

    def cancel(self) -> bool:
        if not self.done():
            self._end(None, CancelledError())
        return self.cancelled()

    def add_done_callback(self, act: Callable[[Any], object]) -> None:
        if self.done():
            act(self)
        else:
            self._then.append(act)

    def result(self, timeout: float | None = None) -> Any:
        """:raises TimeoutError:"""
        if self._outcome is None:
            done = Event(self._scheduler)
            self._then.append(lambda _: done.set())
            done.wait(timeout)
        if self._outcome is None:
            raise TimeoutError
        value, err = self._outcome
        if err is not None:
            raise err
        return value

    def _end(self, result: Any, err: BaseException | None) -> None:
        self._outcome = self._outcome or (result, err)
        then, self._then = self._then, []
        for act in then:
            act(self)
