"""One thread, virtual time: actors are greenlets, and a seed decides who goes first.

What the agent waits with (events, locks, queues, futures) is here once more, so that to
wait is to let others go on.  Nothing sleeps: time jumps to whatever comes next.
"""

from __future__ import annotations

import heapq
import queue
import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from greenlet import GreenletExit, getcurrent, greenlet


class Owner(Protocol):
    """A process: what it began does not go on once it is dead."""

    alive: bool


class Task:
    """One thread of somebody's; ``turn`` counts how often it went on."""

    __slots__ = ("green", "owner", "turn")

    def __init__(self, green: greenlet, owner: Owner | None) -> None:
        self.green, self.owner, self.turn = green, owner, 0


class Scheduler:
    def __init__(self, seed: object) -> None:
        self.now = 0.0
        self.dice = random.Random(f"{seed} order")
        self._due: list[tuple[float, float, int, Task, int]] = []
        self._number = 0
        self._tasks: dict[greenlet, Task] = {}
        self._hub = getcurrent()

    # -- for the world

    def spawn(
        self, work: Callable[[], Any], owner: Owner | None = None, after: float = 0.0
    ) -> Task:
        task = Task(greenlet(work, self._hub), owner)
        self._tasks[task.green] = task
        self.wake(task, task.turn, after)
        return task

    def run(self, until: float) -> None:
        """Whatever an actor raises is raised here."""
        while self._due and self._due[0][0] <= until:
            at, _, _, task, turn = heapq.heappop(self._due)
            if turn != task.turn or not (task.owner is None or task.owner.alive):
                continue
            self.now = max(self.now, at)
            task.turn += 1
            task.green.switch()
            if task.green.dead:
                del self._tasks[task.green]
        self.now = max(self.now, until)

    def close(self) -> None:
        """End those that wait; what they do about it has no effect any more."""
        for green in list(self._tasks):
            green.throw(GreenletExit)
        self._tasks.clear()

    # -- for actors

    @property
    def current(self) -> Task:
        return self._tasks[getcurrent()]

    @property
    def owner(self) -> Any:
        """Whose code runs now; ``None``: nobody's."""
        task = self._tasks.get(getcurrent())
        return None if task is None else task.owner

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.suspend(max(0.0, seconds))

    def suspend(self, timeout: float | None = None) -> None:
        """Until somebody wakes it, or for so many seconds."""
        if timeout is not None:
            task = self.current
            self.wake(task, task.turn, timeout)
        self._hub.switch()

    def wake(self, task: Task, turn: int, after: float = 0.0) -> None:
        self._number += 1
        entry = (self.now + after, self.dice.random(), self._number, task, turn)
        heapq.heappush(self._due, entry)


class Event:
    """As ``threading.Event``."""

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
    """As ``threading.RLock``."""

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
    """As ``queue.SimpleQueue``, for one reader."""

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


class Promise(Future[Any]):
    """As ``concurrent.futures.Future``."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            done = Event(self._scheduler)
            self.add_done_callback(lambda _: done.set())
            if not done.wait(timeout):
                raise TimeoutError
        return super().result(0)
