"""From what one run cost to any number of hosts, by what each event cost.  Pure."""

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
    """Seconds of CPU."""

    request: Mapping[str, float]
    """Of a request to Placement, at Placement and at its database."""
    beat: Mapping[str, float]
    """Of a heartbeat, at each other part."""

    @classmethod
    def of(cls, results: Mapping[str, Any]) -> Self:
        """From all scenarios of a run: whatever happens, these are what costs."""
        found = results["scenarios"]
        calls = sum(one["calls"] for one in found) or 1
        beats = sum(one["heartbeats"] for one in found) or 1

        def per(count: int, *parts: str) -> dict[str, float]:
            return {part: sum(one["cpu"][part] for one in found) / count for part in parts}

        return cls(
            per(calls, "placement", "placement's database"),
            per(beats, "registry", "registry's database", "broker"),
        )


def agent_calls(hosts: int, verification: int) -> float:
    """Requests a second when nothing happens; a verification is one, or two with aggregates."""
    late = PERIOD / 2
    """A verification waits for the next period."""
    audit = 3 * PROVIDERS / (AUDIT + late)
    return hosts * (verification / (VERIFY + late) + audit)


def cores(unit: Unit, part: str, hosts: int) -> float:
    """Processors that a part keeps busy when nothing happens."""
    if part in unit.request:
        return unit.request[part] * agent_calls(hosts, 2)
    return unit.beat[part] * hosts / HEARTBEAT
