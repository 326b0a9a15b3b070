"""What one scenario cost."""

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
    """``seconds`` on the wall; times of answers in milliseconds, memory in MiB."""

    name: str
    hosts: int
    seconds: float = 0.0
    calls: int = 0
    writes: int = 0
    refused: int = 0
    worst_minute: float = 0.0
    """Requests a second in the worst minute, in the agents' time: not divided."""
    right_after: float | None = None
    """Seconds until Placement, or the registry, says what it should."""
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
    """Requests at Placement in each second."""
    also: dict[str, float] = field(default_factory=dict)
    """What is said of this scenario only."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@contextmanager
def measured(centre: Centre, name: str, hosts: int, minute: int) -> Iterator[Measured]:
    """Whatever is done inside; ``minute`` is how long one of the agents is on the wall."""
    found = Measured(name, hosts)
    centre.fleet.say({"tell": True})
    mark, began, before = centre.placement.mark(), time.monotonic(), _cpu(centre)
    with Timeline(centre.placement) as timeline:
        found.timeline = timeline.seconds
        yield found
        found.seconds = round(time.monotonic() - began, 1)
    found.worst_minute = round(worst(found.timeline, minute), 1)
    found.cpu = {part: round(max(0.0, now - before[part]), 2) for part, now in _cpu(centre).items()}
    _hear(found, centre.fleet.say({"tell": True}))
    requests = centre.placement.since(mark)
    found.calls, found.refused = len(requests), sum(one.status == 503 for one in requests)
    found.writes = sum(one.is_write for one in requests)
    found.in_placement = _percentiles([one.milliseconds for one in requests])
    found.queued = centre.queued()
    found.memory = {part: round(meter.memory(pids), 1) for part, pids in centre.parts.items()}


def until(done: Callable[[], bool], within: float = 900.0, every: float = 0.5) -> float:
    """Seconds until it is so.

    :raises TimeoutError: it is not, in that time: what is measured from then on says nothing.
    """
    began = time.monotonic()
    while not done():
        if time.monotonic() - began > within:
            raise TimeoutError(f"the fleet is not right {within:.0f} s after what happened last")
        time.sleep(every)
    return round(time.monotonic() - began, 1)


def worst(seconds: list[int], stretch: int) -> float:
    """Requests a second in the worst stretch of that many seconds."""
    starts = range(max(1, len(seconds) - stretch + 1))
    return max(sum(seconds[at : at + stretch]) for at in starts) / stretch


def comb(seconds: list[int]) -> float:
    """How much the load repeats itself: the highest autocorrelation at any lag to a half of it."""
    lags = range(2, len(seconds) // 2)
    return max((_correlation(seconds[:-lag], seconds[lag:]) for lag in lags), default=0.0)


def _correlation(one: list[int], other: list[int]) -> float:
    try:
        return statistics.correlation(one, other)
    except statistics.StatisticsError:  # one of them never changes
        return 0.0


def _hear(found: Measured, told: list[dict[str, Any]]) -> None:
    found.seen_by_agents = _percentiles([each for one in told for each in one["calls"]])
    beats = [each for one in told for each in one["beats"]]
    found.heartbeats, found.heartbeat = len(beats), _percentiles(beats)
    found.heartbeats_lost = sum(one["beats_lost"] for one in told)
    found.periods = sum(one["periods"] for one in told)


def _cpu(centre: Centre) -> dict[str, float]:
    return {part: meter.cpu(pids) for part, pids in centre.parts.items()}


def _percentiles(values: list[float]) -> Percentiles:
    if len(values) < 2:
        return {}
    cuts = statistics.quantiles(values, n=100)
    return {"p50": round(cuts[49], 1), "p95": round(cuts[94], 1), "p99": round(cuts[98], 1)}
