"""Measure the CPU time of one period of the daemon, in milliseconds, without driver and Placement.

    python -m benchmarks.periods [SIZE [DIRECTORY]]

A driver reports SIZE providers (10001) to an in-memory Placement; the time of both is not counted.
With DIRECTORY the agent keeps its state there.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from agent.nodes.nodes import Nodes
from agent.period.rules import Rules
from agent.reporting.reports import Report
from benchmarks.shapes import RECORD, TRAITS, listed
from drivers.api import ComputeDriver, DriverContext
from drivers.loader import LoadedDriver
from reportclient.testing.fake_placement import FakePlacement

NODE = "root"
OWNERS = ("CUSTOM_OWNER_COMPUTE_AGENT",)


@dataclass
class Elsewhere:
    """CPU time that is not part of the measurement."""

    seconds: float = 0.0

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Do not count the CPU time that is used within this context."""
        start = time.process_time()
        try:
            yield
        finally:
            self.seconds += time.process_time() - start


@dataclass
class Placement:
    """An in-memory Placement whose CPU time is not counted."""

    elsewhere: Elsewhere
    fake: FakePlacement = field(default_factory=FakePlacement)

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See ``reportclient.http.API``."""
        with self.elsewhere.spent():
            return self.fake.request(method, path, json=json, needs=needs)


class Big(ComputeDriver):
    """Reports all providers in each period; the last provider's VCPU is ``total``."""

    def __init__(self, size: int, elsewhere: Elsewhere) -> None:
        super().__init__(DriverContext(NODE, Path("/nonexistent")))
        self.items, self.elsewhere = listed("nested", size), elsewhere
        self.total = 8

    def get_available_nodes(self) -> list[str]:
        """Return the only node."""
        return [NODE]

    def update_provider_tree(
        self, provider_tree: Any, nodename: str, allocations: Any = None
    ) -> None:
        """Report all providers."""
        del nodename, allocations
        with self.elsewhere.spent():
            for item in self.items:
                self._report(provider_tree, item)
            last = {"VCPU": {**RECORD, "total": self.total}}
            provider_tree.update_inventory(self.items[-1]["uuid"], last)

    def _report(self, tree: Any, item: dict[str, Any]) -> None:
        if not tree.exists(item["uuid"]):
            tree.new_child(item["name"], item["parent_provider_uuid"], item["uuid"])
        if item is not self.items[-1]:
            tree.update_inventory(item["uuid"], {"VCPU": RECORD})
        tree.add_traits(item["uuid"], *TRAITS)


@dataclass
class Host:
    """An agent with this driver only."""

    driver: Big
    nodes: Nodes
    elsewhere: Elsewhere

    def period(self) -> float:
        """Run a period and return its CPU time in milliseconds."""
        gc.collect()
        before, start = self.elsewhere.seconds, time.process_time()
        (report,) = self.nodes.period(60.0)
        took = time.process_time() - start - (self.elsewhere.seconds - before)
        _expect_ok(report)
        return took * 1000


def host(size: int, state: Path | None = None) -> Host:
    """Make an agent that has already reported."""
    elsewhere = Elsewhere()
    driver = Big(size, elsewhere)
    rules = Rules(owner_traits=OWNERS, verify_every=None, audit_every=None)
    placement = Placement(elsewhere)
    loaded = [LoadedDriver.from_driver("big", driver)]
    nodes = Nodes(driver.items[0]["uuid"], loaded, placement, rules, state_path=state)
    agent = Host(driver, nodes, elsewhere)
    for _ in range(2):
        agent.period()
    return agent


def measure(agent: Host, times: int = 9) -> dict[str, float]:
    """Return the median times of quiet periods, and of periods with one change."""

    def changed() -> float:
        agent.driver.total += 1
        return agent.period()

    return {
        "a quiet period": _median(agent.period, times),
        "a period with one change": _median(changed, times),
    }


def _median(run: Callable[[], float], times: int) -> float:
    return round(median(run() for _ in range(times)), 1)


def _expect_ok(report: Report) -> None:
    if not report.ok:
        raise RuntimeError(f"a period failed: {report.texts()}")


def _main(size: str = "10001", directory: str | None = None) -> None:
    agent = host(int(size), None if directory is None else Path(directory))
    sys.stdout.write(json.dumps(measure(agent)) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
