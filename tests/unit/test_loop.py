"""The schedule and the queue, on a clock that only moves when somebody waits."""

import queue
import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

import pytest

from agent.loop import Job, Loop

REFRESH, STOP = "refresh", "stop"


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Commands:
    """A queue in which waiting moves the clock; ``later`` are commands by their time."""

    clock: Clock
    later: list[tuple[float, Job]] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)

    def put(self, command: Job) -> None:
        self.waiting.append(command)

    def empty(self) -> bool:
        return not self.waiting

    def qsize(self) -> int:
        return len(self.waiting)

    def get(self, timeout: float | None = None) -> Job:
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
    later: list[tuple[float, Job | str]] = field(default_factory=list)
    well: Callable[[int], object] = lambda number: None
    """What the periods return."""
    asked: int = 0
    """Refreshes that wait already when the loop begins."""
    began: list[float] = field(default_factory=list)

    def run(self, interval: float | None, first_in: float = 0.0) -> list[float]:
        """When periods began, in seconds from the start."""
        clock = Clock()
        start = clock.now
        commands = Commands(clock)
        self.loop = Loop(clock, commands)
        asks = {REFRESH: self.loop.refresh, STOP: self.loop.stop}
        for at, what in (*self.later, (self.until, STOP)):
            commands.later.append((start + at, Job(asks[what]) if isinstance(what, str) else what))
        for _ in range(self.asked):
            self.loop.refresh()

        def period() -> object:
            self.began.append(clock.now - start)
            clock.now += self.takes(len(self.began) - 1)
            return self.well(len(self.began) - 1)

        self.loop.run(period, interval, first_in)
        return self.began


@pytest.mark.parametrize(
    ("bench", "interval", "first_in", "began"),
    [
        pytest.param(Bench(200), 60, 0, [0, 60, 120, 180], id="an interval apart"),
        pytest.param(
            Bench(200, lambda _: 7.5), 60, 0, [0, 60, 120, 180], id="whatever a period takes"
        ),
        pytest.param(Bench(200), 60, 42, [42, 102, 162], id="the first at its moment"),
        pytest.param(
            Bench(200, later=[(70, REFRESH)]),
            *(60, 0, [0, 60, 70, 120, 180]),
            id="a refresh is served now and leaves the schedule",
        ),
        pytest.param(
            Bench(100, asked=3), None, 50, [0, 50], id="one serves all who asked before it"
        ),
        pytest.param(
            Bench(10_000, later=[(5000, REFRESH)]),
            *(None, 0, [0, 5000]),
            id="without an interval one, and those asked for",
        ),
        pytest.param(
            Bench(250, well=lambda _: False, later=[(60.2, REFRESH), (130, REFRESH)]),
            *(60, 0, [0, 60, 61, 120, 130, 180, 240]),
            id="who asks after one of the schedule failed waits a second only",
        ),
        pytest.param(Bench(3), 60, 5, [], id="none after a stop"),
    ],
)
def test_when_periods_begin(
    bench: Bench, interval: float | None, first_in: float, began: list[float]
) -> None:
    assert bench.run(interval, first_in) == began


def test_periods_keep_their_times_among_callers_that_never_pause() -> None:
    """Each call takes 0.1 s, and its caller calls again."""
    bench = Bench(10)

    def call() -> None:
        clock = bench.loop.clock
        assert isinstance(clock, Clock)
        clock.now += 0.1
        if clock.now < 1009.0:
            bench.loop.post(call)

    bench.later = [(0, Job(call)) for _ in range(8)]
    among_calls = [at for at in bench.run(0.5) if at < 9]
    assert len(among_calls) >= 9, "a period waits for the calls that were posted before it"


SKIPPED = "The period took longer than update_resources_interval (60 s): {} skipped"


@pytest.mark.parametrize(
    ("bench", "began", "skipped"),
    [
        (Bench(400, lambda number: 130 if number == 1 else 0), [0, 60, 240, 300, 360], [2]),
        (Bench(250, lambda _: 60), [0, 120, 240], [1, 1, 1]),
        (Bench(200, lambda _: 59), [0, 60, 120, 180], []),
    ],
    ids=["much longer", "as long", "shorter"],
)
def test_periods_that_one_ran_over_are_skipped_with_a_warning(
    bench: Bench, began: list[float], skipped: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    assert bench.run(60) == began
    assert caplog.messages == [SKIPPED.format(number) for number in skipped]


def test_refreshes_that_came_during_a_period_make_one_more() -> None:
    bench = Bench(until=100)

    def takes(number: int) -> float:
        if number == 0:
            for _ in range(3):
                bench.loop.refresh()
        return 5

    bench.takes = takes
    assert bench.run(60) == [0, 6, 60]


def asking_again(bench: Bench) -> Bench:
    """Each of its periods asks for one more."""

    def takes(number: int) -> float:
        assert number < 100, "a storm of periods"
        bench.loop.refresh()
        return 0

    bench.takes = takes
    return bench


@pytest.mark.parametrize(
    ("bench", "interval", "began"),
    [
        (Bench(7), 3.5, [0, 1, 2, 3, 3.5, 4.5, 5.5, 6.5]),
        (Bench(150, well=lambda _: False), None, [0, 1, 3, 7, 15, 31, 61, 91, 121]),
        (Bench(12, well=lambda number: number == 3), None, [0, 1, 3, 7, 8, 10]),
    ],
    ids=["a second, beside the schedule", "longer while they fail", "one went well"],
)
def test_periods_that_ask_for_another_wait(
    bench: Bench, interval: float | None, began: list[float]
) -> None:
    assert asking_again(bench).run(interval) == began


def test_jobs_do_not_wait_with_those_who_ask_for_periods() -> None:
    bench = asking_again(Bench(until=20, well=lambda number: False))
    done, _ = posted_at(bench, 9)
    bench.run(None)
    assert done == [9]
    assert 9 not in bench.began


def test_an_error_of_a_period_comes_out() -> None:
    def takes(number: int) -> float:
        raise RuntimeError("fatal")

    with pytest.raises(RuntimeError, match="fatal"):
        Bench(until=100, takes=takes).run(60)


# -- jobs


def posted_at(bench: Bench, at: float) -> tuple[list[float], Job]:
    """A job that comes ``at`` seconds after the start, and when it was done."""
    done: list[float] = []
    job = Job(lambda: done.append(bench.loop.clock() - 1000), Future())
    bench.later = [(at, job)]
    return done, job


def test_a_job_is_done_between_two_periods_and_leaves_the_schedule() -> None:
    bench = Bench(until=200)
    done, job = posted_at(bench, 70)
    assert bench.run(60) == [0, 60, 120, 180]
    assert done == [70]
    assert job.done.done()


def test_jobs_are_done_before_a_period_that_is_overdue() -> None:
    bench, order = Bench(until=200), []

    def takes(number: int) -> float:
        order.append("period")
        if number == 0:
            for name in ("one", "two"):
                bench.loop.post(lambda name=name: order.append(name))
            return 70
        return 0

    bench.takes = takes
    bench.run(60)
    assert order[:4] == ["period", "one", "two", "period"]


def raising(error: BaseException) -> Callable[[], None]:
    def fails() -> None:
        raise error

    return fails


ERRORS = pytest.mark.parametrize("error", [RuntimeError("no"), SystemExit("no")], ids=repr)


@ERRORS
def test_what_a_job_raises_goes_to_its_caller_and_the_loop_goes_on(error: BaseException) -> None:
    bench = Bench(until=100)
    job = Job(raising(error), Future())
    bench.later = [(10, job)]
    assert bench.run(60) == [0, 60]
    with pytest.raises(type(error), match="no"):
        job.done.result(0)


def test_a_job_for_later_is_done_at_its_time_and_once() -> None:
    bench, done = Bench(until=300), []

    def begin() -> None:
        bench.loop.later(25, lambda: done.append(bench.loop.clock() - 1000))

    bench.later = [(10, Job(begin, Future()))]
    assert bench.run(60) == [0, 60, 120, 180, 240]
    assert done == [35]


def test_work_for_later_that_waits_already_is_done_once_at_the_new_time() -> None:
    bench, done = Bench(until=300), []

    def work() -> None:
        done.append(bench.loop.clock() - 1000)

    bench.later = [(at, Job(lambda: bench.loop.later(25, work), Future())) for at in (10, 20)]
    bench.run(60)
    assert done == [45]


@ERRORS
@pytest.mark.parametrize(
    "hand_over", [lambda loop, work: loop.later(5, work), lambda loop, work: loop.post(work)]
)
def test_a_failed_job_whose_result_nobody_takes_is_logged(
    hand_over: Callable[[Loop, Callable[[], None]], None],
    error: BaseException,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(until=100)
    bench.later = [(10, Job(lambda: hand_over(bench.loop, raising(error)), Future()))]
    assert bench.run(60) == [0, 60]
    [record] = caplog.records
    assert (record.levelname, record.message) == ("ERROR", "A scheduled job failed")
    assert record.exc_info is not None


def test_jobs_run_without_an_interval_and_after_their_refresh() -> None:
    bench = Bench(until=50)
    done, _ = posted_at(bench, 20)
    bench.later.append((20, REFRESH))
    assert bench.run(None) == [0, 20]
    assert done == [20]


def told_another_interval(seed: int, interval: float | None) -> list[float]:
    """One of many hosts that are all reloaded at the same second, ten seconds after a period."""
    bench = Bench(until=400)

    def every() -> None:
        bench.loop.reschedule(interval, random.Random(seed).uniform(0.0, 120.0))

    bench.later = [(70, Job(every, Future()))]
    return bench.run(60)


def test_hosts_with_a_new_interval_are_not_in_step() -> None:
    began = [told_another_interval(seed, 120) for seed in range(50)]
    assert all(one[:2] == [0, 60] for one in began)
    firsts = sorted(one[2] - 70 for one in began)
    assert 0 <= firsts[0] < 20 and 100 < firsts[-1] <= 120
    assert len(set(firsts)) == len(began)
    assert all(later - one[2] == 120 for one in began for later in one[3:4])


def test_no_interval_any_more_is_one_period_more() -> None:
    began = told_another_interval(1, None)
    assert began[:2] == [0, 60] and len(began) == 3


def test_a_stop_ends_the_loop_after_the_period_and_cancels_its_jobs() -> None:
    bench = Bench(until=1000)
    left: Future[None] = Future()

    def takes(number: int) -> float:
        if number == 1:
            bench.loop.refresh()
            bench.loop.stop()
            bench.loop.commands.put(Job(lambda: None, left))
        return 0

    bench.takes = takes
    assert bench.run(60) == [0, 60] and bench.loop.stopping
    assert left.cancelled()
    assert bench.loop.submit(lambda: None).cancelled()
