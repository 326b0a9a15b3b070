"""The results of a run, as a value that is saved in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from benchmarks.scenarios import COLD, COLD_BULK, SCENARIOS

METRICS: Mapping[str, tuple[str, str]] = {
    "calls": ("Calls", ""),
    "bytes": ("Bytes of bodies, both ways", "KiB"),
    "client_cpu_ms": ("Client CPU", "ms"),
    "wall_ms": ("Wall time", "ms"),
    "server_ms": ("Server time", "ms"),
}
"""The metrics that are shown: title and unit by name."""

Costs = dict[str, dict[str, float]]
"""Costs by scenario and metric."""


@dataclass(frozen=True, slots=True)
class Case:
    """The results of one size: medians of all runs; ``reference`` is empty if it was not run."""

    providers: int
    consumers: int
    ours: Costs
    reference: Costs

    def pair(self, scenario: str, metric: str) -> tuple[float | None, float | None]:
        """Return the costs of the reference and ours; the reference has no bulk writes."""
        theirs = self.reference.get(COLD if scenario == COLD_BULK else scenario, {})
        return theirs.get(metric), self.ours.get(scenario, {}).get(metric)

    def ratio(self, scenario: str, metric: str) -> float | None:
        """Return the reference's cost divided by ours; ``None`` if either is missing or 0."""
        theirs, ours = self.pair(scenario, metric)
        return theirs / ours if theirs and ours else None


@dataclass(frozen=True, slots=True)
class Results:
    """All results of one run, with the versions and conditions as texts."""

    versions: Mapping[str, str]
    conditions: Mapping[str, str]
    cases: Sequence[Case] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        return asdict(self)


def medians(runs: Sequence[Mapping[str, Sequence[Mapping[str, float]]]]) -> Costs:
    """Return the median costs of each scenario and metric over all steps of all runs."""
    costs: Costs = {}
    for scenario in SCENARIOS:
        samples = [sample for run in runs for sample in run.get(scenario, ())]
        if samples:
            costs[scenario] = {key: median(s[key] for s in samples) for key in samples[0]}
            costs[scenario]["bytes"] = median(
                s["bytes_sent"] + s["bytes_received"] for s in samples
            )
    return costs
