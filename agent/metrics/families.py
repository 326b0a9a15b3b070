"""Families of numbers that have the same first word, as agent and registry make them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

SHORT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LONG = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Upper bounds of the buckets, in seconds: of a call, and of a period."""

Rows = Iterable[tuple[tuple[str, ...], float | None]]
"""Values by their labels; ``None``: not known."""


@dataclass(frozen=True, slots=True)
class Families:
    """Those whose names begin with ``prefix``."""

    prefix: str
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        """What only grows."""
        return Counter(f"{self.prefix}_{name}", text, labels, registry=self.registry)

    def seconds(
        self, name: str, text: str, *labels: str, buckets: Sequence[float] = SHORT
    ) -> Histogram:
        """How long something takes."""
        full = f"{self.prefix}_{name}_seconds"
        return Histogram(full, text, labels, buckets=buckets, registry=self.registry)


def gauge(name: str, text: str, labels: tuple[str, ...], rows: Rows) -> Metric:
    """What is read when somebody asks; ``name`` is the whole of it."""
    made = GaugeMetricFamily(name, text, labels=labels)
    for values, number in rows:
        if number is not None:
            made.add_metric(values, number)
    return made
