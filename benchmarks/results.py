"""What was measured, as one value that is kept in a file and drawn from."""

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
"""What is shown: title and unit by name."""

Costs = dict[str, dict[str, float]]
"""By scenario, then by metric."""


@dataclass(frozen=True, slots=True)
class Case:
    """One size: medians over all runs; ``reference`` is empty if it was not run."""

    providers: int
    consumers: int
    ours: Costs
    reference: Costs

    def pair(self, scenario: str, metric: str) -> tuple[float | None, float | None]:
        """Reference and ours; the reference writes in bulk never, so it starts cold as ever."""
        theirs = self.reference.get(COLD if scenario == COLD_BULK else scenario, {})
        return theirs.get(metric), self.ours.get(scenario, {}).get(metric)

    def ratio(self, scenario: str, metric: str) -> float | None:
        """How many times the reference's cost is ours; ``None`` if either is nothing."""
        theirs, ours = self.pair(scenario, metric)
        return theirs / ours if theirs and ours else None


@dataclass(frozen=True, slots=True)
class Results:
    """Everything of one run; ``versions`` and ``conditions`` in words."""

    versions: Mapping[str, str]
    conditions: Mapping[str, str]
    cases: Sequence[Case] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Results:
        """What :meth:`as_dict` gave."""
        cases = [Case(**case) for case in kept["cases"]]
        return cls(kept["versions"], kept["conditions"], cases)

    def case(self, providers: int, consumers: int) -> Case | None:
        """The case of this size, if it was run."""
        wanted = (providers, consumers)
        return next((c for c in self.cases if (c.providers, c.consumers) == wanted), None)


def medians(runs: Sequence[Mapping[str, Sequence[Mapping[str, float]]]]) -> Costs:
    """From the costs of every step of every run to one figure for each scenario and metric."""
    costs: Costs = {}
    for scenario in SCENARIOS:
        samples = [sample for run in runs for sample in run.get(scenario, ())]
        if samples:
            costs[scenario] = {key: median(s[key] for s in samples) for key in samples[0]}
            costs[scenario]["bytes"] = median(
                s["bytes_sent"] + s["bytes_received"] for s in samples
            )
    return costs
