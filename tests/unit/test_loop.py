"""The schedule and the queue, on a clock that only moves when somebody waits."""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from agent.loop import Command, Loop, Schedule


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Commands:
    """A queue in which waiting moves the clock; ``later`` are commands by their time."""

    clock: Clock
    later: list[tuple[float, Command]] = field(default_factory=list)
    waiting: list[Command] = field(default_factory=list)

    def put(self, command: Command) -> None:
        self.waiting.append(command)

    def empty(self) -> bool:
        return not self.waiting

    def get(self, timeout: float | None = None) -> Command:
        if self.waiting:
            return self.waiting.pop(0)
        assert timeout is not None and timeout > 0, "it would wait for ever, or not at all"
        if self.later and self.later[0][0] <= self.clock.now + timeout:
            at, command = self.later.pop(0)
            self.clock.now = max(self.clock.now, at)
            return command
        self.clock.now += timeout
        raise queue.Empty


@dataclass
class Bench:
    """A loop whose periods take ``takes`` seconds; ends by itself at ``until``."""

    until: float
    takes: Callable[[int], float] = lambda number: 0.0
    later: list[tuple[float, Command]] = field(default_factory=list)
    asked: int = 0
    """Refreshes that wait already when the loop begins."""
    began: list[float] = field(default_factory=list)
    idled: list[float] = field(default_factory=list)

    def run(self, interval: float | None, first_in: float = 0.0) -> list[float]:
        """When periods began, in seconds from the start."""
        clock = Clock()
        start = clock.now
        later = [(start + at, command) for at, command in self.later]
        commands = Commands(clock, [*later, (start + self.until, Command.STOP)])
        self.loop = Loop(lambda: self.idled.append(clock.now - start), 10.0, clock, commands)
        for _ in range(self.asked):
            self.loop.refresh()

        def period() -> None:
            self.began.append(clock.now - start)
            clock.now += self.takes(len(self.began) - 1)

        self.loop.run(period, interval, first_in)
        return self.began


def test_periods_begin_an_interval_apart() -> None:
    assert Bench(until=200).run(60) == [0, 60, 120, 180]


def test_what_a_period_takes_does_not_shift_the_next() -> None:
    assert Bench(until=200, takes=lambda number: 7.5).run(60) == [0, 60, 120, 180]


def test_the_first_period_waits_for_its_moment() -> None:
    assert Bench(until=200).run(60, first_in=42) == [42, 102, 162]


def test_a_period_that_takes_too_long_makes_those_it_ran_over_fall_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(until=400, takes=lambda number: 130 if number == 1 else 0)
    assert bench.run(60) == [0, 60, 240, 300, 360]
    assert [record.getMessage() for record in caplog.records] == [
        "The period took longer than update_resources_interval (60 s): 2 left out"
    ]


def test_a_period_of_just_the_interval_leaves_one_out_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert Bench(until=250, takes=lambda number: 60).run(60) == [0, 120, 240]
    assert len(caplog.records) == 3


def test_a_quick_period_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        Bench(until=200, takes=lambda number: 59).run(60)
    assert not caplog.records


def test_a_refresh_is_served_now_and_leaves_the_schedule() -> None:
    bench = Bench(until=200, later=[(70, Command.REFRESH)])
    assert bench.run(60) == [0, 60, 70, 120, 180]


def test_one_period_serves_all_who_asked_before_it() -> None:
    assert Bench(until=100, asked=3).run(None, first_in=50) == [0, 50]


def test_refreshes_that_came_during_a_period_make_one_more() -> None:
    bench = Bench(until=100)

    def takes(number: int) -> float:
        if number == 0:
            for _ in range(3):
                bench.loop.refresh()
        return 5

    bench.takes = takes
    assert bench.run(60) == [0, 5, 60]


def test_without_an_interval_there_is_one_period_and_those_asked_for() -> None:
    bench = Bench(until=10_000, later=[(5000, Command.REFRESH)])
    assert bench.run(None) == [0, 5000]


def test_idle_is_called_often_enough_for_a_watchdog() -> None:
    bench = Bench(until=1000)
    bench.run(None)
    gaps = [after - before for before, after in zip(bench.idled, bench.idled[1:], strict=False)]
    assert gaps and max(gaps) <= 10


def test_a_stop_ends_the_loop_before_its_first_period() -> None:
    assert Bench(until=3).run(60, first_in=5) == []


def test_a_stop_during_a_period_is_the_last_thing() -> None:
    bench = Bench(until=1000)

    def takes(number: int) -> float:
        if number == 1:
            bench.loop.refresh()
            bench.loop.stop()
        return 0

    bench.takes = takes
    assert bench.run(60) == [0, 60]
    assert bench.loop.stopping


def test_an_error_of_a_period_comes_out() -> None:
    def takes(number: int) -> float:
        raise RuntimeError("fatal")

    with pytest.raises(RuntimeError, match="fatal"):
        Bench(until=100, takes=takes).run(60)


@pytest.mark.parametrize(
    ("now", "missed", "due"),
    [(100, 0, 160), (159.9, 0, 160), (160, 1, 220), (219.9, 1, 220), (1000, 15, 1060)],
)
def test_the_next_time_is_always_ahead_and_on_the_grid(now: float, missed: int, due: float) -> None:
    schedule = Schedule(60.0, 100.0)
    assert schedule.after(now) == missed
    assert schedule.due == due
