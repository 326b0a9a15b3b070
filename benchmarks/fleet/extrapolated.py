"""Extrapolates the costs of a run to any number of hosts.  Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from benchmarks.fleet.centre import AUDIT, PERIOD, VERIFY
from benchmarks.fleet.large_host import PROVIDERS

HEARTBEAT = 10
"""Seconds; ``[registry] report_interval``."""
QUIET = "a quiet hour"


@dataclass(frozen=True)
class Unit:
    """CPU seconds of a request and of a heartbeat."""

    request: Mapping[str, float]
    """CPU seconds of a request to Placement, by part: Placement and its database."""
    beat: Mapping[str, float]
    """CPU seconds of a heartbeat, by part: registry, its database, broker."""

    @classmethod
    def of(cls, results: Mapping[str, Any]) -> Self:
        """Make it from the totals of all scenarios of a run."""
        scenarios = results["scenarios"]
        calls = sum(scenario["calls"] for scenario in scenarios) or 1
        beats = sum(scenario["heartbeats"] for scenario in scenarios) or 1

        def per(count: int, *parts: str) -> dict[str, float]:
            return {
                part: sum(scenario["cpu"][part] for scenario in scenarios) / count for part in parts
            }

        return cls(
            per(calls, "placement", "placement's database"),
            per(beats, "registry", "registry's database", "broker"),
        )


def agent_calls(hosts: int, verification: int) -> float:
    """Return the requests a second if nothing changes.

    ``verification`` is the number of requests of one: 1, or 2 with aggregates.
    """
    late = PERIOD / 2
    """Seconds: a verification that is due waits for the next period."""
    audit = 3 * PROVIDERS / (AUDIT + late)
    return hosts * (verification / (VERIFY + late) + audit)


def cores(unit: Unit, part: str, hosts: int) -> float:
    """Return the number of processors that a part keeps busy if nothing changes."""
    if part in unit.request:
        return unit.request[part] * agent_calls(hosts, 2)
    return unit.beat[part] * hosts / HEARTBEAT
