"""Measures the costs of one scenario."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.fleet import meter
from benchmarks.fleet.centre import Centre, Timeline

Percentiles = dict[str, float]


@dataclass
class Measured:
    """The costs of a scenario: real ``seconds``, answer times in milliseconds, memory in MiB."""

    name: str
    hosts: int
    seconds: float = 0.0
    calls: int = 0
    writes: int = 0
    refused: int = 0
    given_up: int = 0
    """Calls to which the agents got no answer."""
    worst_minute: float = 0.0
    """Requests a (real) second in the worst minute of the agents' time."""
    right_after: float | None = None
    """Seconds until Placement, or the registry, has the correct data."""
    in_placement: Percentiles = field(default_factory=dict)
    seen_by_agents: Percentiles = field(default_factory=dict)
    heartbeats: int = 0
    heartbeats_lost: int = 0
    heartbeat: Percentiles = field(default_factory=dict)
    periods: int = 0
    cpu: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    queued: int = 0
    timeline: list[int] = field(default_factory=list)
    """Requests to Placement in each second."""
    also: dict[str, float] = field(default_factory=dict)
    """Further figures of this scenario."""

    def as_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        return asdict(self)


@contextmanager
def measured(centre: Centre, name: str, hosts: int, minute: int) -> Iterator[Measured]:
    """Measure what is done within this context; ``minute`` is an agents' minute in real seconds."""
    scenario = Measured(name, hosts)
    centre.fleet.send({"tell": True})
    mark, began, before = centre.placement.mark(), time.monotonic(), _cpu(centre)
    with Timeline(centre.placement) as timeline:
        scenario.timeline = timeline.seconds
        yield scenario
        scenario.seconds = round(time.monotonic() - began, 1)
    scenario.worst_minute = round(worst(scenario.timeline, minute), 1)
    scenario.cpu = {
        part: round(max(0.0, now - before[part]), 2) for part, now in _cpu(centre).items()
    }
    _add_answers(scenario, centre.fleet.send({"tell": True}))
    requests = centre.placement.since(mark)
    scenario.calls, scenario.refused = len(requests), sum(one.status == 503 for one in requests)
    scenario.writes = sum(one.is_write for one in requests)
    scenario.in_placement = _percentiles([one.milliseconds for one in requests])
    scenario.queued = centre.queued()
    scenario.memory = {part: round(meter.memory(pids), 1) for part, pids in centre.parts.items()}


def until(done: Callable[[], bool], within: float = 900.0, every: float = 0.5) -> float:
    """Wait until ``done()`` is true and return the seconds.

    :raises TimeoutError: it did not become true in time.
    """
    began = time.monotonic()
    while not done():
        if time.monotonic() - began > within:
            raise TimeoutError(f"the expected state was not reached within {within:.0f} s")
        time.sleep(every)
    return round(time.monotonic() - began, 1)


def worst(seconds: list[int], stretch: int) -> float:
    """Return the requests a second in the worst interval of ``stretch`` seconds."""
    starts = range(max(1, len(seconds) - stretch + 1))
    return max(sum(seconds[at : at + stretch]) for at in starts) / stretch


def comb(seconds: list[int]) -> float:
    """Return the highest autocorrelation of the load, at any lag up to half of its length."""
    lags = range(2, len(seconds) // 2)
    return max((_correlation(seconds[:-lag], seconds[lag:]) for lag in lags), default=0.0)


def _correlation(one: list[int], other: list[int]) -> float:
    try:
        return statistics.correlation(one, other)
    except statistics.StatisticsError:  # a constant series
        return 0.0


def _add_answers(scenario: Measured, answers: list[dict[str, Any]]) -> None:
    scenario.seen_by_agents = _percentiles([each for one in answers for each in one["calls"]])
    beats = [each for one in answers for each in one["beats"]]
    scenario.heartbeats, scenario.heartbeat = len(beats), _percentiles(beats)
    scenario.given_up = sum(one["failed"] for one in answers)
    scenario.heartbeats_lost = sum(one["beats_lost"] for one in answers)
    scenario.periods = sum(one["periods"] for one in answers)


def _cpu(centre: Centre) -> dict[str, float]:
    return {part: meter.cpu(pids) for part, pids in centre.parts.items()}


def _percentiles(values: list[float]) -> Percentiles:
    if len(values) < 2:
        return {}
    cuts = statistics.quantiles(values, n=100)
    return {"p50": round(cuts[49], 1), "p95": round(cuts[94], 1), "p99": round(cuts[98], 1)}
